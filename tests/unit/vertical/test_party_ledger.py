"""A party's account on disk: what one process spent, a restart, a copy, a fork and a second process find."""

import itertools

import numpy as np
import pytest

from sottovoce.exceptions import LedgerError, ParameterError
from sottovoce.ledger import Ledger, store
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import GaussianEvent, NonPrivateEvent, NothingReleased, compose
from sottovoce.privacy.filters import PrivacyFilter, Release, Tally
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.vertical import Party, VerticalLogisticRegression
from sottovoce.vertical.mechanisms import ANSWERS, PRIVATE
from sottovoce.vertical.party.budget import LedgerBudget, MachineError
from sottovoce.vertical.requests.general import ShowColumns
from sottovoce.vertical.wire import Payload
from support.one_training import cost, order
from support.party import Line, decode, request

X = np.random.default_rng(25).uniform(0.0, 1.0, (60, 2))
SEND = order(60, 0.2)  # epsilon about 0.8 at 1e-6
EVENT = cost(0.2)


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(f"sqlite:///{tmp_path / 'clinic.db'}")
    made.create("clinic columns", epsilon=1.2, delta=1e-6, adjacency="replace-one")
    return made


def clinic(ledger, **options):
    return Party(X, name="clinic", data_norm=2.0, ledger=ledger, dataset="clinic columns", **options)


def test_a_charge_is_in_the_ledger_before_anything_is_computed(ledger, monkeypatch):
    party = clinic(ledger.url)
    assert party.budget.is_limited
    assert party.answers == PRIVATE | {name for name, answer in ANSWERS.items() if answer.public}
    assert party.spent == NothingReleased() or party.spent == compose()
    seen = []
    release = GridGaussian.release
    monkeypatch.setattr(
        GridGaussian, "release", lambda *given: (seen.extend(ledger.history("clinic columns")), release(*given))[1]
    )
    assert isinstance(request(party, SEND), Payload)
    (charge,) = seen
    assert (charge.event, charge.adjacency, charge.seeded) == (EVENT, Adjacency.REPLACE_ONE, False)
    assert charge.plan == {"party": "clinic"}
    assert ledger.history("clinic columns")[0].state == "committed"
    assert party.spent == EVENT
    assert isinstance(request(party, SEND), Payload)  # it comes again
    assert "its budget is epsilon=1.2 at delta=1e-06, and this would bring" in Line(party).ask(SEND).reason
    assert len(ledger.history("clinic columns")) == 1


@pytest.mark.parametrize("failing", [1, 2])
def test_a_ledger_that_fails_at_any_write_charges_once(ledger, monkeypatch, failing):
    """Without a journal, too: a charge and its end are one transaction."""
    party, append, count = clinic(ledger), store._append, itertools.count(1)

    def broken(connection, row):
        if next(count) == failing:
            raise LedgerError("No space left on device")
        append(connection, row)

    monkeypatch.setattr(store, "_append", broken)
    assert "its ledger cannot be used now" in request(party, SEND).reason
    assert ledger.history("clinic columns") == []
    assert isinstance(request(party, SEND), Payload)
    assert [charge.state for charge in ledger.history("clinic columns")] == ["committed"]
    assert ledger.verify().ok and party.budget.head == ledger.head()


def test_nobody_spends_it_twice(ledger):
    """Another object, a selection of rows: one account."""
    first = clinic(ledger)
    others = [clinic(ledger.url), first.take([3, 1])]
    assert isinstance(request(first, SEND), Payload)
    for party in others:
        assert "would bring what was spent" in request(party, order(party.n_rows, 0.2)).reason
        assert party.spent == EVENT


def test_what_has_no_noise_is_refused_even_where_the_data_set_allows_it(ledger):
    ledger.create("open", epsilon=1.0, delta=1e-6, adjacency="replace-one", allow_nonprivate=True)
    budget = LedgerBudget(ledger, "open", name="clinic")
    for event in (NonPrivateEvent(), compose(EVENT, NonPrivateEvent())):
        assert "would release something without noise" in budget.charge(event)
        assert "would release something without noise" in budget.shortage(event)
    assert budget.charge(NothingReleased()) == ""
    assert ledger.history("open") == []
    party = Party(X, name="clinic", ledger=ledger, dataset="open")
    assert "none covers 'exact', and it does not answer ShowColumns" in request(party, ShowColumns()).reason


