"""The audit's own bounds: below the truth with their confidence, near it with many runs, and never from nothing."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from sottovoce.audit import epsilon_lower_bound
from sottovoce.audit.threshold import OutputSet
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.accounting import gaussian_epsilon

BOUNDS = [pytest.param(partial(epsilon_lower_bound, gaussian=one), id=f"gaussian={one}") for one in (False, True)]


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize(("mu", "delta"), [(0.5, 0.01), (1.0, 0.05), (2.0, 1e-3)])
def test_below_the_truth_and_near_it(bound, mu, delta):
    truth = gaussian_epsilon(mu, delta)
    found = []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        found.append(bound(rng.normal(mu, 1, 20_000), rng.normal(0, 1, 20_000), delta=delta, confidence=0.999))
    # each exceeds the truth with probability at most 0.001; fifteen of them almost never do, and the seeds are fixed
    assert max(found) <= truth
    assert np.median(found) > 0.5 * truth


@pytest.mark.parametrize("bound", BOUNDS)
def test_both_directions_and_both_sides_are_tried(bound):
    rng = np.random.default_rng(0)
    plus, zero = rng.normal(1.5, 1, 10_000), rng.normal(0, 1, 10_000)
    results = [bound(a, b, delta=0.01) for a, b in ((plus, zero), (zero, plus), (-plus, zero), (zero, -plus))]
    assert min(results) > 0.6 * max(results) > 0.5


@pytest.mark.parametrize("bound", BOUNDS)
def test_nothing_is_found_in_nothing(bound):
    rng = np.random.default_rng(0)
    same = rng.normal(size=(2, 5000))
    assert bound(same[0], same[1], delta=0.0) == 0.0
    assert bound(np.zeros(100), np.zeros(100), delta=0.0) == 0.0


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_release_of_the_truth_is_seen_as_one(bound):
    assert bound(np.ones(10_000), np.zeros(10_000), delta=0.01) > 6


@pytest.mark.parametrize("bound", BOUNDS)
def test_bad_scores(bound):
    good = np.zeros(30)
    with pytest.raises(ParameterError, match="scores must hold at least 20 runs; got 3"):
        bound(np.zeros(3), good, delta=0.1)
    with pytest.raises(ParameterError, match="neighbour_scores holds NaN"):
        bound(good, np.full(30, np.nan), delta=0.1)
    with pytest.raises(ParameterError, match="delta must be"):
        bound(good, good, delta=1.0)
    with pytest.raises(ParameterError, match="confidence must be"):
        bound(good, good, delta=0.1, confidence=1.0)


def test_the_intervals_are_those_of_clopper_and_pearson():
    """Each of the two shares may be wrong with half of what confidence leaves."""
    judged = OutputSet(swapped=False, sign=1.0, threshold=0.5)
    scores, neighbour = np.repeat([1.0, 0.0], [300, 700]), np.repeat([1.0, 0.0], [20, 980])
    exact = {"confidence_level": 0.95, "method": "exact"}
    low, high = binomtest(300, 1000).proportion_ci(**exact).low, binomtest(20, 1000).proportion_ci(**exact).high
    assert judged.epsilon(scores, neighbour, delta=0.01, confidence=0.95) == pytest.approx(np.log((low - 0.01) / high))
    shift = norm.ppf(low) - norm.ppf(high)
    gaussian = replace(judged, gaussian=True).epsilon(scores, neighbour, delta=0.01, confidence=0.95)
    assert gaussian == pytest.approx(gaussian_epsilon(shift, 0.01))
