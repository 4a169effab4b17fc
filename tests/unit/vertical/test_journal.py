"""A party goes on with its sessions in a new process: nothing is drawn or charged twice, wherever it was killed."""

import copy
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest

from sottovoce.exceptions import ParameterError, StorageError
from sottovoce.ledger import Ledger
from sottovoce.privacy.events import GaussianEvent
from sottovoce.vertical import Party
from sottovoce.vertical.mechanisms import PRIVATE
from sottovoce.vertical.party.budget import LedgerBudget
from sottovoce.vertical.party.journal import Journal
from sottovoce.vertical.party.sessions import MOST_OPEN, MachineError
from sottovoce.vertical.protocol import event_text
from sottovoce.vertical.protocols.frank_wolfe.messages import TrainOnBall
from sottovoce.vertical.protocols.general.messages import Afford, Close, Describe, Keep, Prepare
from sottovoce.vertical.protocols.local_models.messages import TrainOnLabels
from sottovoce.vertical.wire import Done, Frame, Refused
from support.forked import in_child, needs_fork
from support.interrupted import Killed, at_line, draws_by_place
from support.noisy_rounds import ROUNDS, RoundsScores, RoundsStart, RoundsStep, RoundsWorker
from support.party import decode

N = 20
TABLE = np.random.default_rng(3).uniform(-0.5, 0.5, (N, 2))
NAME, OTHER = bytes(range(16)), bytes(16)
LOST = "this session cannot be taken up again here; the party's own log says why. Begin again."


def frames(messages, name=NAME):
    return [Frame(name, place, message.encode()).encode() for place, message in enumerate(messages, start=1)]


def shift(value):
    return np.full(N, value)


MESSAGES = [
    Describe(),
    Prepare(1.0, 0),
    RoundsStart(0.01),
    RoundsStep(shift(0.0), 1),
    RoundsStep(shift(0.1), 1),
    RoundsStep(shift(0.2), 1),
    RoundsStep(shift(0.3), 0),
    Keep("m"),
]
REQUESTS = frames(MESSAGES)


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.create("people", epsilon=3.0, delta=1e-6, adjacency="replace-one", allow_nonprivate=True)
    return ledger


def clinic(folder, ledger=None, *, table=TABLE):
    budget = ledger and LedgerBudget(ledger.url, "people", name="clinic", coordinator="insurer")
    journal = Journal(folder / "clinic")
    answers = None if budget is None else PRIVATE | {"noisy-rounds"}
    return Party(
        table, name="clinic", data_norm=1.0, budget=budget, journal=journal, answers=answers, protocols=[ROUNDS]
    )


@pytest.fixture
def expected(tmp_path_factory, monkeypatch):
    """Return the answers of a party that is never interrupted; each step draws the same wherever it is answered."""
    draws_by_place(monkeypatch)
    party = clinic(tmp_path_factory.mktemp("whole"))
    answers = [party.handle(raw) for raw in REQUESTS]
    assert not any(isinstance(decode(answer), Refused) for answer in answers)
    party._journal.close()
    return answers


def charges(ledger):
    return [(each.plan["step"], each.event) for each in ledger.history("people")]


# --- wherever it is killed --------------------------------------------------------------------------------------------


def before(function):
    def killed(*given, **named):
        raise Killed

    return killed


def after(function):
    def killed(*given, **named):
        function(*given, **named)
        raise Killed

    return killed


POINTS = {
    "before the charge": (LedgerBudget, "charge", before),
    "after the charge": (LedgerBudget, "charge", after),
    "after the draw": (RoundsWorker, "step", after),
    "before the answer is on disk": (Journal, "keep", before),
    "after it": (Journal, "keep", after),
    "before the charge is closed": (LedgerBudget, "settle", before),
    "after it, and before the answer leaves": (LedgerBudget, "settle", after),
}


@pytest.mark.parametrize("point", POINTS)
def test_a_party_that_is_killed_goes_on(tmp_path, ledger, expected, monkeypatch, point):
    """At its start, at every step and twice in a row."""
    owner, name, kill = POINTS[point]
    answers = []
    for place, raw in enumerate(REQUESTS):
        for _ in range(1 + place % 2):
            party = clinic(tmp_path, ledger)
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, kill(getattr(owner, name)))
                with suppress(Killed):
                    party.handle(raw)  # the line breaks, or nobody waits for it
            party._journal.close()
        party = clinic(tmp_path, ledger)
        answers.append(party.handle(raw))
        assert party.handle(raw) == answers[-1]
        party._journal.close()
    assert answers == expected
    assert charges(ledger) == [(step, GaussianEvent(100.0)) for step in (4, 5, 6)]


