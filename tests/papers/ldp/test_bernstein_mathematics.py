"""Polynomials, smoothing and noise of the Bernstein reports, with the errata of the paper shown by figures."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from sottovoce.exceptions import ParameterError
from sottovoce.papers.ldp import bounds
from sottovoce.papers.ldp.bounds import risk_bound, theorem_choice
from sottovoce.papers.ldp.noise import CopyNoise, copies
from sottovoce.papers.ldp.surrogate import (
    GENERAL_LOSSES,
    THIRD_DERIVATIVE,
    Loss,
    Oracle,
    absolute_residual,
    bernstein_at,
    bernstein_coefficients,
    hinge_half,
    huber_residual,
    smoothed_hinge_derivative,
    smoothed_step,
)
from sottovoce.privacy.accounting import gaussian_delta

U = np.linspace(-1.0, 1.0, 401)
BETA = 0.25


def slope(u):
    return smoothed_hinge_derivative(u, BETA)


def slope_as_printed(u):
    """At the nodes j/p, where the polynomial of `bernstein_coefficients` has 2j/p - 1."""
    return slope(0.5 * (1.0 + u))


def bernstein_value(coefficients, u):
    return bernstein_at(coefficients, 0.5 * (1.0 + u))


def smoothed_hinge(u, beta):
    return 0.5 * (0.5 - u + np.hypot(0.5 - u, beta))


def smoothed_hinge_curvature(u, beta):
    return 0.5 * beta**2 / np.hypot(0.5 - u, beta) ** 3


@pytest.mark.parametrize(
    ("degree", "literal", "mapped", "chebyshev"),
    [(2, 0.85, 0.25, 0.17), (4, 2.3, 0.20, 0.13), (8, 12.0, 0.14, 0.025), (16, 48.0, 0.10, 0.002)],
)
def test_erratum_the_polynomial_is_evaluated_at_half_of_one_plus_u(degree, literal, mapped, chebyshev):
    """As printed it diverges on [-1, 1]; mapped to [0, 1] it converges, though slower than Chebyshev's."""
    wanted = slope(U)

    as_printed = bernstein_at(bernstein_coefficients(slope_as_printed, degree), U)
    assert np.abs(as_printed - wanted).max() == pytest.approx(literal, rel=0.04)
    ours = bernstein_value(bernstein_coefficients(slope, degree), U)
    assert np.abs(ours - wanted).max() == pytest.approx(mapped, rel=0.04)
    interpolated = np.polynomial.chebyshev.Chebyshev.interpolate(slope, degree)
    assert np.abs(interpolated(U) - wanted).max() == pytest.approx(chebyshev, rel=0.25)


def test_the_iterated_operator_is_the_one_defined():
    """Order h is I - (I - B)^h, applied to values of the function at the nodes; higher orders come nearer."""
    degree = 6
    nodes = 2.0 * np.arange(degree + 1) / degree - 1.0
    columns = [bernstein_value(np.eye(degree + 1)[j], nodes) for j in range(degree + 1)]
    B = np.column_stack(columns)
    power = np.linalg.matrix_power(np.eye(degree + 1) - B, 3)
    # B_3 f = sum_i C(3, i) (-1)^(i-1) B^i f: coefficients (I - (I - B)^3) B^-1 f
    wanted = (np.eye(degree + 1) - power) @ np.linalg.solve(B, slope(nodes))
    np.testing.assert_allclose(bernstein_coefficients(slope, degree, order=3), wanted, atol=1e-10)
    errors = [np.abs(bernstein_value(bernstein_coefficients(slope, 8, order=h), U) - slope(U)).max() for h in (1, 2, 3)]
    assert errors[0] > errors[1] > errors[2]


