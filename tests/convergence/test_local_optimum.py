"""With exact moments the local fits are the non-private optimum."""

import numpy as np
import pytest
from scipy.optimize import minimize

from sottovoce.exceptions import ParameterError
from sottovoce.local.fits.ball import minimise_in_ball, minimise_quadratic
from sottovoce.local.fits.moments import MomentEstimate
from sottovoce.local.fits.ridge import Layout, ridge, ridge_by_folds
from sottovoce.local.fits.surrogate import AbsoluteMixture, margin_loss


def people(n=500, d=5, seed=0, constant=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + rng.standard_normal(d)
    X /= 1.2 * np.linalg.norm(X, axis=1, keepdims=True) * rng.uniform(1, 2, (n, 1))
    if constant is not None:
        X = np.hstack([X, np.full((n, 1), constant)])
    X = np.hstack([X, np.sqrt(1 - (X * X).sum(axis=1, keepdims=True))])  # norm 1
    s = np.sign(X @ rng.standard_normal(X.shape[1]) + 0.2 + 0.3 * rng.standard_normal(n))
    return X, s


def exact(X, s):
    return MomentEstimate(len(X), X.T @ s / len(X), X.T @ X / len(X), 0.0, 0.0)


@pytest.mark.parametrize("free", ["top", None])
def test_ridge_without_penalty_solves_the_normal_equations(free):
    X, s = people()
    w = ridge(exact(X, s), 0.0, Layout(6, None, free))
    np.testing.assert_allclose(w, np.linalg.lstsq(X, s, rcond=None)[0], rtol=1e-8)


@pytest.mark.parametrize(("constant", "layout"), [(0.3, Layout(7, 6, 5, 0.3)), (None, Layout(6, 5, None))])
def test_ridge_leaves_out_what_the_model_does_not_use(constant, layout):
    X, s = people(constant=constant)
    estimate = exact(X, s)
    w = ridge_by_folds(estimate, [(estimate, estimate)], 0.0, layout)
    used = layout.n_used
    np.testing.assert_allclose(w[:used], np.linalg.lstsq(X[:, :used], s, rcond=None)[0], rtol=1e-8)
    assert not w[used:].any()


def test_a_penalised_ridge_has_the_best_slope_and_free_part_of_its_directions():
    """w = lead + c v: no other pair of factors predicts better, and without slope it is the scikit-learn solution."""
    from sklearn.linear_model import Ridge

    X, s = people(constant=0.3)
    estimate = exact(X, s)
    w = ridge(estimate, 0.05, Layout(7, 6, 5, 0.3))
    v = Ridge(0.05 * len(X)).fit(X[:, :5], s).coef_
    factor = w[:5] @ v / (v @ v)
    np.testing.assert_allclose(w[:5], factor * v, rtol=1e-8)
    best = np.linalg.lstsq(np.column_stack([X[:, :5] @ v, X[:, 5]]), s, rcond=None)[0]
    np.testing.assert_allclose([factor, w[5]], best, rtol=1e-8)


def test_empty_directions_get_no_coefficient():
    X, s = people()
    X = np.hstack([X, np.zeros((len(X), 1))])
    assert ridge(exact(X, s), 0.0)[-1] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("size", [0.01, 1.0, 30.0])
def test_the_ball_problem_against_scipy(seed, size):
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((4, 5))  # rank 4 of 5
    M, b = B.T @ B / 4, size * rng.standard_normal(5)
    w = minimise_quadratic(M, b, 0.7)
    assert np.linalg.norm(w) <= 0.7 * (1 + 1e-12)
    found = minimize(
        lambda v: v @ M @ v / 2 - b @ v, 0.1 * b / np.linalg.norm(b), jac=lambda v: M @ v - b, method="SLSQP",
        constraints={"type": "ineq", "fun": lambda v: 0.49 - v @ v, "jac": lambda v: -2 * v}, options={"ftol": 1e-14},
    )  # fmt: skip
    assert w @ M @ w / 2 - b @ w <= found.fun + 1e-9 * max(1, abs(found.fun))


def test_the_ball_problem_inside_without_curvature_and_without_pull():
    np.testing.assert_allclose(minimise_quadratic(np.diag([2.0, 4.0]), np.array([1.0, 1.0]), 1.0), [0.5, 0.25])
    np.testing.assert_allclose(minimise_quadratic(np.zeros((2, 2)), np.array([3.0, 4.0]), 2.0), [1.2, 1.6])
    np.testing.assert_allclose(minimise_quadratic(-np.eye(2), np.array([3.0, 4.0]), 2.0), [1.2, 1.6])
    assert not minimise_quadratic(np.eye(2), np.zeros(2), 1.0).any()
    np.testing.assert_allclose(minimise_quadratic(np.diag([0.0, 1.0]), np.array([0.0, 0.5]), 1.0), [0.0, 0.5])
    np.testing.assert_allclose(
        minimise_quadratic(np.diag([0.0, 1.0]), np.array([1e-3, 0.6]), 1.0), [0.8, 0.6], rtol=2e-3
    )


LOSSES = {
    "hinge": ("hinge", lambda u: np.maximum(0.5 - u, 0.0)),
    "logistic": ("logistic", lambda u: np.logaddexp(0.0, -u)),
    "absolute": (np.sign, np.abs),
    "square": (lambda u: 0.5 * (u - 1), lambda u: 0.25 * (u - 1) ** 2),
    "two jumps": (
        lambda u: np.where(u < -0.3, -0.9, 0.0) + np.where(u > 0.4, 0.8, 0.0),
        lambda u: 0.9 * np.maximum(-0.3 - u, 0) + 0.8 * np.maximum(u - 0.4, 0),
    ),
}


def value_of(mixture, u):
    return 0.5 * mixture.spread * np.abs(u[:, None] - mixture.atoms).mean(axis=1) + mixture.slope * u


@pytest.mark.parametrize("radius", [1.0, 2.5])
@pytest.mark.parametrize("name", LOSSES)
def test_a_mixture_of_absolute_values_is_the_loss(name, radius):
    derivative, value = LOSSES[name]
    mixture = margin_loss(derivative).mixture(radius)
    u = np.linspace(-radius, radius, 301)
    assert np.ptp(value_of(mixture, u) - value(u)) < 1e-3
    slopes = margin_loss(derivative).derivative(u)
    away = np.abs(np.diff(slopes, append=slopes[-1])) + np.abs(np.diff(slopes, prepend=slopes[0])) < 0.1  # not at jumps
    below = np.searchsorted(np.sort(mixture.atoms), u, side="left") / len(mixture.atoms)
    np.testing.assert_allclose((mixture.spread * (below - 0.5) + mixture.slope)[away], slopes[away], atol=2e-3)


@pytest.mark.parametrize("radius", [1.0, 2.5])
@pytest.mark.parametrize("degree", [1, 2, 4])
@pytest.mark.parametrize("name", LOSSES)
def test_surrogates_are_the_least_squares_polynomials(name, degree, radius):
    derivative, value = LOSSES[name]
    nodes = radius * np.cos(np.pi * (np.arange(20_000) + 0.5) / 20_000)
    expected = np.polynomial.polynomial.polyfit(nodes, value(nodes), degree)
    found = margin_loss(derivative).mixture(radius).surrogate(degree)
    np.testing.assert_allclose(found[1:], expected[1:], atol=1e-3)
    if degree == 2:
        assert found[2] >= 0.0


def test_surrogates_come_closer_with_the_degree():
    kinked, smooth = margin_loss("hinge").mixture(1.0), margin_loss("logistic").mixture(1.0)
    u = np.linspace(-1.0, 1.0, 401)

    def error(mixture, degree):
        return np.abs(np.polynomial.polynomial.polyval(u, mixture.surrogate(degree)) - value_of(mixture, u)).max()

    errors = [error(kinked, degree) for degree in (1, 2, 4, 8, 16)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.03
    assert error(smooth, 2) < 1e-3


def test_a_quadratic_loss_in_the_ball_is_the_constrained_optimum():
    X, s = people(d=3)
    Z = X * s[:, None]
    w = minimise_in_ball(exact(X, s), margin_loss(lambda u: u - 1.0).mixture(1.0).surrogate(2), 1.0)
    objective = lambda v: 0.5 * np.mean((Z @ v - 1) ** 2)  # noqa: E731
    found = minimize(objective, np.zeros(4), constraints={"type": "ineq", "fun": lambda v: 1 - v @ v})
    assert objective(w) <= found.fun + 1e-6


def test_degree_0_is_the_direction_of_the_first_moment():
    X, s = people()
    w = minimise_in_ball(exact(X, s), margin_loss("hinge").mixture(1.0).surrogate(1), 2.0)
    m = X.T @ s / len(X)
    np.testing.assert_allclose(w, 2.0 * m / np.linalg.norm(m))


@pytest.mark.parametrize(
    ("derivative", "why"),
    [
        (lambda u: -u, "never fall"),
        (lambda u: np.full_like(u, np.nan), "finite"),
        (lambda u: 1.0, "one finite number"),
        (lambda u: np.where(u > 0, np.inf, 0.0), "finite"),
    ],
)
def test_what_is_no_convex_loss_is_refused(derivative, why):
    with pytest.raises(ParameterError, match=why):
        AbsoluteMixture.of(derivative, 1.0)


def test_unknown_losses_are_refused():
    with pytest.raises(ParameterError, match="'hinge', 'logistic'"):
        margin_loss("squared hinge")
