"""Ledgers that are copied, restored or lost: the coordinator goes on with one line of charges, and with no other."""

import itertools
import json
import shutil
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.ledger import Ledger
from sottovoce.vertical.engines.identity import Identity
from sottovoce.vertical.flare.hardening.envelope import CoordinatorEnd, LedgerHeads, PartyEnd
from sottovoce.vertical.flare.hardening.gate import Door, _Run
from sottovoce.vertical.flare.site import Caps
from sottovoce.vertical.party.budget import LedgerBudget
from sottovoce.vertical.requests.general import Describe
from sottovoce.vertical.requests.local_models import TrainOnLabels
from sottovoce.vertical.wire import Done, Frame, Refused, new_session
from support.party import Line, decode
from support.register import entries
from support.site import Coordinator, authority, make_ledger, make_site

# ------------------------------------------------------------------ all histories

OPERATIONS = {
    "A": "a run that charges the first copy",
    "B": "one that charges the second",
    "a": "a run that charges nothing, at the first copy",
    "b": "at the second",
    "l": "a charge of the first copy whose answer is lost",
    "c": "the first is copied over the second",
    "r": "the second over the first",
}
# how long a history is, and how many are accepted at least, and refused
LENGTHS = [(3, 30), pytest.param(4, 500, marks=pytest.mark.slow)]


class Chain(LedgerBudget):
    """An account whose ledger is a list."""

    def __init__(self, entries):
        self.entries = entries

    @property
    def head(self):
        return self.entries[-1]

    def holds(self, entry):
        return entry in self.entries


class Federation:
    """A coordinator and its memory; doors around chains."""

    def __init__(self, folder):
        self.heads, self.kit = LedgerHeads(folder), make_site(folder / "kit")
        self.lab, self.north = (Identity(authority().identity(folder / name, name)) for name in ("insurer", "north"))
        self.number = itertools.count(1)
        self.raw = Frame(new_session(), Describe().encode()).encode()

    def run(self, entries, *, charges, lost=False):
        """Do a run of one request; return whether it was answered, and the chain as it is then."""
        entries = list(entries)

        def handle(raw):
            entries.extend(f"{next(self.number):x}" for _ in range(charges))
            return Done().encode()

        door = Door(self.kit)
        party = SimpleNamespace(budget=Chain(entries), parts={}, handle=handle)
        door._run = _Run(PartyEnd(self.north, "north", "insurer", "job"), "train", "", party, Caps())

        def carry(sealed):
            answer = door.answer(sealed, "server")
            if lost and len(entries) > before:
                raise ConnectionError
            return answer

        before = len(entries)
        known, told = self.heads.known("north"), partial(self.heads.told, "north", "job")
        end = CoordinatorEnd(self.lab, "insurer", "north", "job", known, told)
        try:
            reply = decode(end.ask(self.raw, 1.0, carry))
        except ConnectionError:
            return True, entries
        return isinstance(reply, Done), entries


@pytest.mark.parametrize(("longest", "least"), LENGTHS)
def test_the_coordinator_goes_on_with_exactly_the_linear_histories(tmp_path, longest, least):
    """Accepted is a run at a copy that has all charges of which the coordinator was ever told, and no other."""
    federation, seen = Federation(tmp_path), {"histories": 0, "accepted": 0, "refused": 0}

    def go(length, first, second, told):
        if length == 0:
            return
        kept = federation.heads._read()
        for operation in OPERATIONS:
            seen["histories"] += 1
            federation.heads._write(kept)
            ours = {"A": first, "a": first, "l": first, "B": second, "b": second}.get(operation)
            after = told
            if ours is None:
                pair = (first, first) if operation == "c" else (second, second)
            else:
                went, chain = federation.run(ours, charges=operation in "ABl", lost=operation == "l")
                assert went == (told <= set(ours)), (operation, first, second, told)
                seen["accepted" if went else "refused"] += 1
                if went:
                    after = told | set(chain if operation != "l" else ours)
                else:
                    assert chain == list(ours)
                pair = (first, tuple(chain)) if operation in "Bb" else (tuple(chain), second)
            go(length - 1, *pair, after)

    go(longest, ("0",), ("0",), frozenset())
    print(seen)
    assert seen["histories"] == sum(len(OPERATIONS) ** n for n in range(1, longest + 1))
    assert min(seen.values()) > least