@pytest.mark.parametrize("beta", [0.01, 0.25, 1.0])
def test_smoothing_facts(beta):
    u = np.linspace(-1.5, 2.0, 35001)
    gap = smoothed_hinge(u, beta) - hinge_half(u)
    assert gap.min() >= 0.0
    assert gap.max() == pytest.approx(beta / 2)
    derivative, curvature = smoothed_hinge_derivative(u, beta), smoothed_hinge_curvature(u, beta)
    assert derivative.min() >= -1.0
    assert derivative.max() <= 0.0
    np.testing.assert_allclose(np.gradient(smoothed_hinge(u, beta), u)[1:-1], derivative[1:-1], atol=1e-4)
    np.testing.assert_allclose(np.gradient(derivative, u)[1:-1], curvature[1:-1], atol=1e-2 / beta)
    np.testing.assert_allclose(smoothed_step(u, beta), 1.0 + smoothed_hinge_derivative(u + 0.5, beta), atol=1e-12)
    # the erratum: 1/(2 beta), not 1/beta, and it is attained
    assert curvature.max() == pytest.approx(1.0 / (2.0 * beta), rel=1e-12)
    third = np.abs(np.gradient(curvature, u)).max()
    assert third == pytest.approx(THIRD_DERIVATIVE / beta**2, rel=1e-3)


def test_printed_noise_what_it_really_gives():
    """delta = 1e-6. At p = 1 claims of 1 / 2 / 4 / 8 are .975 / 2.07 / 4.47 / 10.0; p = 2 holds to 8 and not to 16."""
    claims = (1.0, 2.0, 4.0, 8.0, 16.0)
    real = {p: [CopyNoise.calibrated("printed", e, 1e-6, p).epsilon(1e-6) for e in claims] for p in (1, 2)}
    assert real[1][:4] == pytest.approx([0.9747, 2.0682, 4.4702, 10.0062], abs=1e-4)
    assert real[2] == pytest.approx([0.7106, 1.5010, 3.2139, 7.0701, 16.3229], abs=1e-4)
    assert [claim < given for claim, given in zip(claims, real[1], strict=True)] == [False, True, True, True, True]
    assert [claim < given for claim, given in zip(claims, real[2], strict=True)] == [False] * 4 + [True]


@pytest.mark.parametrize("degree", [1, 3])
def test_mu_is_the_distance_of_two_reports(degree):
    """Opposite unit vectors with opposite labels: |mean - mean'| in units of the noise, by brute force."""
    noise = CopyNoise(degree, 1.3, 2.9)
    stds = np.array([1.3] + [2.9] * (degree * (degree + 1)))
    one, other = np.array([0.6, -0.8, 1.0]), np.array([-0.6, 0.8, -1.0])
    distance = np.linalg.norm(np.outer(1.0 / stds, one - other))
    assert noise.mu == pytest.approx(distance, rel=1e-12)
    assert noise.mu >= distance
    assert noise.event.noise_multiplier == pytest.approx(1.0 / distance)
    assert len(stds) == copies(degree)


def test_tight_noise():
    noise = CopyNoise.calibrated("tight", 1.0, 1e-6, 2)
    assert noise.first_std == noise.other_std == pytest.approx(31.6146, abs=1e-4)
    for degree in (1, 2, 4):
        for epsilon in (0.3, 1.0, 8.0):
            noise = CopyNoise.calibrated("tight", epsilon, 1e-6, degree)
            assert gaussian_delta(noise.mu, epsilon) <= 1e-6
            assert gaussian_delta(noise.mu, epsilon) == pytest.approx(1e-6, rel=1e-6)


def test_bad_noise():
    with pytest.raises(ParameterError, match="noise must be one of 'tight', 'printed'"):
        CopyNoise.calibrated("least", 1.0, 1e-6, 1)
    for name, values in {"epsilon": (0.0, 1e-6, 1), "delta": (1.0, math.nan, 1), "degree": (1.0, 1e-6, 0)}.items():
        with pytest.raises(ParameterError, match=name):
            CopyNoise.calibrated("tight", *values)
    with pytest.raises(ParameterError, match="first_std"):
        CopyNoise(1, math.nan, 1.0)


@pytest.mark.parametrize("name", sorted(GENERAL_LOSSES))
def test_lemma_4_8(name):
    """f is D/2 E|u - s| + (f'(1) + f'(-1)) u / 2 up to a constant."""
    loss = GENERAL_LOSSES[name]
    low, high = loss.ends
    s = loss.thresholds((np.arange(20000) + 0.5) / 20000)
    points = np.linspace(-1.0, 1.0, 9)
    mixture = 0.5 * (high - low) * np.abs(points[:, None] - s).mean(axis=1) + 0.5 * (high + low) * points
    assert np.ptp(loss.value(points) - mixture) < 1e-4


