"""A party goes on with its sessions in a new process: nothing is drawn or charged twice, wherever it was killed."""

import contextlib
import copy
import gc
import sqlite3
import stat
import sys

import numpy as np
import pytest

from sottovoce.exceptions import ParameterError, StorageError
from sottovoce.privacy.events import GaussianEvent
from sottovoce.vertical import Party
from sottovoce.vertical.party.budget import LedgerBudget
from sottovoce.vertical.party.journal import Journal
from sottovoce.vertical.party.sessions import MOST_OPEN, MachineError
from sottovoce.vertical.protocols.general.messages import Close, Describe
from sottovoce.vertical.wire import Done, Frame, Payload, Refused
from support.clinic import NAME, TABLE, N, clinic, frames, new_ledger, shift
from support.interrupted import Killed, at_line
from support.noisy_rounds import RoundsKeep, RoundsStep
from support.party import decode

OTHER = bytes(16)
LOST = "this session cannot be taken up again here; the party's own log says why. Begin again."
MESSAGES = [
    *[Describe()] * 3,
    *(RoundsStep(shift(value)) for value in (0.0, 0.1, 0.2, 0.3)),
    RoundsKeep("m", shift(0.3)),
]
REQUESTS = frames(*MESSAGES)


@pytest.fixture
def ledger(tmp_path):
    return new_ledger(tmp_path)


def charges(ledger):
    return [(each.plan["step"], each.event) for each in ledger.history("people")]


# --- wherever it is killed --------------------------------------------------------------------------------------------


def killed(*given, **named):
    raise Killed


@pytest.mark.parametrize("n_steps", [15, pytest.param(170, marks=pytest.mark.slow)])
def test_killed_at_any_line_a_step_has_one_answer_and_one_charge(tmp_path, ledger, n_steps):
    """Three times at each step, at lines that are drawn; what was drawn never follows from a key."""
    draw, most, n_killed = np.random.default_rng(7), 100, 0
    for raw in frames(*(RoundsStep(shift(0.01 * k), 0.002) for k in range(n_steps))):
        left = set()
        for number in (*draw.integers(1, most, 3), 0, 0):
            party, (executed, tracer) = clinic(tmp_path, ledger), at_line(number)
            try:
                sys.settrace(tracer)
                left.add(party.handle(raw))
            except Killed:
                n_killed += 1
            finally:
                sys.settrace(None)
            party._journal.close()
            del party
            gc.collect()  # what a killed process has open is closed: a connection can have its lock
            most = max(most, executed[0])  # lines of a step
        assert len(left) == 1
        assert not isinstance(decode(*left), Refused)
    assert n_killed >= 2 * n_steps, most
    assert charges(ledger) == [(step, GaussianEvent(500.0)) for step in range(1, n_steps + 1)]


def test_interrupted_at_any_line_of_a_session_a_process_that_goes_on_answers_a_step_once(tmp_path):
    """It gives the answer of the step, and not that of one that failed."""
    party = clinic(tmp_path)
    for step, raw in enumerate(frames(*[Describe()] * 100), start=1):
        executed, tracer = at_line(step, "party/sessions.py")
        with contextlib.suppress(Killed):
            try:
                sys.settrace(tracer)
                party.handle(raw)
            finally:
                sys.settrace(None)
        assert not isinstance(decode(party.handle(raw)), Refused), step
        if executed[0] < step:
            break
    assert 20 < step < 100
    party._journal.close()


@pytest.mark.parametrize("again", [False, True], ids=["the same process", "another one"])
def test_an_answer_whose_charge_is_cancelled_meanwhile_stays(tmp_path, ledger, monkeypatch, again):
    """By hand, as whoever answers for the data may; it costs nothing then, so nothing of it may leave."""
    party = clinic(tmp_path, ledger)
    for raw in REQUESTS[:3]:
        party.handle(raw)
    true = RoundsStep.told

    def cancelled(*given, **named):
        ledger.cancel(ledger.history("people")[-1].charge, "by hand")
        return true(*given, **named)

    monkeypatch.setattr(RoundsStep, "told", cancelled)
    assert isinstance(decode(party.handle(REQUESTS[3])), Refused)
    monkeypatch.setattr(RoundsStep, "told", true)
    if again:
        party._journal.close()
        party = clinic(tmp_path, ledger)
    assert isinstance(decode(party.handle(REQUESTS[3])), Refused)
    assert isinstance(decode(party.handle(REQUESTS[4])), Refused)
    assert not any(each.counts for each in ledger.history("people"))
    party._journal.close()


