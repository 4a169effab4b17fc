"""What breaks while a run is under way: each is an error that names who is gone, and the run goes on where it was.

The runs have many rounds, so that something breaks in the middle. One that was cut off must leave the same parts of the
model, bit for bit, as one process does. What a private run is charged is the last test's.
"""

import signal
import time

import pytest

pytest.importorskip("nvflare", reason="parties in different organisations need the extra [vertical]")

from support.federation import Federation, Line, place, running_federation, until
from support.ports import free_ports
from support.small_federation import PRIVATE, RUN, check_model, make_ledgers, model_of, open_sites, sites

pytestmark = pytest.mark.federation


@pytest.fixture(scope="module")
def federation():
    with running_federation(open_sites()) as federation:
        yield federation


@pytest.fixture(scope="module")
def expected(federation):
    return model_of(federation, RUN)


@pytest.fixture(autouse=True)
def _everything_runs(request):
    """Leave all sites running and no run under way, whatever the test did."""
    yield
    if "federation" in request.fixturenames:
        federation = request.getfixturevalue("federation")
        federation.wait_for_silence()


def check_resumed(federation, run, expected):
    federation.wait_for_silence()
    federation.train("--resume", run.folder.name, "--json")
    check_model(federation, run.folder, expected)


def test_nothing_breaks(federation, expected):
    run = federation.begin(*RUN)
    run.end()
    check_model(federation, run.folder, expected)


def test_the_run_of_a_party_is_killed(federation, expected):
    run = federation.begin(*RUN)
    run.wait_for_rounds(20)
    federation.run_process("north").kill()
    began = time.monotonic()
    said = run.end(fails=True)
    assert "'north'" in said
    assert "'bank'" not in said
    assert time.monotonic() - began < 30
    check_resumed(federation, run, expected)


def test_the_run_of_a_party_hangs(federation, expected):
    run = federation.begin(*RUN)
    run.wait_for_rounds(20)
    process = federation.run_process("bank")
    process.suspend()
    said = run.end(fails=True)
    assert "'bank'" in said
    assert "within 20 s" in said
    process.resume()  # it ends by itself now: its run is over
    check_resumed(federation, run, expected)


def test_a_party_is_killed_and_restarted(federation, expected):
    """Its run ends with it, so that nobody goes on answering where the owner sees no site run."""
    run = federation.begin(*RUN)
    run.wait_for_rounds(20)
    federation.kill("north")
    until(lambda: not federation.processes("north"), 20, "the end of the site's processes")
    assert "'north'" in run.end(fails=True)
    federation.start("north")
    check_resumed(federation, run, expected)


def test_a_party_is_stopped_and_started_again(federation, expected):
    run = federation.begin(*RUN)
    run.wait_for_rounds(20)
    federation.stop("bank")
    assert not federation.processes("bank")
    assert "'bank'" in run.end(fails=True)
    federation.start("bank")
    check_resumed(federation, run, expected)


def test_the_run_of_the_coordinator_is_killed(federation, expected):
    run = federation.begin(*RUN)
    run.wait_for_rounds(20)
    federation.run_process("lab").kill()
    assert run.folder.name in run.end(fails=True)
    check_resumed(federation, run, expected)


def test_the_coordinator_is_killed_and_restarted(federation, expected):
    run = federation.begin(*RUN)
    run.wait_for_rounds(20)
    federation.kill("lab")
    until(lambda: not federation.processes("lab"), 20, "the end of the coordinator's processes")
    run.end(fails=True)
    federation.start("lab")
    check_resumed(federation, run, expected)


def test_who_asked_for_the_run_ends_it(federation, expected):
    run = federation.begin(*RUN)
    run.wait_for_rounds(20)
    process = federation.run_process("bank")
    process.suspend()  # or the run may have ended before it is told to
    run.process.send_signal(signal.SIGINT)
    said = run.end(fails=True)
    process.resume()
    assert run.process.returncode == 130
    assert f"--resume {run.folder.name}" in said
    check_resumed(federation, run, expected)


