"""A release happens once: a new process gives the same answer to the same request, wherever the last one was killed.

The sessions in which something is asked are others after each restart.
"""

import contextlib
import copy
import gc
import sqlite3
import stat
import sys
from dataclasses import replace

import numpy as np
import pytest

from sottovoce.exceptions import ParameterError, StorageError
from sottovoce.privacy.events import GaussianEvent, compose
from sottovoce.vertical import Party
from sottovoce.vertical.party.budget import LedgerBudget, MachineError, PartyBudget
from sottovoce.vertical.party.journal import Journal
from sottovoce.vertical.requests.general import Describe, ShowColumns
from sottovoce.vertical.requests.local_models import TrainOnLabels
from sottovoce.vertical.wire import Frame, Payload, Refused, new_session
from support.clinic import TABLE, N, clinic, frames, new_ledger, shift
from support.interrupted import Killed, at_line
from support.noisy_rounds import ROUNDS, RoundsStep
from support.party import Line, decode

STEPS = [RoundsStep(shift(value)) for value in (0.0, 0.1, 0.2, 0.3)]
TRAIN = TrainOnLabels(np.sign(TABLE[:, 0]), "logistic", 0.0, 0.0, 0.1, 0.01, "m")


def asked(message):
    """Return the first request of a new session."""
    return Frame(new_session(), message.encode()).encode()


@pytest.fixture
def ledger(tmp_path):
    return new_ledger(tmp_path)


def charges(ledger):
    return [each.event for each in ledger.history("people") if each.counts]


def kept(folder):
    """Return the answers that are on disk."""
    with sqlite3.connect(f"file:{folder / 'clinic' / 'releases.db'}?mode=ro", uri=True) as file:
        return [answer for (answer,) in file.execute("SELECT answer FROM releases ORDER BY id")]


def killed(*given, **named):
    raise Killed


# --- wherever it is killed --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_requests", [15, pytest.param(170, marks=pytest.mark.slow)])
def test_killed_at_any_line_a_request_has_one_answer_and_one_charge(tmp_path, ledger, n_requests):
    """Three times at each request, at lines that are drawn; what was drawn never follows from a key."""
    draw, most, n_killed = np.random.default_rng(7), 100, 0
    for k in range(n_requests):
        left, raw = set(), RoundsStep(shift(0.01 * k), 0.002)
        for number in (*draw.integers(1, most, 3), 0, 0):
            party, (executed, tracer) = clinic(tmp_path, ledger), at_line(number)
            try:
                sys.settrace(tracer)
                left.add(party.handle(asked(raw)))
            except Killed:
                n_killed += 1
            finally:
                sys.settrace(None)
            party._journal.close()
            del party
            gc.collect()  # what a killed process has open is closed: a connection can have its lock
            most = max(most, executed[0])  # lines of a request
        assert len(left) == 1
        assert not isinstance(decode(*left), Refused)
    assert n_killed >= 2 * n_requests, most
    assert charges(ledger) == [GaussianEvent(500.0)] * n_requests


@pytest.mark.parametrize(
    ("error", "files", "journal"),
    [
        (error, files, journal)
        for error in (Killed, RuntimeError)
        for files in ("party/party.py", "party/journal.py", "party/budget.py", "vertical/wire.py")
        for journal in (True, False)
    ],
)
def test_interrupted_at_any_line_a_process_that_goes_on_answers_once(tmp_path, monkeypatch, error, files, journal):
    """What left has a charge of its own, and so has what was drawn before a failure that was told."""
    drawn, step, number, lines = [], RoundsStep.told, 0, 1
    monkeypatch.setattr(RoundsStep, "told", lambda *given: (drawn.append(1), step(*given))[1])
    party = Party(
        TABLE, name="clinic", data_norm=1.0, budget=(3.0, 1e-6), answers={"noisy-rounds"}, protocols=[ROUNDS],
        journal=Journal(tmp_path / "clinic") if journal else None,
    )  # fmt: skip
    while number < lines:
        number, party.budget = number + 1, PartyBudget((3.0, 1e-6))
        drawn.clear()
        (raw,) = frames(RoundsStep(shift(0.001 * number), 0.001))
        executed, tracer = at_line(number, files, error=error)
        told = []
        with contextlib.suppress(Killed, RuntimeError):
            try:
                sys.settrace(tracer)
                told.append(party.handle(raw))
            finally:
                sys.settrace(None)
        lines = executed[0] + (number == executed[0])  # it goes on until a line that is not reached
        for lock in (party._lock, party.budget._lock):  # a tracer alone fails between a block and its end
            if lock.locked():
                lock.release()
        told += [party.handle(raw) for _ in range(2)]
        left = {each for each in told if not isinstance(decode(each), Refused)}
        n_charges = len(party.budget._events)
        assert len(left) <= 1 <= n_charges <= 2, number
        if journal and error is Killed and files != "party/budget.py":  # in memory a charge is two lines
            assert (len(left), n_charges) == (1, 1), number
        if error is RuntimeError and files == "vertical/wire.py":  # what is told may rest on what was drawn
            assert len(drawn) <= n_charges, number
    assert number > 10 or (files == "party/journal.py" and not journal)
    if journal:
        party._journal.close()


