"""Copies of a party's folder, ledgers that are brought back, owners who cancel: no answer leaves without its charge."""

import shutil
import threading
from contextlib import suppress

import numpy as np
import pytest

from sottovoce.exceptions import LedgerError
from sottovoce.ledger import Ledger
from sottovoce.privacy.events import GaussianEvent, NothingReleased
from sottovoce.vertical import Party
from sottovoce.vertical.party.budget import LedgerBudget
from sottovoce.vertical.party.journal import Journal
from sottovoce.vertical.protocol import Protocol, Request
from sottovoce.vertical.requests.frank_wolfe import TrainOnBall
from sottovoce.vertical.requests.local_models import TrainOnLabels
from sottovoce.vertical.wire import Done, Frame, Payload, Refused, new_session
from support.clinic import TABLE, N, clinic, frames, new_ledger, shift
from support.interrupted import Killed
from support.noisy_rounds import RoundsStep
from support.pairs import by_pairs
from support.party import decode

SIGNS = np.sign(TABLE[:, 0])
COPIES = ("one", "two", "three")


class Tell(Request, code=250):
    """One noisy number a row, at a cost that follows from a fact that the owner declares."""

    def answer(self, facts, worker):
        desk = yield GaussianEvent(40.0 if facts.nonnegative else 20.0)
        return Payload(desk.noise().standard_normal(N))


class Begin(Request, code=251, opens=True):
    """The start of a training of several requests, which is charged as a whole; all such starts look alike."""

    def answer(self, facts, worker):
        desk = yield GaussianEvent(20.0)
        desk.worker = desk.noise()
        return Done()


TELLS = Protocol("tells", "tell", (Tell, Begin), private=True)


@pytest.fixture
def ledger(tmp_path):
    return new_ledger(tmp_path)


def charged(ledger):
    return [each for each in ledger.history("people") if each.counts and each.event != NothingReleased()]


STEPS = {
    "step": lambda k: RoundsStep(shift(0.1 * k)),
    "labels": lambda k: TrainOnLabels(SIGNS, "logistic", 0.0, 0.0, 0.1 + 0.01 * k, 0.01, "m"),
    "ball": lambda k: TrainOnBall("squared", SIGNS, 1.0, 1.0 + k, 9, 0.01, 1, 1.0, "m"),
}


def asked(message):
    """Return the first request of a new session."""
    return Frame(new_session(), message.encode()).encode()


@pytest.mark.parametrize(("kind", "seed"), by_pairs(list(STEPS), range(3)))
def test_copies_that_answer_at_once_under_an_owner_who_cancels_have_a_charge_for_each_answer(
    tmp_path, ledger, monkeypatch, kind, seed
):
    """Three copies, each inside the others at any point of a step; charges are cancelled by hand between; some die."""
    draw = np.random.default_rng([seed, len(kind)])
    parties = {name: clinic(tmp_path / name, ledger) for name in COPIES}
    left, busy = {}, []

    def cancel():
        open_ones = [each.charge for each in ledger.history("people") if each.state == "reserved"]
        if open_ones:
            with suppress(LedgerError):  # somebody was first
                ledger.cancel(str(draw.choice(open_ones)), "by hand")

    def ask(name):
        busy.append(name)
        try:
            answer = parties[name].handle(asked(message))
            if not isinstance(decode(answer), Refused):
                model = parties[name].parts.get("m")
                left[hash(answer + (b"" if model is None else model.coef.tobytes()))] = name
        except Killed:
            parties[name]._journal.close()
            parties[name] = clinic(tmp_path / name, ledger)
        finally:
            busy.remove(name)

    def meanwhile(owner, what):
        true = getattr(owner, what)

        def played(*given, **named):
            for at in range(2):
                if at == 1:
                    result = true(*given, **named)
                free = [name for name in COPIES if name not in busy]
                match draw.integers(7):
                    case 0:
                        cancel()
                    case 1 | 2 if free:
                        ask(str(draw.choice(free)))
                    case 3 if draw.random() < 0.5:
                        raise Killed
            return result

        monkeypatch.setattr(owner, what, played)

    for number in range(4):
        message = STEPS[kind](number)
        for owner, what in ((LedgerBudget, "charge"), (LedgerBudget, "settle"), (Journal, "keep"), (Ledger, "commit")):
            meanwhile(owner, what)
        for name in draw.permutation([*COPIES, *COPIES]):
            if draw.random() < 0.1:
                cancel()
            ask(str(name))
        monkeypatch.undo()
    assert len(left) <= sum(each.state == "committed" for each in charged(ledger))
    for party in parties.values():
        party._journal.close()


