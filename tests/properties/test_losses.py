"""What a loss promises to solvers and to the privacy proof, for every loss.

The truth is numerical: differences of `value`, suprema over a grid that is refined, and for the dual step scipy's
one-dimensional minimiser and a bisection in 60 digits.
"""

import math
from typing import NamedTuple

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numba import njit
from numba.core.errors import TypingError
from scipy.special import expit

from sottovoce.exceptions import ParameterError
from sottovoce.losses import (
    Hinge,
    Logistic,
    Loss,
    SmoothedHinge,
    Squared,
    dual_step,
    slope,
)
from sottovoce.papers.dp_scd.published import OneNewtonStep
from support.sigmoid_loss import SigmoidLoss

LOSSES = {
    "squared": Squared(),
    "logistic": Logistic(),
    "hinge": Hinge(),
    "smoothed hinge .01": SmoothedHinge(0.01),
    "smoothed hinge .5": SmoothedHinge(),
    "smoothed hinge 1": SmoothedHinge(1.0),
    "smoothed hinge 7": SmoothedHinge(7.0),
}
each_loss = pytest.mark.parametrize("loss", [pytest.param(loss, id=name) for name, loss in LOSSES.items()])
BENT = LOSSES | {"sigmoid": SigmoidLoss()}  # which is not convex
convex_or_not = pytest.mark.parametrize("loss", [pytest.param(loss, id=name) for name, loss in BENT.items()])
classifiers = pytest.mark.parametrize(
    "loss", [pytest.param(loss, id=name) for name, loss in LOSSES.items() if loss.is_classification]
)
SIGNS = st.sampled_from([-1.0, 1.0])
NUMBERS = st.floats(-20.0, 20.0)
SCORES = st.one_of(st.floats(-20.0, 20.0), st.floats(-1e6, 1e6))


def kinks(loss, y):
    """Predictions where the derivative jumps or bends."""
    if isinstance(loss, Hinge):
        return [y]
    return [y, y * (1.0 - loss.smoothing)] if isinstance(loss, SmoothedHinge) else []


def domain(loss):
    """The ends of the domain of the conjugate: of a y for a classification loss, else of a."""
    if not loss.is_classification:
        reach = loss.lipschitz
        return -reach, reach
    return 0.0, 1.0


def label(loss, sign, number):
    return sign if loss.is_classification else number


def scalar(array):
    return float(np.asarray(array))


# --- value and derivative ---------------------------------------------------------------------------------------------


@convex_or_not
@given(sign=SIGNS, number=NUMBERS, m=SCORES)
def test_derivative_is_the_slope_of_the_value(loss, sign, number, m):
    y = label(loss, sign, number)
    step = 1e-5 * max(1.0, abs(m))
    assume(all(abs(m - kink) > 2 * step for kink in kinks(loss, y)))
    rise = scalar(loss.value(y, m + step)) - scalar(loss.value(y, m - step))
    lost = 1e-15 * max(1.0, abs(scalar(loss.value(y, m)))) / step  # digits lost in the difference
    assert scalar(loss.derivative(y, m)) == pytest.approx(rise / (2 * step), rel=1e-6, abs=1e-8 + 4 * lost)


@convex_or_not
@given(sign=SIGNS, number=NUMBERS, m=st.floats(-20.0, 20.0))
def test_curvature_is_the_slope_of_the_derivative(loss, sign, number, m):
    y, step = label(loss, sign, number), 1e-5
    assume(all(abs(m - kink) > 2 * step for kink in kinks(loss, y)))
    rise = scalar(loss.derivative(y, m + step)) - scalar(loss.derivative(y, m - step))
    assert scalar(loss.curvature(y, m)) == pytest.approx(rise / (2 * step), rel=1e-5, abs=1e-9)
    assert -loss.smoothness * (1 + 1e-14) <= scalar(loss.curvature(y, m)) <= loss.smoothness * (1 + 1e-14)
    assert scalar(loss.curvature(y, m)) >= 0.0 or not isinstance(loss, Loss)


