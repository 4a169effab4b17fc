"""Break the trusted core on purpose, and count what the tests notice.

``.ci/mutants.py PYTHON [PART...] [--again] [--sample N]``. A mutant is one small change of one line: a comparison
turned, a number moved by one, a statement left out. `PYTHON` runs the tests that `.ci/mutants.toml` names for a part,
in a copy of the checkout, until one fails. What was found is kept in ``.mutants/``, so that a run that was ended goes
on where it was; other sources begin anew. With ``--again`` the mutants that no test noticed are tried once more, with
the tests of today. With ``--sample`` so many of a part are tried, drawn at random: one of each line before a second one
of any. cosmic-ray makes the mutants and keeps the results.
"""

import ast
import hashlib
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tomllib
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import MutationVisitor
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome, WorkItem, WorkResult
from parso.python.tree import Keyword

ROOT = Path(__file__).parents[1]
KEPT = ROOT / ".mutants"
AGAIN, SAMPLE = "--again", "--sample"
PACKAGE = Path("src/sottovoce")
# of all replacements that there are, the nearest: the far ones fail at the first call and prove nothing
BINARY = (
    "Add_Sub Sub_Add Mul_Div Div_Mul FloorDiv_Div Mod_FloorDiv Pow_Mul LShift_RShift RShift_LShift BitAnd_BitOr "
    "BitOr_BitAnd"
)
COMPARED = "Lt_LtE Lt_GtE LtE_Lt LtE_Gt Gt_GtE Gt_LtE GtE_Gt GtE_Lt Eq_NotEq NotEq_Eq Is_IsNot IsNot_Is"
OTHERS = (
    "NumberReplacer", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd", "AddNot",
    "ReplaceUnaryOperator_USub_UAdd", "ReplaceUnaryOperator_Delete_Not", "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak", "ZeroIterationForLoop",
)  # fmt: skip

COMPILES = re.compile(r"^(from|import) numba|^from sottovoce\._compiling import", re.MULTILINE)
COMPILED, GENERATES = re.compile("njit"), re.compile("^from (numba|llvmlite)", re.MULTILINE)
OPPOSITE = {ast.Eq: ast.NotEq, ast.Is: ast.IsNot, ast.In: ast.NotIn}
OPPOSITE |= {other: one for one, other in OPPOSITE.items()}


class LeaveOut(Operator):
    """Leave out a statement that calls or assigns to something: a check, a count, a charge."""

    def mutation_positions(self, node):
        kinds = ("atom_expr", "power", "expr_stmt")
        statement = node.type in kinds and node.parent is not None and node.parent.type == "simple_stmt"
        if statement and node.search_ancestor("funcdef") is not None:
            yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        return Keyword("pass", node.start_pos, prefix=node.get_first_leaf().prefix)

    @classmethod
    def examples(cls):
        return ()


@cache
def operators() -> dict[str, Operator]:
    """Return the kinds of changes by their names."""
    names = [f"ReplaceBinaryOperator_{one}" for one in BINARY.split()]
    names += [f"ReplaceComparisonOperator_{one}" for one in COMPARED.split()]
    return {"LeaveOut": LeaveOut()} | {name: get_operator(f"core/{name}")() for name in (*names, *OTHERS)}


def said(text: str) -> set[int]:
    """Return the lines that say something and do nothing: annotations, decorators, types, what a module offers."""
    found: set[int] = set()

    def add(node: ast.AST | None) -> None:
        if node is not None:
            found.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))

    tree = ast.parse(text)
    for node in tree.body:
        if isinstance(node, ast.Assign) and not isinstance(node.value, ast.Constant | ast.BinOp | ast.Call):
            add(node)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            found.update(range(node.lineno, max(node.body[0].lineno, node.lineno + 1)))
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            for decorator in node.decorator_list:
                add(decorator)
        if isinstance(node, ast.AnnAssign) and (node.value is None or isinstance(node.value, ast.Call)):
            add(node)
    return found


