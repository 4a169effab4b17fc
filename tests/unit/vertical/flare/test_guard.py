"""What the guard takes away from FLARE: requests, settings and files that a run brought; how processes end."""

import io
import json
import os
import re
import subprocess
import sys
import textwrap
import threading
import zipfile
from pathlib import Path

import psutil
import pytest

import sottovoce
from sottovoce.vertical.flare.hardening import waits
from sottovoce.vertical.flare.hardening.closed import job_text
from sottovoce.vertical.flare.hardening.guard import end_with_parent, why_not_deployed, why_refused
from support.waiting import until

CONFIGURATION = ("config/config_fed_client.json", "config/config_fed_server.json")
OURS = job_text("client", purpose="train")
SIGNATURES = (".__nvfl_sig.json", ".__nvfl_submitter.crt", "config/.__nvfl_sig.json", "config/.__nvfl_submitter.crt")


def packed(*names, content=OURS):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as app:
        for name in names:
            app.writestr(name, content)
    return buffer.getvalue()


def test_a_run_brings_its_configuration():
    for purpose in ("train", "score"):
        ours = job_text("client", purpose=purpose)
        assert why_not_deployed(packed(*CONFIGURATION, *SIGNATURES, content=ours)) == ""
        assert why_not_deployed(packed("config/", *CONFIGURATION, content=ours)) == ""
    assert "its configuration is not that of a job" in why_not_deployed(packed(CONFIGURATION[1]))


@pytest.mark.parametrize("name", [
    "custom/evil.py", "config/evil.py", "config/comm_config.json", "config/config_fed_client.conf", "resources.json",
    "config/custom/", "../config/config_fed_client.json", "/config/config_fed_client.json",
    "config/resources.json.default",
])  # fmt: skip
def test_a_run_brings_nothing_else(name):
    assert "brings its configuration alone" in why_not_deployed(packed(*CONFIGURATION, name))


