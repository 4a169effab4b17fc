"""What another party's score counts with local models: a rule of public facts, and what it is good for."""

import math

import pytest

from sottovoce.vertical.protocols.local_models.plan import public_weight
from sottovoce.vertical.protocols.local_models.released_labels import LogisticOnLabelsPlan, SquaredOnLabelsPlan


def plan_of(kind=LogisticOnLabelsPlan, **changed):
    return kind(**{"n_samples": 10_000, "n_features": 20, "alpha": 1e-4, "mu": 0.1, **changed})


def weight(plan, n_others=1, is_classification=True):
    return public_weight(plan, n_others=n_others, is_classification=is_classification)


@pytest.mark.parametrize(
    ("kind", "is_classification", "strength", "most"),
    [(LogisticOnLabelsPlan, True, 0.1, 0.7), (SquaredOnLabelsPlan, True, 0.4, 0.7),
     (SquaredOnLabelsPlan, False, 0.01, 1.0)],
)  # fmt: skip
def test_it_is_the_share_of_the_signal(kind, is_classification, strength, most):
    plan = plan_of(kind, flip_probability=0.3)
    unit = 0.5 if kind is LogisticOnLabelsPlan else 1.0
    signal = strength * 1e8 / 20
    noise = 20 * plan.gradient_noise**2 + (unit / 0.4) ** 2 * 1e4
    assert weight(plan, is_classification=is_classification) == pytest.approx(most * signal / (signal + noise))


def test_the_noise_of_a_gradient_is_that_of_what_is_released():
    squared, logistic = plan_of(SquaredOnLabelsPlan), plan_of()
    for plan in (squared, logistic):
        released = plan.moments_mechanism().noise_std  # of the entry label_weight * sqrt(2) * beta_j
        assert plan.label_sum_noise == pytest.approx(released / math.sqrt(2.0) / plan.label_weight)
    assert squared.gradient_noise == squared.label_sum_noise
    assert logistic.gradient_noise == pytest.approx(math.hypot(logistic.label_sum_noise, 1.0 / logistic.mu_slopes))


def test_limits():
    assert weight(plan_of(mu=1e-6)) < 1e-6  # noise is all there is
    assert 0.7 > weight(plan_of(mu=1e3, n_samples=10**7)) > 0.699
    assert weight(plan_of(flip_probability=0.5 - 1e-9)) < 1e-6  # labels that say nothing
    more = [weight(plan_of(n_samples=n)) for n in (100, 1_000, 10_000, 100_000)]
    assert more == sorted(more)
    fewer = [weight(plan_of(n_features=d)) for d in (300, 30, 3)]
    assert fewer == sorted(fewer)
    assert weight(plan_of(), n_others=4) == pytest.approx(weight(plan_of()) / 4**0.3)
    numbers = plan_of(SquaredOnLabelsPlan)
    alone = weight(numbers, is_classification=False)
    assert weight(numbers, n_others=4, is_classification=False) == pytest.approx(alone / 4)
