"""A party goes on with its sessions in a new process: nothing is drawn or charged twice, wherever it was killed."""

import copy
import os
import pickle
import stat
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest

from sottovoce._kept import RecordFile
from sottovoce.exceptions import ParameterError, StorageError
from sottovoce.ledger import Ledger
from sottovoce.privacy.events import GaussianEvent
from sottovoce.vertical import Party
from sottovoce.vertical.mechanisms import PRIVATE
from sottovoce.vertical.party.budget import LedgerBudget, PartyBudget, Place
from sottovoce.vertical.party.journal import Journal, SessionLog
from sottovoce.vertical.party.sessions import MOST_OPEN
from sottovoce.vertical.protocol import event_text
from sottovoce.vertical.protocols.general.messages import Afford, Close, Describe, Keep, Prepare
from sottovoce.vertical.wire import Done, Frame, Refused
from support.forked import in_child, needs_fork
from support.interrupted import Killed
from support.noisy_rounds import ROUNDS, RoundsScores, RoundsStart, RoundsStep, RoundsWorker
from support.party import decode

N = 20
TABLE = np.random.default_rng(3).uniform(-0.5, 0.5, (N, 2))
NAME, OTHER = bytes(range(16)), bytes(16)
KEY = bytes(range(32))
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


def clinic(folder, ledger=None, *, table=TABLE, **options):
    (folder / "clinic").mkdir(exist_ok=True)
    (folder / "clinic" / "key").write_bytes(KEY)
    budget = ledger and LedgerBudget(ledger.url, "people", name="clinic", coordinator="insurer")
    journal = Journal(folder / "clinic", **options)
    answers = None if budget is None else PRIVATE | {"noisy-rounds"}
    return Party(
        table, name="clinic", data_norm=1.0, budget=budget, journal=journal, answers=answers, protocols=[ROUNDS]
    )


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Return the answers of a party that is never interrupted."""
    party = clinic(tmp_path_factory.mktemp("whole"))
    answers = [party.handle(raw) for raw in REQUESTS]
    assert not any(isinstance(decode(answer), Refused) for answer in answers)
    party._journal.close()
    return answers


def charges(ledger):
    return [(each.plan["step"], each.event) for each in ledger.history("people")]


# --- wherever it is killed --------------------------------------------------------------------------------------------


def half_a_record(write):
    """Write the beginning of a record, and die."""

    def append(self, kind, parts):
        before = self.size
        write(self, kind, parts)
        os.truncate(self.path, before + 30)
        raise Killed

    return append


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
    "before the request is on disk": (SessionLog, "asked", before),
    "in the middle of it": (RecordFile, "append", half_a_record),
    "after it": (SessionLog, "asked", after),
    "before the charge": (LedgerBudget, "charge", before),
    "after the charge": (LedgerBudget, "charge", after),
    "after the draw": (RoundsWorker, "step", after),
    "before the answer is on record": (SessionLog, "answered", before),
    "after it, and before the answer leaves": (SessionLog, "answered", after),
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


# --- what is never drawn again ----------------------------------------------------------------------------------------


def noise(party, messages, name=NAME):
    """Return the scores of the last message; of one and the same party they differ by their noise alone."""
    answer = decode([party.handle(raw) for raw in frames(messages, name)][-1])
    assert isinstance(answer, RoundsScores), answer
    return answer.scores


def test_noise_depends_on_everything(tmp_path, expected):
    """The same step after another request, in another session or over another table has noise of its own."""
    first = decode(expected[4]).scores
    others = {
        "another session": (MESSAGES[:5], OTHER, TABLE),
        "another request before it": ([*MESSAGES[:3], RoundsStep(shift(1e-9), 1), MESSAGES[4]], NAME, TABLE),
        "another request": ([*MESSAGES[:4], RoundsStep(shift(0.1 + 1e-9), 1)], NAME, TABLE),
        "another table": (MESSAGES[:5], NAME, TABLE + 1e-12),
    }
    seen = [first]
    for place, (what, (messages, name, table)) in enumerate(others.items()):
        (tmp_path / str(place)).mkdir()
        party = clinic(tmp_path / str(place), table=table)
        scores = noise(party, messages, name)
        for other in seen:
            assert np.std(scores - other) > 100.0, what
        seen.append(scores)
        party._journal.close()


def test_steps_of_a_session_share_no_noise(tmp_path, expected):
    scores = [decode(expected[place]).scores for place in (3, 4, 5)]
    assert all(np.std(one - other) > 100.0 for one in scores for other in scores if one is not other)


def test_another_request_after_a_crash_is_another_release(tmp_path, ledger, expected, monkeypatch):
    """The charge of one that was drawn and never left stays; the other one is charged too, and has its own noise."""
    party = clinic(tmp_path, ledger)
    for raw in REQUESTS[:4]:
        party.handle(raw)
    monkeypatch.setattr(SessionLog, "answered", before(None))
    with pytest.raises(Killed):
        party.handle(REQUESTS[4])
    monkeypatch.undo()
    party._journal.close()
    party = clinic(tmp_path, ledger)
    other = frames([*MESSAGES[:4], RoundsStep(shift(0.1 + 1e-9), 1)])[-1]
    scores = decode(party.handle(other)).scores
    assert np.std(scores - decode(expected[4]).scores) > 100.0
    assert [step for step, _ in charges(ledger)] == [4, 5, 5]
    party._journal.close()
    party = clinic(tmp_path, ledger)
    assert "another request, which has been answered" in decode(party.handle(REQUESTS[4])).reason
    assert np.array_equal(decode(party.handle(other)).scores, scores)
    assert [step for step, _ in charges(ledger)] == [4, 5, 5]


def test_an_older_step_is_not_answered_again(tmp_path, expected):
    party = clinic(tmp_path)
    for raw in REQUESTS[:5]:
        party.handle(raw)
    party._journal.close()
    party = clinic(tmp_path)
    assert "has been answered" in decode(party.handle(REQUESTS[3])).reason
    assert party.handle(REQUESTS[4]) == expected[4]
    assert "step 6 is next" in decode(party.handle(REQUESTS[6])).reason


def test_what_ended_stays_ended(tmp_path, ledger):
    party = clinic(tmp_path, ledger)
    for raw in REQUESTS[:4]:
        party.handle(raw)
    assert isinstance(decode(party.handle(Frame(NAME, 5, Close().encode()).encode())), Done)
    assert list((tmp_path / "clinic" / "sessions").iterdir()) == []
    party._journal.close()
    for step in (0, 3, 4):
        party = clinic(tmp_path, ledger)
        assert "has ended here" in decode(party.handle(REQUESTS[step])).reason
        party._journal.close()


def test_without_its_memory_a_session_is_charged_again(tmp_path, ledger, expected):
    """Whoever removes what is kept makes a new session of it, which costs what a new one costs."""
    party = clinic(tmp_path, ledger)
    for raw in REQUESTS[:4]:
        party.handle(raw)
    party._journal.close()
    for path in (tmp_path / "clinic" / "sessions").iterdir():
        path.unlink()
    party = clinic(tmp_path, ledger)
    assert [party.handle(raw) for raw in REQUESTS[:4]] == expected[:4]
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
    party.handle(frames([*messages, Afford(event)])[-1])
    party._journal.close()
    party = clinic(tmp_path, ledger)
    assert "would bring what was spent" in decode(party.handle(frames([*messages, Afford(event)])[-1])).reason


# --- what cannot be taken up again ------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["table", "damaged", "one byte", "out of order"])
def test_what_does_not_fit_is_refused_in_the_same_words(tmp_path, change, caplog):
    party = clinic(tmp_path)
    for raw in REQUESTS[:5]:
        party.handle(raw)
    party._journal.close()
    (path,) = (tmp_path / "clinic" / "sessions").iterdir()
    raw = bytearray(path.read_bytes())
    if change == "damaged":
        raw[200:300] = bytes(100)
    if change == "one byte":
        raw[len(raw) // 2] ^= 1
    if change == "out of order":
        file = RecordFile(path)
        file.append(3, [bytes(33)])
        file.close()
    else:
        path.write_bytes(raw)
    party = clinic(tmp_path, table=TABLE + (1e-9 if change == "table" else 0.0))
    reason = decode(party.handle(REQUESTS[5])).reason
    if change == "damaged":  # a file that is cut there: what came after it is not known any more
        assert reason in (LOST, "step 6 of this session came where step 5 is next.") or "is next" in reason
    else:
        assert reason == LOST
        assert "cannot be taken up again" in caplog.text
    assert decode(party.handle(frames([Describe()], OTHER)[0])).n_rows == N  # and it works on


def test_a_session_is_about_one_table(tmp_path, caplog):
    """Also one of which nothing has been told yet but the sizes."""
    party = clinic(tmp_path)
    party.handle(REQUESTS[0])
    party._journal.close()
    assert decode(clinic(tmp_path, table=TABLE + 1e-9).handle(REQUESTS[1])).reason == LOST
    assert "about another table" in caplog.text


@pytest.mark.parametrize("asked_again", [False, True])
def test_an_answer_that_comes_out_otherwise_is_refused(tmp_path, monkeypatch, caplog, asked_again):
    """Another version, or another machine: what is released next would not be what was planned."""
    party = clinic(tmp_path, asked_again=asked_again)
    for raw in REQUESTS[:5]:
        party.handle(raw)
    party._journal.close()
    party, step = clinic(tmp_path, asked_again=asked_again), RoundsWorker.step

    def otherwise(self, request, noise):
        reply = step(self, request, noise)
        return RoundsScores(reply.scores + 2.0**-20, reply.event)

    monkeypatch.setattr(RoundsWorker, "step", otherwise)
    answers = [decode(party.handle(raw)) for raw in REQUESTS[0 if asked_again else 5 : 6]]
    assert answers[3 if asked_again else 0].reason == LOST
    assert all(isinstance(answer, Refused) for answer in answers[3:])
    assert "the answer to step 4 is another one than before" in caplog.text


def test_what_is_too_long_is_not_kept(tmp_path, expected):
    party = clinic(tmp_path, most_bytes=1000)
    assert [party.handle(raw) for raw in REQUESTS] == expected
    (path,) = (tmp_path / "clinic" / "sessions").iterdir()
    assert path.stat().st_size < 100
    party._journal.close()
    party = clinic(tmp_path, most_bytes=1000)
    assert decode(party.handle(REQUESTS[4])).reason == LOST
    assert decode(party.handle(REQUESTS[0])).reason == LOST


def test_what_nobody_took_up_makes_room(tmp_path):
    party = clinic(tmp_path)
    for raw in REQUESTS[:6]:
        party.handle(raw)
    party._journal.close()
    size = sum(path.stat().st_size for path in (tmp_path / "clinic" / "sessions").iterdir())
    party = clinic(tmp_path, most_bytes=size + 200)
    for raw in frames(MESSAGES[:6], OTHER):
        party.handle(raw)
    assert [path.name for path in (tmp_path / "clinic" / "sessions").iterdir()] == [OTHER.hex()]
    party._journal.close()
    party = clinic(tmp_path)
    assert "has ended here" in decode(party.handle(REQUESTS[6])).reason
    assert isinstance(decode(party.handle(frames(MESSAGES, OTHER)[6])), RoundsScores)


def test_only_so_many_sessions_are_kept(tmp_path):
    names = [bytes([place]) * 16 for place in range(MOST_OPEN + 3)]
    for name in names[: MOST_OPEN - 1], names[MOST_OPEN - 1 :]:
        party = clinic(tmp_path)
        for each in name:
            party.handle(frames([Describe()], each)[0])
        party._journal.close()
    assert len(list((tmp_path / "clinic" / "sessions").iterdir())) == MOST_OPEN
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
        patch.setattr(SessionLog, "asked", full)
        assert "failed there" in decode(party.handle(REQUESTS[3])).reason
    assert charges(ledger) == []
    with monkeypatch.context() as patch:
        patch.setattr(SessionLog, "answered", full)
        assert "failed there" in decode(party.handle(REQUESTS[3])).reason
    assert "No space left" in caplog.text
    assert party.handle(REQUESTS[3]) == expected[3]
    assert [step for step, _ in charges(ledger)] == [4]


# --- who has it -------------------------------------------------------------------------------------------------------


def test_it_is_for_its_owner_alone(tmp_path):
    party = clinic(tmp_path)
    party.handle(REQUESTS[0])
    for path in (tmp_path / "clinic").rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600) or path.name == "key", path
    assert stat.S_IMODE((tmp_path / "clinic").stat().st_mode) == 0o700
    made = Journal(tmp_path / "made")
    assert stat.S_IMODE((tmp_path / "made" / "key").stat().st_mode) == 0o600
    assert len((tmp_path / "made" / "key").read_bytes()) == 32
    assert "StoredKey(...)" in repr(made.key)
    with pytest.raises(TypeError, match="cannot be copied"):
        pickle.dumps(made.key)


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
    party._journal.close()
    path = tmp_path / "clinic" / "ended"
    assert path.read_bytes() == b"".join(names)
    path.write_bytes(path.read_bytes() + b"cut")
    monkeypatch.setattr("sottovoce.vertical.party.journal.MOST_ENDED", 4)
    journal = Journal(tmp_path / "clinic")
    assert journal.ended() == names[-4:]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    journal.close()


def test_a_party_whose_journal_was_closed_answers_nothing(tmp_path):
    party = clinic(tmp_path)
    party.handle(REQUESTS[0])
    party._journal.close()
    assert "failed there" in decode(party.handle(REQUESTS[1])).reason


def test_copies_and_selections_have_none(tmp_path, expected):
    party = clinic(tmp_path)
    for other in (copy.deepcopy(party), pickle.loads(pickle.dumps(party)), party.take(np.arange(N))):
        answers = [other.handle(raw) for raw in REQUESTS[:4]]
        assert answers[:3] == expected[:3]
        assert answers[3] != expected[3]
    assert list((tmp_path / "clinic" / "sessions").iterdir()) == []


@needs_fork
def test_a_child_of_a_fork_draws_its_own_noise(tmp_path, expected):
    party = clinic(tmp_path)
    party.handle(REQUESTS[0])
    assert in_child(lambda: [party.handle(raw) for raw in REQUESTS[:4]][-1]) != expected[3]
    assert [party.handle(raw) for raw in REQUESTS[1:4]] == expected[1:4]


def test_a_broken_key_is_not_replaced(tmp_path):
    (tmp_path / "clinic").mkdir()
    (tmp_path / "clinic" / "key").write_bytes(b"short")
    with pytest.raises(StorageError, match="is not a key of 32 bytes"):
        Journal(tmp_path / "clinic")
    with pytest.raises(ParameterError, match="journal must be a Journal"):
        Party(TABLE, name="clinic", journal=tmp_path)
    with pytest.raises(ParameterError, match="most_bytes"):
        Journal(tmp_path / "other", most_bytes=0)


# --- the party that lives with the coordinator ------------------------------------------------------------------------


def test_the_party_at_home_is_asked_again(tmp_path, ledger, expected):
    for stop in (0, 3, 4, 6, len(REQUESTS), len(REQUESTS)):
        party = clinic(tmp_path, ledger, asked_again=True)
        assert [party.handle(raw) for raw in REQUESTS[:stop]] == expected[:stop]
        party._journal.close()
    assert [step for step, _ in charges(ledger)] == [4, 5, 6]
    (path,) = (tmp_path / "clinic" / "sessions").iterdir()
    assert path.stat().st_size < 2500  # digests


def test_the_party_at_home_is_asked_the_same(tmp_path, ledger):
    party = clinic(tmp_path, ledger, asked_again=True)
    for raw in REQUESTS[:5]:
        party.handle(raw)
    party._journal.close()
    party = clinic(tmp_path, ledger, asked_again=True)
    for raw in REQUESTS[:4]:
        party.handle(raw)
    other = frames([*MESSAGES[:4], RoundsStep(shift(0.7), 1)])[-1]
    assert decode(party.handle(other)).reason == LOST
    assert "has ended here" in decode(party.handle(REQUESTS[4])).reason
    assert [step for step, _ in charges(ledger)] == [4, 5]


# --- seeds ------------------------------------------------------------------------------------------------------------


def test_a_seed_stays_what_it_is(tmp_path, ledger):
    def answers(party, requests):
        party.seed(7)
        return [party.handle(raw) for raw in requests]

    plain = answers(Party(TABLE, name="clinic", data_norm=1.0, protocols=[ROUNDS]), REQUESTS)
    party = clinic(tmp_path, ledger)
    assert answers(party, REQUESTS[:5]) == plain[:5]
    party._journal.close()
    party = clinic(tmp_path, ledger)
    assert answers(party, REQUESTS[4:]) == plain[4:]
    assert [step for step, _ in charges(ledger)] == [4, 5, 6]
    assert all(each.seeded for each in ledger.history("people"))


# --- accounts ---------------------------------------------------------------------------------------------------------


def test_a_charge_says_what_it_is_for(tmp_path, ledger):
    party = clinic(tmp_path, ledger)
    for raw in REQUESTS[:4]:
        party.handle(raw)
    (charge,) = ledger.history("people")
    assert charge.plan == {
        "party": "clinic", "coordinator": "insurer", "session": NAME.hex(), "step": 4,
        "release": charge.plan["release"],
    }  # fmt: skip
    assert len(charge.plan["release"]) == 32


def test_a_coordinator_has_a_cap(ledger):
    def account(coordinator, **options):
        return LedgerBudget(ledger, "people", name="clinic", coordinator=coordinator, **options)

    insurer, other = account("insurer", cap=0.5), account("other", cap=3.0)
    small = GaussianEvent(20.0)
    granted = 0
    while not insurer.charge(small):
        granted += 1
    assert 1 <= granted < 10
    assert "its owner allows coordinator 'insurer' epsilon=0.5 at delta=1e-06 in all" in insurer.shortage(small)
    assert "its owner allows" in account("insurer", cap=0.5).charge(small)  # in another process too
    assert other.charge(small) == ""
    assert account("third", cap=0.5).shortage(small) == ""  # what others were told is not counted
    assert insurer.shortage(small) == insurer.charge(small) != ""
    with pytest.raises(ParameterError, match="cap"):
        account("insurer", cap=4.0)
    with pytest.raises(ParameterError, match="give its name"):
        LedgerBudget(ledger, "people", name="clinic", cap=1.0)


def test_a_release_is_charged_once_only_where_it_is_on_record(ledger):
    """A name alone spares nobody a charge: it must be a request that this party has on disk."""
    for budget in (LedgerBudget(ledger, "people", name="clinic"), PartyBudget((1.0, 1e-6))):
        event = GaussianEvent(30.0)
        place = Place("aa", 1, "bb")
        assert budget.charge(event, place=place) == ""
        once = budget.spent
        assert budget.charge(event, place=Place("aa", 1, "bb", again=True)) == ""
        assert budget.spent == once
        assert budget.charge(event, place=Place("aa", 1, "", again=True)) == ""
        twice = budget.spent
        assert twice != once
        assert budget.charge(event, place=place) == ""
        assert budget.spent != twice
