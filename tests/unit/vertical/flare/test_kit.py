"""A site is started as it was closed, and not from a kit with foreign files, names, keys or permissions."""

import datetime
import json
import os
import shlex
import shutil
import socket
import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sottovoce.cli import app
from sottovoce.exceptions import ParameterError, SottovoceWarning, StorageError
from sottovoce.vertical.flare import kit as kit_module
from sottovoce.vertical.flare import processes
from sottovoce.vertical.flare.kit import Kit, clear_leftovers
from sottovoce.vertical.flare.processes import check_site, run_site
from sottovoce.vertical.flare.provisioning import provision

pytest.importorskip("nvflare", reason="start-up kits need the extra [vertical]")
pytest.importorskip("cryptography.x509")

FEDERATION = """
name = "trial"
[coordinator]
name = "insurer"
host = "localhost"
port = {port}
[[party]]
name = "bank"
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kits")
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    (folder / "federation.toml").write_text(FEDERATION.format(port=port), encoding="utf-8")
    provision(folder / "federation.toml", folder / "out")
    return folder / "out"


@pytest.fixture
def coordinator(made, tmp_path):
    return Kit.open(shutil.copytree(made / "insurer", tmp_path / "insurer"))


@pytest.fixture
def party(made, tmp_path):
    return Kit.open(shutil.copytree(made / "bank", tmp_path / "bank"))


def change(path, entry, value):
    """Set an entry of a JSON file, named as in the messages."""
    content = json.loads(path.read_text())
    *way, last = [int(part) if part.isdigit() else part for part in entry.replace("[", ".").replace("]", "").split(".")]
    place = content
    for part in way:
        place = place[part]
    place[last] = value
    path.write_text(json.dumps(content))


OPENED = [
    ("local/authorization.json", "permissions.lead.byoc", "any"),
    ("local/authorization.json", "permissions.lead.configure_job_log", "any"),
    ("local/authorization.json", "permissions.project_admin", "any"),
    ("local/resources.json", "class_allow_list", ["*"]),
    ("local/resources.json", "class_list_enforcement_mode", "warn"),
    ("local/resources.json", "allow_log_streaming", True),
    ("local/resources.json", "components", []),
    ("local/log_config.json", "handlers.console.()", "subprocess.Popen"),
    ("local/comm_config.json", "internal.resources.connection_security", "clear"),
    ("startup/fed_client.json", "client.connection_security", "tls"),
    ("startup/fed_server.json", "servers[0].connection_security", "clear"),
    ("lead/startup/fed_admin.json", "admin.host", "elsewhere"),
]


@pytest.mark.parametrize(("place", "entry", "value"), OPENED)
def test_a_setting_that_was_opened_is_closed_before_a_site_starts(party, coordinator, place, entry, value):
    kit = coordinator if "server" in place or "lead" in place else party
    path = kit.folder / place
    check_site(kit)
    closed = path.read_text()
    change(path, entry, value)
    assert path.read_text() != closed
    check_site(kit)
    assert path.read_text() == closed
    path.write_text("{")
    check_site(kit)
    assert path.read_text() == closed


@pytest.mark.parametrize(("name", "place"), [
    ("coordinator", "startup/fed_server.json"), ("coordinator", "lead/startup/fed_admin.json"),
    ("party", "startup/fed_client.json"), ("party", "local/comm_config.json"),
])  # fmt: skip
def test_all_connections_have_certificates_on_both_sides(request, name, place):
    kit = request.getfixturevalue(name)
    kit.settle()
    assert '"connection_security": "mtls"' in (kit.folder / place).read_text()


def test_a_party_runs_its_jobs_through_the_guard(party):
    party.settle()
    components = json.loads((party.folder / "local" / "resources.json").read_text())["components"]
    (launcher,) = [one["path"] for one in components if one["id"] == "process_launcher"]
    assert launcher == "sottovoce.vertical.flare.launcher.GuardedLauncher"
    assert processes._command(party)[2:5] == [
        "-m", "sottovoce.vertical.flare.hardening.guard", "nvflare.private.fed.app.client.client_train",
    ]  # fmt: skip


@pytest.mark.parametrize("place", [
    "local/privacy.json", "local/custom", "local/job_resources.json", "startup/evil__resources.json",
    "local/resources.json.default", "startup/sub_start.sh",
])  # fmt: skip
def test_a_file_that_flare_would_read_too(party, place):
    party.settle()
    (party.folder / place).write_text("{}")
    (party.folder / place).chmod(0o600)
    with pytest.raises(ParameterError, match="not a file of the kit"):
        party.check()


@pytest.mark.parametrize(
    "place", ["startup/client.crt", "startup/client.key", "startup/rootCA.pem", "identity/key.pem"]
)
def test_a_file_that_is_gone(party, place):
    (party.folder / place).unlink()
    with pytest.raises(ParameterError, match=f"{place}: missing"):
        party.check()


@pytest.mark.parametrize("place", ["", "startup/client.key", "local/resources.json", "state", "startup"])
def test_what_others_could_read(party, place):
    party.settle()
    path = party.folder / place
    path.chmod(path.stat().st_mode | 0o040)
    with pytest.raises(ParameterError, match="chmod -R go="):
        party.check()


def test_a_kit_that_moves(coordinator, tmp_path):
    """FLARE wants absolute paths of the coordinator's stores: they follow the kit."""
    for place in (coordinator.folder, tmp_path / "elsewhere"):
        kit = Kit.open(coordinator.folder.rename(place))
        check_site(kit)
        resources = (kit.folder / "local" / "resources.json").read_text()
        assert f'"uri_root": "{kit.state / "jobs"}"' in resources
        assert str(kit.state / "snapshots") in resources