class Turned(ast.NodeTransformer):
    """Write ``not a == b`` as ``a != b``, and so on."""

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        inner = node.operand
        if isinstance(node.op, ast.Not) and isinstance(inner, ast.Compare) and type(inner.ops[0]) in OPPOSITE:
            return ast.Compare(inner.left, [OPPOSITE[type(inner.ops[0])]()], inner.comparators)
        if isinstance(node.op, ast.Not) and isinstance(inner, ast.UnaryOp) and isinstance(inner.op, ast.Not):
            return inner.operand
        return node


@cache
def pieces(text: str) -> list[tuple[int, str, Any]]:
    """Return the statements of a module: the line before each, its text, and the tree of it."""
    lines = text.splitlines(keepends=True)
    nodes = ast.parse(text).body
    begins = [min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))]) - 1 for node in nodes]
    cuts = [0, *begins[1:], len(lines)]
    found = ((begin, "".join(lines[begin:end])) for begin, end in pairwise(cuts))
    return [(begin, piece, get_ast(piece)) for begin, piece in found]


@cache
def places(text: str, name: str) -> list[tuple[int, int, tuple[int, int], tuple[int, int]]]:
    """Return where a kind of change can be made: the piece, how many are before it there, where it begins and ends."""
    found = []
    for piece, (before, _, tree) in enumerate(pieces(text)):
        here = [at for node in ast_nodes(tree) for at in operators()[name].mutation_positions(node)]
        found += [(piece, nth, (start[0] + before, start[1]), (end[0] + before, end[1]))
                  for nth, (start, end) in enumerate(here)]  # fmt: skip
    return found


def mutants(file: Path, text: str) -> Iterator[MutationSpec]:
    """Yield all mutants of a file that are Python, each once: ``not a == b`` is ``a != b``."""
    left_out, seen = said(text), {(piece, meaning(code)) for piece, (_, code, _) in enumerate(pieces(text))}
    for name in operators():
        for occurrence, (piece, _, start, end) in enumerate(places(text, name)):
            mutant = MutationSpec(file, name, occurrence, start, end)
            if start[0] not in left_out:
                code = meaning(broken_piece(text, mutant))
                if code and (piece, code) not in seen:
                    seen.add((piece, code))
                    yield mutant


def meaning(text: str) -> str:
    """Return what Python makes of the text, without lines, if it is Python at all."""
    try:
        tree = Turned().visit(ast.parse(text))
    except SyntaxError:
        return ""
    return ast.dump(tree)


def broken_piece(text: str, mutant: MutationSpec) -> str:
    """Return the statement of the module with the change."""
    piece, nth, *_ = places(text, mutant.operator_name)[mutant.occurrence]
    return str(MutationVisitor.mutate_code(pieces(text)[piece][1], operators()[mutant.operator_name], nth))


def broken(text: str, mutant: MutationSpec) -> str:
    """Return the text with the change."""
    changed, *_ = places(text, mutant.operator_name)[mutant.occurrence]
    codes = [code for _, code, _ in pieces(text)]
    codes[changed] = broken_piece(text, mutant)
    return "".join(codes)


def change(text: str, other: str, place: str) -> str:
    """Return the first lines that differ, as one sentence."""
    pairs = zip(text.splitlines(), other.splitlines(), strict=False)
    number, before, after = next((n, *pair) for n, pair in enumerate(pairs, 1) if pair[0] != pair[1])
    return f"{place}:{number}: {before.strip()}  ->  {after.strip()}"


def copied(place: Path) -> None:
    """Copy what git knows of the checkout, as it is now."""
    shutil.rmtree(place, ignore_errors=True)
    files = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(files, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name)  # machine code is kept by its time, too


def write(file: Path, text: str) -> None:
    """Write a module, and forget its bytecode: it would be taken for that of any text of the same size and second."""
    file.write_text(text, encoding="utf-8")
    for stale in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        stale.unlink()