@pytest.mark.parametrize("kind", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_file_with_any_byte_turned_is_refused_in_words(kind):
    """However it is compressed: none of it ends in an error of a library."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", kind) as app:
        for name in CONFIGURATION:
            app.writestr(name, OURS)
    whole = buffer.getvalue()
    assert why_not_deployed(whole) == ""
    for place in range(len(whole)):
        said = why_not_deployed(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        assert isinstance(said, str)


def test_what_is_no_configuration():
    for other in (b"", b"PK", "text", None, packed(*CONFIGURATION)[:-30]):
        assert "no zip file" in why_not_deployed(other)
    assert "1,000,000 bytes" in why_not_deployed(packed(*CONFIGURATION, content="0" * 600_000))


PARTY = json.loads(OURS)["components"][0]


@pytest.mark.parametrize("content", [
    "", "{}", OURS.replace("train", "sell"), OURS.replace('"train"', "3"), OURS + " ",
    *(json.dumps({**json.loads(OURS), **changes}) for changes in (
        {"handlers": []}, {"executors": []}, {"components": [PARTY, {**PARTY, "id": "other"}]},
        {"components": [{**PARTY, "path": "subprocess.Popen"}]},
        {"components": [{**PARTY, "args": {"purpose": "{$HOME}"}}]},
    )),
])  # fmt: skip
def test_a_job_that_is_not_ours_to_the_letter_is_not_taken(content):
    assert "its configuration is not that of a job" in why_not_deployed(packed(*CONFIGURATION, content=content))
    twice = io.BytesIO(packed(*CONFIGURATION))
    with zipfile.ZipFile(twice, "a") as app, pytest.warns(UserWarning, match="Duplicate name"):
        app.writestr(CONFIGURATION[0], content)
    assert "its configuration is not that of a job" in why_not_deployed(twice.getvalue())


def test_only_the_hardening_and_the_carrier_know_what_flare_calls_private():
    """Everything else rests on its documented doors, so that a newer FLARE moves nothing outside this one folder."""
    package = Path(sottovoce.__file__).parent
    public = ("nvflare.collab", "nvflare.lighter", "nvflare.fuel.flare_api", "nvflare.app_common.job_launcher")
    found = set()
    for path in package.rglob("*.py"):
        place = path.relative_to(package).as_posix()
        if place.startswith("vertical/flare/hardening/") or place == "vertical/flare/coordinator.py":
            continue
        found |= {
            (place, name)
            for name in re.findall(r"\bnvflare(?:\.\w+)+", path.read_text(encoding="utf-8"))
            if not name.startswith(public)
        }
    assert found == set()


# ------------------------------------------------------------------ requests to a site's process

JOB = "82e6a52a-f79b-420c-90af-77832a770dac"
STATUS = "train.notify_job_status"
NO_REQUEST, NO_JOB, NOT_HIS = "a party answers requests of runs only", "it names a job by what is no", "only the coord"


@pytest.mark.parametrize(
    ("topic", "origin", "job", "said"),
    [
        *((topic, "server", JOB, "") for topic in ("scheduler.check_resource", "train.deploy", "train.start_job")),
        *(("train.abort", other, JOB, NOT_HIS) for other in (
            "bank", f"bank.{JOB}", f"server.{JOB}", f"north.{JOB}", None,
        )),
        (STATUS, f"north.{JOB}", JOB, ""),
        *((STATUS, other, JOB, NOT_HIS) for other in ("bank", f"bank.{JOB}", f"north.{JOB[::-1]}", "north")),
        # FLARE deletes the folder of a job's name before it unpacks the job
        *(("train.deploy", "server", job, NO_JOB) for job in (
            "state", "../north", ".", JOB + "x", JOB.upper(), 7,
        )),
        *((topic, "server", JOB, NO_REQUEST) for topic in (
            "sys.shell", "train.restart", "train.configure_job_log", "new", "", None, ["x"], 3,
        )),
    ],
)  # fmt: skip
def test_requests_of_runs_are_the_coordinators_and_a_run_tells_how_its_own_job_goes(topic, origin, job, said):
    assert why_refused(topic, origin, job, "north").startswith(said)
    assert bool(why_refused(topic, origin, job, "north")) == bool(said)


def run(program, folder):
    """Run it in a process of its own: the guard changes FLARE for good."""
    pytest.importorskip("nvflare", reason="the guard is for the extra [vertical]")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], cwd=folder, capture_output=True, text=True, timeout=120,
        check=False, env=dict(os.environ),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


PROGRAMS = {
    # the process of a run would begin a second later with scikit-learn, half of all that it would load
    "a party's process": """
        import sys
        import sottovoce.vertical.flare.party
        print({'sklearn', 'scipy.stats', 'pandas'} & {*sys.modules})
        """,
    "settings": """
        from pathlib import Path
        from nvflare.fuel.utils.config_factory import ConfigFactory
        def look():
            for name, places in (("comm_config.json", ["kit"]), ("comm_config.json", []), ("settings.json", ["kit"]),
                                 ("kit/elsewhere/settings.json", None), ("settings.json", ["kit/run/app/config"])):
                found = ConfigFactory.load_config(name, places)
                print(None if found is None else found.to_dict()["from"])
        look()
        from sottovoce.vertical.flare.hardening.guard import read_settings_of_the_kit_alone
        read_settings_of_the_kit_alone(Path("kit"))
        look()
        """,
    "requests": """
        from types import SimpleNamespace as Thing
        from nvflare.fuel.f3.cellnet.cell import Message as CellMessage
        from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
        from nvflare.private.admin_defs import Message, ok_reply
        from nvflare.private.defs import RequestHeader, TrainingTopic
        from nvflare.private.fed.client.admin import FedAdminAgent
        from nvflare.private.fed.client.admin_commands import AdminCommands
        from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors
        from sottovoce.vertical.flare.hardening.guard import _OF_JOB, guard
        FedAdminAgent._dispatch_request = lambda self, request: Thing(payload=ok_reply(body=request.payload.topic))
        guard()
        agent = Thing(app_ctx=Thing(get_client_name=lambda: "north"))
        topics = {topic for one in ClientRequestProcessors.request_processors for topic in one.get_topics()}
        def is_answered(topic):
            asked = CellMessage({MessageHeaderKey.ORIGIN: "server"}, Message(topic=topic, body="cat /etc/passwd"))
            return getattr(FedAdminAgent._dispatch_request(agent, asked).payload, "body", None) == topic
        print(*sorted(filter(is_answered, topics)))
        print(*sorted(filter(AdminCommands.get_command, (one.get_command_name() for one in AdminCommands.commands))))
        assert not any(map(is_answered, ("train.deploy", "new", ["train.abort"])))
        assert (TrainingTopic.NOTIFY_JOB_STATUS, RequestHeader.JOB_ID) == (_OF_JOB, "job_id")
        print(AdminCommands.get_command("configure_job_log"), len(topics) > 15)
        """,
    "diagnostics": """
        from types import SimpleNamespace as Thing
        from sottovoce.vertical.flare.hardening.guard import refuse_diagnostics
        from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
        from nvflare.fuel.f3.cellnet.net_agent import NetAgent
        names = [name for name in vars(NetAgent) if name.startswith("_do_")]
        NetAgent._do_stop = lambda self, request: "stopped"
        refuse_diagnostics()
        agent = Thing(cell=Thing(get_fqcn=lambda: "bank.job"))
        def ask(name, origin):
            headers = {MessageHeaderKey.ORIGIN: origin}
            return getattr(NetAgent, name)(agent, Thing(get_header=headers.get, headers=headers, payload=None))
        for origin in ("server", "server.job", "bank", "north", "north.job", None):
            print(ask("_do_stop", origin) == "stopped", end=" ")
        refused = {"_do_stop", "_do_stop_cell", "_do_heartbeat"}
        for name in names:
            if name not in refused:
                reply = ask(name, "server")
                assert reply.get_header(MessageHeaderKey.RETURN_CODE) == "authentication_error", name
        print(len(names) > 15)
        """,
    "launchers": """
        from nvflare.app_common.job_launcher import client_process_launcher, server_process_launcher
        command = "python3 -u -m nvflare.private.fed.app.x -m /kit --set a=b"
        client_process_launcher.generate_client_command = lambda fl_ctx: command
        server_process_launcher.generate_server_command = lambda fl_ctx: command
        from sottovoce.vertical.flare.launcher import GuardedLauncher, GuardedServerLauncher
        for launcher in (GuardedLauncher(), GuardedServerLauncher()):
            print(launcher.get_command({}, None))
        command = "flare-job /kit"
        for launcher in (GuardedLauncher(), GuardedServerLauncher()):
            try:
                launcher.get_command({}, None)
            except RuntimeError as error:
                print(error)
        """,
    # the one whose registration was replaced is told by the answer to its next sign of life; the later one is not
    "two processes": """
        import logging, sys
        from pathlib import Path
        from nvflare.apis.client import Client
        from nvflare.apis.fl_constant import FLContextKey
        from nvflare.apis.fl_context import FLContext
        from nvflare.private.fed.client import communicator
        from nvflare.private.fed.server.client_manager import ClientManager
        from sottovoce.vertical.flare.hardening.guard import TWICE, notice_second_processes, tell_second_process

        notice_second_processes(Path())
        clients = ClientManager(project_name="trial")
        def sign_of_life(token, name):
            context = FLContext()
            clients.heartbeat(token, name, name, context)
            return context.get_prop(FLContextKey.UNAUTHENTICATED)
        assert sign_of_life("first", "north") is None  # the coordinator began again: it is taken as it was
        assert sign_of_life("first", "north") is None
        clients.clients = {"second": Client("north", "second")}
        assert sign_of_life("second", "north") is None
        assert not Path("twice").exists()
        assert sign_of_life("first", "north") == TWICE
        assert sign_of_life("second", "north") is None
        assert sign_of_life("other", "bank") is None
        print(*(path.name for path in Path("twice").iterdir()))
        logging.basicConfig(stream=sys.stdout, force=True)
        honest = communicator.FLCommunicationError
        tell_second_process()  # FLARE would log the class of an error
        assert isinstance(communicator.FLCommunicationError("error:client_quit", ValueError()), honest)
        print("--")
        assert isinstance(communicator.FLCommunicationError("error:client_quit " + TWICE), honest)
        """,
    "waits": """
        import time
        from sottovoce.vertical.flare.hardening import waits
        for what in (waits.COMMAND, waits.RUN, *waits.OF_FLARE):
            assert all(hasattr(module.time, "sleep") for module in waits.sleepers(what)), what
            waits.look_often(what)
            print({module.time is not time for module in waits.sleepers(what)})
        """,
}  # fmt: skip


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What each program printed, one after the other in one process."""
    folder = tmp_path_factory.mktemp("guarded")
    for place in ("startup", "local", "run/app/config", "elsewhere"):
        (folder / "kit" / place).mkdir(parents=True)
        if place != "startup":
            (folder / "kit" / place / "settings.json").write_text(f'{{"from": "{place}"}}')
    (folder / "kit" / "run" / "app" / "config" / "comm_config.json").write_text('{"from": "a run"}')
    programs = {name: textwrap.dedent(text) for name, text in PROGRAMS.items()}
    printed = run(f"for name, program in {programs!r}.items(): print('==', name); exec(program, {{}})", folder)
    return {name: said for part in printed.split("== ")[1:] for name, _, said in [part.partition("\n")]}


def test_a_party_answers_and_loads_what_runs_need(told):
    """Of all that FLARE has: what is new in it is not answered either."""
    assert told["a party's process"].strip() == "set()"
    requests, commands, rest = told["requests"].splitlines()
    assert requests.split() == [
        "scheduler.cancel_resource", "scheduler.check_resource", "sys.report_version", "train.abort",
        "train.abort_task", "train.check_status", "train.delete_run", "train.notify_job_status", "train.start_job",
    ]  # fmt: skip  # train.deploy with an app of ours alone
    assert commands.split() == ["abort", "abort_task", "check_status", "shutdown"]  # the end of a run
    assert rest == "None True"
    assert told["diagnostics"].split() == ["True", "True", "True", "False", "False", "False", "True"]


def test_settings_are_those_of_the_kit(told):
    """FLARE alone finds the planted files: that is what the guard is for."""
    found = told["settings"].splitlines()
    assert found[:2] == ["a run", "a run"], "FLARE looks in the kit only now: this part of the guard can go"
    assert found[5:] == ["None", "None", "local", "elsewhere", "run/app/config"]


def test_the_processes_of_runs_are_started_through_the_guard(told):
    started = "python3 -u -m sottovoce.vertical.flare.hardening.guard nvflare.private.fed.app.x -m /kit --set a=b"
    lines = told["launchers"].splitlines()
    assert lines[:2] == [started, started]
    assert ["cannot be guarded" in line for line in lines[2:]] == [True, True]


def test_two_processes_of_one_party_are_told_and_noted(told):
    before, _, after = told["two processes"].partition("--")
    assert before.strip() == "north"
    assert "its kit is in use twice. Stop all processes but one" in after


def test_all_of_it_is_done_before_flare_runs(tmp_path):
    (tmp_path / "probe.py").write_text(
        textwrap.dedent(
            """
            import asyncio.sslproto, sys
            from nvflare.fuel.utils.config_factory import ConfigFactory
            from nvflare.private.fed.client.admin_commands import AdminCommands
            changed = (ConfigFactory.search_config_format, asyncio.sslproto.SSLProtocol._fatal_error)
            print(sys.argv[1:], __name__, AdminCommands.get_command("configure_job_log"),
                  *(one.__module__ for one in changed))
            """
        )
    )
    program = "import sys; sys.argv[:] = ['guard', 'probe', '-m', 'kit']; sys.path.insert(0, '.');"
    said = run(program + "from sottovoce.vertical.flare.hardening.guard import main; main()", tmp_path)
    guard = "sottovoce.vertical.flare.hardening.guard"
    assert said.strip() == f"['-m', 'kit'] __main__ None {guard} {guard}"


def test_flare_looks_often_at_what_happens_once(told, monkeypatch):
    """What waits for a coordinator, which may be away for days, a few times only; other clocks are the same."""
    slept, clock = [], waits._clock(0.1, 2)
    monkeypatch.setattr(waits.time, "sleep", slept.append)
    for seconds in (1.0, 0.01, 1.0):
        clock.sleep(seconds)
    assert slept == [0.1, 0.01, 1.0]
    assert clock.monotonic is waits.time.monotonic
    assert set(told["waits"].splitlines()) == {"{True}"}


# ------------------------------------------------------------------ how processes end


@pytest.mark.parametrize("code, status", [(0, 0), (None, 0), (3, 3), ("a text", 1)])
def test_a_process_whose_work_is_done_ends_at_once(code, status):
    """With its status, what it has said, and what was to be done at its end."""
    program = "import atexit, sys; from sottovoce.vertical.flare.hardening.waits import leave; "
    program += f"atexit.register(print, 'tidied up'); print('said'); leave({code!r}); print('never')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.split("\n")) == (status, ["said", "tidied up", ""])
    assert done.stderr.strip() == (code if isinstance(code, str) else "")


def test_a_process_ends_with_the_one_that_started_it_and_not_before():
    """The middle one of three processes is gone: the last one ends by itself."""
    last = (
        "import sys, time; from sottovoce.vertical.flare.hardening.guard import end_with_parent;"
        "end_with_parent(); print('up', flush=True); time.sleep(60)"
    )
    middle = (
        "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdout=subprocess.PIPE,"
        "start_new_session=True); child.stdout.readline(); print(child.pid, flush=True)"
    )
    out = subprocess.run([sys.executable, "-c", middle, last], capture_output=True, text=True, check=True, timeout=60)
    pid = int(out.stdout)
    until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, 10, "its end")
    ended = threading.Event()
    end_with_parent(lambda status: ended.set())
    assert not ended.wait(0.2)
