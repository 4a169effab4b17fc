"""What was asked is written down, counts against the caps, and survives restarts."""

import stat
import threading
import time

import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.vertical.flare.register import Register
from sottovoce.vertical.flare.site import Caps
from support.register import entries

FACTS = {"run": "job1", "coordinator": "insurer", "purpose": "train", "caller": "server"}
NONE = Caps()


def enter(register, *, caps=NONE, n_bytes=100, answer=50, step=1, reason="", **facts):
    """Write one request down as a site does; return the cap that does not allow it."""
    facts = {**FACTS, **facts}
    coordinator = facts.pop("coordinator")
    number, shortage = register.enter(caps, coordinator, n_bytes, session="ab", step=step, kind="Describe", **facts)
    if shortage:
        register.turn_away(shortage, coordinator=coordinator, kind="Describe", n_bytes=n_bytes, **facts)
    else:
        register.answered(number, coordinator, answer, reason)
    return shortage


def test_caps_refuse_in_words_and_what_they_refuse_uses_nothing(tmp_path):
    register = Register(tmp_path / "register.db")
    caps = Caps(rounds=2, bytes=350)
    assert enter(register, caps=caps) == ""
    assert enter(register, caps=caps, n_bytes=201).startswith("its owner allows this coordinator 350 bytes in all; 200")
    assert enter(register, caps=caps) == ""
    for _ in range(1000):
        assert enter(register, caps=caps) == (
            "its owner allows this coordinator 2 requests in all, and all of them are used"
        )
    assert register.used("insurer") == (2, 300)
    assert enter(register, caps=Caps(rounds=1), coordinator="rival") == ""  # each has caps of its own
    *_, last, _ = entries(register.path)
    assert (last.outcome, last.times, last.bytes_in) == ("turned away", 1000, 100_000)
    assert len(entries(register.path)) == 5  # nobody fills the disk with refusals


def test_restarts_forget_nothing(tmp_path):
    register = Register(tmp_path / "register.db")
    enter(register)
    facts = {**FACTS, "kind": "Describe", "step": 2}
    register.enter(Caps(), facts.pop("coordinator"), 7, **facts)  # killed before the answer
    register.close()
    again = Register(tmp_path / "register.db")
    assert stat.S_IMODE(again.path.stat().st_mode) == 0o600
    assert again.used("insurer") == (2, 157)
    assert entries(again.path)[-1].outcome == "begun"
    assert enter(again, caps=Caps(rounds=2)) != ""


def test_two_threads_do_not_pass_a_cap_together(tmp_path):
    register = Register(tmp_path / "register.db")
    passed = []

    def ask():
        for _ in range(50):
            passed.append(enter(register, caps=Caps(rounds=60)) == "")

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(passed) == 60
    assert register.used("insurer")[0] == 60


def test_runs_and_refusals_added_up(tmp_path):
    register = Register(tmp_path / "register.db")
    enter(register)
    enter(register, reason="no budget")
    enter(register, run="job2", purpose="score")
    register.turn_away("no", **{**FACTS, "run": "job2", "purpose": "score"}, n_bytes=9)
    register.turn_away("no", **{**FACTS, "run": "job2", "purpose": "score"}, n_bytes=9)
    register.turn_away("closed")
    look = Register(tmp_path / "register.db", read_only=True)
    columns = ("purpose", "rounds", "bytes_in", "bytes_out", "refusals")
    found = {run["run"]: tuple(run[name] for name in columns) for run in look.runs()}
    assert found == {"job1": ("train", 2, 200, 100, 1), "job2": ("score", 1, 118, 50, 2), "": ("", 0, 0, 0, 1)}
    assert {refused["reason"]: refused["times"] for refused in look.refusals()} == {
        "no budget": 1,
        "no": 2,
        "closed": 1,
    }


def test_made_up_reasons_and_names_do_not_fill_the_disk(tmp_path):
    register = Register(tmp_path / "register.db")
    for number in range(500):
        register.turn_away(f"{number} {'x' * 10_000}", run="job1", caller="y" * 10_000)
    lines = entries(register.path)
    assert len(lines) == 201
    assert lines[-1].times == 300
    assert max(len(line.reason) for line in lines) <= 1000


def test_a_run_begins_once_and_whoever_sends_its_beginning_again_does_not_fill_the_disk(tmp_path):
    with Register(tmp_path / "register.db")._file as before:  # of a version that wrote down no beginnings
        before.execute("DROP TABLE begun")
        before.execute("INSERT INTO requests VALUES (1, 0, 'old', '', '', '', '', 0, '', 0, 0, '', '', 1)")
    register, reader = Register(tmp_path / "register.db"), Register(tmp_path / "register.db", read_only=True)
    reader._file.execute("BEGIN")
    assert len(reader.runs()) == 1
    start = time.monotonic()
    assert [register.begin(run) for run in ("old", "job1", "old", "job1", "job2")] == [False, True, False, False, True]
    assert time.monotonic() - start < 5.0  # nobody who reads, or copies, holds a run up
    for _ in range(50):
        assert not register.begin("job1")
        register.turn_away("it began before", run="job2")
    assert [line.times for line in entries(register.path)] == [1, 50]


def test_a_file_that_is_no_register_is_an_error(tmp_path):
    (tmp_path / "register.db").write_text("hello, this is a text of some length, and no database at all")
    with pytest.raises(ParameterError, match="the register cannot be used"):
        Register(tmp_path / "register.db")
    with pytest.raises(ParameterError, match="the register cannot be used"):
        Register(tmp_path / "none.db", read_only=True)
