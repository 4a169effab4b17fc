"""What a privacy curve means, against closed forms of attacks that reach the bounds."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from sottovoce._shown import rounded_up
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.accounting import gaussian_epsilon
from sottovoce.privacy.events import (
    ComposedEvent,
    GaussianEvent,
    NonPrivateEvent,
    NothingReleased,
    PureEvent,
    RepeatAndSelectEvent,
)
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.report import PrivacyCurve, privacy_curve
from sottovoce.report.verdict import one_in, percent


def receipt(event, epsilon, delta, **changes):
    return Guarantee(
        **{
            "epsilon": epsilon, "delta": delta, "adjacency": "zero-out", "unit": "one row", "mechanism": "m",
            "releases": (), "event": event, "assumptions": (), "not_covered": (), "seeded": False, "accountant": "a",
            "proof": "p", "version": "0",
        }
        | changes
    )  # fmt: skip


@pytest.mark.parametrize("mu", [0.05, 0.25, 1.0, 3.0])
def test_a_gaussian_is_detected_as_often_as_the_exact_trade_off_says(mu):
    curve = privacy_curve(receipt(GaussianEvent(1.0 / mu), gaussian_epsilon(mu, 1e-5), 1e-5))
    for rate in (0.0, 0.001, 0.01, 0.1, 0.5, 0.9, 1.0):
        exact = norm.cdf(norm.ppf(rate) + mu)
        # an upper bound, and a close one: fifty tangents of the curve
        assert exact - 1e-9 <= curve.detection(rate) <= exact + 0.01
    assert norm.cdf(mu / 2) - 1e-12 <= curve.guess() <= norm.cdf(mu / 2) + 1e-9


@pytest.mark.parametrize("mu", [0.25, 1.0])
@pytest.mark.parametrize("exception", [1e-2, 1e-4, 1e-6])
def test_beliefs_beyond_the_bound_are_as_rare_as_said(mu, exception):
    curve = privacy_curve(receipt(GaussianEvent(1.0 / mu), gaussian_epsilon(mu, 1e-5), 1e-5))
    loss = curve.loss(exception)
    assert norm.sf((loss - mu * mu / 2) / mu) <= exception  # the privacy loss is N(mu^2 / 2, mu^2)
    exact = mu * mu / 2 + mu * norm.isf(exception)
    assert loss <= exact + 0.8 * mu  # and not empty words
    assert curve.belief(0.01, exception) == pytest.approx(0.01 * math.exp(loss) / (0.01 * math.exp(loss) + 0.99))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_randomised_response_reaches_every_bound(epsilon):
    curve = privacy_curve(receipt(PureEvent(epsilon), epsilon, 0.0))
    kept = 1.0 / (1.0 + math.exp(-epsilon))
    assert curve.guess() == pytest.approx(kept, rel=1e-9)
    assert curve.detection(1.0 - kept) == pytest.approx(kept, rel=1e-9)
    assert curve.detection(0.5 * (1.0 - kept)) == pytest.approx(0.5 * kept, rel=1e-9)
    assert curve.loss(0.0) == pytest.approx(epsilon)
    assert curve.belief(0.5, 1e-6) == pytest.approx(kept, rel=1e-9)


def test_the_promise_alone_is_a_curve_of_one_point():
    curve = PrivacyCurve(((1.0, 1e-5),))
    assert curve.detection(0.01) == pytest.approx(1e-5 + 0.01 * math.e)
    assert curve.guess() == pytest.approx(0.5 + 0.5 * (math.e - 1 + 2e-5) / (math.e + 1))
    assert curve.loss(1e-4) == pytest.approx(1.0 + math.log(1.0 / 0.9))
    assert curve.loss(1e-5) == math.inf
    assert curve.belief(0.5, 1e-6) == 1.0


def test_a_search_has_no_delta_at_small_epsilon_and_a_bound_all_the_same():
    event = RepeatAndSelectEvent(GaussianEvent(10.0), 4.0)
    made = receipt(event, math.inf, 1e-5)
    curve = privacy_curve(receipt(event, made.epsilon_at(1e-5), 1e-5))
    assert curve.points[0][1] == 1.0
    assert 0.5 < curve.guess() < 0.8


def test_no_curve_where_nothing_bounds_the_loss():
    assert privacy_curve(receipt(NonPrivateEvent(), math.inf, 0.0)) is None
    assert privacy_curve(receipt(ComposedEvent((GaussianEvent(1.0), NonPrivateEvent())), math.inf, 0.1)) is None
    nothing = privacy_curve(receipt(NothingReleased(), 0.0, 0.0))
    assert (nothing.guess(), nothing.detection(0.01), nothing.belief(0.01, 0.0)) == (0.5, 0.01, pytest.approx(0.01))


@pytest.mark.parametrize("points", [(), ((-1.0, 0.1),), ((1.0, 1.1),), ((math.nan, 0.1),), ((1.0, math.nan),)])
def test_points_that_are_none(points):
    with pytest.raises(ParameterError):
        PrivacyCurve(points)


def test_bounds_in_words_are_rounded_up():
    rng = np.random.default_rng(0)
    for value in 10.0 ** rng.uniform(-12, 6, 500):
        shown = float(rounded_up(value))
        assert value <= shown <= value * 1.0101
        assert 1 / float(one_in(value / 1e7)[5:].replace(",", "").replace("e", "e+")) >= value / 1e7 * (1 - 1e-9)
    assert (rounded_up(1e-5), rounded_up(1.0, 6), rounded_up(2.0 / 3.0), rounded_up(0.0)) == (
        "1e-05",
        "1",
        "0.667",
        "0",
    )
    assert (percent(0.5541), percent(0.99999), percent(1.0)) == ("55.5 %", "100 %", "100 %")
    assert (one_in(1e-5), one_in(1e-6), one_in(3e-5), one_in(0.7)) == (
        "1 in 100,000",
        "1 in 1,000,000",
        "1 in 33,300",
        "70 %",
    )
