"""The predicted range of accuracy: its laws, its limits, and agreement with simulated reports."""

import math

import numpy as np
import pytest
from scipy.special import expit

from sottovoce.exceptions import ParameterError
from sottovoce.local import Aggregator, Protocol
from sottovoce.local.planning import LOGIT_SPREADS, predict_accuracy_range
from support.simulated_reports import simulate


def test_more_people_more_epsilon_and_fewer_features_help():
    base = predict_accuracy_range(30_000, 8, 2.0, draws=4)
    assert predict_accuracy_range(1_000_000, 8, 2.0, draws=4).high > base.high
    assert predict_accuracy_range(30_000, 8, 4.0, draws=4).high > base.high
    assert predict_accuracy_range(30_000, 20, 2.0, draws=4).high < base.high
    for row, spread in zip(base.rows, LOGIT_SPREADS, strict=True):
        assert row.logit_spread == spread
        assert 0.5 < row.accuracy < row.without_privacy < 1
    assert base.low < base.high
    assert base == predict_accuracy_range(30_000, 8, 2.0, draws=4)


def test_many_people_reach_the_limit_and_few_learn_nothing():
    rows = predict_accuracy_range(10**9, 5, 4.0, draws=2).rows
    assert all(row.accuracy == pytest.approx(row.without_privacy, abs=0.005) for row in rows)
    few = predict_accuracy_range(100, 20, 1.0, draws=4)
    assert few.degree == 0
    assert few.edge > 0.2
    assert few.high < 0.65


def test_agreement_with_simulated_reports():
    """People of the model population, their reports by the exact law, the default fit: the middle row."""
    n, d, rng = 20_000, 5, np.random.default_rng(7)
    predicted = predict_accuracy_range(n, d, 2.0, draws=10).rows[1]
    protocol = Protocol.create(n_expected=n, epsilon=2.0, n_features=d)
    sizes = 1 / np.arange(1, d + 1)
    sizes *= 0.5 / sizes.sum()
    found = []
    for _ in range(12):
        X = rng.standard_normal((n, d)) * np.sqrt(sizes)
        X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
        margin = X @ (rng.choice([-1.0, 1.0], d) / math.sqrt(d))
        y = np.where(rng.random(n) < expit(4.0 * margin / margin.std()), 1, -1)
        aggregator = Aggregator(protocol)
        aggregator.moments.add(simulate(protocol, protocol.encode_many(X) * y[:, None], rng))
        found.append(aggregator.fit().score(X, y))
    assert np.mean(found) == pytest.approx(predicted.accuracy, abs=0.012)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((5, 3, 1.0), "n must be"),
        ((100, 0, 1.0), "d must be"),
        ((100, 501, 1.0), "d must be"),
        ((100, 3, 0.0), "epsilon"),
        ((100, 3, math.nan), "epsilon"),
        ((100.0, 3, 1.0), "n must be"),
    ],
)
def test_bad_input_is_refused(arguments, why):
    with pytest.raises(ParameterError, match=why):
        predict_accuracy_range(*arguments)