@each_loss
@given(sign=SIGNS, number=NUMBERS, one=SCORES, other=SCORES, weight=st.floats(0.0, 1.0))
def test_convex(loss, sign, number, one, other, weight):
    y = label(loss, sign, number)
    between = scalar(loss.value(y, weight * one + (1 - weight) * other))
    ends = weight * scalar(loss.value(y, one)) + (1 - weight) * scalar(loss.value(y, other))
    scale = abs(scalar(loss.value(y, one))) + abs(scalar(loss.value(y, other)))
    assert between <= ends + 1e-9 * (1.0 + scale)
    # the derivative is a subgradient, also at a kink
    tangent = scalar(loss.value(y, one)) + scalar(loss.derivative(y, one)) * (other - one)
    assert scalar(loss.value(y, other)) >= tangent - 1e-9 * (1.0 + scale + abs(tangent))


@convex_or_not
@given(sign=SIGNS, number=NUMBERS, one=SCORES, other=SCORES)
def test_lipschitz_and_smoothness_bounds_hold(loss, sign, number, one, other):
    """And the slope of a classification loss has one sign: Theorem 2 of docs/privacy/dp_scd_utility.md rests on it."""
    y = label(loss, sign, number)
    gap = abs(one - other)
    slopes = scalar(loss.derivative(y, one)), scalar(loss.derivative(y, other))
    assert max(map(abs, slopes)) <= loss.lipschitz
    assert not loss.is_classification or y * max(slopes, key=lambda each: y * each) <= 0.0
    if math.isfinite(loss.smoothness):
        assert abs(slopes[0] - slopes[1]) <= loss.smoothness * gap * (1 + 1e-9) + 1e-12


@convex_or_not
def test_lipschitz_and_smoothness_bounds_are_reached(loss):
    """A bound that is too large would only cost accuracy, unseen; so both must be tight."""
    for y in (-1.0, 1.0):
        m = np.sort(np.concatenate([np.linspace(-60, 60, 200_001), [y - 1e-7, y + 1e-7]]))
        slopes = loss.derivative(np.full_like(m, y), m)
        if math.isfinite(loss.lipschitz):
            assert np.abs(slopes).max() == pytest.approx(loss.lipschitz, rel=1e-9)
        else:
            assert np.abs(slopes).max() > 50.0
        bends = np.diff(slopes) / np.diff(m)
        if math.isfinite(loss.smoothness):
            assert bends.max() == pytest.approx(loss.smoothness, rel=1e-4)
        else:
            assert bends.max() > 1e6


@classifiers
def test_no_overflow_and_no_nan_at_extremes(loss):
    y = np.array([1.0, -1.0] * 5)
    m = np.repeat([1e6, -1e6, 1e150, -1e150, 0.0], 2)
    for function in (loss.value, loss.derivative):
        assert np.all(np.isfinite(function(y, m)))
    low, high = domain(loss)
    assert loss.value(1.0, 1e6) == -low * 1e6
    assert loss.value(1.0, -1e6) == pytest.approx(high * 1e6, rel=1e-5)
    assert loss.derivative(1.0, -1e6) == -high
    assert loss.derivative(1.0, 1e6) == -low


@njit
def compiled_slopes(loss, y, m, out):
    for i in range(len(m)):
        out[i] = slope(loss, y[i], m[i])


@each_loss
def test_slope_is_the_derivative(loss):
    """Compiled and interpreted, away from and at the kinks."""
    m = np.concatenate([np.linspace(-5, 5, 1001), [-1e6, 1e6, -750.0, 750.0, 1.0, -1.0]])
    for label_value in (-1.0, 1.0):
        y, out = np.full_like(m, label_value), np.empty_like(m)
        compiled_slopes(loss, y, m, out)
        assert out == pytest.approx(loss.derivative(y, m), rel=1e-12, abs=1e-300)
        assert out == pytest.approx([slope(loss, *pair) for pair in zip(y, m, strict=True)], rel=1e-13, abs=1e-300)
        assert len(np.unique(out)) > 1


# --- conjugate --------------------------------------------------------------------------------------------------------


