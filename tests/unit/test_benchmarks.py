"""Benchmarks and their commands: each script can be imported and started, and pages name scripts that exist."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import claims, driver

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks"
SCRIPTS = sorted(
    ".".join(path.relative_to(FOLDER).with_suffix("").parts)
    for path in FOLDER.glob("[!.]*/**/*.py")
    if "\ndef main(" in path.read_text(encoding="utf-8")
)
# imports every script in one process, which takes a few seconds, and prints what each says to --help
HELP = """
import importlib, io, sys
from contextlib import redirect_stdout
for name in sys.argv[1:]:
    script, text = importlib.import_module(name), io.StringIO()
    sys.argv = [name, "--help"]
    try:
        with redirect_stdout(text):
            script.main()
    except SystemExit as end:
        assert not end.code, (name, end.code)
    print(f"== {name}", text.getvalue(), sep="\\n")
"""


COMMANDS = {f"benchmarks.{name}" for name in (*SCRIPTS, "claims", "fingerprints")} | {"benchmarks"}


def options(command):
    """Return the options that a script declares, as its text says: nothing is imported."""
    path = ROOT / command.replace(".", "/")
    text = (path / "__main__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")
    found = {"--help"}
    for call in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)):
        given = {key.arg: ast.unparse(key.value) for key in call.keywords}
        match ast.unparse(call.func):
            case "benchmark":
                page, _ = "page" in given or call.args, [given.pop(name, None) for name in ("page", "words")]
                found |= {f"--{name.replace('_', '-')}" for name, each in given.items() if "HIDDEN" not in each}
                found |= {"--quick", "--threads", *(["--docs"] if page else [])}
            case "make_parser":
                found.add("--quick")
            case "parser.add_argument":
                found.add(call.args[0].value)
    return found


@pytest.fixture(scope="module")
def helps():
    """What each script says to --help, by the name of its module."""
    names = [f"{name}.__main__" if name == "benchmarks" else name for name in sorted(COMMANDS)]
    done = subprocess.run(
        [sys.executable, "-c", HELP, *names], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    parts = re.split(r"^== (\S+)\n", done.stdout, flags=re.MULTILINE)[1:]
    return {name.removesuffix(".__main__"): text for name, text in zip(parts[::2], parts[1::2], strict=True)}


@pytest.mark.slow
def test_every_script_can_be_imported_and_has_a_short_form(helps):
    assert len(SCRIPTS) >= 37
    for name in SCRIPTS:
        assert "--quick" in helps[f"benchmarks.{name}"], name
    for command in COMMANDS:
        assert options(command) == set(re.findall(r"(?<![\w-])--[a-z][\w-]*", helps[command].partition("options:")[2]))


def test_every_script_has_a_claim_with_a_page_that_exists():
    _, entries = claims.claims()
    assert [each.script for each in entries] == SCRIPTS
    for each in entries:
        assert (ROOT / each.page).is_file(), f"benchmarks/claims.toml: there is no {each.page}"


def test_the_page_of_claims_has_each_with_its_figure():
    page = claims.page()
    for each in claims.claims()[1]:
        assert f"**{each.claim}**: {each.measured}" in page


def texts():
    """Every page, and every text inside the code, with what it is called."""
    for folder, ending in ((".", "*.md"), ("docs", "*.md"), ("benchmarks", "*"), ("src", "*.py"), ("tests", "*")):
        for path in (ROOT / folder).glob(ending) if folder == "." else (ROOT / folder).rglob(ending):
            if (
                path.suffix in (".md", ".py")
                and path != Path(__file__)
                and "results" not in path.parts
                and ".peers" not in path.parts
            ):
                yield path, path.read_text(encoding="utf-8")
    yield ROOT / "Makefile", (ROOT / "Makefile").read_text(encoding="utf-8")


def test_commands_of_all_texts_name_scripts_and_options_that_exist():
    found = 0
    for path, text in texts():
        assert not re.search(r"python benchmarks/", text), f"{path}: run benchmarks as modules"
        for name, rest in re.findall(r"-m (benchmarks[\w.]*\w)([^`\n#|]*)", text):
            assert name in COMMANDS, f"{path}: there is no {name}"
            unknown = set(re.findall(r"(--[a-z][\w-]*)", rest)) - options(name)
            assert not unknown, f"{path}: {name} does not take {unknown}"
            found += 1
    assert found > 60


def test_the_driver_takes_options_and_shows_keeps_and_writes_tables(tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table one -->\nold\n<!-- end of table one -->\nafter\n", encoding="utf-8")
    monkeypatch.setattr(driver, "DOCS", tmp_path)
    monkeypatch.setattr(driver, "keep", lambda name, content: kept.update({name: content}))
    monkeypatch.setenv("SOTTOVOCE_NUM_THREADS", "2")  # the driver sets it too
    kept, seen = {}, []

    @driver.benchmark(
        page="page.md", words=("risk",), seeds=(5, 1), delta=1e-3, fast=False, table=False, only=driver.option()
    )
    def script(run):
        assert run.table_ is False
        seen.append((run.quick, run.seeds, run.delta, run.fast, run.only, run.words))
        rows = ((name, seed, value) for name, seed, value in (("a", 1_000, 0.25), ("b", run.seeds, None)))
        run.table("title", ("set", "seeds|,", "|x| < 1|.3f"), rows, mark="one")

    for words in ("--quick", "--seeds 7 --fast --only b risk", "--docs --threads 1"):
        monkeypatch.setattr(sys, "argv", ["script", *words.split()])
        script()
    assert seen == [
        (True, 1, 1e-3, False, None, []), (False, 7, 1e-3, True, "b", ["risk"]), (False, 5, 1e-3, False, None, [])
    ]  # fmt: skip
    told = capsys.readouterr().out
    assert "cores" in told
    assert "a  1,000  0.250" in told
    (content,) = kept.values()
    assert content["tables"]["one"] == {
        "columns": ("set", "seeds", "|x| < 1"), "rows": [("a", 1_000, 0.25), ("b", 5, None)]
    }  # fmt: skip
    text = "| set | seeds | |x| < 1 |\n| --- | --- | --- |\n| a | 1,000 | 0.250 |\n| b | 5 |  |\n"
    assert page.read_text(encoding="utf-8") == (f"before\n<!-- table one -->\n{text}<!-- end of table one -->\nafter\n")
    monkeypatch.setattr(sys, "argv", ["script", "--docs", "--quick"])
    with pytest.raises(SystemExit):
        script()


def test_pages_and_folders_that_scripts_write_into_exist():
    """What --docs writes to: marks in a page, or a CSV file in the folder of that name."""
    found = [
        (path, page)
        for path in FOLDER.glob("[!.]*/**/*.py")
        for page in re.findall(r'"((?:\w+/)?[\w-]+\.md)"', path.read_text(encoding="utf-8"))
    ]
    assert len(found) >= 30
    assert not [
        row
        for row in found
        if not list((ROOT / "docs").glob(f"**/{row[1]}"))
        and not (ROOT / "docs" / "measured" / "data" / Path(row[1]).stem).is_dir()
    ]


def test_a_table_is_written_into_its_page_or_its_file(tmp_path, monkeypatch):
    page, folder = tmp_path / "page.md", tmp_path / "measured" / "data" / "page"
    page.write_text("a\n<!-- table one -->\n| old |\n<!-- end of table one -->\n", encoding="utf-8")
    monkeypatch.setattr(driver, "DOCS", tmp_path)
    other = {"the Other": (("x", "y"), [("1,0", "2")])}
    with pytest.raises(SystemExit, match="neither marks"):
        driver.write_tables(page, other)
    folder.mkdir(parents=True)
    driver.write_tables(page, {"one": (("x",), [("1",)]), **other})
    written = "a\n<!-- table one -->\n| x |\n| --- |\n| 1 |\n<!-- end of table one -->\n"
    assert page.read_text(encoding="utf-8") == written
    assert (folder / "the_other.csv").read_text(encoding="utf-8") == 'x,y\n"1,0",2\n'
