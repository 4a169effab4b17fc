"""Coordinators and parties that ask for what they must not have: refused at the site, written down there, and survived.

The attacks are real: the coordinator's processes run changed code (`support.hostile`), which takes every job, asks
nobody for leave, and sends what it likes. The parties run what is installed.
"""

import json
import re

import pytest

pytest.importorskip("nvflare", reason="parties in different organisations need the extra [vertical]")

from sottovoce.vertical.flare.jobs import job_files
from sottovoce.vertical.flare.runs import RunSpec, new_run_name
from support.federation import Columns, running_federation, until
from support.small_federation import PRIVATE, make_ledgers, sites

pytestmark = [
    pytest.mark.federation,
    pytest.mark.filterwarnings("ignore"),  # FLARE's own client, which submits the jobs here, uses what is deprecated
]

HOSTILE = ["-m", "support.changed_site", "coordinator"]
SECRET = "0.123456789012"


@pytest.fixture(scope="module")
def federation():
    with running_federation(sites(), prepare=make_ledgers, start=False) as federation:
        federation.start("lab", program=HOSTILE)
        federation.start("north", "bank")
        yield federation


def write_run(federation):
    """Write a run down that the changed coordinator attacks in."""
    spec = RunSpec(run=new_run_name(), parameters={"epsilon": 1.0, "delta": 1e-6})
    folder = spec.write(federation.coordinator / "runs")
    (folder / "attack.txt").touch()
    return spec, folder


def end_of(federation, change=lambda files: files):
    """Submit a job that ``change`` made of an honest one, and return what became of it, and the run's folder."""
    spec, folder = write_run(federation)
    files = change(job_files(spec, len(federation.names) - 1))
    with federation.lead() as session:
        job = federation.submit(session, files)
        meta = until(
            lambda: (got := session.get_job_meta(job)) and str(got["status"]).startswith("FINISHED") and got,
            what="the end of the job",
        )
    federation.wait_for_silence()
    return meta, folder


def changed(files, path, change):
    """Return the files of a job with one of them changed, as plain data."""
    content = json.loads(files[path])
    change(content)
    return {**files, path: json.dumps(content)}


def client(files, change):
    return changed(files, "app/config/config_fed_client.json", change)


CANARY = "canary.txt"


def ships_code(files, canary):
    code = f"import pathlib\npathlib.Path({str(canary)!r}).touch()\nclass Evil:\n    pass\n"
    files = client(files, lambda config: config["components"][0].update(path="evil.Evil", args={}))
    return {**files, "app/custom/evil.py": code, "app/custom/sitecustomize.py": code}


def ships_code_beside_an_honest_configuration(files, canary):
    return {**files, "app/custom/sitecustomize.py": f"import pathlib\npathlib.Path({str(canary)!r}).touch()\n"}


def names_another_class(files, canary):
    return client(files, lambda config: config["components"].append(
        {"id": "more", "path": "subprocess.Popen", "args": {"args": ["touch", str(canary)]}}
    ))  # fmt: skip


def asks_for_another_path(files, canary):
    def change(config):
        config["components"][0]["args"]["table"] = "/etc/passwd"

    return client(files, change)


def has_another_purpose(files, canary):
    def change(config):
        config["components"][0]["args"]["purpose"] = "../../train"

    return client(files, change)


def has_another_executor(files, canary):
    path = "nvflare.app_common.executors.launcher_executor.LauncherExecutor"
    return client(files, lambda config: config["executors"][0]["executor"].update(path=path, args={}))


def has_filters(files, canary):
    each = {"tasks": ["*"], "filters": [{"path": "nvflare.app_common.filters.statistics_privacy_filter.X", "args": {}}]}
    return client(files, lambda config: config.update(task_data_filters=[each], task_result_filters=[each]))


def serves_more_objects(files, canary):
    def change(config):
        config["components"].append(
            {"id": "more", "path": "sottovoce.vertical.flare.party.PartySite", "args": {"purpose": "score"}}
        )
        config["executors"][0]["executor"]["args"]["collab_obj_ids"] = ["more"]

    return client(files, change)