def inside(loss, sign, number, share):
    """A label and a dual variable of the domain."""
    low, high = domain(loss)
    if not loss.is_classification:
        low, high = max(low, -20.0), min(high, 20.0)
        return number, min(low + (high - low) * share, high)
    return sign, sign * min(low + share, high)


@each_loss
@given(sign=SIGNS, number=NUMBERS, share=st.floats(0.0, 1.0))
@settings(max_examples=40)
def test_conjugate_is_the_supremum(loss, sign, number, share):
    """l*(-a) = sup_m (-a m - l(y, m)): from a wide grid, refined around its best point."""
    y, a = inside(loss, sign, number, share)
    low, high = -1e4, 1e4
    for _ in range(12):
        m = np.linspace(low, high, 2001)
        gains = -a * m - loss.value(np.full_like(m, y), m)
        best = int(np.argmax(gains))
        low, high = m[max(0, best - 20)], m[min(2000, best + 20)]
    assert scalar(loss.conjugate(y, a)) == pytest.approx(gains.max(), rel=1e-9, abs=1e-9)


@classifiers
@given(sign=SIGNS, outside=st.one_of(st.floats(1e-9, 1e9).map(lambda x: 1.0 + x), st.floats(-1e9, -1e-9)))
def test_conjugate_outside_its_domain_is_infinite(loss, sign, outside):
    outside += domain(loss)[0]
    assert scalar(loss.conjugate(sign, sign * outside)) == math.inf
    # rightly: the gain -a m - l grows without bound
    m = sign * np.array([-1.0, 1.0]) * 1e12
    assert np.max(-sign * outside * m - loss.value(np.full(2, sign), m)) > 100.0


@each_loss
@given(sign=SIGNS, number=NUMBERS, share=st.floats(0.0, 1.0), m=SCORES)
def test_fenchel_young(loss, sign, number, share, m):
    y, a = inside(loss, sign, number, share)
    terms = scalar(loss.value(y, m)), scalar(loss.conjugate(y, a)), a * m
    assert sum(terms) >= -1e-12 * sum(map(abs, terms)) - 1e-12
    # equality exactly at a = -l'(m)
    a = -scalar(loss.derivative(y, m))
    terms = scalar(loss.value(y, m)), scalar(loss.conjugate(y, a)), a * m
    assert sum(terms) == pytest.approx(0.0, abs=1e-9 + 1e-12 * sum(map(abs, terms)))


@each_loss
@given(sign=SIGNS, number=NUMBERS, a=st.floats(-1e6, 1e6))
def test_nearest_feasible(loss, sign, number, a):
    y = label(loss, sign, number)
    kept = scalar(loss.nearest_feasible(y, a))
    assert math.isfinite(scalar(loss.conjugate(y, kept)))
    if math.isfinite(scalar(loss.conjugate(y, a))):
        assert kept == a
    else:
        unit = y if loss.is_classification else 1.0
        assert kept == min((unit * end for end in domain(loss)), key=lambda end: abs(end - a))


# --- dual step --------------------------------------------------------------------------------------------------------

CENTRES = st.one_of(st.floats(0.0, 1.0), st.sampled_from([0.0, 1.0, 1e-13, 1.0 - 1e-13]), st.floats(-3.0, 4.0))
RATIOS = st.floats(-12.0, 8.0).map(lambda exponent: 10.0**exponent)


@njit
def compiled_steps(loss, a, y, m, r, out):
    for i in range(len(a)):
        out[i] = dual_step(loss, a[i], y[i], m[i], r[i])


