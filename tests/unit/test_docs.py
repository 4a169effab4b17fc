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


NEEDED = {
    r"^import pandas": "pandas", r"--public-key": "sign", r"sottovoce ledger": "ledger", r"local collect ": "collector",
    r"\.csv": "tables",
}  # fmt: skip


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "start").glob("*.md")), ids=lambda path: path.stem)
def test_a_start_page_installs_what_it_runs(page):
    """In an environment with nothing else: of pandas, say, no extra of ours brings any."""
    blocks = "".join(re.findall(r"```(?:sh|python)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
    installed = re.findall(r"[\w-]+", " ".join(re.findall(r"pip install (.*)", blocks)))
    needed = {name for sign, name in NEEDED.items() if re.search(sign, blocks, re.MULTILINE)}
    assert needed <= set(installed)