JOBS = [
    ships_code, ships_code_beside_an_honest_configuration, names_another_class, asks_for_another_path,
    has_another_purpose, has_another_executor, has_filters, serves_more_objects,
]  # fmt: skip


@pytest.mark.parametrize("attack", JOBS, ids=lambda attack: attack.__name__)
def test_a_job_that_asks_for_more_is_refused(federation, attack):
    """Nothing of it runs, no request reaches a party, and both parties say so in their own logs."""
    canary = federation.folder / CANARY
    before = {name: (len(federation.log(name)), len(federation.register(name))) for name in federation.names}
    charges = {name: len(federation.charges(name)) for name in federation.names[1:]}
    end_of(federation, lambda files: attack(files, canary))
    assert not canary.exists()
    for name in federation.names[1:]:
        logged, asked = before[name]
        fresh = federation.log(name)[logged:]
        assert re.search(r"refused|not permitted|not in allow_list|Unsafe|NotAuthorized", fresh), fresh[-3000:]
        answered = [entry for entry in federation.register(name)[asked:] if entry["outcome"] == "answered"]
        assert not answered, answered
        assert len(federation.charges(name)) == charges[name]


@pytest.fixture(scope="module")
def attacked(federation):
    """What all attacks by message brought, in one run."""
    before = {name: len(federation.register(name)) for name in federation.names[1:]}
    meta, folder = end_of(federation)
    assert (folder / "attack.json").exists(), f"{meta}\n{federation.logs()}"
    fresh = {name: federation.register(name)[before[name] :] for name in federation.names[1:]}
    return json.loads((folder / "attack.json").read_text()), fresh


def leaves(tree):
    return [leaf for value in tree.values() for leaf in leaves(value)] if isinstance(tree, dict) else [tree]


@pytest.mark.parametrize("attack", ["unlisted method", "unlisted target", "unlisted kind", "malformed", "not bytes"])
def test_nothing_but_requests_of_the_list_is_answered(attacked, attack):
    came, _ = attacked
    assert "error" not in came[attack], came[attack]
    for said in leaves(came[attack]):
        assert not said.startswith(("answered", "no bytes")), came[attack]
        assert "Traceback" not in said


def test_a_message_that_comes_again_is_not_answered_again(attacked):
    came, _ = attacked
    for said in came["replayed"].values():
        assert said["first"].startswith("answered")
        assert said["the same bytes"] is True
        assert said["second"].startswith("answered")
        assert "has been answered" in said["the first again"]
        assert "another request" in said["another second"]
        assert "step 3 is next" in said["a step left out"]
        assert "never begun" in said["a session never begun"]


def test_the_session_of_one_party_is_none_of_another(attacked):
    came, _ = attacked
    (said,) = came["session of another"].values()
    assert "never begun" in said


def test_what_the_owner_does_not_allow_is_refused(attacked):
    came, _ = attacked
    for said in came["unallowed"].values():
        assert said.startswith("refused: ")
        assert "score" in said


def test_every_refusal_is_in_the_register_of_the_site(attacked):
    _, fresh = attacked
    for name, entries in fresh.items():
        reasons = " ".join(entry["reason"] for entry in entries if entry["outcome"] != "answered")
        for text in ("has been answered", "never begun", "step 3 is next", "not a valid message", "is bytes"):
            assert text in reasons, (name, reasons)
        assert {entry["kind"] for entry in entries} >= {"malformed", "unknown"}


COMMANDS = [
    "ls {}", "pwd {}", "cat {} site.toml", "cat {} people.parquet", "head {} state/log.txt", "tail {} state/log.txt",
    "grep {} key startup/client.key", "cat {} /etc/hostname",
]  # fmt: skip