def kept(folder):
    """Return the sessions that are on disk, by name, with the bytes of what they hold."""
    with sqlite3.connect(f"file:{folder / 'clinic' / 'sessions.db'}?mode=ro", uri=True) as file:
        return {name: len(state) for name, state in file.execute("SELECT name, state FROM sessions")}


# --- what is never drawn again ----------------------------------------------------------------------------------------


def test_what_never_left_is_drawn_anew(tmp_path, ledger, monkeypatch):
    """Its charge is that of the answer which leaves: one for one."""
    drawn, step = [], RoundsStep.told

    def watched(self, table, noise):
        drawn.append(step(self, table, noise))
        return drawn[-1]

    monkeypatch.setattr(RoundsStep, "told", watched)
    for raw in REQUESTS[:3]:
        party = clinic(tmp_path, ledger)
        party.handle(raw)
        party._journal.close()
    for _ in range(2):
        party = clinic(tmp_path, ledger)
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "keep", killed)
            with pytest.raises(Killed):
                party.handle(REQUESTS[3])
        party._journal.close()
    party = clinic(tmp_path, ledger)
    left = decode(party.handle(REQUESTS[3])).numbers
    assert [np.array_equal(left, each.numbers) for each in drawn] == [False, False, True]
    assert charges(ledger) == [(4, GaussianEvent(100.0))]


def test_another_request_after_a_crash_is_another_release(tmp_path, ledger, monkeypatch):
    """The charge of one that was drawn and never left stays; the other one is charged too."""
    party = clinic(tmp_path, ledger)
    for raw in REQUESTS[:4]:
        party.handle(raw)
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "keep", killed)
        with pytest.raises(Killed):
            party.handle(REQUESTS[4])
    party._journal.close()
    party = clinic(tmp_path, ledger)
    other = frames(*MESSAGES[:4], RoundsStep(shift(0.1 + 1e-9)))[-1]
    answer = party.handle(other)
    assert isinstance(decode(answer), Payload)
    assert [step for step, _ in charges(ledger)] == [4, 5, 5]
    party._journal.close()
    party = clinic(tmp_path, ledger)
    assert "another request, which has been answered" in decode(party.handle(REQUESTS[4])).reason
    assert party.handle(other) == answer
    assert [step for step, _ in charges(ledger)] == [4, 5, 5]


def test_what_ended_stays_ended(tmp_path, ledger):
    party = clinic(tmp_path, ledger)
    for raw in REQUESTS[:4]:
        party.handle(raw)
    assert isinstance(decode(party.handle(Frame(NAME, 5, Close().encode()).encode())), Done)
    assert kept(tmp_path) == {}
    party._journal.close()
    for step in (0, 3, 4):
        party = clinic(tmp_path, ledger)
        assert "has ended here" in decode(party.handle(REQUESTS[step])).reason
        party._journal.close()


@pytest.mark.parametrize("lost", ["all", "the last step"])
def test_without_its_memory_a_session_is_charged_again(tmp_path, ledger, lost):
    """Whoever removes what is kept, or brings an older copy back, makes new releases, which cost what these cost."""
    place = tmp_path / "clinic" / "sessions.db"
    copies = []
    for raw in REQUESTS[:4]:
        party = clinic(tmp_path, ledger)
        answer = party.handle(raw)
        party._journal.close()
        copies.append(place.read_bytes())
    if lost == "all":
        place.unlink()
    else:
        place.write_bytes(copies[-2])
    party = clinic(tmp_path, ledger)
    again = [party.handle(raw) for raw in REQUESTS[0 if lost == "all" else 3 : 4]]
    assert np.std(decode(again[-1]).numbers - decode(answer).numbers) > 100.0
    assert [step for step, _ in charges(ledger)] == [4, 4]


def test_an_answer_whose_charge_is_open_waits_also_after_a_step_that_was_taken_back(tmp_path, ledger, monkeypatch):
    party = clinic(tmp_path, ledger)
    for raw in REQUESTS[:3]:
        party.handle(raw)

    def broken(*given, **named):
        raise MachineError("broken")

    for place, (owner, name) in ((3, (LedgerBudget, "settle")), (4, (LedgerBudget, "charge"))):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, broken)
            assert decode(party.handle(REQUESTS[place])).reason == "broken"
    assert isinstance(decode(party.handle(REQUESTS[3])), Payload)
    assert [each.state for each in ledger.history("people")] == ["committed"]


