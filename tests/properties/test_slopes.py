"""The compiled slope of each loss is its derivative, and agrees with the interpreted one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from sottovoce.losses import Hinge, Logistic, SmoothedHinge, Squared, slope


@njit
def compiled(loss, y, m):
    return slope(loss, y, m)


@pytest.mark.parametrize("loss", [Squared(), Logistic(), Hinge(), SmoothedHinge(0.5), SmoothedHinge(2.0)])
@given(m=st.floats(-1e6, 1e6), positive=st.booleans(), number=st.floats(-1e6, 1e6))
def test_slope_is_the_derivative(loss, m, positive, number):
    y = (1.0 if positive else -1.0) if loss.is_classification else number
    expected = float(loss.derivative(np.array([y]), np.array([m]))[0])
    assert compiled(loss, y, m) == pytest.approx(expected, rel=1e-12, abs=1e-300)
    assert slope(loss, y, m) == pytest.approx(expected, rel=1e-12, abs=1e-300)


def test_a_type_that_is_no_loss_does_not_compile():
    with pytest.raises(Exception, match="slope"):
        compiled((1.0, 2.0), 1.0, 1.0)