def functions(text: str) -> dict[int, tuple[str, bool]]:
    """Return by which name the function of each line is known, and whether it is compiled."""
    found: dict[int, tuple[str, bool]] = {}
    whole = GENERATES.search(text) is not None

    def visit(nodes: Iterable[ast.AST], name: str) -> None:
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{name}{node.name}.")
            elif isinstance(node, ast.FunctionDef):
                compiled = whole or any(COMPILED.search(ast.unparse(one)) for one in node.decorator_list)
                lines = range(node.lineno, (node.end_lineno or 0) + 1)
                found.update(dict.fromkeys(lines, (name + node.name, compiled)))

    visit(ast.parse(text).body, "")
    return found


class Tests:
    """The tests of a part, in a copy of the checkout."""

    def __init__(self, python: str, place: Path, files: Iterable[Path], tests: list[str], kept: bool) -> None:
        paths = [place / "src", place / "tests", place]
        given = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths)), "OPENBLAS_NUM_THREADS": "1",
                              "OMP_NUM_THREADS": "1", "NUMBA_CACHE_DIR": str(KEPT / "compiled")}  # fmt: skip
        self._place = place
        self._asked = subprocess.Popen(
            [python, ".ci/forked.py", str(int(kept)), *map(str, files), "--", *tests], cwd=place, env=given, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        first = self._answer()
        if first.get("failed", "") is not None:
            sys.exit(f"the tests must pass before anything is broken: {first}; see the logs in {place}.")
        self.seconds: dict[str, float] = first["seconds"]

    def _answer(self) -> dict[str, Any]:
        assert self._asked.stdout is not None
        line = self._asked.stdout.readline()
        return json.loads(line) if line.strip() else {}

    def failed(self, file: Path, text: str, other: str, function: tuple[str, bool] | None) -> str | None:
        """Return the name of the first test that fails with another text of a file, which differs in a function."""
        change = self._place / "change.txt"
        if function is None:
            write(self._place / file, other)
            asked = {"function": None}
        else:
            change.write_text(other, encoding="utf-8")
            path = str(self._place / file)
            asked = {"function": f"{path}:{function[0]}", "compiled": function[1], "file": path, "text": str(change)}
        assert self._asked.stdin is not None
        print(json.dumps(asked), file=self._asked.stdin, flush=True)
        answer = self._answer()
        if function is None:
            write(self._place / file, text)
        failed: str | None = answer["failed"]
        return failed

    def close(self) -> None:
        """End the process."""
        self._asked.communicate("")


def in_order(items: Iterable[WorkItem]) -> list[WorkItem]:
    """Return the items in a random order that is always the same: one of each line, then another of each, and so on."""
    lines: dict[tuple[Path, int], list[WorkItem]] = defaultdict(list)
    named = {(str(one.module_path), one.start_pos, one.operator_name, one.occurrence): item
             for item in items for one in item.mutations}  # fmt: skip
    mixed = sorted(named)
    random.Random(0).shuffle(mixed)
    for key in mixed:
        lines[key[0], key[1][0]].append(named[key])
    return [one[place] for place in range(max(map(len, lines.values()))) for one in lines.values() if place < len(one)]


def interval(killed: int, tried: int) -> tuple[float, float]:
    """Return the 95 % interval of Wilson for a share."""
    share, z = killed / tried, 1.96
    middle, half = share + z * z / (2 * tried), z * math.sqrt(share * (1 - share) / tried + (z / (2 * tried)) ** 2)
    return (middle - half) / (1 + z * z / tried), (middle + half) / (1 + z * z / tried)


def is_named(what: str, known: Iterable[str]) -> bool:
    """Return whether somebody has looked at a change."""
    return any(what.split(": ", 1)[1].startswith(key) for key in known)


def run(python: str, part: str, given: dict[str, Any], again: bool, most: int | None) -> tuple[int, list[WorkResult]]:
    """Try mutants that were not tried, or not noticed if ``again``; return how many there are, and what is known."""
    files, tests, known = given["files"], given["tests"], given.get("equivalent", {})
    texts = {PACKAGE / file: (ROOT / PACKAGE / file).read_text(encoding="utf-8") for file in files}
    content = hashlib.sha256("".join(texts.values()).encode()).hexdigest()[:12]
    database = KEPT / f"{part}-{content}.sqlite"
    new, place = not database.exists(), KEPT / "checkout"  # one place: machine code is kept by it
    KEPT.mkdir(exist_ok=True)
    with use_db(str(database)) as kept:
        if new:
            kept.add_work_items(
                WorkItem.single(uuid.uuid4().hex, one) for file, text in texts.items() for one in mutants(file, text)
            )
        every = list(kept.work_items)
        survived = {job for job, result in kept.results if not (result.is_killed or is_named(result.diff, known))}
        done = {job for job, _ in kept.results} - (survived if again else set())
        waiting = [item for item in in_order(every)[:most] if item.job_id not in done]
        if waiting:
            copied(place)
            named = {file: functions(text) for file, text in texts.items()}
            asked = Tests(python, place, texts, tests, not any(COMPILES.search(text) for text in texts.values()))
            (KEPT / f"{part}.json").write_text(json.dumps(asked.seconds))  # what each test takes
            for done_now, item in enumerate(waiting, 1):
                (mutant,) = item.mutations
                text = texts[mutant.module_path]
                other = broken(text, mutant)
                failed = asked.failed(
                    mutant.module_path, text, other, named[mutant.module_path].get(mutant.start_pos[0])
                )
                outcome = TestOutcome.SURVIVED if failed is None else TestOutcome.KILLED
                what = change(text, other, str(mutant.module_path.relative_to(PACKAGE)))
                kept.set_result(item.job_id, WorkResult(WorkerOutcome.NORMAL, failed, outcome, what))
                print(f"{part} {done_now} of {len(waiting)}: {outcome.value}: {what} ({failed})", flush=True)
            asked.close()
        return len(every), [result for _, result in kept.results]


def without_part(settings: dict[str, Any]) -> list[str]:
    """Return the trusted files that no part breaks, and none is excused from."""
    trusted = tomllib.loads((ROOT / ".ci" / "trusted.toml").read_text(encoding="utf-8"))
    broken_on_purpose = {file for part in settings["part"].values() for file in part["files"]}
    return [file for step in trusted["step"] for file in step["files"] if file not in broken_on_purpose]


def main(python: str, parts: list[str], again: bool, most: int | None) -> None:
    """Print the survivors of each part that nobody has looked at, and a table."""
    settings = tomllib.loads((ROOT / ".ci" / "mutants.toml").read_text(encoding="utf-8"))
    if left_out := without_part(settings):
        sys.exit(f"every trusted file is in a part of .ci/mutants.toml; not there: {', '.join(left_out)}")
    table = []
    for part in parts or settings["part"]:
        given = settings["part"][part]
        n_mutants, results = run(python, part, given, again, most)
        survivors = sorted(result.diff for result in results if not result.is_killed)
        named = [what for what in survivors if is_named(what, given.get("equivalent", {}))]
        print(*(f"not noticed: {what}" for what in survivors if what not in named), sep="\n")
        killed, others = len(results) - len(survivors), max(1, len(results) - len(named))
        low, high = interval(killed, others)
        share = f"{killed / others:.1%}" + (f" ({low:.0%} to {high:.0%})" if len(results) < n_mutants else "")
        row = (part, n_mutants, len(results), killed, len(named), len(survivors) - len(named), share)
        table.append(f"| {' | '.join(map(str, row))} |")
    print("| part | mutants | tried | killed | equivalent | not noticed | killed of the others |")
    print("| --- " * 7 + "|", *table, sep="\n")


if __name__ == "__main__":
    words = [one for one in sys.argv[1:] if one != AGAIN]
    at = words.index(SAMPLE) if SAMPLE in words else len(words)
    main(words[0], words[1:at] + words[at + 2 :], AGAIN in sys.argv, int(words[at + 1]) if at < len(words) else None)
