"""The public names, chosen and pinned; and imports that run one way."""

import ast
from pathlib import Path

import sottovoce

SOURCE = Path(sottovoce.__file__).parent

# each layer may import itself and what stands above it
LAYERS = [
    ["exceptions", "_validation", "_files"],
    ["losses", "randomness"],
    ["privacy"],
    ["ledger"],
    ["central"],
    ["vertical"],
    ["estimators", "planning", "tables"],
    ["audit"],
    ["cli"],
]


def test_public_names():
    assert sorted(sottovoce.__all__) == [
        "DPLasso",
        "DPLinearSVC",
        "DPLogisticRegression",
        "DPRidge",
        "DPSearchCV",
        "DPSparseLogisticRegression",
        "Guarantee",
        "Ledger",
        "ParquetTable",
        "Plan",
        "plan",
    ]
    for name in sottovoce.__all__:
        assert getattr(sottovoce, name).__doc__


def test_public_names_of_vertical_training():
    from sottovoce import vertical

    assert sorted(vertical.__all__) == [
        "AlignedParties",
        "Comparison",
        "InProcessParties",
        "Part",
        "Parties",
        "Party",
        "VerticalLinearSVC",
        "VerticalLogisticRegression",
        "VerticalRidge",
        "align",
        "split_columns",
    ]
    for name in vertical.__all__:
        assert getattr(vertical, name).__doc__


def test_every_all_holds_names_that_exist():
    import importlib

    for path in SOURCE.rglob("*.py"):
        if path.name == "__main__.py":
            continue  # importing it runs the command
        module = importlib.import_module(
            ".".join(("sottovoce", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
        )
        for name in getattr(module, "__all__", ()):
            assert isinstance(name, str)
            assert hasattr(module, name), (path, name)


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "sottovoce":
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "sottovoce")


def test_imports_run_one_way():
    rank = {name: place for place, names in enumerate(LAYERS) for name in names}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if parts in (("__init__",), ("__main__",)):
            continue
        for module in imports_of(path):
            target = module.split(".")[1] if "." in module else None
            assert target is not None, f"{path} imports the package itself"
            assert rank[target] <= rank[parts[0]], f"{parts[0]} must not import {target} ({path})"


def test_privacy_never_sees_a_table():
    """The privacy core has no way to a table: no reader, no scipy.sparse, no pandas."""
    for path in (SOURCE / "privacy").rglob("*.py"):
        text = path.read_text()
        for name in ("pandas", "pyarrow", "scipy.sparse", "sklearn"):
            assert f"import {name}" not in text and f"from {name}" not in text, (path, name)