def test_a_seeded_party_says_so_in_the_ledger(ledger):
    ledger.create("trial", epsilon=1.2, delta=1e-6, adjacency="replace-one", allow_nonprivate=True)
    request(Party(X, name="clinic", data_norm=2.0, ledger=ledger, dataset="trial").seed(3), SEND)
    assert ledger.history("trial")[0].seeded


def test_a_ledger_that_cannot_be_read_lets_nothing_through(ledger, monkeypatch, caplog):
    """The coordinator is told neither where it is nor why; once it can be read again, the same step is answered."""
    party = clinic(ledger)
    raw = Line(party).frame(SEND)

    def broken(*given, **named):
        raise LedgerError("sqlite:////secret/place is locked")

    with monkeypatch.context() as patch:
        for name in ("reserve", "history"):
            patch.setattr(Ledger, name, broken)
            caplog.clear()
            assert decode(party.handle(raw)).reason == "its ledger cannot be used now; the party's own log says why"
            assert "the ledger of party 'clinic'" in caplog.text and "/secret/place is locked" in caplog.text
    assert isinstance(decode(party.handle(raw)), Payload)
    assert len(ledger.history("clinic columns")) == 1


def account(ledger, **options):
    return LedgerBudget(ledger, "clinic columns", name="clinic", **options)


def test_a_charge_is_open_until_its_answer_leaves(ledger):
    budget, small = account(ledger), GaussianEvent(200.0)
    assert budget.is_limited and not budget.takes_seeds and budget.head == ledger.head()
    for _ in range(2):
        assert budget.charge(EVENT, release="release") == ""
    (charge,) = ledger.history("clinic columns")
    assert (charge.state, charge.event, charge.delta) == ("reserved", EVENT, 1e-6 / 16)
    assert charge.plan == {"party": "clinic", "run": "release"}
    assert budget.holds(budget.head) and budget.head == ledger.head() and not budget.holds(64 * "0")
    for _ in range(2):
        budget.settle("release", "a")
        assert [each.state for each in ledger.history("clinic columns")] == ["committed"]
        assert budget.head == ledger.head()
    with pytest.raises(MachineError, match="another process of this party has answered this request"):
        budget.settle("release", "b")
    with pytest.raises(MachineError, match="its ledger has no charge for this request"):
        budget.settle("never charged", "a")
    assert budget.charge(NothingReleased()) == budget.shortage(NothingReleased()) == ""
    budget = account(ledger, coordinator="x")
    assert budget.charge(small) == "" and budget.head == ledger.head()
    assert budget.charge(small, release="other") == ""
    _, whole, other = ledger.history("clinic columns")
    assert (whole.state, whole.plan) == ("committed", {"party": "clinic", "coordinator": "x"})
    ledger.cancel(other.charge, "nobody saw anything")
    with pytest.raises(MachineError, match="the charge of this request was cancelled"):
        budget.settle("other", "a")
    assert budget.spent == compose(EVENT, small)


def test_a_coordinator_is_told_no_more_than_its_cap(ledger, monkeypatch):
    for options, message in (
        ({"cap": 0.5}, "cap=0.5 is for one coordinator"), ({"cap": 0.0, "coordinator": "x"}, "cap must be"),
        ({"cap": 1.3, "coordinator": "x"}, "cap must be .* The budget is no larger"),
    ):  # fmt: skip
        with pytest.raises(ParameterError, match=message):
            account(ledger, **options)
    capped, event = account(ledger, coordinator="x", cap=0.5), GaussianEvent(20.0)
    why = "its owner allows coordinator 'x' epsilon=0.5 at delta=1e-06 in all, and this would bring what it was told to"
    assert why in capped.shortage(EVENT) and why in capped.charge(EVENT)
    assert account(ledger, coordinator="y").charge(event) == ""
    assert capped.shortage(event) == "" and account(ledger, coordinator="x", cap=1.2).shortage(EVENT) == ""
    assert len(ledger.history("clinic columns")) == 1
    monkeypatch.setattr(LedgerBudget, "shortage", lambda *given: "")  # another process is first
    assert "what others charged leaves too little" in capped.charge(EVENT)
    assert len(ledger.history("clinic columns")) == 1


