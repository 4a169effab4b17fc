"""A party's budget: a privacy filter, so that trainings may be chosen by the results of earlier ones."""

import math

import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.events import (
    BoundedRangeEvent,
    GaussianEvent,
    NonPrivateEvent,
    NothingReleased,
    RepeatedEvent,
    compose,
)
from sottovoce.privacy.filters import PrivacyFilter, Release
from sottovoce.vertical.party.budget import PartyBudget

DELTA = 1e-5


def test_one_training_may_use_all_of_it_and_more_are_filtered():
    event = GaussianEvent(5.0)
    exact = accountant_for(event).epsilon(event, DELTA)
    assert PartyBudget((exact, DELTA)).charge(event) == ""
    assert "would bring what was spent" in PartyBudget((0.99 * exact, DELTA)).charge(event)
    budget = PartyBudget((3.0, DELTA))
    count = 0
    while not budget.charge(event):
        count += 1
    history = [Release(event, DELTA / 16)]
    rule = PrivacyFilter(epsilon=3.0, delta=DELTA)
    assert rule.admits(history * count)
    assert not rule.admits(history * (count + 1))
    total = RepeatedEvent(event, count)
    assert accountant_for(total).epsilon(total, DELTA) <= 3.0
    assert count == 12


def test_kinds_of_trainings_may_be_mixed():
    budget = PartyBudget((3.0, DELTA))
    assert budget.charge(GaussianEvent(10.0)) == ""
    assert budget.charge(RepeatedEvent(BoundedRangeEvent(0.05), 20)) == ""
    assert "its budget is" in budget.charge(NonPrivateEvent())
    assert budget.charge(NothingReleased()) == ""


@pytest.mark.parametrize("event", [GaussianEvent(10.0), RepeatedEvent(GaussianEvent(30.0), 4), BoundedRangeEvent(0.02)])
def test_a_budget_of_a_delta_alone_is_used_up_like_any_other(event):
    budget, count = PartyBudget((0.0, 0.1)), 0
    while count < 100 and not budget.charge(event):
        count += 1
    assert 0 < count < 100
    assert accountant_for(budget.spent).delta(budget.spent, 0.0) <= 0.1
    assert count * accountant_for(event).delta(event, 0.0) <= 0.1


def test_a_budget_of_nothing_allows_nothing_released():
    budget = PartyBudget((0.0, 0.0))
    assert budget.charge(NothingReleased()) == budget.charge(GaussianEvent(math.inf)) == ""
    assert "its budget is epsilon=0.0" in budget.charge(GaussianEvent(100.0))
    assert PartyBudget(None).charge(NonPrivateEvent()) == ""
    with pytest.raises(ParameterError, match="budget must be a pair"):
        PartyBudget(math.inf)


@pytest.mark.parametrize("event", [GaussianEvent(10.0), RepeatedEvent(GaussianEvent(30.0), 4), BoundedRangeEvent(0.02)])
def test_a_budget_is_as_large_as_it_says_and_no_larger(event):
    moved = accountant_for(event).delta(event, 0.0)
    assert PartyBudget((0.0, moved)).charge(event) == ""
    assert "its budget is epsilon=0.0" in PartyBudget((0.0, 0.999 * moved)).charge(event)
    epsilon = accountant_for(event).epsilon(event, DELTA)
    assert PartyBudget((epsilon, DELTA)).charge(event) == ""
    less = 0.999 * epsilon
    assert f"its budget is epsilon={less!r} at delta=1e-05" in PartyBudget((less, DELTA)).charge(event)


def test_four_releases_may_use_all_of_epsilon_by_the_basic_rule():
    """Each has a sixteenth of delta, and the rule a quarter: no other rule admits the fourth, and none a fifth."""
    budget = PartyBudget((1.0, DELTA))
    assert [budget.charge(BoundedRangeEvent(0.25)) for _ in range(4)] == [""] * 4
    assert "would bring what was spent" in budget.charge(BoundedRangeEvent(0.01))


def test_a_release_is_charged_once_until_its_answer_leaves():
    budget, event = PartyBudget((3.0, DELTA)), GaussianEvent(10.0)
    for _ in range(2):
        assert budget.charge(event, release="release") == ""
    assert budget.spent == event
    for release in ("release", "release", "never charged"):
        budget.settle(release, "a")
    assert budget.charge(event, release="release") == ""  # it is computed anew
    budget.settle("release", "b")
    assert budget.charge(event) == budget.charge(event) == ""
    assert budget.spent == compose(*[event] * 4)


def test_an_account_without_a_limit_keeps_what_was_spent():
    free = PartyBudget()
    assert (free.epsilon, free.delta, free.is_limited) == (math.inf, 0.0, False)
    assert free.takes_seeds and free.coordinator is None
    for scale in (1.0, 2.0):
        assert free.charge(GaussianEvent(scale), release="release") == ""
    for answer in ("a", "b"):
        free.settle("release", answer)
    assert free.spent == compose(GaussianEvent(1.0), GaussianEvent(2.0))
    assert free.charge(NonPrivateEvent()) == free.shortage(NonPrivateEvent()) == ""
    assert free.spent == NonPrivateEvent()


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ((-0.1, 0.1), r"budget\[0\]"), ((1.0, -0.1), r"budget\[1\]"), ((1.0, 1.0), r"budget\[1\]"),
        ((1.0,), "budget must be a pair"), (1.0, "budget must be a pair"), ("12", "budget"),
        ((math.nan, 0.1), r"budget\[0\]"), ((math.inf, 0.1), r"budget\[0\]"),
    ],
)  # fmt: skip
def test_bad_budgets_are_refused(limit, message):
    with pytest.raises(ParameterError, match=message):
        PartyBudget(limit)