def exact_step(loss, a, y, m, r):
    """Root of the stationarity condition by bisection in 60 digits: b with (l*)'(b) + y m + r (b - a y) = 0."""
    with mpmath.workdps(60):
        a, y, m, r = (mpmath.mpf(value) for value in (a, y, m, r))
        if not loss.is_classification:
            moved = a + (y - a - m) / (1 + r)
            low, high = domain(loss)
            return min(max(moved, mpmath.mpf(low)), mpmath.mpf(high)) - a
        logistic = isinstance(loss, Logistic)

        def slope(b):
            if logistic:
                return mpmath.log(b / (1 - b)) + y * m + r * (b - a * y)
            bend = loss.smoothing if isinstance(loss, SmoothedHinge) else 0
            return -1 + bend * b + y * m + r * (b - a * y)

        low, high = mpmath.mpf(0), mpmath.mpf(1)
        if not logistic:
            if slope(low) >= 0:
                return y * (low - a * y)
            if slope(high) <= 0:
                return y * (high - a * y)
        for _ in range(190):
            middle = (low + high) / 2
            low, high = (low, middle) if slope(middle) > 0 else (middle, high)
        return y * (high - a * y)


@each_loss
@given(sign=SIGNS, number=NUMBERS, centre=CENTRES, m=SCORES, r=RATIOS)
@settings(max_examples=60)
def test_dual_step_against_more_digits(loss, sign, number, centre, m, r):
    y, a = label(loss, sign, number), sign * centre
    zeta, truth = dual_step(loss, a, y, m, r), float(exact_step(loss, a, y, m, r))
    # the logistic step stops when its error in logit(b) is about 1e-10; the others are exact but for rounding
    digits = 4e-16 * (1.0 + abs(a) + (0.0 if loss.is_classification else abs(y) + abs(m)))
    if isinstance(loss, Logistic):
        digits = 1e-10
    assert zeta == pytest.approx(truth, rel=1e-13, abs=digits)


def logistic_shares(b, m, r):
    """New b for labels +1 by bisection on u = logit(b), in extended precision, for arrays."""
    b, m, r = (values.astype(np.longdouble) for values in (b, m, r))
    low, high = -m - r * (1 - b), -m + r * b
    for _ in range(120):
        middle = (low + high) / 2
        above = middle + m + r * (expit(middle) - b) > 0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return expit(low).astype(np.float64)


def test_logistic_step_never_fails_to_converge():
    """Plain Newton cycles for about one in 10^5 of such rows, the first four below among them."""
    b = np.array([1.0, 1.0, 1.0, 0.0, 0.5, 0.125])
    m = np.array([2.811518183204746, 33.687444944350126, 22.738706714732324, -6.916406315732476, 0.0, 0.0])
    r = np.array([41.09576665020301, 36.56292484781293, 25.82608887465337, 12.119527270419132, 1.0, 3162.2776601683795])
    generator, size = np.random.default_rng(0), 30_000
    drawn = generator.random(size)
    b = np.concatenate([b, np.where(drawn < 0.2, 0.0, np.where(drawn < 0.4, 1.0, generator.random(size)))])
    m = np.concatenate([m, generator.normal(0.0, 3.0, size) * 10.0 ** generator.integers(-2, 4, size)])
    r = np.concatenate([r, 10.0 ** generator.uniform(-2, 6, size)])
    zeta = np.empty(len(b))
    compiled_steps(Logistic(), b, np.ones(len(b)), m, r, zeta)
    assert np.abs(b + zeta - logistic_shares(b, m, r)).max() < 1e-10


@classifiers
@given(sign=SIGNS, centre=CENTRES, m=st.floats(-1e6, 1e6), r=st.one_of(st.just(0.0), RATIOS))
def test_dual_step_ends_in_the_domain(loss, sign, centre, m, r):
    share = sign * (sign * centre + dual_step(loss, sign * centre, sign, m, r))
    low, high = domain(loss)
    assert low - 1e-15 * (high + abs(centre)) <= share <= high + 1e-15 * (high + abs(centre))


@pytest.mark.parametrize(
    ("a", "m", "wanted"),
    [
        (0.3, 0.5, 1.0),
        (0.3, 1.5, 0.0),
        (0.3, 1.0, 0.3),
        (-2.0, 0.0, 1.0),
        (5.0, 3.0, 0.0),
        (5.0, 1.0, 1.0),
        (-1.0, 1.0, 0.0),
    ],
)
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_hinge_step_of_an_all_zero_row(y, a, m, wanted):
    """At r = 0 the objective is linear: a full step, or none where it is flat."""
    assert y * (y * a + dual_step(Hinge(), y * a, y, y * m, 0.0)) == pytest.approx(wanted)