def test_nobody_runs_commands_at_a_party(federation):
    """Neither with FLARE's own commands nor with what its server sends once its checks are gone."""
    from nvflare.private.defs import SysCommandTopic, TrainingTopic

    kit = federation.kit("north")
    files = sorted(path.relative_to(kit) for path in kit.rglob("*"))
    logged = len(federation.log("north"))
    asked = federation.folder / "commands.json"
    asked.write_text(json.dumps([
        *([SysCommandTopic.SHELL, command.format("").replace("  ", " ").strip(), None] for command in COMMANDS),
        [SysCommandTopic.SHELL, "ls -l", None], [SysCommandTopic.SYS_INFO, "", None],
        [SysCommandTopic.REPORT_ENV, "", None], [SysCommandTopic.CONFIGURE_SITE_LOG, "DEBUG", None],
        [TrainingTopic.CONFIGURE_JOB_LOG, "DEBUG", None], [TrainingTopic.RESTART, "", None],
        [TrainingTopic.SHUTDOWN, "", None], [TrainingTopic.DELETE_RUN, "", "state"],
        [TrainingTopic.DEPLOY, "", "local"],
    ]))  # fmt: skip
    (federation.coordinator / "commands.json").write_text(asked.read_text())
    answers = until(lambda: _read(federation.coordinator / "answers.json"), what="answers to commands")
    assert len(answers) == 2 * len(json.loads(asked.read_text()))
    for said in answers:
        assert re.search(r"refused|not answered|not authorized|AUTHENTICATION|None", said), said
        assert "PRIVATE KEY" not in said
        assert "drwx" not in said
    fresh = federation.log("north")[logged:]
    assert fresh.count("refused") >= len(answers) // 2, fresh
    assert sorted(path.relative_to(kit) for path in kit.rglob("*")) == files
    assert federation.processes("north", "main")


def _read(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


@pytest.mark.parametrize("command", ["ls north", "cat north log.txt", "tail north log.txt", "sys_info client north"])
def test_the_lead_gets_nothing_of_a_party(federation, command):
    with federation.lead() as session:
        try:
            came = str(session.do_command(command))
        except Exception as error:
            came = str(error)
    assert "site.toml" not in came
    assert "worker_process" not in came
    assert re.search("refused|not answered|not authorized|error|invalid", came.lower()), came


def test_a_party_does_not_answer_another_party():
    """Within a run the parties are connected by FLARE; each answers the coordinator alone."""
    with running_federation(sites(), prepare=make_ledgers, start=False) as federation:
        federation.start("lab", "north")
        federation.start("bank", program=["-m", "support.changed_site", "calls_others"])
        said = federation.train(*PRIVATE, fails=True).stderr
        assert "'north' turned away 1 of the requests" in " ".join(said.split()), said
        heard = json.loads((federation.kit("bank") / "heard.json").read_text())
        assert not heard["north"].startswith("answered"), heard
        assert "answers the coordinator alone" in " ".join(federation.refusals("north"))
        assert "bank" in " ".join(federation.refusals("north"))


def test_the_lead_of_another_federation_is_nobody_here(federation):
    """Same names, same host and port; certificates of another authority."""
    with (
        running_federation(sites(), start=False, port=federation.port) as other,
        pytest.raises(Exception, match="") as caught,
        other.lead(timeout=10.0),
    ):
        pytest.fail("it was let in")
    assert not isinstance(caught.value, AssertionError)


def test_sites_go_on_after_all_of_that(federation):
    """An honest run, with the parties that were attacked."""
    federation.train(*PRIVATE)
    for name in federation.names[1:]:
        assert federation.register(name)[-1]["outcome"] == "answered"


def test_nothing_of_a_table_is_in_logs_and_registers():
    """A number that stands in the table and nowhere else is in no file of a run but the table."""
    made = sites()
    X = made["north"].X.copy()
    X[:, 0] = float(SECRET)
    made["north"] = Columns(X=X, settings=made["north"].settings)
    with running_federation(made, prepare=make_ledgers) as federation:
        federation.train(*PRIVATE)
        federation.stop()
        found = [
            path for name in federation.names for path in federation.kit(name).rglob("*")
            if path.is_file() and path.name != "people.parquet" and SECRET.encode() in path.read_bytes()
        ]  # fmt: skip
        assert not found
