"""Break the trusted core on purpose, and count what the tests notice: ``.ci/mutants.py PYTHON [PART...] [--again]``.

A mutant is one small change of one line: a comparison turned, a number moved by one, a statement left out. `PYTHON`
runs the tests that `.ci/mutants.toml` names for a part, in a copy of the checkout, until one fails. What was found is
kept in ``.mutants/``, so that a run that was ended goes on where it was; other sources begin anew. With ``--again`` the
mutants that no test noticed are tried once more, with the tests of today. cosmic-ray makes the mutants and keeps the
results.
"""

import ast
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import uuid
from collections.abc import Iterable, Iterator
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
AGAIN = "--again"
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


def operators() -> Iterator[tuple[str, Operator]]:
    """Yield the kinds of changes, with their names."""
    names = [f"ReplaceBinaryOperator_{one}" for one in BINARY.split()]
    names += [f"ReplaceComparisonOperator_{one}" for one in COMPARED.split()]
    yield "LeaveOut", LeaveOut()
    for name in (*names, *OTHERS):
        yield name, get_operator(f"core/{name}")()


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


def mutants(file: Path, text: str) -> Iterator[MutationSpec]:
    """Yield all mutants of a file that are Python, each once: ``not a == b`` is ``a != b``."""
    left_out, seen = said(text), {"", meaning(text)}
    for name, operator in operators():
        found = (at for node in ast_nodes(get_ast(text)) for at in operator.mutation_positions(node))
        for occurrence, (start, end) in enumerate(found):
            mutant = MutationSpec(file, name, occurrence, start, end)
            if start[0] not in left_out and (code := meaning(broken(text, mutant))) not in seen:
                seen.add(code)
                yield mutant


def meaning(text: str) -> str:
    """Return what Python makes of the text, without lines, if it is Python at all."""
    try:
        tree = Turned().visit(ast.parse(text))
    except SyntaxError:
        return ""
    return ast.dump(tree)


def broken(text: str, mutant: MutationSpec) -> str:
    """Return the text with the change."""
    operator = dict(operators())[mutant.operator_name]
    return str(MutationVisitor.mutate_code(text, operator, mutant.occurrence))


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
            shutil.copy(ROOT / name, place / name)


def write(file: Path, text: str) -> None:
    """Write a module, and forget its bytecode: it would be taken for that of any text of the same size and second."""
    file.write_text(text, encoding="utf-8")
    for stale in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        stale.unlink()


class Tests:
    """The tests of a part, in a copy of the checkout."""

    def __init__(self, python: str, place: Path, tests: list[str], kept: bool) -> None:
        paths = [place / "src", place / "tests", place]
        given = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths)), "OPENBLAS_NUM_THREADS": "1",
                              "OMP_NUM_THREADS": "1", "NUMBA_CACHE_DIR": str(KEPT / "compiled")}  # fmt: skip
        self._seconds = 3600.0
        self._asked = subprocess.Popen(
            [python, ".ci/forked.py", str(int(kept)), *tests], cwd=place, env=given, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        if self._answer() != ["ready"] or not self.passes():
            sys.exit(f"the tests must pass before anything is broken: see collected.log and run.log in {place}.")
        self._seconds = 3.0 + 2.0 * self._took  # whoever needs longer never ends

    def _answer(self) -> list[str]:
        assert self._asked.stdout is not None
        return self._asked.stdout.readline().split()

    def passes(self) -> bool:
        """Run all of them, until one fails."""
        assert self._asked.stdin is not None
        print(round(self._seconds), file=self._asked.stdin, flush=True)
        code, took = self._answer()
        self._took = float(took)
        return int(code) == 0

    def close(self) -> None:
        """End the process."""
        self._asked.communicate("")


def is_named(what: str, known: Iterable[str]) -> bool:
    """Return whether somebody has looked at a change."""
    return any(what.split(": ", 1)[1].startswith(key) for key in known)


def run(python: str, part: str, given: dict[str, Any], again: bool) -> list[tuple[str, bool]]:
    """Try all mutants of a part that were not tried, or not noticed if ``again``; return what is known of all."""
    files, tests, known = given["files"], given["tests"], given.get("equivalent", {})
    texts = {PACKAGE / file: (ROOT / PACKAGE / file).read_text(encoding="utf-8") for file in files}
    content = hashlib.sha256("".join(texts.values()).encode()).hexdigest()[:12]
    database = KEPT / f"{part}-{content}.sqlite"
    new, place = not database.exists(), KEPT / part
    KEPT.mkdir(exist_ok=True)
    with use_db(str(database)) as kept:
        if new:
            kept.add_work_items(
                WorkItem.single(uuid.uuid4().hex, one) for file, text in texts.items() for one in mutants(file, text)
            )
        waiting = list(kept.pending_work_items)
        if again:
            survived = {job for job, result in kept.results if not (result.is_killed or is_named(result.diff, known))}
            waiting += [item for item in kept.work_items if item.job_id in survived]
        if waiting:
            copied(place)
            asked = Tests(python, place, tests, not any(COMPILES.search(text) for text in texts.values()))
            for done, item in enumerate(waiting, 1):
                (mutant,) = item.mutations
                text = texts[mutant.module_path]
                other = broken(text, mutant)
                write(place / mutant.module_path, other)
                outcome = TestOutcome.SURVIVED if asked.passes() else TestOutcome.KILLED
                what = change(text, other, str(mutant.module_path.relative_to(PACKAGE)))
                kept.set_result(item.job_id, WorkResult(WorkerOutcome.NORMAL, None, outcome, what))
                write(place / mutant.module_path, text)
                print(f"{part} {done} of {len(waiting)}: {outcome.value}: {what}", flush=True)
            asked.close()
        return sorted((result.diff or "", result.is_killed) for _, result in kept.results)


def main(python: str, parts: list[str], again: bool) -> None:
    """Print the survivors of each part that nobody has looked at, and a table."""
    settings = tomllib.loads((ROOT / ".ci" / "mutants.toml").read_text(encoding="utf-8"))
    table = []
    for part in parts or settings["part"]:
        given = settings["part"][part]
        found = run(python, part, given, again)
        survivors = [what for what, killed in found if not killed]
        named = [what for what in survivors if is_named(what, given.get("equivalent", {}))]
        print(*(f"not noticed: {what}" for what in survivors if what not in named), sep="\n")
        killed = len(found) - len(survivors)
        share = killed / max(len(found) - len(named), 1)
        row = (part, len(found), killed, len(named), len(survivors) - len(named), f"{share:.1%}")
        table.append(f"| {' | '.join(map(str, row))} |")
    print("| part | mutants | killed | equivalent | not noticed | killed of the others |")
    print("| --- " * 6 + "|", *table, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1], [one for one in sys.argv[2:] if one != AGAIN], AGAIN in sys.argv)
