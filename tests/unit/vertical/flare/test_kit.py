"""A site is not started from a kit that was opened up: every setting, file and permission that closes it."""

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
from sottovoce.exceptions import ParameterError, SottovoceWarning
from sottovoce.vertical.flare import kit as kit_module
from sottovoce.vertical.flare import processes
from sottovoce.vertical.flare.hardening.closed import ALLOWED_CLASSES
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
    ("authorization.json", "permissions.lead.byoc", "any"),
    ("authorization.json", "permissions.lead.shell_commands", "o:site"),
    ("authorization.json", "permissions.lead.manage_job", "any"),
    ("authorization.json", "permissions.lead.configure_job_log", "any"),
    ("authorization.json", "permissions.project_admin", "any"),
    ("authorization.json", "permissions.somebody", "any"),
    ("resources.json", "class_allow_list", ["*"]),
    ("resources.json", "class_allow_list[0]", "nvflare."),
    ("resources.json", "class_list_enforcement_mode", "warn"),
    ("resources.json", "allow_log_streaming", True),
    ("resources.json", "allow_log_streaming", 0),
    ("resources.json", "components", []),
    ("log_config.json", "handlers.console.()", "subprocess.Popen"),
]


@pytest.mark.parametrize(("name", "entry", "value"), OPENED)
def test_a_setting_that_was_opened(party, name, entry, value):
    party.check_closed()
    change(party.folder / "local" / name, entry, value)
    with pytest.raises(ParameterError) as told:
        party.check_closed()
    assert str(party.folder / "local" / name) in str(told.value)
    assert f": {entry} is {json.dumps(value)[:90]}" in str(told.value)
    assert "Take the file from the kit" in str(told.value)


def test_a_party_runs_its_jobs_through_the_guard(party):
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
    (party.folder / place).write_text("{}")
    (party.folder / place).chmod(0o600)
    with pytest.raises(ParameterError, match="not a file of the kit"):
        party.check_closed()


@pytest.mark.parametrize("place", ["local/authorization.json", "startup/client.key", "startup/rootCA.pem"])
def test_a_file_that_is_gone(party, place):
    (party.folder / place).unlink()
    with pytest.raises(ParameterError, match=f"{place}: missing"):
        party.check_closed()


@pytest.mark.parametrize("place", ["", "startup/client.key", "local/resources.json", "state", "startup"])
def test_what_others_could_read(party, place):
    path = party.folder / place
    path.chmod(path.stat().st_mode | 0o040)
    with pytest.raises(ParameterError, match="chmod -R go="):
        party.check_closed()


@pytest.mark.parametrize(("name", "entry"), [("coordinator", "servers[0]"), ("party", "client")])
@pytest.mark.parametrize("value", ["tls", "clear"])
def test_a_connection_without_certificates_of_both(request, name, entry, value):
    kit = request.getfixturevalue(name)
    startup = "fed_server.json" if name == "coordinator" else "fed_client.json"
    change(kit.folder / "startup" / startup, f"{entry}.connection_security", value)
    with pytest.raises(ParameterError, match=f'connection_security is {value!r} and must be "mtls"'):
        kit.check_closed()


def test_damaged_files(party):
    (party.folder / "local" / "authorization.json").write_text("{")
    with pytest.raises(ParameterError, match=r"authorization\.json: cannot be read as JSON"):
        party.check_closed()
    (party.folder / "startup" / "fed_client.json").write_text("[]")
    with pytest.raises(ParameterError, match="not a JSON object"):
        Kit.open(party.folder)


def test_a_kit_that_moves(coordinator, tmp_path):
    """FLARE wants absolute paths of the coordinator's stores: they follow the kit, and nothing else is accepted."""
    resources = coordinator.folder / "local" / "resources.json"
    assert str(coordinator.state) not in resources.read_text()
    coordinator.settle()
    coordinator.check_closed()
    assert f'"uri_root": "{coordinator.state / "jobs"}"' in resources.read_text()
    moved = Kit.open(coordinator.folder.rename(tmp_path / "elsewhere"))
    moved.check_closed()
    moved.settle()
    moved.check_closed()
    assert str(moved.state / "snapshots") in (moved.folder / "local" / "resources.json").read_text()
    for elsewhere in ("/tmp/nvflare/jobs-storage", "state/jobs"):
        change(moved.folder / "local" / "resources.json", "components[1].args.uri_root", elsewhere)
        with pytest.raises(ParameterError, match="uri_root is"):
            moved.check_closed()