# ------------------------------------------------------------------ real ledgers

SITE = '[data]\ntable = "people.csv"\nschema = "people.toml"\n'
BUDGET = '[budget]\nledger = "sqlite:///ledger.db"\ndataset = "people"\n'


class Kit:
    """A party's kit with a ledger, and the coordinator's memory beside it."""

    def __init__(self, folder):
        self.folder, self.heads = folder / "north", LedgerHeads(folder)
        self.kit = make_site(self.folder, site=SITE + BUDGET)
        make_ledger(self.folder)
        self.file, self.runs = self.folder / "ledger.db", itertools.count()

    @property
    def ledger(self):
        """Open it anew: another file may lie there."""
        return Ledger(f"sqlite:///{self.file}")

    def run(self, purpose="train", charged=True):
        """Do a run; return whether all of it was answered. What is refused is refused for the ledger."""
        job = f"job{next(self.runs)}"
        door = Door(self.kit)
        told = partial(self.heads.told, "north", job)
        line = Line(Coordinator(door, job, known=self.heads.known("north"), told=told, purpose=purpose))
        replies = [line.ask(Describe())]
        if charged:
            labels = np.resize([1.0, -1.0], 40)
            replies.append(line.ask(TrainOnLabels(labels, "logistic", 0.1, 0.0, 0.1, 0.05, job)))
        door.close()
        refused = [reply.reason for reply in replies if isinstance(reply, Refused)]
        assert len(refused) in (0, len(replies))
        lines = [line.reason for line in entries(self.kit.state / "register.db") if line.outcome == "turned away"]
        assert all("its ledger lacks an entry that the coordinator was told of" in reason for reason in refused)
        assert set(refused) <= set(lines)
        return not refused


@pytest.fixture
def kit(tmp_path):
    return Kit(tmp_path)


def test_a_copy_from_before_a_charge_is_refused_at_both_ends_until_that_is_settled(kit):
    with pytest.raises(ParameterError, match=r"--accept-ledger bank: nothing is known .* known are those of nobody"):
        kit.heads.forget("bank")
    assert kit.run()
    assert kit.heads.known("north") == kit.ledger.head()
    copy, right = (shutil.copy(kit.file, kit.folder / name) for name in ("copy.db", "right.db"))
    assert kit.run()
    last = kit.heads.known("north")
    assert last == kit.ledger.head()
    shutil.copy(kit.file, right)
    shutil.copy(copy, kit.file)
    n = len(kit.ledger.history("people"))
    assert not kit.run()
    assert len(kit.ledger.history("people")) == n
    assert kit.heads.known("north") == last
    shutil.copy(right, kit.file)
    assert kit.run()
    shutil.copy(copy, kit.file)
    assert not kit.run()
    settled = kit.heads.known("north")
    with pytest.raises(ParameterError, match="known are those of north"):
        kit.heads.forget("bank")
    assert kit.heads.forget("north") == settled
    assert kit.run()
    (note,) = json.loads((kit.heads._path).read_text())["accepted"]
    assert (note["party"], note["entry"]) == ("north", settled)  # the books say that it was accepted
    kit.heads._path.write_text("[]")
    with pytest.raises(ParameterError, match=r"ledgers\.json: cannot be read"):
        kit.heads.known("north")


def test_another_ledger_and_none_at_all_are_refused_too_but_scores_need_none(kit):
    assert kit.run()
    known = kit.heads.known("north")
    kit.file.unlink()
    make_ledger(kit.folder)
    assert not kit.run(charged=False)
    shutil.copy(kit.folder / "people.csv", kit.folder / "new.csv")
    kit.kit.site_file.write_text(SITE + '[scoring]\ntable = "new.csv"\n')
    assert not kit.run(charged=False)
    assert kit.run("score", charged=False)
    assert kit.heads.known("north") == known
