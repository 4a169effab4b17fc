"""The how-to pages run as printed: Python from the first block to the last, and commands whose options exist."""

import re
import shlex
import warnings
from pathlib import Path

import pytest
from typer.main import get_command

from sottovoce.cli import app
from sottovoce.exceptions import PrivacyWarning
from sottovoce.tables import Schema

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide"
# `audit` fits for a quarter of a minute; the example of its docstring is run by test_docs.py.
# tests/recipes runs the Python of way_out.md, test_docs.py that of schemas.md, which needs a model file.
RUN = (
    "audit", "command_line", "data_norm", "ensembles", "evaluation", "intervals", "large_tables", "ledger", "persons",
    "pipelines", "planning", "receipts", "search", "solvers", "sparse_models",
)  # fmt: skip


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "audit")) for name in RUN])
def test_python_of_a_guide(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": name}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # pages fit the same table twice
        for block in blocks(GUIDE / f"{name}.md", "python"):
            exec(compile(block, f"{name}.md", "exec"), names)


def commands(page):
    for block in blocks(page, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("sottovoce "):
                yield line.partition(" #")[0]


@pytest.mark.parametrize("page", sorted(GUIDE.glob("*.md")), ids=lambda page: page.stem)
def test_commands_of_a_guide_exist(page):
    for line in commands(page):
        _, *words = shlex.split(line)
        command = get_command(app)
        while hasattr(command, "get_command"):
            command = command.get_command(None, words.pop(0))
            assert command is not None, line
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known, line


@pytest.mark.parametrize("name", ["command_line", "schemas"])
def test_schema_files_of_a_guide_are_schemas(name, tmp_path):
    (text,) = blocks(GUIDE / f"{name}.md", "toml")
    (tmp_path / "schema.toml").write_text(text, encoding="utf-8")
    assert Schema.from_toml(tmp_path / "schema.toml").target == "income"
