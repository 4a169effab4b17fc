"""The guides of data that are apart run: columns at organisations, reports from devices, tables on a cluster.

tests/unit/test_docs.py runs the first block of some of them too, and says more of what it prints.
"""

import re
import shlex
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.main import get_command

from sottovoce.cli import app

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
PAGES = sorted(
    path
    for path in GUIDE.glob("*.md")
    if path.stem.startswith(("vertical", "local", "cluster")) or path.stem == "alignment"
)


def text_of(name):
    return (GUIDE / f"{name}.md").read_text(encoding="utf-8")


def blocks(name, language):
    return re.findall(rf"```{language}\n(.*?)```", text_of(name), re.DOTALL)


def printed_by(name, capsys):
    """What all Python blocks of a page print, one after the other in one room, as a reader would run them."""
    room = {"__name__": "__main__"}
    for block in blocks(name, "python"):
        exec(compile(block, f"{name}.md", "exec"), room)
    return capsys.readouterr().out


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
    printed = printed_by("vertical_sparse", capsys).splitlines()
    assert [line for line in printed if line.startswith("[")] == ["[  3 250]", "[  3 250]"]


def test_without_noise(capsys):
    expected = "".join(re.findall(r"```python\n.*?```\n```\n(.*?)```", text_of("vertical_solvers"), re.DOTALL))
    assert printed_by("vertical_solvers", capsys) == expected


def test_the_same_people(capsys):
    first, *report = printed_by("alignment", capsys).splitlines()
    assert f"# {first}" in text_of("alignment")
    assert report[0].startswith("2 people in common")


def test_from_reports_to_a_model(capsys):
    """The people are seeded, their reports are not."""
    plausible, *_, quality, statement, bounds = printed_by("local_learning", capsys).splitlines()
    assert plausible == "True"
    assert float(quality) > 0.8
    assert statement.startswith("(4, 0)-differential privacy for one report of one person")
    assert bounds.startswith("(")


def test_data_of_a_cluster(capsys, tmp_path, monkeypatch):
    """In this process; the same with workers as processes is in tests/cluster."""
    pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("cluster_data", "python")
    threads = code.replace("LocalCluster(n_workers=2", "LocalCluster(processes=False, n_workers=2")
    assert threads != code
    exec(compile(threads, "cluster_data.md", "exec"), {"__name__": "__main__"})
    table, predicted = capsys.readouterr().out.splitlines()
    assert table.startswith("DaskTable(4000 rows x 2 columns")
    assert predicted == "(4000,) True"


def test_launchers_of_a_cluster_are_python():
    """They need clusters, so nothing but their grammar is tried."""
    found = blocks("cluster_start", "python")
    assert len(found) >= 4
    for block in found:
        compile(block, "cluster_start.md", "exec")


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
    return Site.read(
        SimpleNamespace(
            kind="party",
            name=name,
            federation=federation,
            folder=folder,
            state=folder / "state",
            site_file=folder / "site.toml",
            identity=folder / "identity",
        )
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


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_commands_of_the_guides_exist(page):
    text = page.read_text(encoding="utf-8")
    shell = "\n".join(re.findall(r"```(?:sh|toml)\n(.*?)```", text, re.DOTALL)).replace("\\\n", " ")
    group = get_command(app)
    for line in re.findall(r"^sottovoce (.*?)(?: +#.*)?$", shell, re.MULTILINE):
        words, command = shlex.split(line), group
        while hasattr(command, "get_command"):  # groups load their commands when they are asked for
            command = command.get_command(None, words.pop(0))
            assert command is not None, f"{page.name}: {line}"
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        used = {word.split("=")[0] for word in words if word.startswith("--")}
        assert used <= known, f"{page.name}: {line}"


def test_pages_with_commands():
    """The test above would pass on pages without any."""
    with_some = [
        page.stem for page in PAGES if re.search(r"^sottovoce ", page.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(with_some) >= 8, with_some