@pytest.mark.parametrize("holder", [False, True])
@pytest.mark.parametrize("other", [False, True])
def test_a_receipt_names_the_ledger_of_the_one_who_trains_and_no_other(ledger, holder, other):
    """Whether a party's own ledger was charged nobody else can tell, so "no ledger was charged" is not all there is."""
    ledger.create("joint", epsilon=2.0, delta=1e-5, adjacency="replace-one", unit="row")
    at_home = clinic(ledger) if other else Party(X, name="clinic", data_norm=2.0)
    y = np.where(X[:, 0] > 0.5, 1, -1)
    bank = Party(np.random.default_rng(163).uniform(0, 1, (60, 1)), name="bank", y=y)
    charged = {"ledger": ledger, "dataset": "joint"} if holder else {}
    model = VerticalLogisticRegression(epsilon=1.0, delta=1e-6, classes=[-1, 1], **charged).fit([bank, at_home])
    receipts = {"": model.guarantee_, **model.party_guarantees_}
    entries = {name: None if each.charge is None else each.charge["dataset"] for name, each in receipts.items()}
    assert entries == {"": "joint" if holder else None, "bank": "joint" if holder else None, "clinic": None}
    assert all("ledgers that parties keep at home" in str(each.not_covered) for each in receipts.values())


def test_wrong_accounts(ledger):
    ledger.create("rows", epsilon=1.0, delta=1e-6)
    options = {"name": "clinic"}
    with pytest.raises(ParameterError, match=r"counts 'zero-out' neighbours; .* charged for 'replace-one'"):
        Party(X, ledger=ledger, dataset="rows", **options)
    ledger.create("persons", epsilon=1.0, delta=1e-6, adjacency="replace-one", unit="person")
    with pytest.raises(ParameterError, match=r"its unit is 'one person: .* unit='row'"):
        Party(X, ledger=ledger, dataset="persons", **options)
    with pytest.raises(LedgerError, match="dataset 'nobody' is not in this ledger"):
        Party(X, ledger=ledger, dataset="nobody", **options)
    with pytest.raises(ParameterError, match="dataset is missing"):
        Party(X, ledger=ledger, **options)
    with pytest.raises(ParameterError, match="ledger is missing"):
        Party(X, dataset="rows", **options)
    with pytest.raises(ParameterError, match="budget and ledger are two accounts"):
        Party(X, ledger=ledger, dataset="rows", budget=(1.0, 1e-6), **options)


@pytest.mark.parametrize("seed", range(2))
def test_what_is_left_is_counted_on_and_equals_what_all_charges_add_up_to(ledger, monkeypatch, seed):
    """Charges of two coordinators, here and by others, some given back: each question looks at the new ones alone."""
    rng, name, added, add = np.random.default_rng(seed), "clinic columns", [], Tally.add
    budgets = [
        LedgerBudget(ledger.url, name, name="a", coordinator=who, cap=cap) for who, cap in (("x", 0.6), ("y", 1))
    ]
    monkeypatch.setattr(Tally, "add", lambda tally, release: (added.append(release), add(tally, release)))
    rule, counts, delta = ledger.datasets()[name].filter, 0, 1e-6 / 16
    for budget in rng.choice(budgets, 30):
        event = GaussianEvent(float(rng.uniform(10.0, 40.0)))
        told = [charge for charge in ledger.history(name) if charge.counts]
        own = [charge for charge in told if charge.plan.get("coordinator") == budget.coordinator]
        sums = [[*(Release(each.event, each.delta) for each in those), Release(event, delta)] for those in (told, own)]
        fits = rule.admits(sums[0]) and PrivacyFilter(budget._cap.epsilon, 1e-6).admits(sums[1])
        for first in (True, False):
            added.clear()
            assert (budget.shortage(event) == "") == fits
            assert first or len(added) == 1 + rule.admits(sums[0])
        assert (budget.charge(event) == "") == fits
        counts += fits
        if rng.random() < 0.4 and budget.shortage(large := GaussianEvent(12.0)) == "":
            of = {"coordinator": "x"}
            given_back = ledger.reserve(name, large, delta=delta, adjacency="replace-one", plan=of)
            budget.shortage(event)
            ledger.cancel(given_back, "a trial")
    assert 5 < counts < 30