def test_only_the_classes_of_a_run_may_be_named(coordinator, party):
    for kit in (coordinator, party):
        kit.settle()
        listed = json.loads((kit.folder / "local" / "resources.json").read_text())["class_allow_list"]
        assert len(listed) == 2
        assert all(path.rpartition(".")[2][0].isupper() for path in listed), "classes, not packages"


@pytest.mark.parametrize(("days", "outcome"), [(-1, "ended"), (10, "ends"), (60, None)])
def test_certificates_end(party, monkeypatch, days, outcome):
    now = party.expires - datetime.timedelta(days=days)

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return now

    monkeypatch.setattr(kit_module.datetime, "datetime", Clock)
    match outcome:
        case "ended":
            with pytest.raises(ParameterError, match=f"ended on {party.expires:%Y-%m-%d}"):
                party.check()
        case "ends":
            with pytest.warns(SottovoceWarning, match=f"ends on {party.expires:%Y-%m-%d}"):
                party.check()
        case _:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                party.check()


def test_what_is_no_kit(tmp_path, party):
    with pytest.raises(ParameterError, match="not a start-up kit"):
        Kit.open(tmp_path)
    file = party.folder / "federation.toml"
    file.write_text(file.read_text().replace('"bank"', '"shop"'))
    with pytest.raises(ParameterError, match=r"federation\.toml: no site has the name of this kit, 'bank'"):
        Kit.open(party.folder)


# ------------------------------------------------------------------ starting


def test_a_site_with_a_foreign_file_is_not_started(party, monkeypatch):
    monkeypatch.setattr(processes.subprocess, "Popen", lambda *a, **k: pytest.fail("it was started"))
    (party.folder / "startup" / "evil__resources.json").touch(mode=0o600)
    with pytest.raises(ParameterError, match="evil"):
        run_site(party)


def test_a_port_that_is_taken(coordinator):
    check_site(coordinator)
    port = coordinator.federation.port
    taken = pytest.raises(ParameterError, match=f"port {port}: Address already in use")
    with socket.create_server(("localhost", port)), taken:
        check_site(coordinator)


def test_a_site_runs_once(party, monkeypatch):
    monkeypatch.setattr(processes, "_run", lambda kit, say: run_site(kit))
    with pytest.raises(StorageError, match=r"the site .* is held by another process"):
        run_site(party)


def test_temporary_files_are_the_sites_own_and_do_not_stay(party):
    """A process that was killed could not remove the keys of its last joint computation."""
    party.settle()
    place = Path(processes._environment(party)["TMPDIR"])
    assert place.is_relative_to(party.state) and place.stat().st_mode & 0o077 == 0
    for name in ("sottovoce-seat-1", "another"):
        (place / name).mkdir()
        (place / name / "key.pem").touch()
    clear_leftovers(party.state)
    assert [path.name for path in place.iterdir()] == ["another"]