# --- what cannot be taken up again ------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["table", "answer", "state", "step", "history"])
def test_what_does_not_fit_is_refused_in_the_same_words(tmp_path, change, caplog):
    party = clinic(tmp_path)
    for raw in REQUESTS[:5]:
        party.handle(raw)
    party._journal.close()
    if change != "table":
        with sqlite3.connect(tmp_path / "clinic" / "sessions.db") as file:
            ((value,),) = file.execute(f"SELECT {change} FROM sessions")
            value = value - 1 if change == "step" else bytes([value[0] ^ 1]) + value[1:]
            file.execute(f"UPDATE sessions SET {change} = ?", (value,))
        file.close()
    party = clinic(tmp_path, table=TABLE + (1e-9 if change == "table" else 0.0))
    for raw in REQUESTS[4:6]:
        assert decode(party.handle(raw)).reason == LOST
    assert "cannot be taken up again" in caplog.text
    assert decode(party.handle(frames(Describe(), name=OTHER)[0])).n_rows == N  # and it works on


def test_only_so_many_sessions_are_kept(tmp_path):
    names = [bytes([place]) * 16 for place in range(MOST_OPEN + 3)]
    for name in names[: MOST_OPEN - 1], names[MOST_OPEN - 1 :]:
        party = clinic(tmp_path)
        for each in name:
            party.handle(frames(Describe(), name=each)[0])
        party._journal.close()
    assert len(kept(tmp_path)) == MOST_OPEN
    party = clinic(tmp_path)
    assert "has ended here" in decode(party.handle(frames(Describe(), Describe(), name=names[0])[1])).reason
    assert decode(party.handle(frames(Describe(), Describe(), name=names[-1])[1])).n_rows == N


# --- who has it -------------------------------------------------------------------------------------------------------


def test_it_is_for_its_owner_alone(tmp_path):
    party = clinic(tmp_path)
    party.handle(REQUESTS[0])
    found = list((tmp_path / "clinic").rglob("*"))
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o600}
    assert stat.S_IMODE((tmp_path / "clinic").stat().st_mode) == 0o700
    assert party._journal._file.execute("PRAGMA synchronous").fetchone() == (2,)  # a power cut takes no step back
    assert "key" not in {path.name for path in found}


def test_one_process_has_it(tmp_path):
    journal = Journal(tmp_path / "clinic")
    with pytest.raises(StorageError, match="held by another process"):
        Journal(tmp_path / "clinic")
    journal.close()
    Journal(tmp_path / "clinic").close()


def test_one_object_has_it(tmp_path, caplog):
    """Two that take a session up from the same folder would answer its next step twice."""
    party = clinic(tmp_path)
    with pytest.raises(ParameterError, match="belongs to a party object named 'clinic' already"):
        Party(TABLE, name="other", journal=party._journal)
    with pytest.raises(TypeError, match="cannot be copied"):
        copy.copy(party._journal)
    selection = party.take(np.arange(N))  # has none
    assert not any(isinstance(decode(selection.handle(raw)), Refused) for raw in REQUESTS[:4])
    assert kept(tmp_path) == {}
    party.handle(REQUESTS[0])
    party._journal.close()
    for raw in REQUESTS[:2]:
        assert "failed there" in decode(party.handle(raw)).reason
    assert "the journal of party 'clinic'" in caplog.text


def test_names_of_what_ended_are_trimmed(tmp_path, monkeypatch):
    party = clinic(tmp_path)
    names = [bytes([place]) * 16 for place in range(9)]
    for name in names:
        party.handle(Frame(name, 1, Describe().encode()).encode())
        party.handle(Frame(name, 2, Close().encode()).encode())
    assert party._journal.ended() == names
    party._journal.close()
    monkeypatch.setattr("sottovoce.vertical.party.journal.MOST_ENDED", 4)
    journal = Journal(tmp_path / "clinic")
    assert journal.ended() == names[-4:]
    journal.close()


def test_what_is_no_journal_is_refused(tmp_path):
    (tmp_path / "clinic").mkdir()
    (tmp_path / "clinic" / "sessions.db").write_bytes(b"something else, and long enough to be no database" * 20)
    with pytest.raises(StorageError, match="cannot be used"):
        Journal(tmp_path / "clinic")
    with pytest.raises(ParameterError, match="journal must be a Journal"):
        Party(TABLE, name="clinic", journal=tmp_path)
