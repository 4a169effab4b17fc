"""Receipts lead to their proofs: by address, by a command, and in the wheel; addresses have one source."""

import ast
import re
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import sottovoce as sv
from sottovoce import _addresses
from sottovoce._addresses import documentation, where_to_read
from sottovoce.cli import app
from sottovoce.cli.proof import _pages, proof_names, proof_page
from sottovoce.exceptions import ParameterError
from sottovoce.report import receipt_page

ROOT = Path(__file__).parents[2]
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]


@pytest.fixture(scope="module")
def receipt():
    X = np.linspace(-1, 1, 60).reshape(30, 2)
    model = sv.DPLogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1], data_norm=2.0, solver="scd")
    return model.fit(X, np.arange(30) % 2).guarantee_


def pages_that_code_names(tree):
    """Paths of pages in the texts of a module that are no docstrings, nor texts of parameters, which end in some."""
    silent = {
        id(node.body[0].value) for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and isinstance(node.body[0], ast.Expr)
    }  # fmt: skip
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") in ("parameter", "attribute"):
            silent |= {id(node) for node in ast.walk(call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield from re.findall(r"docs/[\w/]+\.md", node.value)


def test_pages_that_receipts_and_messages_name_come_with_the_package():
    named = set()
    for path in (path for path in (ROOT / "src").rglob("*.py") if path.name != "reproduce.py"):  # run in a checkout
        named |= set(pages_that_code_names(ast.parse(path.read_text(encoding="utf-8"))))
    assert len(named) > 20
    for path in sorted(named):
        assert proof_page(path) == (ROOT / path).read_text(encoding="utf-8")


def test_all_addresses_begin_with_the_home_page():
    assert set(URLS) == {"Homepage", "Documentation", "Source", "Changelog", "Issues"}
    for name, url in URLS.items():
        assert url.startswith(URLS["Homepage"]), name
    for name in ("Homepage", "Documentation", "Source"):  # paths are put after them
        assert URLS[name].endswith("/"), name


def test_addresses_are_those_of_the_project():
    assert documentation("docs/privacy/dp_scd.md#setting") == URLS["Documentation"] + "privacy/dp_scd.html#setting"
    for path in ("docs/receipt.schema.json", "docs/decisions/", "examples/demo.py"):
        assert documentation(path) == URLS["Source"] + path


def test_without_an_installed_package_a_path_stays_a_path(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(_addresses, "metadata", missing)
    _addresses._urls.cache_clear()
    assert documentation("docs/privacy/dp_scd.md") == "docs/privacy/dp_scd.md"
    monkeypatch.undo()
    _addresses._urls.cache_clear()
    assert documentation("docs/privacy/dp_scd.md").startswith("https://")


@pytest.mark.parametrize("text", ["none: this run is not private", "docs/privacy/../x.md", "docs/privacy/x.md\n", "p"])
def test_what_is_no_page_gets_no_address(text):
    assert where_to_read(text) == (text,)


def test_names_and_titles():
    names = proof_names()
    assert set(names) == {
        "ground_rules", "known_limits",
        *(page.stem for page in (ROOT / "docs/privacy").glob("*.md") if page.stem != "README"),
    }  # fmt: skip
    assert names["dp_scd"] == "DP-SCD with secret dual variables"
    rules = (ROOT / "docs/privacy/README.md").read_text(encoding="utf-8")
    assert proof_page("README") == proof_page("ground-rules") == rules
    with pytest.raises(ParameterError, match=r"no proof is named 'dp_sc'\. Did you mean 'dp_scd'.*lists all"):
        proof_page("dp_sc")


def test_the_pages_of_an_installed_wheel_come_first(monkeypatch, tmp_path):
    (tmp_path / "proofs" / "privacy").mkdir(parents=True)
    (tmp_path / "proofs" / "privacy" / "dp_scd.md").write_text("# Shipped\n")
    monkeypatch.setattr("sottovoce.cli.proof.files", lambda _: tmp_path)
    _pages.cache_clear()
    assert proof_page("dp_scd") == "# Shipped\n"
    _pages.cache_clear()


@pytest.mark.parametrize("home", ["https://sottovoce.example/docs/", "https://docs.sottovoce.org/", None])
def test_a_receipt_leads_to_its_proof_and_to_no_address_that_nobody_has(receipt, monkeypatch, home):
    monkeypatch.setattr(_addresses, "_urls", lambda: {} if home is None else {"Documentation": home})
    told = dict(receipt.rows())["proof"].splitlines()
    assert told[:2] == [receipt.proof, "sottovoce proof dp_scd"]
    assert proof_page(told[2].removeprefix("limits of all proofs: sottovoce proof ")).startswith("# Known limits")
    assert told[3:] == (["https://docs.sottovoce.org/privacy/dp_scd.html"] if "org" in str(home) else [])
    assert "\n".join(told) in receipt_page(receipt)  # text, no link: a receipt of strangers cannot make one


def test_the_command_prints_what_the_receipt_names():
    runner = CliRunner()
    for name in ("dp_scd", "docs/privacy/dp_scd.md"):
        assert runner.invoke(app, ["proof", name]).stdout == (ROOT / "docs/privacy/dp_scd.md").read_text()
    listed = runner.invoke(app, ["proof"]).stdout
    assert all(re.search(rf"^ *{name} ", listed, re.MULTILINE) for name in proof_names())
    wrong = runner.invoke(app, ["proof", "dp_sc"])
    assert wrong.exit_code == 2
    assert "Did you mean 'dp_scd'" in wrong.output
