"""Docstring examples run, links and paths exist; test_guides.py and test_readme.py run the pages."""

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