@pytest.mark.parametrize("message", [STEPS["labels"](0), Begin()], ids=["one request", "a start"])
def test_selections_of_one_party_that_are_asked_at_once_have_a_charge_for_each_answer(monkeypatch, message):
    """They share an account in memory: what is open for one of them is not free for the other."""
    party = Party(TABLE, name="clinic", data_norm=1.0, budget=(3.0, 1e-6), protocols=[TELLS])
    selections = [party.take(np.arange(N)) for _ in range(3)]
    (raw,) = frames(message)
    ready, answers, true = threading.Barrier(3), [], type(party.budget).charge

    def together(self, *given, **named):
        refusal = true(self, *given, **named)
        ready.wait(60)  # all are charged, and none has answered
        return refusal

    monkeypatch.setattr(type(party.budget), "charge", together)
    threads = [threading.Thread(target=lambda each=each: answers.append(each.handle(raw))) for each in selections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    given = [each for each in answers if not isinstance(decode(each), Refused)]
    assert len(answers) == 3
    assert 1 <= len(given) <= len(party.budget._events)


def test_what_a_session_holds_is_its_own(tmp_path, ledger):
    """A start, and what is asked beside it, is charged and answered in each session: no other one can go on from it."""
    party = clinic(tmp_path, ledger, more=[TELLS])
    for session in range(1, 3):
        for raw in frames(Begin(), Tell(), name=bytes([session] * 16)):
            assert not isinstance(decode(party.handle(raw)), Refused)
        assert len(party._workers()) == session
        assert len(charged(ledger)) == 2 * session
    party._journal.close()


@pytest.mark.parametrize("at", range(6))
def test_beside_a_ledger_that_was_brought_back_nothing_leaves_that_it_has_no_charge_for(tmp_path, ledger, at):
    """The journal is of today, and the ledger of before step ``at``."""
    requests = [STEPS["step"](k) for k in range(6)]
    place, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    for step, raw in enumerate(requests[:-1]):
        if step == min(at, len(requests) - 2):
            shutil.copy(place, copy)
        party = clinic(tmp_path, ledger)
        assert not isinstance(decode(party.handle(asked(raw))), Refused)
        party._journal.close()
    shutil.copy(copy, place)
    known = Ledger(ledger.url)
    party = clinic(tmp_path, known)
    left = [reply for raw in requests[-2:] if isinstance(reply := decode(party.handle(asked(raw))), Payload)]
    assert len(left) <= len(charged(known))  # each of them is charged by itself
    party._journal.close()


def test_an_open_charge_is_good_for_what_it_was_made_for(tmp_path, ledger, monkeypatch):
    """Not for another coordinator, whose cap it is not of; nor at another cost, or a seed; nor for another party."""

    def killed(*given, **named):
        raise Killed

    ways = [{}, {"coordinator": "other"}, {"nonnegative": True, "table": np.abs(TABLE)}, {"name": "hospital"}, {}]
    for way in ways:
        for _ in range(2):  # twice in a row it is the same
            with monkeypatch.context() as patch:
                patch.setattr(Journal, "keep", killed)
                party = clinic(tmp_path, ledger, more=[TELLS], **way)
                with pytest.raises(Killed):
                    party.handle(asked(Tell()))
                party._journal.close()
    party = clinic(tmp_path, ledger, more=[TELLS]).seed(3)
    assert not isinstance(decode(party.handle(asked(Tell()))), Refused)
    party._journal.close()
    plans = [(each.plan["coordinator"], each.plan["party"], each.event, each.seeded) for each in charged(ledger)]
    small, large = GaussianEvent(40.0), GaussianEvent(20.0)
    assert plans == [
        ("insurer", "clinic", large, False), ("other", "clinic", large, False), ("insurer", "clinic", small, False),
        ("insurer", "hospital", large, False), ("insurer", "clinic", large, True),
    ]  # fmt: skip
