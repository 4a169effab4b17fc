"""Coordinators and parties that ask for what they must not have: refused at the site, written down there, and survived.

The attacks are real: the coordinator's processes run changed code (`support.hostile`), which takes every job, asks
nobody for leave, and sends what it likes. The parties run what is installed. Here is what FLARE could let through; each
job that is no job of ours is tried on `guard.why_not_deployed`, each message on gates and parties in one process.
"""

import json
import re

import pytest

pytest.importorskip("nvflare", reason="parties in different organisations need the extra [vertical]")

from sottovoce.vertical.flare.jobs import job_files
from sottovoce.vertical.flare.runs import RunSpec, new_run_name
from support.federation import running_federation, until
from support.small_federation import PRIVATE, make_ledgers, sites

pytestmark = [
    pytest.mark.federation,
    pytest.mark.filterwarnings("ignore"),  # FLARE's own client, which submits the jobs here, uses what is deprecated
]


@pytest.fixture(scope="module")
def federation():
    with running_federation(sites(), prepare=make_ledgers, start=False) as federation:
        federation.start("lab", program=["-m", "support.changed_site", "coordinator"])
        federation.start("north", "bank")
        yield federation


def attacked(federation, change=lambda files: files):
    """Submit a job that ``change`` made of an honest one; return its run's folder and what parties were asked."""
    before = {name: len(federation.register(name)) for name in federation.names[1:]}
    spec = RunSpec(run=new_run_name(), parameters={"epsilon": 1.0, "delta": 1e-6})
    folder = spec.write(federation.coordinator / "runs")
    (folder / "attack.txt").touch()
    packed = federation.folder / spec.run
    for name, text in change(job_files(spec, federation.names[1:])).items():
        path = packed / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    with federation.lead() as session:
        job = session.submit_job(str(packed))
        until(lambda: str(session.get_job_meta(job)["status"]).startswith("FINISHED"), what="the end of the job")
    federation.wait_for_silence()
    return folder, {name: federation.register(name)[before[name] :] for name in federation.names[1:]}


def ships_code(files, canary):
    """Beside an honest configuration."""
    return {**files, "app/custom/sitecustomize.py": f"import pathlib\npathlib.Path({str(canary)!r}).touch()\n"}


def names_another_class(files, canary):
    path = "app/config/config_fed_client.json"
    config = json.loads(files[path])
    config["components"].append({"id": "more", "path": "subprocess.Popen", "args": {"args": ["touch", str(canary)]}})
    return {**files, path: json.dumps(config)}


@pytest.mark.parametrize("attack", [ships_code, names_another_class], ids=lambda attack: attack.__name__)
def test_a_job_that_asks_for_more_is_refused(federation, attack):
    """Nothing of it runs, no request reaches a party, and both parties say so in their own logs."""
    canary = federation.folder / "canary.txt"
    before = {name: (len(federation.log(name)), len(federation.charges(name))) for name in federation.names[1:]}
    _, asked = attacked(federation, lambda files: attack(files, canary))
    assert not canary.exists()
    for name, (logged, charged) in before.items():
        fresh = federation.log(name)[logged:]
        assert re.search(r"refused|not permitted|not in allow_list|Unsafe|NotAuthorized", fresh), fresh[-3000:]
        assert not [entry for entry in asked[name] if entry["outcome"] == "answered"]
        assert len(federation.charges(name)) == charged


def test_nothing_but_requests_of_the_list_is_answered(federation):
    folder, asked = attacked(federation)
    assert (folder / "attack.json").exists(), federation.logs()
    for attack, came in json.loads((folder / "attack.json").read_text()).items():
        assert len(came) >= 10 and "error" not in came, came
        for said in came.values():
            assert not said.startswith("answered"), came
            assert "Traceback" not in said
            assert attack == "unlisted" or "a request is bytes" in said
    for entries in asked.values():
        assert "is bytes" in " ".join(entry["reason"] for entry in entries if entry["outcome"] == "turned away")


def test_nobody_runs_commands_at_a_party(federation):
    """Neither with FLARE's own commands nor with what its server sends once its checks are gone."""
    from nvflare.private.defs import SysCommandTopic, TrainingTopic

    kit = federation.kit("north")
    files = sorted(path.relative_to(kit) for path in kit.rglob("*"))
    logged = len(federation.log("north"))
    commands = [
        *([SysCommandTopic.SHELL, command, None] for command in (
            "ls", "ls -l", "pwd", "cat site.toml", "head state/log.txt", "grep key startup/client.key",
        )),
        [SysCommandTopic.SYS_INFO, "", None], [SysCommandTopic.REPORT_ENV, "", None],
        [SysCommandTopic.CONFIGURE_SITE_LOG, "DEBUG", None], [TrainingTopic.CONFIGURE_JOB_LOG, "DEBUG", None],
        [TrainingTopic.RESTART, "", None], [TrainingTopic.SHUTDOWN, "", None],
        [TrainingTopic.DELETE_RUN, "", "state"], [TrainingTopic.DEPLOY, "", "local"],
    ]  # fmt: skip
    (federation.coordinator / "commands.json").write_text(json.dumps(commands))
    answers = json.loads(until(lambda: _text(federation.coordinator / "answers.json"), what="answers to commands"))
    assert len(answers) == 2 * len(commands)
    for said in answers:
        assert re.search(r"refused|not answered|not authorized|AUTHENTICATION|None", said), said
        assert "PRIVATE KEY" not in said and "drwx" not in said
    fresh = federation.log("north")[logged:]
    assert fresh.count("refused") >= len(commands), fresh
    assert sorted(path.relative_to(kit) for path in kit.rglob("*")) == files
    assert federation.processes("north", "main")
    with federation.lead() as session:
        for command in ("ls north", "cat north log.txt", "sys_info client north"):
            try:
                came = str(session.do_command(command))
            except Exception as error:
                came = str(error)
            assert "site.toml" not in came and "worker_process" not in came
            assert re.search("refused|not answered|not authorized|error|invalid", came.lower()), came


def _text(path):
    return path.exists() and path.read_text()


def test_sites_go_on_after_all_of_that(federation):
    """An honest run, with the parties that were attacked."""
    federation.train(*PRIVATE)
    for name in federation.names[1:]:
        assert federation.register(name)[-1]["outcome"] == "answered"
