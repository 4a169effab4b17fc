"""The one loss that is not convex: value, derivatives, bounds; the truth is numerical."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.losses import Loss, SigmoidLoss

LOSS = SigmoidLoss()
SIGNS = st.sampled_from([-1.0, 1.0])
SCORES = st.floats(-30.0, 30.0)


@given(sign=SIGNS, m=SCORES)
def test_value_is_a_smooth_count_of_errors(sign, m):
    value = float(LOSS.value(sign, m))
    assert value == pytest.approx(1.0 / (1.0 + math.exp(sign * m)), rel=1e-13)
    assert 0.0 < value < 1.0
    assert value + float(LOSS.value(-sign, m)) == pytest.approx(1.0, rel=1e-14)


@given(sign=SIGNS, m=SCORES)
def test_derivatives_are_slopes(sign, m):
    step = 1e-5
    for function, slope in ((LOSS.value, LOSS.derivative), (LOSS.derivative, LOSS.curvature)):
        rise = float(function(sign, m + step)) - float(function(sign, m - step))
        assert float(slope(sign, m)) == pytest.approx(rise / (2 * step), rel=1e-6, abs=1e-9)


@given(sign=SIGNS, m=SCORES)
def test_bounds_hold(sign, m):
    assert abs(float(LOSS.derivative(sign, m))) <= LOSS.lipschitz
    assert abs(float(LOSS.curvature(sign, m))) <= LOSS.smoothness * (1 + 1e-14)
    assert sign * float(LOSS.derivative(sign, m)) < 0.0


def test_bounds_are_reached_and_curvature_has_both_signs():
    m = np.linspace(-10.0, 10.0, 2_000_001)
    y = np.ones_like(m)
    assert np.abs(LOSS.derivative(y, m)).max() == pytest.approx(LOSS.lipschitz, rel=1e-12)
    curvature = LOSS.curvature(y, m)
    assert curvature.max() == pytest.approx(LOSS.smoothness, rel=1e-9)
    assert curvature.min() == pytest.approx(-LOSS.smoothness, rel=1e-9)
    assert (curvature[m < 0] < 0).all() and (curvature[m > 0] > 0).all()  # bent down on the side of errors


def test_no_overflow_at_extremes():
    y = np.array([1.0, -1.0, 1.0, -1.0])
    m = np.array([1e300, 1e300, -1e300, -1e300])
    assert np.array_equal(LOSS.value(y, m), [0.0, 1.0, 1.0, 0.0])
    assert not LOSS.derivative(y, m).any()
    assert not LOSS.curvature(y, m).any()


def test_it_does_not_pass_for_a_convex_loss():
    """Solvers and proofs that need convexity ask for `Loss`."""
    assert not isinstance(LOSS, Loss)
    assert isinstance(LOSS, tuple)
    assert (LOSS.name, LOSS.is_classification) == ("sigmoid", True)
