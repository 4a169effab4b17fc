"""A party's budget: a privacy filter, so that trainings may be chosen by the results of earlier ones."""

import math

import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.events import BoundedRangeEvent, GaussianEvent, NonPrivateEvent, NothingReleased, RepeatedEvent
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
    assert budget.charge(NothingReleased()) == ""
    assert "its budget is epsilon=0.0" in budget.charge(GaussianEvent(100.0))
    assert PartyBudget(None).charge(NonPrivateEvent()) == ""
    with pytest.raises(ParameterError, match="budget must be a pair"):
        PartyBudget(math.inf)
