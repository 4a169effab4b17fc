"""What stands in containers/ and systemd/ names commands, options, ports, paths and packages that exist."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

pytest.importorskip("starlette")
import sottovoce
from sottovoce.cli import app
from sottovoce.local.collector.intake import Limits
from sottovoce.local.collector.service import make_app
from sottovoce.local.collector.storage import ReportStore
from support.collector import PROTOCOL
from support.in_process import InProcessClient

ROOT = Path(sottovoce.__file__).parent.parent.parent
DOCKERFILE = (ROOT / "containers/Dockerfile").read_text(encoding="utf-8")
COMPOSE = {path.parent.name: yaml.safe_load(path.read_text()) for path in ROOT.glob("containers/*/compose.yaml")}
NGINX = (ROOT / "containers/collector/nginx.conf").read_text(encoding="utf-8")
UNITS = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "systemd").glob("*.service")}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def stages():
    """Every stage of the Dockerfile: its name, and its instructions as (word, rest)."""
    lines = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE)).splitlines()
    found = {}
    for word, rest in (line.split(maxsplit=1) for line in lines if line.strip()):
        if word == "FROM":
            current = found[rest.split()[-1]] = []
        elif found:
            current.append((word, rest))
    return found


STAGES = stages()
IMAGES = ("library", "collector", "party")


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """What images, compositions and units name the database by: without it the commands would lack an option."""
    monkeypatch.setenv("SOTTOVOCE_DATABASE", "sqlite:///reports.db")


def last(stage, word):
    return next(rest for found, rest in reversed(STAGES[stage]) if found == word)


def words(stage, word):
    return yaml.safe_load(last(stage, word))


def command(image, arguments):
    """The command line of `sottovoce` that a container of the image runs."""
    whole = [*words(image, "ENTRYPOINT"), *arguments]
    assert whole[0] == "sottovoce"
    return whole[1:]


def check_command(arguments):
    """Parse a command line as it would be parsed, and return its values by name."""
    group, path = get_command(app), []
    context = group.make_context("sottovoce", list(arguments), resilient_parsing=True)
    while hasattr(group, "get_command"):
        rest = [*context._protected_args, *context.args] if hasattr(context, "_protected_args") else context.args
        path.append(rest[0])
        group = group.get_command(context, rest[0])
        assert group is not None, path
        nested = hasattr(group, "get_command")
        context = group.make_context(rest[0], rest[1:], parent=context, resilient_parsing=nested)
    return context.params


# ------------------------------------------------------------------ images


@pytest.mark.parametrize("image", IMAGES)
def test_images_run_as_nobody_with_rights(image):
    assert last(image, "USER") == "10001:10001"
    instructions = [word for word, _ in STAGES[image]]
    assert instructions.index("USER") > max(n for n, word in enumerate(instructions) if word in ("RUN", "COPY"))
    assert "HEALTHCHECK" in instructions


@pytest.mark.parametrize("image", ["build-library", "build-collector", "build-party"])
def test_images_hold_pinned_versions(image):
    assert ("ENV", "PIP_CONSTRAINT=/source/requirements-dev.lock") in [
        (word, rest.split()[0]) for word, rest in STAGES["source"]
    ]
    lock = (ROOT / "requirements-dev.lock").read_text()
    for extras in re.findall(r"'\.\[([\w,]+)\]'", " ".join(rest for _, rest in STAGES[image])):
        assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()
        for requirement in [line for extra in extras.split(",") for line in PROJECT["optional-dependencies"][extra]]:
            name = re.match(r"[\w-]+", requirement)[0]
            assert re.search(rf"^{name}(\[\w+\])?==", lock, re.MULTILINE), requirement


def test_the_collector_imports_no_more_than_its_image_has(tmp_path):
    """It runs without the packages that compute."""
    (listed,) = re.findall(r"pip install (numpy .*?)$", last("build-collector", "RUN"))
    installed = {re.match(r"[\w-]+", name)[0] for name in shlex.split(listed)}
    needs = {re.match(r"[\w-]+", line)[0] for line in PROJECT["dependencies"]}
    modules = {"scikit-learn": "sklearn", "dp-accounting": "dp_accounting"}
    absent = sorted({"pandas", "pyarrow"} | {modules.get(name, name) for name in needs if name not in installed})
    assert {"scipy", "sklearn", "numba"} <= set(absent)
    (tmp_path / "protocol.json").write_text(PROTOCOL.to_json())
    code = (
        f"import sys\nfor name in {absent}: sys.modules[name] = None\n"
        "import os, signal, sottovoce.local.collector.server as server\n"
        "tell = server.address_of\n"
        "server.address_of = lambda *a: (signal.setitimer(signal.ITIMER_REAL, 1.0), tell(*a))[1]\n"
        "signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGTERM))\n"
        "from sottovoce.cli import main\nmain()"
    )
    options = ["--database", "reports.db", "--port", "0", "--operator-key", "key", "--operator-port", "0"]
    done = subprocess.run(
        [sys.executable, "-c", code, "local", "collect", "protocol.json", *options],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "stopped; all that was acknowledged is stored" in done.stdout, done.stderr
    done = subprocess.run(
        [sys.executable, "-c", code, "local", "tokens", "protocol.json", "--key", "t", "--count", "2", "--out", "o"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_commands_of_the_images():
    collect = check_command(command("collector", words("collector", "CMD")))
    assert collect["host"] == "0.0.0.0"
    assert str(collect["token_key"]).startswith("/survey/")
    assert last("collector", "EXPOSE").split() == [str(collect["port"]), str(collect["operator_port"])]
    assert str(check_command(command("party", words("party", "CMD")))["kit"]) == "/kit"
    assert "SOTTOVOCE_DATABASE=sqlite:////data/reports.db" in last("collector", "ENV")


def test_the_health_check_asks_what_is_answered(tmp_path):
    check = last("collector", "HEALTHCHECK")
    port, path = re.search(r"http://127\.0\.0\.1:(\d+)(/\w+)", check).groups()
    assert port in last("collector", "EXPOSE").split()
    with (
        ReportStore(str(tmp_path / "reports.db"), PROTOCOL, create=True) as store,
        InProcessClient(make_app(PROTOCOL, store)) as client,
    ):
        assert client.get(path).status_code == 200


# ------------------------------------------------------------------ compositions


def test_compositions_are_as_closed_as_they_can_be():
    ours = [
        service for file in COMPOSE.values() for service in file["services"].values()
        if service["image"].startswith(("sottovoce", "nginx"))
    ]  # fmt: skip
    assert len(ours) == 5
    for service in ours:
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert any(path.startswith("/tmp") for path in service["tmpfs"])


def test_the_composition_of_a_collector():
    services = COMPOSE["collector"]["services"]
    collector = services["collector"]
    assert collector["build"]["target"] == "collector"
    values = check_command(command("collector", collector["command"]))
    mounted = [volume.split(":")[1] for volume in collector["volumes"]]
    for name in ("protocol", "token_key", "static", "operator_key"):
        assert any(str(values[name]).startswith(f"{folder}/") for folder in mounted), name
    assert collector["ports"] == [f"127.0.0.1:{values['operator_port']}:{values['operator_port']}"]
    assert f"proxy_pass http://collector:{values['port']};" in NGINX
    assert services["proxy"]["ports"] == ["443:" + re.search(r"listen (\d+) ssl", NGINX)[1]]
    database = services["database"]["environment"]
    address = collector["environment"]["SOTTOVOCE_DATABASE"]
    assert address.startswith(f"postgresql://{database['POSTGRES_USER']}:")
    assert address.endswith(f"@database/{database['POSTGRES_DB']}")
    assert COMPOSE["collector"]["networks"]["back"] == {"internal": True}
    assert services["database"]["networks"] == ["back"]


def test_the_proxy_lets_through_what_the_collector_takes_and_writes_nothing_down():
    assert "access_log off;" in NGINX
    size = int(re.search(r"client_max_body_size (\d+)k;", NGINX)[1]) * 1000
    assert size >= Limits().max_body
    assert int(re.search(r"proxy_read_timeout (\d+)s;", NGINX)[1]) > Limits().write_seconds
    assert "error_log /dev/stderr emerg;" in NGINX
    assert not re.findall(r"X-(?:Forwarded|Real)", NGINX)


def test_the_composition_of_a_federation():
    federation = tomllib.loads((ROOT / "containers/vertical/federation.toml").read_text())
    services = COMPOSE["vertical"]["services"]
    sites = [federation["coordinator"]["name"], *(party["name"] for party in federation["party"])]
    assert list(services) == sites
    assert federation["coordinator"]["host"] == sites[0]
    for name, service in services.items():
        kind = "status" if name == sites[0] else "party"  # it trains where it is run, and is no service
        path, *rest = command("party", service["command"])[1:]
        assert (path, rest) == (kind, ["/kit"])
        check_command(command("party", service["command"]))
        assert service["volumes"] == [f"./kits/{name}:/kit"]
    assert last("party", "EXPOSE") == str(federation["coordinator"]["port"])


# ------------------------------------------------------------------ units


def settings(unit):
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", UNITS[unit], flags=re.MULTILINE))
    found = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


def test_the_unit_of_a_collector():
    unit = settings("sottovoce-collector.service")
    program, *arguments = shlex.split(unit["ExecStart"][0])
    assert program == "/opt/sottovoce/bin/sottovoce"
    values = check_command(arguments)
    given = {value.partition(":")[0] for value in unit["LoadCredential"]}
    for name in ("token_key", "operator_key"):
        assert str(values[name]).removeprefix("${CREDENTIALS_DIRECTORY}/") in given
    assert unit["Environment"] == [f"SOTTOVOCE_DATABASE=sqlite:///{unit['WorkingDirectory'][0]}/reports.db"]
    assert unit["WorkingDirectory"] == [f"/var/lib/{unit['StateDirectory'][0]}"]


def test_the_unit_of_a_site():
    unit = settings("sottovoce-site@.service")
    line = unit["ExecStart"][0].replace("%i", "north")
    assert str(check_command(shlex.split(line)[1:])["kit"]) == "/var/lib/sottovoce/north"
    assert unit["ReadWritePaths"] == unit["WorkingDirectory"] == ["/var/lib/sottovoce/%i"]


@pytest.mark.parametrize("unit", list(UNITS))
def test_units_take_rights_away(unit):
    found = settings(unit)
    assert found["User"] == ["sottovoce"]
    assert found["UMask"] == ["0077"]
    for name in ("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome", "RestrictNamespaces"):
        assert found[name] == ["yes"]
    assert found["ProtectSystem"] == ["strict"]
    assert found["CapabilityBoundingSet"] == [""]