def test_only_the_classes_of_a_run_may_be_named(coordinator, party):
    for kit in (coordinator, party):
        listed = json.loads((kit.folder / "local" / "resources.json").read_text())["class_allow_list"]
        assert listed == ALLOWED_CLASSES[kit.kind]
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
                party.check_closed()
        case "ends":
            with pytest.warns(SottovoceWarning, match=f"ends on {party.expires:%Y-%m-%d}"):
                party.check_closed()
        case _:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                party.check_closed()


def test_what_is_no_kit(tmp_path, party):
    with pytest.raises(ParameterError, match="not a start-up kit"):
        Kit.open(tmp_path)
    change(party.folder / "startup" / "fed_client.json", "client.fqsn", "insurer")
    with pytest.raises(ParameterError, match="fqsn is 'insurer'"):
        Kit.open(party.folder)


# ------------------------------------------------------------------ starting


def test_an_opened_site_is_not_started(party, monkeypatch):
    monkeypatch.setattr(processes.subprocess, "Popen", lambda *a, **k: pytest.fail("it was started"))
    change(party.folder / "local" / "authorization.json", "permissions.lead.byoc", "any")
    with pytest.raises(ParameterError, match="byoc"):
        run_site(party)


def test_a_port_that_is_taken(coordinator):
    check_site(coordinator)
    port = coordinator.federation.port
    taken = pytest.raises(ParameterError, match=f"port {port}: Address already in use")
    with socket.create_server(("localhost", port)), taken:
        check_site(coordinator)


def test_a_site_runs_once(party, monkeypatch):
    monkeypatch.setattr(processes, "_run", lambda kit, say: run_site(kit))
    with pytest.raises(ParameterError, match="running already"):
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
    kit.check_closed()
    key = files_of(kit.folder, place)[1]
    key.write_bytes(files_of(another / site, place)[1].read_bytes())
    with pytest.raises(ParameterError, match="this is not the key of") as told:
        kit.check_closed()
    assert str(key) in str(told.value)
    key.write_bytes(b"no key")
    with pytest.raises(ParameterError, match="certificate or key cannot be read"):
        kit.check_closed()


@pytest.mark.parametrize(("site", "place"), EACH)
def test_a_certificate_of_another_federation(made, another, tmp_path, site, place):
    kit = opened(made, tmp_path, site)
    for mine, theirs in zip(files_of(kit.folder, place), files_of(another / site, place), strict=True):
        mine.write_bytes(theirs.read_bytes())
    with pytest.raises(ParameterError, match=r"rootCA\.pem has not signed it"):
        kit.check_closed()


@pytest.mark.parametrize("site", CERTIFICATES)
def test_a_certificate_that_is_not_yet_valid(made, tmp_path, monkeypatch, site):
    kit = opened(made, tmp_path, site)

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.datetime(2020, 1, 1, tzinfo=tz)

    monkeypatch.setattr(kit_module.datetime, "datetime", Clock)
    with pytest.raises(ParameterError, match=r"in the future\. Set the clock of this machine"):
        kit.check_closed()


def test_the_startup_folder_of_another_site_is_refused_by_name(tmp_path):
    """It would connect under the other's name, and answer with this site's table."""
    file = tmp_path / "federation.toml"
    file.write_text(FEDERATION.format(port=8002) + '[[party]]\nname = "north"\n', encoding="utf-8")
    provision(file, tmp_path / "out")
    mine, theirs = tmp_path / "out" / "bank", tmp_path / "out" / "north"
    shutil.rmtree(mine / "startup")
    shutil.copytree(theirs / "startup", mine / "startup")
    with pytest.raises(ParameterError, match=r"certificate of 'bank', and this is the kit of 'north'.* two sites"):
        check_site(Kit.open(mine))
    fresh = Kit.open(theirs)
    fresh.check_closed()
    for name in ("client.crt", "client.key"):
        shutil.copyfile(tmp_path / "out" / "insurer" / "lead" / "startup" / name, theirs / "startup" / name)
    with pytest.raises(ParameterError, match=r"the certificate of 'lead@coordinator\.invalid', and this is the kit of"):
        fresh.check_closed()


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