@pytest.mark.parametrize("again", [False, True], ids=["the same process", "another one"])
def test_an_answer_whose_charge_is_cancelled_meanwhile_stays(tmp_path, ledger, monkeypatch, again):
    """By hand, as whoever answers for the data may; it costs nothing then, so nothing of it may leave."""
    party = clinic(tmp_path, ledger)
    true = RoundsStep.told

    def cancelled(*given, **named):
        ledger.cancel(ledger.history("people")[-1].charge, "by hand")
        return true(*given, **named)

    monkeypatch.setattr(RoundsStep, "told", cancelled)
    assert isinstance(decode(party.handle(asked(STEPS[0]))), Refused)
    monkeypatch.setattr(RoundsStep, "told", true)
    if again:
        party._journal.close()
        party = clinic(tmp_path, ledger)
    assert isinstance(decode(party.handle(asked(STEPS[0]))), Refused)
    assert charges(ledger) == []
    party._journal.close()


@pytest.mark.parametrize("name", ["m", "", "\0m", "m\0", "\0", " \u2028\n", "m.npy", 1000 * "\U0001f600"])
def test_a_model_is_kept_again_with_the_answer_behind_which_it_stands(tmp_path, ledger, name):
    party, train = clinic(tmp_path, ledger), replace(TRAIN, model=name)
    answer, before = party.handle(asked(train)), party.parts.get(name)
    party._journal.close()
    party = clinic(tmp_path, ledger)
    assert not party.keeps(name)
    assert party.handle(asked(train)) == answer
    if before is None:
        assert "has a zero in it" in decode(answer).reason and charges(ledger) == [] == kept(tmp_path)
        return
    after = party.parts[name]
    assert (after.coef.tobytes(), after.intercept) == (before.coef.tobytes(), before.intercept)
    assert len(charges(ledger)) == 1


# --- what is never drawn again ----------------------------------------------------------------------------------------


def test_what_never_left_is_drawn_anew(tmp_path, ledger, monkeypatch):
    """Its charge is that of the answer which leaves: one for one."""
    drawn, step = [], RoundsStep.told

    def watched(self, table, noise):
        drawn.append(step(self, table, noise))
        return drawn[-1]

    monkeypatch.setattr(RoundsStep, "told", watched)
    for _ in range(2):
        party = clinic(tmp_path, ledger)
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "keep", killed)
            with pytest.raises(Killed):
                party.handle(asked(STEPS[0]))
        party._journal.close()
    party = clinic(tmp_path, ledger)
    left = decode(party.handle(asked(STEPS[0]))).numbers
    assert [np.array_equal(left, each.numbers) for each in drawn] == [False, False, True]
    assert charges(ledger) == [GaussianEvent(100.0)]


def test_another_request_after_a_crash_is_another_release(tmp_path, ledger, monkeypatch):
    """The charge of one that was drawn and never left stays; the other one is charged too."""
    party = clinic(tmp_path, ledger)
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "keep", killed)
        with pytest.raises(Killed):
            party.handle(asked(STEPS[0]))
    party._journal.close()
    party = clinic(tmp_path, ledger)
    other = RoundsStep(shift(1e-9))
    answer = party.handle(asked(other))
    assert isinstance(decode(answer), Payload)
    party._journal.close()
    party = clinic(tmp_path, ledger)
    assert party.handle(asked(other)) == answer
    assert len(charges(ledger)) == 2


@pytest.mark.parametrize("way", ["all is lost", "an older copy", "another table"])
def test_what_is_not_on_record_is_charged_again(tmp_path, ledger, way):
    """Whoever removes what is kept makes new releases, which cost what these cost."""
    place = tmp_path / "clinic" / "releases.db"
    party = clinic(tmp_path, ledger)
    party._journal.close()
    before = place.read_bytes()
    party = clinic(tmp_path, ledger)
    answer = Line(party).ask(STEPS[0])
    party._journal.close()
    if way == "all is lost":
        place.unlink()
    if way == "an older copy":
        place.write_bytes(before)
    party = clinic(tmp_path, ledger, table=TABLE + (1e-9 if way == "another table" else 0.0))
    again = decode(party.handle(asked(STEPS[0])))
    assert np.std(again.numbers - answer.numbers) > 50.0
    assert len(charges(ledger)) == 2


