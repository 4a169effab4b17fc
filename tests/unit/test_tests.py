"""Rules that all tests keep, so that each of them means the same alone, in any order and in any checkout."""

import ast
from pathlib import Path

import pytest

from support.data import VARIABLE

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
MAKERS = ("default_rng", "RandomState", "Random")


def names_used(tree, context):
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, context)}


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda path: path.name)
def test_no_function_draws_from_a_generator_of_its_module(path):
    """Its data would depend on which tests ran before."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    shared = set()
    for node in tree.body:
        match node:
            case ast.Assign(value=ast.Call(func=called)) if ast.unparse(called).endswith(MAKERS):
                shared |= names_used(node, ast.Store)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            own = {argument.arg for argument in function.args.args} | names_used(function, ast.Store)
            drawn = (names_used(function, ast.Load) & shared) - own
            assert not drawn, f"{function.name} draws from the generator {drawn} of {path.name}: make its own in it"


def test_one_place_reads_where_real_data_are():
    """An empty variable, a folder that is not there and a missing file are one rule's business."""
    readers = [
        str(path.relative_to(ROOT))
        for folder in ("tests", "benchmarks", "examples")
        for path in (ROOT / folder).rglob("*.py")
        if f'"{VARIABLE}"' in path.read_text(encoding="utf-8")
    ]
    assert readers == ["tests/support/data.py"]