@pytest.mark.parametrize("point", POINTS)
@needs_fork
def test_a_process_that_is_killed_goes_on(tmp_path, ledger, expected, monkeypatch, point):
    """Really: the process ends at once, and nothing is closed."""
    owner, name, kill = POINTS[point]

    def work():
        party = clinic(tmp_path, ledger)
        for raw in REQUESTS[:5]:
            party.handle(raw)
        setattr(owner, name, kill(getattr(owner, name)))
        try:
            party.handle(REQUESTS[5])
        except Killed:
            os._exit(0)
        return b""

    in_child(work)
    party = clinic(tmp_path, ledger)
    assert [party.handle(raw) for raw in REQUESTS[5:]] == expected[5:]
    assert charges(ledger) == [(step, GaussianEvent(100.0)) for step in (4, 5, 6)]
    party._journal.close()


@pytest.mark.parametrize("n_steps", [15, pytest.param(170, marks=pytest.mark.slow)])
def test_killed_at_any_line_a_step_has_one_answer_and_one_charge(tmp_path, ledger, n_steps):
    """Three times at each step, at lines that are drawn; what was drawn never follows from a key."""
    draw, most, n_killed = np.random.default_rng(7), 100, 0
    steps = [RoundsStep(shift(0.01 * k), 1) for k in range(n_steps)]
    for raw in frames([Prepare(1.0, 0), RoundsStart(0.002), *steps]):
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
            most = max(most, executed[0])  # lines of a step
        assert len(left) == 1
        assert not isinstance(decode(*left), Refused)
    assert n_killed >= 2 * n_steps, most
    assert charges(ledger) == [(step, GaussianEvent(500.0)) for step in range(3, n_steps + 3)]


@pytest.mark.parametrize("again", [False, True], ids=["the same process", "another one"])
def test_an_answer_whose_charge_is_cancelled_meanwhile_stays(tmp_path, ledger, monkeypatch, again):
    """By hand, as whoever answers for the data may; it costs nothing then, so nothing of it may leave."""
    party = clinic(tmp_path, ledger)
    for raw in REQUESTS[:3]:
        party.handle(raw)
    true = RoundsWorker.step

    def cancelled(*given, **named):
        ledger.cancel(ledger.history("people")[-1].charge, "by hand")
        return true(*given, **named)

    monkeypatch.setattr(RoundsWorker, "step", cancelled)
    assert isinstance(decode(party.handle(REQUESTS[3])), Refused)
    monkeypatch.setattr(RoundsWorker, "step", true)
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


def test_what_left_is_never_another(tmp_path, ledger):
    """No key is kept: an answer that left comes again from the disk, and every other draw is fresh."""
    answers = []
    for raw in REQUESTS[:5]:
        party = clinic(tmp_path, ledger)
        answers.append(party.handle(raw))
        party._journal.close()
        party = clinic(tmp_path, ledger)
        assert party.handle(raw) == answers[-1]
        party._journal.close()
    other = clinic(tmp_path / "other")
    again = [other.handle(raw) for raw in REQUESTS[:5]]
    assert again[:3] == answers[:3]
    for one, another in zip(answers[3:], again[3:], strict=True):
        assert np.std(decode(one).scores - decode(another).scores) > 100.0


SIGNS = np.sign(TABLE[:, 0])
TRAININGS = {
    "labels": TrainOnLabels(SIGNS, "logistic", 0.0, 0.0, 0.1, 0.2, "m"),
    "ball": TrainOnBall("squared", SIGNS, 1.0, 1.0, 9, 0.1, 1, 1.0, "m"),
}