@pytest.mark.parametrize(
    ("change", "n_charges"),
    [
        ({}, 1), ({"least_people": 3}, 1), ({"y": np.ones(N)}, 1), ({"data_norm": 0.5}, 2), ({"data_bound": 0.7}, 2),
        ({"nonnegative": True}, 2), ({"X": np.float32(abs(TABLE))}, 2), ({"coordinator": "other"}, 2),
        ({"name": "other"}, 2), ({"seed": 1}, 2),
    ],
)  # fmt: skip
def test_what_an_answer_rests_on_is_what_its_release_is_known_by(tmp_path, ledger, change, n_charges):
    coefs, plain = [], {"X": abs(TABLE), "name": "clinic", "data_norm": 1.0, "data_bound": 1.0}
    for given in (plain, plain | change):
        seed, coordinator = given.pop("seed", None), given.pop("coordinator", "insurer")
        budget = LedgerBudget(ledger.url, "people", name=given["name"], coordinator=coordinator)
        party = Party(**given, budget=budget, journal=Journal(tmp_path / "clinic")).seed(seed)
        assert not isinstance(decode(party.handle(asked(TRAIN))), Refused)
        coefs.append(party.parts["m"].coef)
        party._journal.close()
    assert len(charges(ledger)) == n_charges
    assert np.array_equal(*coefs) == (n_charges == 1)


@pytest.mark.parametrize("account", ["in memory", "ledger"])
def test_what_was_computed_without_a_budget_is_charged_where_there_is_one(tmp_path, ledger, account):
    """Nobody knows whether it left: it may have been on disk when the process was killed."""
    plain = Party(TABLE, name="clinic", data_norm=1.0, journal=Journal(tmp_path / "clinic"))
    plain.handle(asked(TRAIN))
    plain._journal.close()
    budget = (3.0, 1e-6) if account == "in memory" else LedgerBudget(ledger.url, "people", name="clinic")
    party = Party(TABLE, name="clinic", data_norm=1.0, journal=Journal(tmp_path / "clinic"), budget=budget)
    assert not isinstance(decode(party.handle(asked(TRAIN))), Refused)
    assert (party.parts["m"].coef != plain.parts["m"].coef).all()
    assert party.spent != compose()
    party._journal.close()


def test_what_has_no_noise_or_a_state_is_not_on_record(tmp_path):
    party = clinic(tmp_path)
    assert isinstance(decode(party.handle(asked(ShowColumns()))), Payload)
    assert isinstance(decode(party.handle(asked(Describe()))), object)
    assert kept(tmp_path) == []


def test_a_request_stands_by_itself_wherever_its_session_began(tmp_path, ledger):
    party = clinic(tmp_path, ledger)
    requests = frames(*STEPS[:2])
    party.handle(requests[0])
    party._journal.close()
    party = clinic(tmp_path, ledger)
    assert isinstance(decode(party.handle(requests[1])), Payload)
    assert len(charges(ledger)) == 2


def test_an_answer_whose_charge_is_open_waits(tmp_path, ledger, monkeypatch):
    party = clinic(tmp_path, ledger)

    def broken(*given, **named):
        raise MachineError("broken")

    requests = frames(*STEPS[:2])
    for place, name in enumerate(("settle", "charge")):
        with monkeypatch.context() as patch:
            patch.setattr(LedgerBudget, name, broken)
            assert decode(party.handle(requests[place])).reason == "broken"
        if place == 0:
            assert [each.state for each in ledger.history("people")] == ["reserved"]
            assert isinstance(decode(party.handle(requests[0])), Payload)
    assert [each.state for each in ledger.history("people")] == ["committed"]


@pytest.mark.parametrize("change", ["answer", "model"])
def test_what_was_damaged_is_refused(tmp_path, change, caplog):
    party = clinic(tmp_path)
    party.handle(asked(TRAIN))
    party._journal.close()
    with sqlite3.connect(tmp_path / "clinic" / "releases.db") as file:
        ((value,),) = file.execute(f"SELECT {change} FROM releases")
        file.execute(f"UPDATE releases SET {change} = ?", (bytes([value[0] ^ 1]) + value[1:],))
    file.close()
    party = clinic(tmp_path)
    for _ in range(2):
        assert "failed there" in decode(party.handle(asked(TRAIN))).reason
    assert "was damaged" in caplog.text
    assert decode(party.handle(asked(Describe()))).n_rows == N  # and it works on


def test_only_so_many_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("sottovoce.vertical.party.journal.MOST_KEPT", 2)
    party = clinic(tmp_path)
    answers = [party.handle(asked(each)) for each in STEPS]
    assert kept(tmp_path) == answers[-2:]  # in one process, too: a party without a budget is asked for ever


# --- who has it -------------------------------------------------------------------------------------------------------


def test_it_is_for_its_owner_alone(tmp_path):
    party = clinic(tmp_path)
    party.handle(asked(STEPS[0]))
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
    assert not isinstance(decode(selection.handle(asked(STEPS[0]))), Refused)
    assert kept(tmp_path) == []
    raw = asked(STEPS[0])
    party.handle(raw)
    party._journal.close()
    for _ in range(2):
        assert "failed there" in decode(party.handle(raw)).reason
    assert "the journal of party 'clinic'" in caplog.text


def test_what_is_no_journal_is_refused(tmp_path):
    (tmp_path / "clinic").mkdir()
    (tmp_path / "clinic" / "releases.db").write_bytes(b"something else, and long enough to be no database" * 20)
    with pytest.raises(StorageError, match="cannot be used"):
        Journal(tmp_path / "clinic")
    with pytest.raises(ParameterError, match="journal must be a Journal"):
        Party(TABLE, name="clinic", journal=tmp_path)
