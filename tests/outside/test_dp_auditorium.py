"""The histogram tester of Google's DP-Auditorium (arXiv:2307.05608) on reports of devices, counts and sums.

Each mechanism must keep its promise before it, and at 0.7 times the noise, or a smaller epsilon, the promise must be
refuted: or it sees nothing. ``make outside`` runs this.
"""

from functools import cache

import numpy as np
import pytest

from sottovoce.local import Protocol, Randomizer
from sottovoce.local.wire import parse
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, to_ticks
from support.noise import Scaled

CHANCE = 0.001  # that the tester refutes what holds
PLACES = 40
N = 1_000_000


@pytest.fixture(scope="module")
def refutes(without):
    """Return a function that tells whether samples of neighbours refute (epsilon, delta)."""
    with without("vizier", "pipeline_dp", "pydp", "tensorflow"):
        pytest.importorskip("dp_auditorium", reason="`make outside` has DP-Auditorium")
        from dp_auditorium.configs import privacy_property, property_tester_config
        from dp_auditorium.testers import HistogramTester

    def found(first, second, epsilon, delta, places=PLACES):
        tester = HistogramTester(property_tester_config.HistogramPropertyTesterConfig(
            test_discrete_mechanism=True, histogram_size=places, min_value=0.0, max_value=float(places),
            approximate_dp=privacy_property.ApproximateDp(epsilon, delta),
        ))  # fmt: skip
        return any(
            tester.reject_property(tester.estimate_lower_bound(*pair, CHANCE))
            for pair in ((first, second), (second, first))
        )

    return found


def placed(values, width):
    """Return in which of the places around 0 each value is."""
    return np.clip(np.floor(values / width + PLACES / 2), 0, PLACES - 1).astype(np.int64)


def count(value, factor):
    """Return releases of one count, as evaluations make them."""
    mechanism = DiscreteLaplace(1.0 / factor, 2**10, 2.0**-10)
    rng = np.random.default_rng(value)
    return placed(mechanism.release(np.full(N, value * 2**10, np.int64), rng)[0], 0.5)


def total(value, factor):
    """Return releases of one sum, as passes over rows make them."""
    std = 1.0 / gaussian_mu(1.0, 0.01)
    mechanism = GridGaussian(1.0, std, power_of_two_below(std) * 2.0**-20)
    ticks = to_ticks(np.full(N, float(value)), mechanism.tick)
    return placed(mechanism.release(ticks, Scaled(np.random.default_rng(value), factor))[0], 0.4 * std)


@pytest.mark.parametrize(("release", "delta"), [(count, 1e-6), (total, 0.01)])
@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_counts_and_sums(refutes, release, delta, factor):
    assert refutes(release(0, factor), release(1, factor), 1.0, delta) == (factor < 1.0)


@cache
def reports(n=100_000):
    """Return what devices of two people with opposite records report under one public seed, one of K = 8 places."""
    protocol = Protocol(n_features=2, completion="slack", intercept=0.0, epsilon=1.0, K=8, m=3, b=1.0)
    mechanism, token = Randomizer(protocol), b"one"
    mechanism._random = np.random.default_rng(0).bytes
    found = []
    for x in ([0.9, 0.3], [-0.9, -0.3]):
        seed = parse(mechanism.report(x, 1, token=token), protocol).seed
        top = mechanism.top(seed, mechanism._sign(1) * protocol.encode(x))
        found.append(np.array([mechanism._draw(top) for _ in range(n)]))
    return found


@pytest.mark.parametrize(("epsilon", "holds"), [(1.0, True), (0.2, False)])
def test_reports_of_devices(refutes, epsilon, holds):
    assert refutes(*reports(), epsilon, 1e-6, places=8) != holds
