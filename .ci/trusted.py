"""Keep the trusted core what it is: ``python .ci/trusted.py`` fails where `.ci/trusted.toml` does not hold.

* A trusted file imports trusted files and the few modules that are named there, and nothing else of this project.
* A file outside draws no noise and makes no event: both leave through the door (`sottovoce.central.core.drive`).
* All of it together is short enough to be read in a day.
"""

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "sottovoce"
# methods of numpy's generators with which noise is drawn
DRAWS = {
    "standard_normal",
    "normal",
    "laplace",
    "gumbel",
    "exponential",
    "standard_exponential",
    "geometric",
    "random_raw",
}
EVENTS = (
    "GaussianEvent", "NonPrivateEvent", "PoissonSampledEvent", "RepeatedEvent", "ComposedEvent", "PureEvent",
    "BoundedRangeEvent", "RandomizedResponseEvent", "RepeatAndSelectEvent",
)  # fmt: skip


def lines_of_code(text: str) -> int:
    """Return the number of lines without docstrings, comments, imports and blank lines."""
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            first = node.body[0]
            left_out.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in left_out
        for number, line in enumerate(text.splitlines(), 1)
    )


def imported(text: str) -> Iterator[str]:
    """Yield the modules of this project that a file imports, but for those of type checkers alone."""
    checking: set[int] = set()
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            checking.update(id(inner) for inner in ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in checking and str(node.module).startswith(f"{PACKAGE}."):
            module = str(node.module).removeprefix(f"{PACKAGE}.")
            for name in node.names:
                yield f"{module}.{name.name}"


def deeds(text: str) -> Iterator[tuple[int, str]]:
    """Yield what a file does that is the door's alone: it draws noise, or makes an event."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in EVENTS:
                yield node.lineno, f"makes a {called}"
            if isinstance(node.func, ast.Attribute) and called in DRAWS:
                yield node.lineno, f"draws by {called}"
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "Purpose.NOISE":
            yield node.lineno, "opens the stream for noise"


def faults(root: Path) -> Iterator[str]:
    """Yield what does not hold."""
    rules = tomllib.loads((root / ".ci" / "trusted.toml").read_text(encoding="utf-8"))
    source = root / "src" / PACKAGE
    trusted = [file for step in rules["step"] for file in step["files"]]
    modules = {file.removesuffix(".py").replace("/", ".") for file in trusted}
    known = (*modules, *rules["may_import"]["modules"])
    size = 0
    for file in trusted:
        path = source / file
        if not path.is_file():
            yield f"{file}: there is no such file"
            continue
        text = path.read_text(encoding="utf-8")
        size += lines_of_code(text)
        for module in imported(text):
            if not any(module == name or module.startswith(f"{name}.") for name in known):
                yield f"{file} is trusted and imports {module}, which is not"
    if size > rules["most_lines_of_code"]:
        yield f"the trusted core has {size:,} lines of code, more than {rules['most_lines_of_code']:,}"
    allowed = rules["outside"]["allowed"]
    for room in rules["outside"]["rooms"]:
        for path in sorted((source / room).rglob("*.py")):
            file = path.relative_to(source).as_posix()
            if file in trusted or file in allowed:
                continue
            for line, deed in deeds(path.read_text(encoding="utf-8")):
                yield f"{file}:{line} {deed}, which only trusted files do: yield a Release"
    page = (root / "docs" / "privacy" / "trusted_core.md").read_text(encoding="utf-8")
    places = [page.find(f"`{file}`") for file in trusted]
    if -1 in places or places != sorted(places):
        missing = [file for file, place in zip(trusted, places, strict=True) if place < 0]
        yield f"docs/privacy/trusted_core.md must name the trusted files in their order; not there: {missing}"
    print(f"trusted core   {size:8,} of {rules['most_lines_of_code']:8,} lines of code in {len(trusted)} files")


def main(root: Path) -> str | None:
    """Return what is wrong, if anything is."""
    found = list(faults(root))
    return "\n".join(found) if found else None


if __name__ == "__main__":
    sys.exit(main(ROOT))
