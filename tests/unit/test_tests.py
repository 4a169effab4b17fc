"""Rules that all tests keep, so that each of them means the same alone, in any order and in any checkout."""

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
MAKERS = ("default_rng", "RandomState", "Random")


def names_used(tree, context):
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, context)}


@pytest.fixture(scope="module")
def trees():
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(TESTS.rglob("*.py"))}


def test_no_function_draws_from_a_generator_of_its_module(trees):
    """Its data would depend on which tests ran before."""
    for path, tree in trees.items():
        shared = set()
        for node in tree.body:
            match node:
                case ast.Assign(value=ast.Call(func=called)) if ast.unparse(called).endswith(MAKERS):
                    shared |= names_used(node, ast.Store)
        for function in ast.walk(tree) if shared else ():
            if isinstance(function, ast.FunctionDef):
                own = {argument.arg for argument in function.args.args} | names_used(function, ast.Store)
                drawn = (names_used(function, ast.Load) & shared) - own
                assert not drawn, f"{function.name} draws from the generator {drawn} of {path.name}: make its own in it"


def test_folders_of_unit_tests_are_packages_of_the_source():
    """Who looks for the tests of a package finds them in the folder of its name."""
    for folder in (TESTS / "unit").rglob("*"):
        if folder.is_dir() and folder.name != "__pycache__":
            mirrored = ROOT / "src" / "sottovoce" / folder.relative_to(TESTS / "unit")
            assert (mirrored / "__init__.py").exists(), f"{folder} mirrors no package of the source"


def test_what_tests_share_is_in_support(trees):
    """A module that is not a test is a helper; and no test takes its helpers from another test."""
    for path, tree in trees.items():
        where = path.relative_to(TESTS).parts[0]
        known = where == "support" or path.name == "conftest.py" or path.name.startswith("make_")
        assert known or path.name.startswith("test_"), f"{path} is a helper: it belongs in tests/support"
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom | ast.Import):
                names = (
                    [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
                )
                assert not [name for name in names if name.startswith(("test_", "conftest"))], path


def test_all_that_is_trusted_is_broken_on_purpose_and_its_tests_are_there(trees):
    """`.ci/mutants.py` asks for the cases too, which nobody knows before they are collected."""
    parts, trusted = (tomllib.loads((ROOT / f".ci/{name}.toml").read_text("utf-8")) for name in ("mutants", "trusted"))
    files = {file for part in parts["part"].values() for file in part["files"]}
    assert {file for step in trusted["step"] for file in step["files"]} <= files
    assert all((ROOT / "src/sottovoce" / file).exists() for file in files)
    for place in (place for part in parts["part"].values() for place in part["tests"]):
        path, _, name = place.partition("[")[0].partition("::")
        defined = {node.name for node in ast.walk(trees[ROOT / path]) if isinstance(node, ast.FunctionDef)}
        assert not name or name in defined, place