def test_erratum_one_s_a_report():
    """One s for all factors converges to f'; one for each factor gives the polynomial of the mean of s, off by .12."""
    loss = GENERAL_LOSSES["logistic"]
    wanted = loss.derivative(U)
    errors = [np.abs(Oracle(degree, 1.0 / degree, loss).derivative(U) - wanted).max() for degree in (20, 50, 100)]
    assert errors == pytest.approx([0.040, 0.024, 0.017], abs=1e-3)
    oracle = Oracle(100, 0.01, loss)
    mean_s = loss.thresholds((np.arange(4000) + 0.5) / 4000).mean()
    own = bernstein_value(oracle.coefficients, (U - mean_s) / 2.0)
    assert np.abs(oracle.scale * own + oracle.offset - wanted).max() > 0.1


@pytest.mark.parametrize("name", [None, "logistic", "absolute"])
@pytest.mark.parametrize("degree", [1, 2, 5])
def test_the_surrogate_is_convex_with_the_stated_smoothness(name, degree):
    oracle = Oracle(degree, BETA, GENERAL_LOSSES.get(name))
    derivative = oracle.derivative(U)
    steps = np.diff(derivative) / np.diff(U)
    assert steps.min() >= -1e-12
    assert steps.max() <= oracle.smoothness * (1.0 + 1e-9)
    assert oracle.smoothness <= oracle.scale / (2.0 * BETA) + 1e-12


def test_theorem_4_5_keeps_its_terms():
    """Smoothing, approximation and optimisation each stay within their share of alpha, at a small degree."""
    choice = theorem_choice(0.5, 5, 4.0, 1e-6)
    assert (choice.beta, choice.degree, choice.n_copies) == (0.25, 55, 55 * 56 + 1)
    oracle = Oracle(choice.degree, choice.beta)
    surrogate_error = np.abs(oracle.derivative(U) - smoothed_hinge_derivative(U, choice.beta)).max()
    assert surrogate_error <= choice.alpha / 8.0
    assert np.ptp(smoothed_hinge(U, choice.beta) - hinge_half(U)) <= choice.alpha / 4.0
    # linear in d, up to the one in front
    more = theorem_choice(0.5, 5000, 4.0, 1e-6)
    assert more.log10_reports - choice.log10_reports == pytest.approx(3.0, abs=0.1)
    assert choice.log10_reports > 500
    assert theorem_choice(0.5, 5, 8.0, 1e-6).log10_reports < choice.log10_reports
    assert theorem_choice(0.25, 5, 4.0, 1e-6).degree == math.ceil(0.2146625 * 32 / 0.25**3)


def test_theorem_4_12_keeps_its_terms():
    """A loss of small D, so that the degree can be evaluated; the general case is D = 2, and 32 times the degree."""
    flat = Loss("flat", lambda u: 0.25 * np.abs(u), lambda u: 0.25 * np.sign(u))
    choice = theorem_choice(0.5, 5, 4.0, 1e-6, spread=flat.ends[1] - flat.ends[0])
    assert (choice.beta, choice.degree) == (0.25, math.ceil(0.2146625 / (0.25**2 * 0.125)))
    oracle = Oracle(choice.degree, choice.beta, flat)
    smoothed = 2.0 * 0.5 * 0.5 * (U / 2.0 + np.hypot(U / 2.0, choice.beta)) - 0.25 * U
    assert np.ptp(smoothed - flat.value(U)) <= choice.alpha / 4.0
    exact = 0.5 * smoothed_step(U / 2.0, choice.beta) - 0.25
    assert np.abs(oracle.derivative(U) - exact).max() <= choice.alpha / 8.0
    assert oracle.smoothness <= 0.5 / (4.0 * choice.beta)

    any_loss, hinge = theorem_choice(0.5, 5, 4.0, 1e-6, spread=2.0), theorem_choice(0.5, 5, 4.0, 1e-6)
    assert any_loss.degree == pytest.approx(32 * hinge.degree, abs=32)
    assert any_loss.log10_reports > hinge.log10_reports
    for spread in (GENERAL_LOSSES["logistic"].ends[1] - GENERAL_LOSSES["logistic"].ends[0], 2.0):
        one, more = (theorem_choice(0.5, d, 4.0, 1e-6, spread=spread) for d in (5, 50_000))
        assert more.log10_reports - one.log10_reports == pytest.approx(4.0, abs=0.1)
    for spread in (0.0, 2.1):
        with pytest.raises(ParameterError, match="spread must be"):
            theorem_choice(0.5, 5, 4.0, 1e-6, spread=spread)


