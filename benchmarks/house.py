"""The house as it is built: which package imports which, and how many lines each has.

    python -m benchmarks.house [--docs] [--root FOLDER]

Read from the source by `ast`; nothing is imported. The table counts files and lines: of code, comments, docstrings and
nothing. It names imports that run against the order: two packages that need each other. ``--docs`` writes the tables
into docs/measured/data/house. ``--root`` reads another checkout.
"""

import ast
import io
import itertools
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.driver import DOCS, ROOT, keep, make_parser, show, write_tables

PACKAGE = "sottovoce"
GROUND, DOOR = "ground", "front door"

Arrows = Counter[tuple[str, str]]  # (who imports, what) -> number of import statements


class Lines(NamedTuple):
    """Lines of some files, by kind."""

    files: int = 0
    code: int = 0
    comments: int = 0
    docstrings: int = 0
    blank: int = 0

    def __add__(self, other: object) -> "Lines":
        """Return the sum of both, kind by kind."""
        assert isinstance(other, Lines)
        return Lines(*(one + two for one, two in zip(self, other, strict=True)))

    @classmethod
    def of(cls, text: str) -> "Lines":
        """Return the counts of one file; a line with code and a comment is code."""
        held: dict[str, set[int]] = {"docstring": set(), "code": set(), "comment": set()}
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                first = node.body[0] if node.body else None
                match first:
                    case ast.Expr(value=ast.Constant(value=str())):
                        held["docstring"].update(range(first.lineno, first.end_lineno + 1))
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER):
                continue
            kind = "comment" if token.type == tokenize.COMMENT else "code"
            held[kind].update(range(token.start[0], token.end[0] + 1))
        code = held["code"] - held["docstring"]
        comments = held["comment"] - code - held["docstring"]
        blank = len(text.splitlines()) - len(code | comments | held["docstring"])
        return cls(1, len(code), len(comments), len(held["docstring"]), blank)


def modules(root: Path) -> dict[str, Path]:
    """Return the files of the package by the names of their modules."""
    found = {}
    for path in sorted((root / "src" / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root / "src").with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imports(tree: ast.AST, names: Iterable[str]) -> Iterator[str]:
    """Yield the modules of the package that a file imports when it runs, at once or later."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.partition(".")[0] == PACKAGE)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == PACKAGE:
            for alias in node.names:
                longer = f"{node.module}.{alias.name}"
                yield longer if longer in names else str(node.module)
        else:
            yield from imports(node, names)


def arrows_between(files: dict[str, Path], room: Callable[[str], str | None]) -> Arrows:
    """Return how many imports run from room to room; None is no room."""
    found: Arrows = Counter()
    for name, path in files.items():
        for target in imports(ast.parse(path.read_text(encoding="utf-8")), files):
            a, b = room(name), room(target)
            if a and b and a != b:
                found[a, b] += 1
    return found


def package_of(files: dict[str, Path]) -> Callable[[str], str | None]:
    """Return what names the package of a module; single files are the ground, or the door if they need a package."""
    packages = {name.split(".")[1] for name, path in files.items() if name.count(".") == 1 and path.stem == "__init__"}
    above = set()
    for name, path in files.items():
        parts = name.split(".")
        if len(parts) > 2 or parts[-1] in packages:
            continue
        used = imports(ast.parse(path.read_text(encoding="utf-8")), files)
        if len(parts) == 1 or {target.split(".")[1] for target in used if "." in target} & packages:
            above.add(name)

    def room(name: str) -> str:
        parts = name.split(".")
        if len(parts) > 1 and parts[1] in packages:
            return parts[1]
        return DOOR if name in above else GROUND

    return room


def room_of_vertical(name: str) -> str | None:
    """Return the room of a module of vertical: a folder, a protocol, or a file of its own; None for other modules."""
    parts = name.split(".")[1:]
    if parts[:1] != ["vertical"] or len(parts) < 2:
        return None
    if parts[1] == "protocols":
        return f"protocols/{parts[2]}" if len(parts) > 2 else None
    return parts[1]


def order(arrows: Arrows) -> tuple[list[str], Arrows]:
    """Return the rooms, the lowest first, and the arrows that run against that order: as few imports as can be.

    Rooms that need each other form a knot; within a knot every order is tried.
    """
    needs: dict[str, set[str]] = defaultdict(set)
    for a, b in arrows:
        needs[a].add(b)
        needs[b] |= set()
    reach = {name: _reached(name, needs) for name in needs}
    knots = {frozenset(other for other in needs if name == other or (other in reach[name] and name in reach[other]))
             for name in needs}  # fmt: skip
    placed: list[str] = []
    while len(placed) < len(needs):
        free = [
            knot for knot in knots
            if not knot & set(placed) and all(needs[name] <= set(placed) | knot for name in knot)
        ]  # fmt: skip
        for knot in sorted(free, key=sorted):
            placed += _least_against(sorted(knot), arrows)
    rank = {name: place for place, name in enumerate(placed)}
    return placed, Counter({(a, b): n for (a, b), n in arrows.items() if rank[a] < rank[b]})


def _reached(start: str, needs: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for name in needs[waiting.pop()] - found:
            found.add(name)
            waiting.append(name)
    return found


def _least_against(knot: list[str], arrows: Arrows) -> list[str]:
    """Return the order of a knot against which the fewest imports run: the best last room of every subset."""
    best: dict[frozenset[str], tuple[int, tuple[str, ...]]] = {frozenset(): (0, ())}
    for size in range(1, len(knot) + 1):
        for some in map(frozenset, itertools.combinations(knot, size)):
            best[some] = min(
                (best[some - {top}][0] + sum(arrows[low, top] for low in some), (*best[some - {top}][1], top))
                for top in some
            )
    return list(best[frozenset(knot)][1])


def counted(files: dict[str, Path], room: Callable[[str], str | None]) -> dict[str, Lines]:
    found: dict[str, Lines] = {}
    for name, path in files.items():
        where = room(name)
        if where:
            found[where] = found.get(where, Lines()) + Lines.of(path.read_text(encoding="utf-8"))
    return found


def rows_of(counts: dict[str, Lines]) -> list[tuple[str, ...]]:
    """Return the table of rooms, with their sum."""
    rows = [*sorted(counts.items(), key=lambda item: -item[1].code), ("all", sum(counts.values(), Lines()))]
    return [(name, *(f"{n:,}" for n in lines), f"{sum(lines[1:]):,}") for name, lines in rows]


def main() -> None:
    parser = make_parser(__doc__, docs=True)
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout to read; default this one")
    given = parser.parse_args()
    files = modules(given.root)
    room = package_of(files)
    head = ("package", "files", "code", "comments", "docstrings", "blank", "lines")
    tables = {
        "packages": (head, rows_of(counted(files, room))),
        "rooms of vertical": (("room", *head[1:]), rows_of(counted(files, room_of_vertical))),
    }
    for name, table in tables.items():
        show(name, *table)
    for kind, rooms in (("packages", room), ("rooms of vertical", room_of_vertical)):
        against = order(arrows_between(files, rooms))[1]
        wrong = [f"{a} imports {b} ({n})" for (a, b), n in against.items()] or ["nothing"]
        print(f"{kind}, against the order: {', '.join(wrong)}")
    keep("house", {name: {row[0]: row[1:] for row in rows} for name, (_, rows) in tables.items()})
    if given.docs:
        write_tables(DOCS / "house.md", tables)


if __name__ == "__main__":
    main()
