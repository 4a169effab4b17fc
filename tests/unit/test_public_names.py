"""The public names, chosen and pinned; and imports that run one way."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import sottovoce
from sottovoce.exceptions import (
    AccountingError,
    DataError,
    ModelFormatError,
    ParameterError,
    SchemaError,
    SottovoceError,
    TableError,
)

SOURCE = Path(sottovoce.__file__).parent
ROOT = Path(__file__).parents[2]
NAMES = {
    "sottovoce": [
        "DPLasso", "DPLinearSVC", "DPLogisticRegression", "DPPipeline", "DPRidge", "DPScaler", "DPSearchCV",
        "DPSparseLogisticRegression", "Evaluation", "Forecast", "Guarantee", "Ledger", "ParquetTable", "Plan",
        "SchemaEncoder", "evaluate", "forecast", "load_model", "plan", "save_model",
    ],
    "sottovoce.vertical": [
        "AlignedParties", "Comparison", "ComputeSite", "Helper", "InProcessParties", "Part", "Parties", "Party",
        "VerticalLasso", "VerticalLinearSVC", "VerticalLogisticRegression", "VerticalRidge",
        "VerticalSparseLogisticRegression", "align", "split_columns",
    ],
    "sottovoce.cluster": ["DaskTable"],
    "sottovoce.local": [
        "Aggregator", "CategoricalFeature", "LocalModel", "NumericFeature", "Protocol", "Randomizer",
        "plan_collection", "predict_accuracy_range",
    ],
    "sottovoce.report": [
        "PrivacyCurve", "ReceiptSum", "Verification",
        "make_key", "privacy_curve", "read_model_card", "read_receipt", "receipt_page",
        "sign_receipt", "sum_receipts", "verify_receipt",
    ],
}  # fmt: skip


@pytest.mark.parametrize("package", NAMES)
def test_public_names(package):
    module = importlib.import_module(package)
    assert sorted(module.__all__) == NAMES[package]
    assert all(getattr(module, name).__doc__ for name in module.__all__ if not name.isupper())


def test_the_version_is_that_of_the_command_line():
    said = subprocess.run([sys.executable, "-m", "sottovoce", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["sottovoce", sottovoce.__version__]


def test_every_all_holds_names_that_exist():
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


def modules():
    """Yield the names of all modules that are not packages."""
    for path in SOURCE.rglob("*.py"):
        if path.name not in ("__init__.py", "__main__.py"):
            yield ".".join(("sottovoce", *path.relative_to(SOURCE).with_suffix("").parts))


def test_every_module_has_its_place_in_the_order():
    rooms_in_order, *_ = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    rooms = {room for layer in rooms_in_order["layers"] for room in re.split(r" [|:] ", layer)}
    homeless = [name for name in modules() if not any(name == room or name.startswith(f"{room}.") for room in rooms)]
    assert homeless == []


def test_privacy_never_sees_a_table():
    """The privacy core has no way to a table: no reader, no scipy.sparse, no pandas."""
    for path in (SOURCE / "privacy").rglob("*.py"):
        text = path.read_text()
        for name in ("pandas", "pyarrow", "scipy.sparse", "sklearn"):
            assert f"import {name}" not in text and f"from {name}" not in text, (path, name)


def test_only_commands_know_the_collector():
    """Its packages are an extra: nothing else may need them, and a command needs them when it runs."""
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).parts
        if parts[:2] == ("local", "collector"):
            assert not [name for name in imports_of(path) if name.split(".")[1] == "cli"], path
            continue
        at_import = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ImportFrom | ast.Import)]
        for node in at_import:
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            for name in names:
                assert not name.startswith(("sottovoce.local.collector", "starlette", "sqlalchemy", "uvicorn")), path
        if parts[0] != "cli":
            assert not [name for name in imports_of(path) if name.startswith("sottovoce.local.collector")], path


def test_every_error_is_ours_and_a_value_error_where_a_value_is_wrong():
    wrong = (ParameterError, DataError, TableError, SchemaError, ModelFormatError, AccountingError)
    assert all(issubclass(error, SottovoceError) and issubclass(error, ValueError) for error in wrong)
