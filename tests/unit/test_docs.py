"""The documentation runs: docstring examples, and the code of the guides; tests/unit/test_readme.py has the README."""

import doctest
import importlib
import re
from pathlib import Path

import numpy as np
import pytest

import sottovoce

SOURCE = Path(sottovoce.__file__).parent
ROOT = SOURCE.parent.parent


def modules():
    for path in sorted(SOURCE.rglob("*.py")):
        if ">>>" in path.read_text(encoding="utf-8"):
            parts = ("sottovoce", *path.relative_to(SOURCE).with_suffix("").parts)
            yield ".".join(parts).removesuffix(".__init__")


@pytest.mark.parametrize("name", list(modules()))
def test_docstring_examples(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0
    assert result.failed == 0


def test_schemas_guide(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/guide/schemas.md").read_text(encoding="utf-8")
    names, blocks = {}, re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    for block in blocks[:2]:
        exec(compile(block, "schemas.md", "exec"), names)
    coefficients, unit = capsys.readouterr().out.splitlines()
    assert list(eval(coefficients, {"np": np})) == ["age", "age is missing", "sex=F", "sex=M", "pay"]
    assert unit.startswith("one person: all rows of one group, of which at most 3 rows are used")
    sottovoce.save_model(names["private"], "model.json", schema=names["encoder"].schema)
    exec(compile(blocks[2], "schemas.md", "exec"), names)
    assert "sex=F" in names["encoder"].get_feature_names_out()


def test_persons_guide(capsys):
    text = (ROOT / "docs/guide/persons.md").read_text(encoding="utf-8")
    code, printed = re.search(r"```python\n(.*?)```.*?```\n(.*?)```", text, re.DOTALL).groups()
    exec(compile(code, "persons.md", "exec"), {})
    assert capsys.readouterr().out == printed


def test_page_of_frank_wolfe(capsys):
    text = (ROOT / "docs/papers/frank_wolfe.md").read_text(encoding="utf-8")
    block = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    exec(compile(block, "frank_wolfe.md", "exec"), {})
    assert capsys.readouterr().out.strip() == re.search(r"# (gap .*)", block)[1]


def test_vertical_sparse_guide(capsys):
    text = (ROOT / "docs/guide/vertical_sparse.md").read_text(encoding="utf-8")
    block = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    exec(compile(block, "vertical_sparse.md", "exec"), {})
    columns, statement, uplink = capsys.readouterr().out.splitlines()
    assert columns == re.search(r"# (\[ .*\])", block)[1]
    assert statement.startswith("(1, 1e-06)-differential privacy for one person")
    assert int(uplink.split()[0]) < 200


def test_vertical_solvers_guide_on_losses_and_boosting(capsys):
    text = (ROOT / "docs/guide/vertical_solvers.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(import numpy.*?)```\n```\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    for code, printed in blocks:
        exec(compile(code, "vertical_solvers.md", "exec"), {})
        assert capsys.readouterr().out == printed


def test_local_guide(capsys):
    """The people are seeded, their reports are not: 0.93 to 0.98 in 25 runs."""
    text = (ROOT / "docs/guide/local.md").read_text(encoding="utf-8")
    exec(compile(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], "local.md", "exec"), {})
    predicted, score, statement = capsys.readouterr().out.splitlines()
    assert predicted == "['yes' 'no']"
    assert float(score) > 0.85
    assert statement.startswith("(4, 0)-differential privacy for one report of one person")


def test_cluster_guide(capsys, tmp_path, monkeypatch):
    """In this process; tests/cluster has the same with workers as processes."""
    pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/guide/cluster.md").read_text(encoding="utf-8")
    code, printed = re.search(r"```python\n(.*?)```.*?```\n(.*?)```", text, re.DOTALL).groups()
    assert "LocalCluster(n_workers=2" in code
    code = code.replace("LocalCluster(n_workers=2", "LocalCluster(processes=False, n_workers=2")
    exec(compile(code, "cluster.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == printed


def test_planning_guide(capsys):
    text = (ROOT / "docs/guide/planning.md").read_text(encoding="utf-8")
    exec(compile(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1], "planning.md", "exec"), {})
    assert capsys.readouterr().out.startswith("With 5,000 rows and 20 columns expect an accuracy of 8")


@pytest.mark.parametrize(
    "page", [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))], ids=lambda path: path.name
)
def test_links_and_paths_of_the_documentation_exist(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        made = page.parent.name == "api" and target.startswith("commands/")  # with the site, which checks its own links
        assert made or (page.parent / target).exists(), target
    for path in re.findall(r"`((?:src|tests|docs|examples|benchmarks)/[\w./{}-]+?)`", text):
        assert (ROOT / path).exists(), path
