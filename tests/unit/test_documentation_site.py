"""The site: its checker sees each fault, its reference has every public name, one that was built has no fault."""

import functools
import importlib
import importlib.util
import inspect
import re
from pathlib import Path

import pytest
from typer.main import get_command

from sottovoce.cli import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SITE = ROOT / "site"
# packages whose whole `__all__` is meant to be imported
PUBLIC = (
    "sottovoce",
    *(
        f"sottovoce.{name}"
        for name in (
            "audit",
            "cluster",
            "evaluation",
            "exceptions",
            "forecasting",
            "ledger",
            "local",
            "losses",
            "papers.frank_wolfe",
            "papers.ldp",
            "report",
            "tables",
            "vertical",
        )
    ),
)


def public_methods():
    """Yield name and docstrings, of the method and of what it overrides, for the classes that are meant to be used."""
    for package in PUBLIC:
        module = importlib.import_module(package)
        for kind in filter(inspect.isclass, (getattr(module, name) for name in module.__all__)):
            for name in (name for name in dir(kind) if not name.startswith("_")):
                owners = [one for one in kind.__mro__ if name in vars(one)]
                value = vars(owners[0])[name] if owners else None
                is_method = inspect.isroutine(value) or isinstance(value, property | functools.cached_property)
                if is_method and owners[0].__module__.startswith("sottovoce"):
                    yield f"{package}.{kind.__name__}.{name}", [vars(one)[name].__doc__ for one in owners]


def test_public_methods_have_a_docstring_of_their_own_or_of_what_they_override():
    found = dict(public_methods())
    assert len(found) > 300
    assert not [name for name, texts in found.items() if not any(texts)]


def script(name):
    spec = importlib.util.spec_from_file_location(Path(name).name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def checker():
    return script("check_site")


GOOD = {
    "index.html": '<a href="other.html#here">x</a>',
    "other.html": '<h1 id="here">y</h1><img src="x.svg">',
    "x.svg": "",
}


def built(folder, **changes):
    for name, text in {**GOOD, **changes}.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("other.html", '<p id="here"><script src="https://a.example/x.js"></script>', "from elsewhere"),
        ("other.html", '<p id="here"><style>@import "https://a.example/x.css";</style>', "from elsewhere"),
        ("x.css", "@font-face { src: url(https://a.example/x.woff2) }", "from elsewhere"),
        ("x.css", "p { background: url('gone.png') }", "is not there"),
        ("other.html", '<p id="here"><img src="gone.png">', "loads gone.png, which is not there"),
        ("other.html", '<p id="here"><a href="gone.html">x</a>', "links gone.html, which is not there"),
        ("other.html", "<h1>y</h1>", "whose anchor is not there"),
        ("alone.html", "<p>z</p>", "no page leads here"),
    ],
)
def test_each_fault_is_seen(checker, tmp_path, name, text, fault):
    faults = list(checker.faults(built(tmp_path, **{name: text})))
    assert len(faults) == 1
    assert faults[0].startswith(name if fault != "whose anchor is not there" else "index.html")
    assert fault in faults[0]


def test_statements_about_a_page_load_nothing(checker, tmp_path):
    text = '<p id="here"><link rel="canonical" href="https://a.example/"><a href="https://a.example/">x</a>'
    assert list(checker.faults(built(tmp_path, **{"other.html": text}))) == []


def test_the_table_of_mechanisms_is_that_of_their_receipts():
    proofs = script("make_proofs")
    assert proofs.TABLE.read_text(encoding="utf-8") == proofs.written()


def commands(group, words=("sottovoce",)):
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        yield (*words, name), command
        if hasattr(command, "list_commands"):
            yield from commands(command, (*words, name))


def test_the_reference_has_every_command_with_every_option():
    pages = script("_sphinx/commands").pages()
    found = list(commands(get_command(app)))
    assert len(found) > 30
    for words, command in found:
        page = pages[words[1]]
        (section,) = re.findall(rf"^#+ {' '.join(words)}\n(.*?)(?=^#|\Z)", page, re.MULTILINE | re.DOTALL)
        for parameter in command.params:
            assert all(f"`{name}" in section or f" / {name}" in section for name in parameter.opts if name[0] == "-")
        summary = (command.help or "").split("\n\n")[0].split()
        assert " ".join(summary) in " ".join(section.split())
    assert "..." not in pages["index"].split("**Commands**")[1]


def listed():
    """Return each name of the reference with the modules that it is listed under."""
    for page in (DOCS / "api").glob("*.md"):
        for module, names in re.findall(
            r"currentmodule:: ([\w.]+)\n\n.. autosummary::\n   :toctree: generated\n\n((?:   \w+\n)+)",
            page.read_text(encoding="utf-8"),
        ):
            for name in names.split():
                yield module, name


@pytest.mark.parametrize("package", PUBLIC)
def test_the_reference_has_every_public_name(package):
    module = importlib.import_module(package)
    there = {id(getattr(importlib.import_module(home), name)) for home, name in listed()}
    names = [name for name in module.__all__ if not name.isupper()]
    assert [name for name in names if id(getattr(module, name)) not in there] == []


def test_the_reference_names_everything_once():
    names = [f"{module}.{name}" for module, name in listed()]
    assert len(names) > 200
    assert len(names) == len(set(names))


def test_the_lock_of_the_site_fits_the_other():
    """Both are installed into one environment."""
    versions = {}
    for lock in ("requirements-dev.lock", "requirements-docs.lock"):
        for line in (ROOT / lock).read_text(encoding="utf-8").splitlines():
            if not line.startswith("#"):
                requirement, _, marker = line.partition(";")
                name, _, version = requirement.strip().partition("==")
                versions.setdefault((name, marker.strip()), set()).add(version)
    assert [pair for pair, found in versions.items() if len(found) > 1] == []