@pytest.mark.parametrize("asked", TRAININGS.values(), ids=TRAININGS)
@pytest.mark.parametrize("point", POINTS)
def test_two_copies_of_a_folder_pay_for_each_model(tmp_path, ledger, monkeypatch, point, asked):
    """Their answers are alike and tell nothing of the model, which leaves by scores."""
    owner, name, _ = POINTS[point]

    def clinic_of(folder):
        budget = LedgerBudget(ledger.url, "people", name="clinic")
        return Party(
            TABLE, name="clinic", data_norm=1.0, data_bound=1.0, budget=budget, journal=Journal(folder / "clinic")
        )

    one = clinic_of(tmp_path)
    one.handle(frames([Describe()])[0])
    one._journal.close()
    shutil.copytree(tmp_path / "clinic", tmp_path / "copy" / "clinic")
    parties, answers = [clinic_of(tmp_path), clinic_of(tmp_path / "copy")], [None, None]
    true, training = getattr(owner, name), frames([Describe(), asked])[1]

    def meanwhile(self, *given, **named):
        monkeypatch.setattr(owner, name, true)
        results = [true(self, *given, **named)] if point.startswith("after") else []
        answers[0] = parties[0].handle(training)
        return results[0] if results else true(self, *given, **named)

    if owner is not RoundsWorker:
        monkeypatch.setattr(owner, name, meanwhile)
    answers[1] = parties[1].handle(training)
    answers[0] = answers[0] or parties[0].handle(training)
    models = set()
    for party, answer in zip(parties, answers, strict=True):
        assert party.keeps("m") != isinstance(decode(answer), Refused)
        models |= {part.coef.tobytes() for part in party.parts.values()}
    assert 1 <= len(models) <= len(charges(ledger))


def test_what_never_left_is_drawn_anew(tmp_path, ledger, monkeypatch):
    """Its charge is that of the answer which leaves: one for one."""
    drawn, step = [], RoundsWorker.step

    def watched(self, request, noise):
        drawn.append(step(self, request, noise))
        return drawn[-1]

    monkeypatch.setattr(RoundsWorker, "step", watched)
    for raw in REQUESTS[:3]:
        party = clinic(tmp_path, ledger)
        party.handle(raw)
        party._journal.close()
    for point in ("after the draw", "before the answer is on disk"):
        owner, name, kill = POINTS[point]
        party = clinic(tmp_path, ledger)
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, kill(getattr(owner, name)))
            with pytest.raises(Killed):
                party.handle(REQUESTS[3])
        party._journal.close()
    party = clinic(tmp_path, ledger)
    left = decode(party.handle(REQUESTS[3])).scores
    assert [np.array_equal(left, each.scores) for each in drawn] == [False, False, True]
    assert charges(ledger) == [(4, GaussianEvent(100.0))]


def test_another_askedafter_a_crash_is_another_release(tmp_path, ledger, monkeypatch):
    """The charge of one that was drawn and never left stays; the other one is charged too."""
    party = clinic(tmp_path, ledger)
    for raw in REQUESTS[:4]:
        party.handle(raw)
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "keep", before(None))
        with pytest.raises(Killed):
            party.handle(REQUESTS[4])
    party._journal.close()
    party = clinic(tmp_path, ledger)
    other = frames([*MESSAGES[:4], RoundsStep(shift(0.1 + 1e-9), 1)])[-1]
    answer = party.handle(other)
    assert isinstance(decode(answer), RoundsScores)
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
    assert np.std(decode(again[-1]).scores - decode(answer).scores) > 100.0
    assert [step for step, _ in charges(ledger)] == [4, 4]


def test_a_question_is_not_asked_again(tmp_path, ledger):
    """What the budget covered when it was asked it may not cover now; that is no reason to begin again."""
    event = event_text(GaussianEvent(2.0))
    messages = [Afford(event), *MESSAGES[1:4]]
    party = clinic(tmp_path, ledger)
    before_it = [party.handle(raw) for raw in frames(messages)]
    assert isinstance(decode(before_it[0]), Done)
    ledger.reserve("people", GaussianEvent(2.0), delta=1e-7, adjacency="replace-one")
    party._journal.close()
    party = clinic(tmp_path, ledger)
    assert party.handle(frames(messages)[-1]) == before_it[-1]
    asked = frames([*messages, Afford(event)])[-1]
    assert "would bring what was spent" in decode(party.handle(asked)).reason


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
    assert isinstance(decode(party.handle(REQUESTS[3])), RoundsScores)
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
    assert decode(party.handle(frames([Describe()], OTHER)[0])).n_rows == N  # and it works on


def test_only_so_many_sessions_are_kept(tmp_path):
    names = [bytes([place]) * 16 for place in range(MOST_OPEN + 3)]
    for name in names[: MOST_OPEN - 1], names[MOST_OPEN - 1 :]:
        party = clinic(tmp_path)
        for each in name:
            party.handle(frames([Describe()], each)[0])
        party._journal.close()
    assert len(kept(tmp_path)) == MOST_OPEN
    party = clinic(tmp_path)
    assert "has ended here" in decode(party.handle(frames([Describe()] * 2, names[0])[1])).reason
    assert decode(party.handle(frames([Describe()] * 2, names[-1])[1])).n_rows == N