@each_loss
@given(sign=SIGNS, number=NUMBERS, m=st.floats(-500.0, 500.0), r=st.one_of(st.just(0.0), RATIOS))
def test_no_step_at_the_optimum(loss, sign, number, m, r):
    """a = -l'(m) is optimal for every r: a solver that has converged stays."""
    y = label(loss, sign, number)
    a = -scalar(loss.derivative(y, m))
    assume(all(abs(m - kink) > 1e-9 for kink in kinks(loss, y)))
    assert dual_step(loss, a, y, m, r) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    "loss",
    [pytest.param(loss, id=name) for name, loss in LOSSES.items()]
    + [pytest.param(OneNewtonStep(), id="one Newton step")],
)
def test_compiled_and_interpreted_steps_agree(loss):
    """One resolves the loss while compiling, the other by its type at run time."""
    generator = np.random.default_rng(3)
    size = 500
    y = np.where(generator.random(size) < 0.5, -1.0, 1.0)
    a = y * np.where(generator.random(size) < 0.7, generator.random(size), generator.normal(0.0, 2.0, size))
    m = generator.normal(0.0, 3.0, size) * 10.0 ** generator.integers(0, 6, size)
    r = 10.0 ** generator.uniform(-12, 8, size)
    r[:50] = 0.0
    out = np.empty(size)
    compiled_steps(loss, a, y, m, r, out)
    interpreted = [dual_step(loss, *values) for values in zip(a, y, m, r, strict=True)]
    assert out == pytest.approx(interpreted, rel=1e-13, abs=1e-300)
    assert len({round(value, 12) for value in out}) > 50


@given(sign=SIGNS, centre=st.floats(-2.0, 3.0), m=st.floats(-100.0, 100.0), r=RATIOS)
def test_one_newton_step_is_the_papers(sign, centre, m, r):
    """DESIGN, section 4: one Newton step on logit(p) + y m + r (p - b) = 0 from b clipped to [1e-4, 1 - 1e-4]."""
    b = min(max(centre, 1e-4), 1.0 - 1e-4)
    f = math.log(b / (1.0 - b)) + sign * m
    slope = 1.0 / (b * (1.0 - b)) + r
    expected = sign * (min(max(b - f / slope, 1e-4), 1.0 - 1e-4) - b)
    assert dual_step(OneNewtonStep(), sign * centre, sign, m, r) == pytest.approx(expected, rel=1e-9, abs=1e-15)


# --- the interface ----------------------------------------------------------------------------------------------------


def test_losses_keep_the_interface():
    for loss in LOSSES.values():
        assert isinstance(loss, Loss)
        assert isinstance(loss, tuple)  # so that compiled code takes it as it is
        assert loss == type(loss)(*loss)
        assert hash(loss) == hash(type(loss)(*loss))
    assert len({loss.name for loss in LOSSES.values()}) == len(LOSSES)
    assert {name for name, loss in LOSSES.items() if not loss.is_classification} == {"squared"}
    for bad in (-0.5, math.nan, math.inf, None, "1", True):
        with pytest.raises(ParameterError, match="smoothing"):
            _ = SmoothedHinge(bad).smoothness
    with pytest.raises(ParameterError, match="smoothing"):
        _ = SmoothedHinge(0.0).smoothness


class Stranger(NamedTuple):
    """A named tuple without a dual step and a slope."""

    width: float = 1.0


def test_a_loss_without_a_dual_step_or_a_slope_is_refused():
    with pytest.raises(KeyError, match="Stranger"):
        dual_step(Stranger(), 0.0, 1.0, 0.0, 1.0)
    with pytest.raises(KeyError, match="Stranger"):
        slope(Stranger(), 1.0, 0.0)
    with pytest.raises(TypingError, match="dual_step"):
        compiled_steps(Stranger(), *(np.zeros(1) for _ in range(5)))
    with pytest.raises(TypingError, match="slope"):
        compiled_slopes(Stranger(), *(np.zeros(1) for _ in range(3)))
