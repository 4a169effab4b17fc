"""Random lives of a ledger against a model that keeps a list: spent, states and chain agree after every step."""

import math
import shutil
import tempfile
from pathlib import Path
from unittest.mock import patch

import hypothesis.strategies as st
import pytest
import sqlalchemy as sa
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from sottovoce.exceptions import AccountingError, BudgetError, LedgerError
from sottovoce.ledger import Ledger, verify_export
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.events import (
    BoundedRangeEvent,
    GaussianEvent,
    NonPrivateEvent,
    NothingReleased,
    RandomizedResponseEvent,
    RepeatedEvent,
    compose,
)
from sottovoce.privacy.filters import COMPOSITIONS, PrivacyFilter, Release
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.report.reading import fingerprint

SELECTIONS = RepeatedEvent(BoundedRangeEvent(0.1), 3)
EVENTS = [
    GaussianEvent(10.0),
    GaussianEvent(30.0),
    RandomizedResponseEvent(0.1),
    SELECTIONS,
    compose(GaussianEvent(20.0), RandomizedResponseEvent(0.05)),
]
FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None  # the disk is not what this test is about


class Machine(RuleBasedStateMachine):
    """Data sets, charges and their ends; a crash drops the object in the middle of its work."""

    datasets = Bundle("datasets")
    charges = Bundle("charges")

    @initialize()
    def begin(self):
        self.folder = Path(tempfile.mkdtemp(dir=FAST))
        self.url = f"sqlite:///{self.folder / 'budget.db'}"
        self.ledger = Ledger(self.url)
        self.rules = {}
        self.counted = {}  # by data set: charge -> release
        self.imported = {}  # by data set: fingerprints of receipts
        self.states = {}
        self.heads = []

    @rule(
        target=datasets,
        epsilon=st.sampled_from([0.3, 1.0, 4.0]),
        delta=st.sampled_from([0.0, 1e-6, 1e-3]),
        composition=st.sampled_from(sorted(COMPOSITIONS)),
    )
    def create(self, epsilon, delta, composition):
        name = f"set {len(self.rules)}"
        self.ledger.create(name, epsilon=epsilon, delta=delta, composition=composition)
        self.rules[name] = PrivacyFilter(epsilon, delta, composition)
        self.counted[name] = {}
        self.imported[name] = set()
        return name

    @rule(target=charges, dataset=datasets, event=st.sampled_from(EVENTS), delta=st.sampled_from([0.0, 1e-7, 1e-6]))
    def reserve(self, dataset, event, delta):
        wanted = [*self.counted[dataset].values(), Release(event, delta)]
        fits = self.rules[dataset].admits(wanted)
        try:
            charge = self.ledger.reserve(dataset, event, delta=delta, adjacency="zero-out")
        except BudgetError:
            assert not fits
            return None
        assert fits
        self.counted[dataset][charge.charge] = wanted[-1]
        self.states[charge.charge] = "reserved"
        return charge

    @rule(charge=consumes(charges), cheaper=st.booleans())
    def commit(self, charge, cheaper):
        """What was reserved counts, whatever the run cost; what cost more is refused."""
        if charge is None:
            return
        event = self.counted[charge.dataset][charge.charge].event
        for dearer in (compose(event, GaussianEvent(9.0)), NonPrivateEvent()):
            with pytest.raises(AccountingError, match="cost more than was reserved"):
                self.ledger.commit(charge, dearer)
        self.end(charge, "committed", self.ledger.commit(charge, NothingReleased() if cheaper else event))

    def end(self, charge, state, ended):
        """Note how a charge ended, for good."""
        self.states[charge.charge] = state
        assert self.ledger.head() == ended.hash
        for again in (self.ledger.commit, lambda charge, _: self.ledger.cancel(charge, "regret")):
            with pytest.raises((LedgerError, AccountingError), match=f"(is|was) {state}"):
                again(charge, GaussianEvent(1e9))
        assert self.ledger.head() == ended.hash

    @rule(dataset=datasets, event=st.sampled_from(EVENTS), delta=st.sampled_from([0.0, 1e-6]), twice=st.booleans())
    def import_receipt(self, dataset, event, delta, twice):
        receipt = Guarantee(
            epsilon=accountant_for(event).epsilon(event, delta), delta=delta, adjacency="zero-out", unit="a row",
            mechanism="", releases=(), event=event, assumptions=(), not_covered=(), seeded=False, accountant="",
            proof="", version="0",
        )  # fmt: skip
        wanted = [*self.counted[dataset].values(), Release(event, delta)]
        known = fingerprint(receipt) in self.imported[dataset] and not twice
        fits = self.rules[dataset].admits(wanted)
        try:
            charge = self.ledger.import_receipt(dataset, receipt, same_unit=True, another_run=twice)
        except LedgerError as error:
            assert known or (isinstance(error, BudgetError) and not fits)
            return
        assert fits and not known
        self.imported[dataset].add(fingerprint(receipt))
        self.counted[dataset][charge.charge] = wanted[-1]
        self.states[charge.charge] = "committed"

    @rule(charge=consumes(charges), by_hand=st.booleans())
    def cancel(self, charge, by_hand):
        if charge is not None:
            ended = Ledger(self.url, who="keeper").cancel(charge.charge if by_hand else charge, "nothing was drawn")
            del self.counted[charge.dataset][charge.charge]
            self.end(charge, "cancelled", ended)
            record = next(one for one in self.ledger.history(charge.dataset) if one.charge == charge.charge)
            assert (record.by_hand, record.ended_by) == (by_hand, "keeper") != (by_hand, record.who)
            assert record.reason == "nothing was drawn"

    @rule()
    def crash(self):
        self.ledger = Ledger(self.url)

    @rule(dataset=datasets, where=st.sampled_from(["before", "after"]))
    def crash_while_writing(self, dataset, where):
        """A charge whose process dies before, or right after, the commit of the database."""
        event = GaussianEvent(50.0)
        fits = self.rules[dataset].admits([*self.counted[dataset].values(), Release(event, 1e-7)])
        commit = sa.Connection.commit

        def dying(connection):
            connection.rollback() if where == "before" else commit(connection)
            raise KeyboardInterrupt

        before = {record.charge for record in self.ledger.history(dataset)}
        try:
            with patch.object(sa.Connection, "commit", dying):
                self.ledger.reserve(dataset, event, delta=1e-7, adjacency="zero-out")
        except (KeyboardInterrupt, BudgetError) as error:
            assert isinstance(error, KeyboardInterrupt) == fits
        self.ledger = Ledger(self.url)
        new = {record.charge for record in self.ledger.history(dataset)} - before
        assert len(new) == (fits and where == "after")
        for charge in new:
            self.counted[dataset][charge] = Release(event, 1e-7)
            self.states[charge] = "reserved"

    @invariant()
    def agrees_with_the_model(self):
        if not getattr(self, "rules", None):
            return
        fresh = Ledger(self.url)
        records = [record for name in self.rules for record in fresh.history(name)]
        assert {record.charge: record.state for record in records} == self.states
        assert all(len(record.at) == 10 and record.ended_at in (None, record.at) for record in records)
        for name, budget in self.rules.items():
            releases = list(self.counted[name].values())
            for ledger in (fresh, self.ledger):
                spent, delta = ledger.spent(name)
                assert spent == pytest.approx(budget.spent(releases), rel=1e-9)
                assert budget.covers(spent) and delta == budget.delta
            if releases and all(release.event is not SELECTIONS for release in releases):  # the others are exact
                event = compose(*(release.event for release in releases))
                exact = accountant_for(event).epsilon(event, budget.delta)
                assert exact <= spent * (1.0 + 1e-6) or math.isinf(spent)  # PLDs are rounded up a little
        self.heads.append(fresh.head())
        assert fresh.verify(self.heads[0]).ok and fresh.verify(self.heads[-1]).ok

    def teardown(self):
        if getattr(self, "rules", None):
            path = self.folder / "all.jsonl"
            head = self.ledger.export(path)
            assert verify_export(path, expected_head=head).ok and head == self.ledger.head()
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=20, stateful_step_count=12, deadline=None)
