"""What another party's score counts with local models: a rule of public facts, and what it is good for."""

import math

import numpy as np
import pytest

from sottovoce.vertical import VerticalLogisticRegression, VerticalRidge, split_columns
from sottovoce.vertical.protocols.local_models.plan import public_weight
from sottovoce.vertical.protocols.local_models.trainings import LogisticOnLabelsPlan, SquaredOnLabelsPlan


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


def compared(make, n, options, **changed):
    """Return the measures of a fit on independent columns at three parties, on 4,000 other people."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (n + 4000, 24))
    z = X @ rng.normal(size=24)
    z *= 2.0 / z.std()
    if make is VerticalRidge:
        y, known = np.clip(z, -8.0, 8.0), {"label_bounds": (-8.0, 8.0)}
    else:
        y, known = np.where(rng.random(n + 4000) < 1 / (1 + np.exp(-z)), 1, -1), {"classes": [-1, 1]}
    norms = dict.fromkeys(("party2", "party3"), math.sqrt(8.0))
    train, test = (split_columns(X[rows], [8, 8, 8], data_norm=norms) for rows in (slice(n), slice(n, None)))
    model = make(delta=1e-5, random_state=0, mechanism_options=options, **known, **changed)
    return model.fit(train, y[:n]).compare(test, y[n:])


def test_what_noise_does_not_hide_counts_more_than_it_did():
    """Columns that are independent: 0.6 / (M - 1) was far too little."""
    case = {"make": VerticalLogisticRegression, "n": 20_000, "epsilon": 1.0, "labels_public": True}
    before, now = compared(options={"combination": 0.6}, **case).joint, compared(options=None, **case)
    assert now.joint["accuracy"] > before["accuracy"] + 0.02
    assert now.joint["log loss"] < before["log loss"] - 0.05
    assert now.joint["accuracy"] > now.local["accuracy"] + 0.1


def test_what_is_noise_does_not_spoil_the_label_holders_model():
    case = {"make": VerticalRidge, "n": 600, "epsilon": 0.5}
    before, now = compared(options={"combination": 0.6}, **case).joint, compared(options=None, **case)
    assert before["R^2"] < now.local["R^2"] - 0.1
    assert now.joint["R^2"] > now.local["R^2"] - 0.01