@pytest.mark.parametrize("name", [None, "logistic"])
def test_the_bound_in_logarithms_is_above_the_exact_moment(name, monkeypatch):
    loss = GENERAL_LOSSES.get(name)
    noise, spread = CopyNoise.calibrated("tight", 4.0, 1e-6, 10), loss and loss.ends[1] - loss.ends[0]
    exact = math.log10(Oracle(10, 0.25, loss).gradient_std(noise, 7))
    if name is None:
        assert bounds._log10_gradient_std(10, 0.25, noise, 7, None) == pytest.approx(exact)
    monkeypatch.setattr(bounds, "_EXACT_UP_TO", 5)
    assert exact <= bounds._log10_gradient_std(10, 0.25, noise, 7, spread) <= exact + 3.0


def test_the_risk_bound_by_its_parts():
    noise, oracle = CopyNoise.calibrated("tight", 32.0, 1e-6, 1), Oracle(1, BETA)
    bounds = [risk_bound(oracle, noise, 5, n) for n in (1000, 4000)]
    c = oracle.coefficients
    line = c[0] * (U / 2.0 - U**2 / 4.0) + c[1] * (U / 2.0 + U**2 / 4.0)
    assert bounds[0].surrogate == pytest.approx(np.ptp(line - hinge_half(U)), abs=1e-4)
    assert bounds[0].surrogate == bounds[1].surrogate
    assert bounds[0].noise == pytest.approx(2.0 * bounds[1].noise)
    assert bounds[0].smoothness == pytest.approx(4.0 * bounds[1].smoothness)
    assert bounds[0].noise == pytest.approx(1.43543 * oracle.gradient_std(noise, 5) / math.sqrt(1000), rel=1e-4)
    assert bounds[0].total == bounds[0].surrogate + bounds[0].noise + bounds[0].smoothness
    assert risk_bound(Oracle(200, 0.01), noise, 5, 1000).surrogate < 0.05
    with pytest.raises(ParameterError, match=r"order must be .* convex surrogate"):
        risk_bound(Oracle(2, BETA, order=2), noise, 5, 1000)


@pytest.mark.parametrize("loss", [absolute_residual(0.25), huber_residual(0.5), huber_residual(2.0)])
def test_losses_of_a_residual(loss):
    r = np.linspace(-2.0, 2.0, 2001)
    if loss.name.startswith("huber"):
        np.testing.assert_allclose(np.gradient(loss.value(r), r)[1:-1], loss.derivative(r)[1:-1], atol=4e-3)
    else:
        np.testing.assert_allclose(loss.derivative(np.array([-0.5, 0.0, 0.5])), [-math.sqrt(0.5), 0, math.sqrt(0.5)])
    far = np.abs(Oracle(200, 0.25, loss).derivative(r) - loss.derivative(r))
    assert far.max() < 0.12
    # degrees 1 and 2 cannot tell a loss that is even from least squares
    bends = [np.abs(Oracle(p, 0.25, loss).derivative(r) - loss.derivative(r)[-1] / 2.0 * r).max() for p in (1, 2, 3)]
    assert max(bends[:2]) < 1e-12
    assert (bends[2] > 0.1) == (loss.derivative(np.array([1.0]))[0] > 0.6)  # over 2, Huber's loss is least squares
    oracle = Oracle(3, 0.25, loss)
    assert (np.diff(oracle.derivative(r)) / np.diff(r)).max() <= oracle.smoothness * (1.0 + 1e-9)


def test_gradient_std_covers_every_prediction():
    oracle, noise = Oracle(2, 0.25), CopyNoise(2, 0.5, 0.4)
    bound = oracle.gradient_std(noise, 3)
    worst = minimize_scalar(
        lambda u: -float(oracle.second_moment(np.array([u]), noise, 3)[0]), bounds=(-1, 1), method="bounded"
    )
    assert -worst.fun <= bound**2 * (1.0 + 1e-6)
    smaller = oracle.second_moment(U / 2, noise, 3, w_norm=0.5, x_norm=1.0)
    assert (smaller <= bound**2).all()
