"""The privacy curve of objective perturbation against exact curves: tiny tables whose minimiser has a known density.

In one dimension w* has the density phi(b(w)) |b'(w)| with b(w) = -(F'(w) + Lambda w), so every divergence between
neighbouring tables is one integral. None may exceed the curve, and some must come near it.
"""

import math

import numpy as np
import pytest
from scipy.stats import norm

from sottovoce.losses import Logistic, SmoothedHinge
from sottovoce.privacy.accounting import (
    GaussianAccountant,
    PLDAccountant,
    RenyiAccountant,
    gaussian_delta,
    gaussian_epsilon,
)
from sottovoce.privacy.events import ComposedEvent, GaussianEvent, ObjectivePerturbationEvent, RepeatedEvent

PLD = PLDAccountant(grid=1e-3)
EPSILONS = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 1.5)
LOSSES = [Logistic(), SmoothedHinge(0.5), SmoothedHinge(2.0), SmoothedHinge(8.0)]


def laws(loss, offset, penalty, sigma):
    """Densities of w* with and without a row x = 1, y = -1, beside rows whose gradients add up to -offset."""
    ends = [-(13 * sigma - offset + 2) / penalty, (13 * sigma + offset + 2) / penalty]
    w = np.linspace(*ends, 400_001)
    slope, curvature = loss.derivative(-1.0, w), loss.curvature(-np.ones_like(w), w)
    b = offset - penalty * w
    with_row = norm.pdf(b - slope, 0.0, sigma) * (penalty + curvature)
    return with_row, norm.pdf(b, 0.0, sigma) * penalty, w[1] - w[0]


def divergence(one, other, width, epsilon):
    return float(np.maximum(one - math.exp(epsilon) * other, 0.0).sum() * width)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("penalty", [2.5, 20.0])
@pytest.mark.parametrize("sigma", [1.0, 3.0])
def test_exact_curves_stay_below(loss, penalty, sigma):
    event = ObjectivePerturbationEvent(sigma, loss.smoothness / penalty)
    for offset in np.linspace(-30.0, 30.0, 13):
        with_row, without, width = laws(loss, offset, penalty, sigma)
        slack = width * float(with_row.max())  # of the integral, where the density jumps
        assert with_row.sum() * width == pytest.approx(1.0, abs=slack)
        for epsilon in EPSILONS:
            assert divergence(with_row, without, width, epsilon) <= PLD.delta(event, epsilon) + slack
            assert divergence(without, with_row, width, epsilon) <= gaussian_delta(1 / sigma, epsilon) + slack


def worst_case(loss, penalty, sigma, epsilon):
    """The largest exact divergences, with the row against without it and back, over what the other rows do."""
    pairs = [laws(loss, offset, penalty, sigma) for offset in np.linspace(0.0, 30.0, 31)]
    return (
        max(divergence(one, other, width, epsilon) for one, other, width in pairs),
        max(divergence(other, one, width, epsilon) for one, other, width in pairs),
    )


def test_the_curve_is_nearly_attained():
    """Back it is the Gaussian curve itself; forth it comes near, and the curvature cannot be left out."""
    forth, back = worst_case(SmoothedHinge(0.5), 20.0, 1.0, 1.0)
    bound = PLD.delta(ObjectivePerturbationEvent(1.0, 0.1), 1.0)
    assert 0.85 * bound < forth <= bound
    assert back == pytest.approx(gaussian_delta(1.0, 1.0), rel=1e-3)
    forth, _ = worst_case(SmoothedHinge(0.5), 4.0, 3.0, 1.5)
    assert 5.0 * gaussian_delta(1 / 3.0, 1.5) < forth <= PLD.delta(ObjectivePerturbationEvent(3.0, 0.5), 1.5)


def test_two_dimensions_stay_below():
    """The same density in the plane, with a row that is not parallel to the others."""
    loss, penalty, sigma = SmoothedHinge(0.5), 4.0, 1.5
    rows, labels = np.array([[0.6, 0.8], [1.0, 0.0], [-0.3, 0.9]]), np.array([1.0, -1.0, 1.0])
    x, y = np.array([0.8, -0.6]), -1.0
    axis = np.linspace(-4.5, 4.5, 1501)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    area = (axis[1] - axis[0]) ** 2

    def density(X, targets):
        b, hessian = -penalty * grid, np.zeros((*grid.shape, 2)) + penalty * np.eye(2)
        for row, target in zip(X, targets, strict=True):
            m = grid @ row
            b = b - loss.derivative(target, m)[..., None] * row
            hessian = hessian + loss.curvature(target, m)[..., None, None] * np.outer(row, row)
        return norm.pdf(b, 0.0, sigma).prod(axis=-1) * np.linalg.det(hessian)

    without, with_row = density(rows, labels), density(np.vstack([rows, x]), np.append(labels, y))
    assert without.sum() * area == pytest.approx(1.0, abs=2e-3)
    event = ObjectivePerturbationEvent(sigma, loss.smoothness / penalty)
    for epsilon in EPSILONS:
        bound = PLD.delta(event, epsilon)
        forth = divergence(with_row, without, area, epsilon)
        assert max(forth, divergence(without, with_row, area, epsilon)) <= bound + 1e-6
        assert forth > 0.3 * bound or epsilon > 0.2


