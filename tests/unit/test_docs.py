"""The documentation runs: docstring examples, and the Python of the README."""

import doctest
import importlib
import re
from pathlib import Path

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


def test_readme_python(capsys):
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[1]
    exec(compile(code, "README.md", "exec"), {})
    score, statement = capsys.readouterr().out.splitlines()
    assert float(score) > 0.92
    assert statement.startswith("(1, 1e-06)-differential privacy for one row of the table")


@pytest.mark.parametrize(
    "page", [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"], ids=lambda path: path.name
)
def test_links_and_paths_of_the_documentation_exist(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (page.parent / target).exists(), target
    for path in re.findall(r"`((?:src|tests|docs|examples|benchmarks)/[\w./{}-]+?)`", text):
        assert (ROOT / path).exists(), path
