"""Slope and shift of a model by shares: what noise and what is left of the pull each do to it."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import expit

from sottovoce.vertical.protocols.secure.calibration import Opened, calibrated

N, CONSTANT = 20_000, 0.3
X = np.column_stack([np.random.default_rng(0).normal(0.2, 1.0, (N, 3)), np.full(N, CONSTANT)])
WEIGHTS = np.array([0.5, -0.3, 0.1, -1.0])


def after(*, noise=0.0, matrix_noise=0.0, at_constant=0.0, along=0.0):
    """Return the finished weights where the link is exact, so that only what is given here can move them."""
    left = np.append(along * N * WEIGHTS[:3], at_constant * N * CONSTANT)
    answer = np.linalg.inv(X.T @ X / 4)
    opened = Opened(X.T @ X, matrix_noise, CONSTANT, N, left, noise, answer)
    return calibrated(WEIGHTS, opened, lambda z: expit(z) - 0.5)


def test_more_noise_leaves_shorter_weights_of_the_same_direction():
    slopes = [after(noise=noise)[:3] / WEIGHTS[:3] for noise in (200.0, 400.0, 800.0, 1200.0, 1e9)]
    for slope in slopes:
        np.testing.assert_allclose(slope, slope[0], rtol=1e-9, atol=1e-12)
    found = [float(slope[0]) for slope in slopes]
    assert all(more < less for less, more in pairwise(found))
    assert 0.8 < found[0] < 1.0
    assert 0.0 <= found[-1] < 1e-9


@pytest.mark.parametrize("noise", [1000.0, 1e9])
@pytest.mark.parametrize("at_constant", [-0.1, 0.0, 0.1])
def test_what_is_left_at_the_constant_moves_the_rate(noise, at_constant):
    rate, wanted = (
        expit(X @ after(noise=noise, at_constant=at_constant)).mean(),
        expit(X @ WEIGHTS).mean() + at_constant,
    )
    assert abs(rate - wanted) < 0.005


def test_weights_are_never_longer_and_stay_where_nothing_can_be_seen():
    """A pull that is left would lengthen them; noise of the second moments hides how long predictions are."""
    assert after(along=1e-2) is WEIGHTS
    assert after(noise=1000.0, matrix_noise=1e9) is WEIGHTS
    assert np.all(np.abs(after(along=-1e-2)[:3]) < np.abs(WEIGHTS[:3]))