def test_closed_form_of_one_release():
    """Beyond the chord that closes the hull, the curve is the Gaussian one, shifted by log(1 + ratio)."""
    for noise, ratio in ((2.0, 0.05), (20.0, 0.01), (0.5, 0.02), (1e3, 1e-4)):
        event = ObjectivePerturbationEvent(noise, ratio)
        exact = gaussian_epsilon(1 / noise, 1e-5) + math.log1p(ratio)
        assert PLDAccountant().epsilon(event, 1e-5) == pytest.approx(exact, rel=1e-4)
        assert PLDAccountant().epsilon(event, 1e-5) > exact * (1 - 1e-9)


def test_without_curvature_it_is_the_gaussian_mechanism():
    event, exact = ObjectivePerturbationEvent(1.3, 0.0), GaussianEvent(1.3)
    assert PLD.epsilon(RepeatedEvent(event, 5), 1e-5) == pytest.approx(
        GaussianAccountant().epsilon(RepeatedEvent(exact, 5), 1e-5), rel=1e-4
    )
    for count in (1, 5):
        assert RenyiAccountant().epsilon(RepeatedEvent(event, count), 1e-5) == pytest.approx(
            RenyiAccountant().epsilon(RepeatedEvent(exact, count), 1e-5), rel=1e-9
        )


def test_composition_costs_little_more_than_gaussians_and_the_curvatures():
    """Ten releases: the curvature adds up at worst, the noise composes as it does for Gaussians."""
    run = RepeatedEvent(ObjectivePerturbationEvent(3.0, 0.05), 10)
    gaussian = gaussian_epsilon(math.sqrt(10) / 3.0, 1e-5)
    assert gaussian < PLD.epsilon(run, 1e-5) <= gaussian + 10 * math.log1p(0.05) + 1e-3


@pytest.mark.parametrize(("noise", "ratio"), [(1.0, 0.3), (3.0, 0.05), (20.0, 0.01)])
@pytest.mark.parametrize("order", [1.1, 2.0, 8.0])
def test_renyi_divergence_against_the_integral_of_the_curve(noise, ratio, order):
    """1 + a (a - 1) times the integral of x^(a-2) (h(x) - (1-x)_+) over x = e^t, for h as stated (without its hull)."""
    value = ObjectivePerturbationEvent(noise, ratio).divergences(np.array([order]))[0]
    bend = math.log1p(ratio)
    t = np.linspace(-12 / noise, bend + 12 / noise + order / noise**2, 8001)
    excess = [
        gaussian_delta(1 / noise, max(0.0, x - bend)) if x > 0 else math.exp(x) * gaussian_delta(1 / noise, -x)
        for x in t
    ]
    integral = 1.0 + order * (order - 1) * float(np.sum(np.exp((order - 1) * t) * excess)) * (t[1] - t[0])
    assert value == pytest.approx(math.log(integral) / (order - 1), rel=2e-3)


@pytest.mark.parametrize("loss", [Logistic(), SmoothedHinge(0.5), SmoothedHinge(8.0)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("order", [1.5, 4.0, 16.0])
def test_exact_renyi_divergences_stay_below(loss, order):
    penalty, sigma = 5.0, 2.0
    bound = ObjectivePerturbationEvent(sigma, loss.smoothness / penalty).divergences(np.array([order]))[0]
    for offset in (-20.0, 0.0, 5.0, 20.0, 40.0):
        with_row, without, width = laws(loss, offset, penalty, sigma)
        for one, other in ((with_row, without), (without, with_row)):
            there = (one > 0) & (other > 0)
            total = float(np.sum(one[there] * (one[there] / other[there]) ** (order - 1)) * width)
            assert math.log(total) / (order - 1) <= bound + 1e-6


def test_pld_is_tighter_than_renyi():
    run = ComposedEvent((RepeatedEvent(ObjectivePerturbationEvent(4.0, 0.02), 3), GaussianEvent(50.0)))
    for delta in (1e-3, 1e-6):
        assert PLD.epsilon(run, delta) < RenyiAccountant().epsilon(run, delta)
        assert RenyiAccountant().epsilon(run, delta) < RenyiAccountant(conversion="moments").epsilon(run, delta)