def test_an_answer_that_cannot_be_put_on_record_does_not_leave(tmp_path, ledger, expected, monkeypatch, caplog):
    party = clinic(tmp_path, ledger)
    for raw in REQUESTS[:3]:
        party.handle(raw)

    def full(*given, **named):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "keep", full)
        assert "failed there" in decode(party.handle(REQUESTS[3])).reason
    assert "No space left" in caplog.text
    assert party.handle(REQUESTS[3]) == expected[3]
    assert [step for step, _ in charges(ledger)] == [4]


# --- who has it -------------------------------------------------------------------------------------------------------


def test_it_is_for_its_owner_alone(tmp_path):
    party = clinic(tmp_path)
    party.handle(REQUESTS[0])
    found = list((tmp_path / "clinic").rglob("*"))
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o600}
    assert stat.S_IMODE((tmp_path / "clinic").stat().st_mode) == 0o700
    assert "key" not in {path.name for path in found}


def test_one_process_has_it(tmp_path):
    journal = Journal(tmp_path / "clinic")
    with pytest.raises(StorageError, match="held by another process"):
        Journal(tmp_path / "clinic")
    script = "import sys; from sottovoce.vertical.party.journal import Journal; Journal(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "clinic"], capture_output=True, check=False)
    assert b"held by another process" in done.stderr
    journal.close()
    Journal(tmp_path / "clinic").close()


def test_one_object_has_it(tmp_path):
    """Two that take a session up from the same folder would answer its next step twice."""
    party = clinic(tmp_path)
    with pytest.raises(ParameterError, match="belongs to a party object named 'clinic' already"):
        Party(TABLE, name="other", journal=party._journal)
    with pytest.raises(TypeError, match="cannot be copied"):
        copy.copy(party._journal)


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


def test_a_party_whose_journal_was_closed_answers_nothing(tmp_path):
    party = clinic(tmp_path)
    party.handle(REQUESTS[0])
    party._journal.close()
    assert "failed there" in decode(party.handle(REQUESTS[1])).reason


def test_selections_have_none(tmp_path, expected):
    party = clinic(tmp_path)
    other = party.take(np.arange(N))
    assert [other.handle(raw) for raw in REQUESTS[:4]] == expected[:4]
    assert kept(tmp_path) == {}


def test_what_is_no_journal_is_refused(tmp_path):
    (tmp_path / "clinic").mkdir()
    (tmp_path / "clinic" / "sessions.db").write_bytes(b"something else, and long enough to be no database" * 20)
    with pytest.raises(StorageError, match="cannot be used"):
        Journal(tmp_path / "clinic")
    with pytest.raises(ParameterError, match="journal must be a Journal"):
        Party(TABLE, name="clinic", journal=tmp_path)


# --- seeds ------------------------------------------------------------------------------------------------------------


def test_a_seed_stays_what_it_is(tmp_path, ledger):
    """Where the noise of a trial is goes with the session: no step draws what another one has drawn."""

    def answers(party, requests):
        party.seed(7)
        return [party.handle(raw) for raw in requests]

    plain = answers(Party(TABLE, name="clinic", data_norm=1.0, protocols=[ROUNDS]), REQUESTS)
    for first, last in ((0, 4), (4, 5), (5, len(REQUESTS))):
        party = clinic(tmp_path, ledger)
        assert answers(party, REQUESTS[first:last]) == plain[first:last]
        party._journal.close()
    assert [step for step, _ in charges(ledger)] == [4, 5, 6]
    assert all(each.seeded for each in ledger.history("people"))


# --- accounts ---------------------------------------------------------------------------------------------------------


def test_a_cap_holds_for_requests_at_once(ledger, monkeypatch):
    """Of two objects: each finds room, and one of them is charged."""
    one, other = (LedgerBudget(ledger.url, "people", name="clinic", coordinator="insurer", cap=0.5) for _ in range(2))
    event, true, refusals = GaussianEvent(10.0), LedgerBudget.shortage, []

    def meanwhile(self, *given):
        monkeypatch.setattr(LedgerBudget, "shortage", true)
        shortage = self.shortage(*given)
        refusals.append(other.charge(event))
        return shortage

    monkeypatch.setattr(LedgerBudget, "shortage", meanwhile)
    refusals.append(one.charge(event))
    assert refusals[0] == ""
    assert "its owner allows coordinator 'insurer' epsilon=0.5" in refusals[1]
    assert len(ledger.history("people")) == 1