def test_a_run_that_is_resumed_while_it_runs_goes_on_once(federation, expected):
    """The command was killed, its job goes on: two that would go on with it are refused, also when it has ended."""
    run = federation.begin(*(60 if word == 20 else word for word in RUN))
    run.wait_for_rounds(20)
    process = federation.run_process("bank")
    process.suspend()  # or the run may have ended before it is resumed
    run.process.kill()
    run.process.wait()
    name = run.folder.name
    first = federation.begin("--resume", name)
    second = federation.train("--resume", name, fails=True).stderr
    for said in (first.end(fails=True), second):
        assert "a job of it is under way" in said or "held by another process" in said
    process.resume()
    until(lambda: run.status()["phase"] == "done", what="the end of the run")  # written last, after ended.json
    # what begins with a dot is being written, and is named at once
    results = {path: path.read_bytes() for path in run.folder.iterdir() if path.is_file() and path.name[0] != "."}
    federation.wait_for_silence()
    assert "this run has ended" in federation.train("--resume", name, fails=True).stderr
    check_model(federation, run.folder, expected)
    assert {path: path.read_bytes() for path in results} == results


def test_a_party_that_is_not_there_is_named_before_anything_is_asked():
    """One that never came; FLARE takes a minute to notice that one has left."""
    with running_federation(open_sites(), start=False) as federation:
        federation.start("lab", "bank")
        done = federation.train(*RUN, "--wait", "2", fails=True)
        assert "'north'" in done.stderr
        assert "'bank'" not in done.stderr
        assert not federation.register("bank")


def test_a_slow_line_is_only_slow():
    """20 ms each way to one of the parties."""
    (port,) = free_ports(1)
    line = Line(port, delay=0.02)
    try:
        with running_federation(open_sites(), port=port, start=False) as federation:
            _lead_through(federation, "bank", line)
            federation.start()
            run = federation.begin(*RUN)
            run.end()
            check_model(federation, run.folder, model_of(federation, RUN))
            assert run.status()["parties"]["bank"]["seconds"] > run.status()["parties"]["north"]["seconds"] + 2
    finally:
        line.close()


def _lead_through(federation: Federation, name: str, line: Line) -> None:
    """Let a party connect through a relay, as through a proxy of its organisation."""
    file = federation.kit(name) / "federation.toml"
    file.write_text(file.read_text().replace(str(federation.port), str(line.port)))


def test_a_party_is_cut_off():
    """In a network of its own, whose line is down for a while."""
    with place() as there:
        prefix = {"north": there.prefix}
        with running_federation(open_sites(), host=there.outside, prefix=prefix) as federation:
            run = federation.begin(*RUN)
            run.wait_for_rounds(20)
            there.cut()
            assert "'north'" in run.end(fails=True)
            there.mend()
            check_resumed(federation, run, model_of(federation, RUN))


def test_a_private_run_that_was_cut_off_is_charged_once():
    """A party's training is on its disk, and the answer does not arrive; a new process of it sends the same one."""
    with running_federation(sites(), prepare=make_ledgers, start=False) as federation:
        (federation.kit("bank") / "lie.txt").write_text("hangs 3")
        federation.start("lab", "north")
        federation.start("bank", program=["-m", "support.changed_site", "lies"])
        run = federation.begin(*PRIVATE)
        assert "'bank'" in run.end(fails=True)
        kinds = [entry["kind"] for entry in federation.register("bank")]
        assert kinds[-1] == "TrainOnBall", kinds
        federation.stop("bank")
        federation.start("bank")
        federation.wait_for_silence()
        federation.train("--resume", run.folder.name, "--json")
        check_model(federation, run.folder, model_of(federation, PRIVATE))
        assert [len(federation.charges(name)) for name in federation.names[1:]] == [1, 1]