def test_the_environment_has_no_secrets_and_no_foreign_code(party, monkeypatch):
    """FLARE puts variables of the environment into a job's configuration, where the job names them."""
    given = {"SECRET_TOKEN": "s", "PYTHONPATH": "/somewhere", "NVFL_JOB_STORE_ROOT": "/tmp", "FL_LOG_LEVEL": "DEBUG"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    environment = processes._environment(party)
    assert not {"SECRET_TOKEN", "NVFL_JOB_STORE_ROOT", "FL_LOG_LEVEL"} & environment.keys()
    assert environment["PYTHONPATH"] != "/somewhere"
    assert environment["PYTHONSAFEPATH"] == "1"
    assert environment["PATH"] == os.environ["PATH"]
    assert environment["SSL_CERT_FILE"] == str(party.folder / "startup" / "rootCA.pem")
    assert not os.path.lexists(environment["SSL_CERT_DIR"])


@pytest.mark.parametrize(("program", "status"), [("raise SystemExit(7)", 7), ("pass", 1)])
def test_a_site_that_ends_by_itself(party, monkeypatch, program, status):
    monkeypatch.setattr(processes, "_command", lambda kit: [processes.sys.executable, "-c", program])
    said = []
    assert run_site(party, say=said.append) == status
    assert "ended by itself" in said[-1]
    assert (party.state / "log.txt").stat().st_mode & 0o077 == 0


# --- certificates of the kit itself -----------------------------------------------------------------------------------

CERTIFICATES = {
    "insurer": ["startup/server", "lead/startup/client", "identity/certificate"],
    "bank": ["startup/client", "identity/certificate"],
}
EACH = [(site, place) for site, places in CERTIFICATES.items() for place in places]


def files_of(folder, place):
    if place.startswith("identity/"):
        return folder / "identity" / "certificate.pem", folder / "identity" / "key.pem"
    return folder / f"{place}.crt", folder / f"{place}.key"


def opened(made, tmp_path, site):
    return Kit.open(shutil.copytree(made / site, tmp_path / site))


@pytest.fixture(scope="module")
def another(tmp_path_factory):
    """The kits of another federation, of the same names."""
    folder = tmp_path_factory.mktemp("another")
    (folder / "federation.toml").write_text(FEDERATION.format(port=9).replace("trial", "other"), encoding="utf-8")
    provision(folder / "federation.toml", folder / "out")
    return folder / "out"


@pytest.mark.parametrize(("site", "place"), EACH)
def test_a_key_of_another_certificate(made, another, tmp_path, site, place):
    """The key of another kit, with which every connection would fail and nobody would say why."""
    kit = opened(made, tmp_path, site)
    kit.check()
    key = files_of(kit.folder, place)[1]
    key.write_bytes(files_of(another / site, place)[1].read_bytes())
    with pytest.raises(ParameterError, match="this is not the key of") as told:
        kit.check()
    assert str(key) in str(told.value)
    key.write_bytes(b"no key")
    with pytest.raises(ParameterError, match="certificate or key cannot be read"):
        kit.check()


@pytest.mark.parametrize(("site", "place"), EACH)
def test_a_certificate_of_another_federation(made, another, tmp_path, site, place):
    kit = opened(made, tmp_path, site)
    for mine, theirs in zip(files_of(kit.folder, place), files_of(another / site, place), strict=True):
        mine.write_bytes(theirs.read_bytes())
    with pytest.raises(ParameterError, match=r"rootCA\.pem has not signed it"):
        kit.check()


@pytest.mark.parametrize("site", CERTIFICATES)
def test_a_certificate_that_is_not_yet_valid(made, tmp_path, monkeypatch, site):
    kit = opened(made, tmp_path, site)

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.datetime(2020, 1, 1, tzinfo=tz)

    monkeypatch.setattr(kit_module.datetime, "datetime", Clock)
    with pytest.raises(ParameterError, match=r"in the future\. Set the clock of this machine"):
        kit.check()


def test_the_startup_folder_of_another_site_is_refused_by_name(tmp_path):
    """It would connect under the other's name, and answer with this site's table."""
    file = tmp_path / "federation.toml"
    file.write_text(FEDERATION.format(port=8002) + '[[party]]\nname = "north"\n', encoding="utf-8")
    provision(file, tmp_path / "out")
    mine, theirs = tmp_path / "out" / "bank", tmp_path / "out" / "north"
    shutil.rmtree(mine / "startup")
    shutil.copytree(theirs / "startup", mine / "startup")
    with pytest.raises(ParameterError, match=r"certificate of 'north', and this is the kit of 'bank'.* two sites"):
        check_site(Kit.open(mine))
    fresh = Kit.open(theirs)
    fresh.check()
    for name in ("client.crt", "client.key"):
        shutil.copyfile(tmp_path / "out" / "insurer" / "lead" / "startup" / name, theirs / "startup" / name)
    with pytest.raises(ParameterError, match=r"the certificate of 'lead@coordinator\.invalid', and this is the kit of"):
        fresh.check()


@pytest.mark.parametrize("spaced", [False, True])
@pytest.mark.parametrize(
    ("command", "options", "wanted"),
    [
        ("party", ["--check"], "party"),
        ("coordinator", ["--check"], "coordinator"),
        ("train", ["--model", "logistic", "--epsilon", "1", "--delta", "1e-6"], "coordinator"),
        ("predict", ["RUN", "--out", "none.csv"], "coordinator"),
    ],
)
def test_a_kit_of_the_other_kind_is_answered_with_the_line_that_starts_it(
    made, tmp_path, command, options, wanted, spaced
):
    kind, name = ("coordinator", "insurer") if wanted == "party" else ("party", "bank")
    folder = shutil.copytree(made / name, tmp_path / ("of a site" if spaced else "site"))
    said = CliRunner().invoke(app, ["vertical", command, str(folder), *options])
    assert said.exit_code == 2
    line = " ".join(said.output.split())
    assert f"the kit of {name}, which is a {kind}. Give that of a {wanted}" in line
    typed = shlex.split(line.partition("started by: ")[2])
    assert typed == ["sottovoce", "vertical", kind, str(folder)]
