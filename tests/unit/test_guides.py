"""The guides run as printed: Python from the first block to the last, and commands whose options exist."""

import re
import shlex
import tomllib
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.main import get_command

import sottovoce as sv
from sottovoce.cli import app
from sottovoce.exceptions import PrivacyWarning
from sottovoce.tables import Schema

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = DOCS / "guide"
# `audit` fits for a quarter of a minute; the example of its docstring is run by test_docs.py. tests/recipes runs the
# Python of way_out.md
RUN = (
    "audit", "command_line", "data_norm", "ensembles", "evaluation", "intervals", "large_tables", "ledger", "persons",
    "pipelines", "planning", "receipts", "search", "solvers", "sparse_models",
)  # fmt: skip


def text_of(name):
    return (GUIDE / f"{name}.md").read_text(encoding="utf-8")


def blocks(name, language):
    return re.findall(rf"```{language}\n(.*?)```", text_of(name), re.DOTALL)


def printed_by(name, capsys, *, afresh="nothing", most=None):
    """What the Python blocks of a page print, one after the other in one room, as a reader would run them.

    ``afresh``: how blocks begin that need nothing of those before. ``most``: only so many.
    """
    room = {"__name__": "__main__"}
    for block in blocks(name, "python")[:most]:
        room = {"__name__": "__main__"} if block.startswith(afresh) else room
        exec(compile(block, f"{name}.md", "exec"), room)
    return capsys.readouterr().out


def shown_in(name):
    """What a page says that its Python prints: the next block behind one of Python that has no language."""
    return re.findall(r"```python\n(?:(?!```).)*```(?:(?!```).)*```\n(.*?)```", text_of(name), re.DOTALL)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "audit")) for name in RUN])
