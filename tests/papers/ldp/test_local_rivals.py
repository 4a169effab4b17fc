"""The rivals of the benchmark are what they should be: unbiased, and with the noise that their budget asks for."""

import math

import numpy as np
import pytest
from scipy.special import gammaln

from benchmarks.papers.ldp import local_rivals as rivals
from sottovoce.privacy.accounting import gaussian_delta
from sottovoce.privacy.calibration import gaussian_mu


def one_answer(form, z, epsilon, runs, monkeypatch):
    """Mean of what one person adds to the gradient at w = 0: the first step is undone."""
    kept = []

    def spy(Z, duchi, scale, std, smoothness, coins, draws):
        for k in range(runs):
            w = rivals.interactive_pass(Z[k : k + 1], duchi, scale, std, 1e6, coins[k : k + 1], draws[k : k + 1])
            kept.append(-w * (1e6 + rivals.STEP_FACTOR * std * math.sqrt(2.0)))
        return np.zeros(Z.shape[1])

    with monkeypatch.context() as patched:
        patched.setattr(rivals, "interactive_pass", _Kept(rivals.interactive_pass, spy))
        form(np.tile(z, (runs, 1)), np.ones(runs), epsilon, np.random.default_rng(0))
    return np.array(kept)


class _Kept:
    """The first call goes to the spy, calls from inside of it to the pass."""

    def __init__(self, real, spy):
        self.real, self.spy, self.inside = real, spy, False

    def __call__(self, *given):
        if self.inside:
            return self.real(*given)
        self.inside = True
        return self.spy(*given)


@pytest.mark.slow
@pytest.mark.parametrize("form", [rivals.interactive_duchi, rivals.interactive_ours])
def test_answers_of_the_interactive_forms_are_unbiased(form, monkeypatch):
    """At w = 0 the gradient of the hinge is -z."""
    z, runs = np.array([0.3, -0.5, 0.1]), 6000
    G = one_answer(form, z, 2.0, runs, monkeypatch)
    errors = (G.mean(axis=0) + z) / (G.std(axis=0) / math.sqrt(runs))
    assert np.abs(errors).max() < 4.0
    assert np.abs(z / (G.std(axis=0) / math.sqrt(runs))).max() > 8.0  # a wrong scale would be seen


def test_the_ball_mechanism_keeps_its_epsilon():
    """A point of the sphere has one of two densities, whose ratio is e^epsilon: the odds of the hemispheres."""
    right = 1.0 / (1.0 + math.exp(-2.0))
    assert right / (1.0 - right) == pytest.approx(math.exp(2.0))
    d = 4
    radius = math.sqrt(math.pi) * math.exp(gammaln(0.5 * (d + 1)) - gammaln(0.5 * d)) / math.tanh(1.0)
    sphere = np.random.default_rng(0).standard_normal((200_000, d))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    assert radius * np.abs(sphere[:, 0]).mean() * (2.0 * right - 1.0) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("degree", [1, 3])
def test_the_chebyshev_form_has_the_noise_of_its_budget(degree, monkeypatch):
    """1 + p(p + 1)/2 copies of a vector in the unit ball, one Gaussian release: exact delta at epsilon."""
    seen = {}

    def spy(Z, powers, noise, std, smoothness, draws):
        seen.update(noise=noise, columns=draws.shape[1], powers=powers)
        return np.zeros(Z.shape[1])

    monkeypatch.setattr(rivals, "power_pass", spy)
    rivals.chebyshev_form(degree)(np.zeros((1, 4)), np.ones(1), 2.0, np.random.default_rng(0))
    copies = 1 + degree * (degree + 1) // 2
    mu = 2.0 * math.sqrt(copies) / seen["noise"]
    assert mu == pytest.approx(gaussian_mu(2.0, 1e-6))
    assert gaussian_delta(mu, 2.0) <= 1e-6 * (1.0 + 1e-9)
    assert seen["columns"] == 4 + copies - 1
    u = np.linspace(-1.0, 1.0, 201)
    fitted = np.polynomial.polynomial.polyval(u, seen["powers"])
    assert np.abs(fitted - rivals.smoothed_hinge_derivative(u, 0.25)).max() < {1: 0.5, 3: 0.22}[degree]


def test_means_at_points_are_unbiased():
    points = np.array([[0.0, 0.0], [0.5, 0.5], [-1.0, 0.0]])
    Z = np.random.default_rng(1).uniform(-0.7, 0.7, (60_000, 2))
    wanted = [np.maximum(0.5 - Z @ w, 0.0).mean() for w in points]
    found = rivals.means_at(points, Z, 1.5, 1.0, np.random.default_rng(2))
    assert found == pytest.approx(wanted, abs=4.0 * 1.5 * 0.5 / math.tanh(0.5) / math.sqrt(20_000))