def test_python_of_a_guide(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # pages fit the same table twice
        printed = printed_by(name, capsys)
    if name == "persons":
        assert printed.startswith(shown_in(name)[0])
    if name == "planning":
        assert printed.startswith("With 5,000 rows and 20 columns expect an accuracy of 8")


def test_schemas(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, parts = {}, blocks("schemas", "python")
    for block in parts[:2]:
        exec(compile(block, "schemas.md", "exec"), names)
    coefficients, unit = capsys.readouterr().out.splitlines()
    assert list(eval(coefficients, {"np": np})) == ["age", "age is missing", "sex=F", "sex=M", "pay"]
    assert unit.startswith("one person: all rows of one group, of which at most 3 rows are used")
    sv.save_model(names["private"], "model.json", schema=names["encoder"].schema)
    exec(compile(parts[2], "schemas.md", "exec"), names)
    assert "sex=F" in names["encoder"].get_feature_names_out()


# --- data that are apart: columns at organisations, reports from devices, tables on a cluster -------------------------


def figures(printed, measure):
    """The label holder's figure and the joint one, of what `compare` prints."""
    (line,) = [line for line in printed.splitlines() if line.startswith(measure)]
    return [float(figure) for figure in line.split()[-2:]]


def test_columns_at_several_organisations(capsys):
    """The data are seeded, the noise is not: joint accuracy .722 to .729 in 20 runs."""
    printed = printed_by("vertical", capsys)
    local, joint = figures(printed, "accuracy")
    assert local < 0.69
    assert joint > 0.705
    assert "(2, 1e-06)-differential privacy for one person" in printed
    assert 0 < float(printed.splitlines()[-1]) < 2


def test_when_private_training_pays(capsys):
    local, joint = figures(printed_by("vertical_private", capsys), "accuracy")
    assert joint > local + 0.04


def test_training_as_one_table(capsys):
    printed = printed_by("vertical_secure", capsys)
    local, joint = figures(printed, "mean squared error")
    assert joint < local / 3
    assert "(1, 1e-06)-differential privacy for one person" in printed


def test_few_coefficients(capsys):
    columns, statement, uplink, *more = printed_by("vertical_sparse", capsys).splitlines()
    assert f"# {columns}" in text_of("vertical_sparse")
    assert [columns, *(line for line in more if line.startswith("["))] == ["[  3 250]", "[  3 250]"]
    assert statement.startswith("(1, 1e-06)-differential privacy for one person")
    assert int(uplink.split()[0]) < 200


def test_without_noise(capsys):
    assert printed_by("vertical_solvers", capsys, afresh="import numpy") == "".join(shown_in("vertical_solvers"))


def test_the_same_people(capsys):
    first, *report = printed_by("alignment", capsys).splitlines()
    assert f"# {first}" in text_of("alignment")
    assert report[0].startswith("2 people in common")


def test_reports_from_devices(capsys):
    """The people are seeded, their reports are not: 0.93 to 0.98 in 25 runs."""
    predicted, score, statement = printed_by("local", capsys, most=1).splitlines()
    assert predicted == "['yes' 'no']"
    assert float(score) > 0.85
    assert statement.startswith("(4, 0)-differential privacy for one report of one person")


def test_from_reports_to_a_model(capsys):
    plausible, *_, quality, statement = printed_by("local_learning", capsys).splitlines()
    assert plausible == "True"
    assert float(quality) > 0.8
    assert statement.startswith("(4, 0)-differential privacy for one report of one person")


@pytest.mark.parametrize("name", ["cluster", "cluster_data"])
def test_tables_on_a_cluster(capsys, tmp_path, monkeypatch, name):
    """In this process; the same with workers as processes is in tests/cluster."""
    pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    code = blocks(name, "python")[0]
    threads = code.replace("LocalCluster(n_workers=2", "LocalCluster(processes=False, n_workers=2")
    assert threads != code
    exec(compile(threads, f"{name}.md", "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out
    if name == "cluster":
        assert printed == shown_in(name)[0]
    else:
        table, predicted = printed.splitlines()
        assert table.startswith("DaskTable(4000 rows x 2 columns")
        assert predicted == "(4000,) True"


def test_launchers_of_a_cluster_are_python():
    """They need clusters, so nothing but their grammar is tried."""
    found = blocks("cluster_start", "python")
    assert len(found) >= 3
    for block in found:
        compile(block, "cluster_start.md", "exec")


def test_page_of_frank_wolfe(capsys):
    block = re.search(r"```python\n(.*?)```", (DOCS / "papers/frank_wolfe.md").read_text(encoding="utf-8"), re.DOTALL)[
        1
    ]
    exec(compile(block, "frank_wolfe.md", "exec"), {})
    assert capsys.readouterr().out.strip() == re.search(r"# (gap .*)", block)[1]


# --- commands and files -----------------------------------------------------------------------------------------------


def commands(name):
    text = "\n".join(blocks(name, "(?:sh|toml)")).replace("\\\n", " ")
    return re.findall(r"^sottovoce (.*?)(?: +#.*)?$", text, re.MULTILINE)


def test_commands_of_guides_exist():
    found = {page.stem: commands(page.stem) for page in GUIDE.glob("*.md")}
    assert len(list(filter(None, found.values()))) >= 14
    for line in (line for lines in found.values() for line in lines):
        words, command = shlex.split(line), get_command(app)
        while hasattr(command, "get_command"):  # groups load their commands when they are asked for
            command = command.get_command(None, words.pop(0))
            assert command is not None, line
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known, line


@pytest.mark.parametrize("name", ["command_line", "schemas"])
def test_schema_files_of_a_guide_are_schemas(name, tmp_path):
    (text,) = blocks(name, "toml")
    (tmp_path / "schema.toml").write_text(text, encoding="utf-8")
    assert Schema.from_toml(tmp_path / "schema.toml").target == "income"


def site_of(tmp_path, name, federation, text):
    from sottovoce.vertical.flare.site import Site

    folder = tmp_path / name
    folder.mkdir()
    (folder / "site.toml").write_text(text, encoding="utf-8")
    for file in ("people.csv", "people.toml", "new_people.csv"):
        (folder / file).touch()
    (folder / "identity").mkdir()
    for file in ("certificate.pem", "key.pem", "authority.pem"):
        (folder / "identity" / file).touch()
    places = {"folder": folder, "state": folder / "state", "site_file": folder / "site.toml"}
    return Site.read(
        SimpleNamespace(kind="party", name=name, federation=federation, identity=folder / "identity", **places)
    )


def test_files_of_a_federation_are_read(tmp_path):
    from sottovoce.vertical.flare.federation import Federation

    file, own = blocks("vertical_deployment", "toml")
    secure, helper = blocks("vertical_secure_deployment", "toml")
    (tmp_path / "federation.toml").write_text(f"{file}\n{helper}", encoding="utf-8")
    federation = Federation.read(tmp_path / "federation.toml")
    assert federation.names == ("insurer", "north", "bank", "notary")
    assert federation.helpers == ("notary",)

    site = site_of(tmp_path, "north", federation, own)
    assert (site.caps.epsilon, site.caps.people, site.id_column) == (2.0, 100, "person")
    assert site.answers == {"local-models", "alignment"}

    spelled_out = re.sub(r"^# (?=(engines|timeout|\[secure\.f|notary = ))", "", secure, flags=re.MULTILINE)
    assert set(tomllib.loads(spelled_out)["secure"]) == {
        "partners", "host", "ports", "engines", "timeout", "fingerprints",
    }  # fmt: skip
    allowed = own.replace('"local-models", "alignment"', '"secure", "alignment"')
    computing = site_of(tmp_path, "bank", federation, f"{allowed}\n{secure}").computing
    assert (computing.partners, computing.ports) == (("insurer", "notary"), (9100, 9110))
