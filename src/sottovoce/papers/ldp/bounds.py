r"""How many people Theorems 4.5 and 4.12 ask for, with explicit constants, and a bound for any number of them.

Theorem 4.5 is for the hinge at 1/2 and Algorithm 1, Theorem 4.12 for any convex 1-Lipschitz f and Algorithm 2. Where
the constants come from, and what they amount to: ``docs/papers/ldp.md``. They are astronomical for any alpha of use,
and they are bounds; what the method does is measured there too.

`risk_bound` is the same argument for a given degree, beta and number of people. What the surrogate differs from the
loss by is computed there, not bounded.
"""

import math
from dataclasses import dataclass

import numpy as np

from sottovoce._validation import number, whole_number
from sottovoce.papers.ldp.noise import CopyNoise, copies
from sottovoce.papers.ldp.server import STEP_FACTOR, expected_noise_error
from sottovoce.papers.ldp.surrogate import THIRD_DERIVATIVE, Oracle

_EXACT_UP_TO = 20  # beyond, the second moment leaves the doubles for small budgets; a bound in logarithms then


@dataclass(frozen=True)
class TheoremChoice:
    """Parameters for a target excess risk."""

    alpha: float
    beta: float
    degree: int
    n_copies: int  # of each report
    log10_reports: float  # decimal logarithm of the number of people


@dataclass(frozen=True)
class RiskBound:
    """A bound on the expected excess risk of one pass, by its parts."""

    surrogate: float  # the range of surrogate minus loss: what stays, however many people report
    noise: float  # 1.44 sigma / sqrt(n)
    smoothness: float  # L / n

    @property
    def total(self) -> float:
        """The bound."""
        return self.surrogate + self.noise + self.smoothness


def theorem_choice(
    alpha: float, n_features: int, epsilon: float, delta: float, *, spread: float | None = None, noise: str = "tight"
) -> TheoremChoice:
    """Return beta, degree and the number of reports for an expected excess risk of at most ``alpha``; see the module.

    alpha is at most 1/2. ``spread`` is D of Theorem 4.12, by which the slope of the loss changes on [-1, 1]: 2 covers
    every loss, and less asks for fewer people. By default Theorem 4.5, for the hinge.
    """
    alpha = number("alpha", alpha, above=0.0, at_most=0.5)
    n_features = whole_number("n_features", n_features, at_least=1)
    if spread is None:
        beta, share, smoothness = 0.5 * alpha, alpha / 8.0, 1.0 / alpha
    else:
        spread = number("spread", spread, above=0.0, at_most=2.0)
        beta, share = min(1.0, alpha / (4.0 * spread)), alpha / (8.0 * spread)
        smoothness = spread / (4.0 * beta)
    degree = math.ceil(4.0 * THIRD_DERIVATIVE / (8.0 * beta**2 * share))
    copy_noise = CopyNoise.calibrated(noise, epsilon, delta, degree)
    log_std = _log10_gradient_std(degree, beta, copy_noise, n_features, spread)
    from_noise = 2.0 * (math.log10((0.5 * STEP_FACTOR + 1.0 / STEP_FACTOR) * 4.0 / alpha) + log_std)
    from_smoothness = math.log10(4.0 / alpha * smoothness)
    return TheoremChoice(alpha, beta, degree, copies(degree), max(from_noise, from_smoothness))


def risk_bound(oracle: Oracle, noise: CopyNoise, n_features: int, n_reports: int) -> RiskBound:
    """Return a bound on the expected excess risk over the unit ball after one pass over ``n_reports`` reports.

    It holds for the population that people are drawn from, and needs a convex surrogate: order 1.
    """
    n = whole_number("n_reports", n_reports, at_least=1)
    whole_number("order", oracle.order, at_least=1, at_most=1, remedy="The bound needs a convex surrogate.")
    u = oracle.reach * np.linspace(-1.0, 1.0, 4001)
    slopes = oracle.derivative(u)
    surrogate = np.concatenate([[0.0], np.cumsum(0.5 * (slopes[1:] + slopes[:-1]) * np.diff(u))])
    std = oracle.gradient_std(noise, whole_number("n_features", n_features, at_least=1))
    return RiskBound(float(np.ptp(surrogate - oracle.value(u))), expected_noise_error(std, n), oracle.smoothness / n)


def _log10_gradient_std(degree: int, beta: float, noise: CopyNoise, n_features: int, spread: float | None) -> float:
    if spread is None and degree <= _EXACT_UP_TO:
        return math.log10(Oracle(degree, beta).gradient_std(noise, n_features))
    # |Q'| <= 1; |c_j| <= 1, sum of C(p, j)^2 = C(2p, p); E v^2 <= 1 + b^2 ((1 + s_1^2)^2 - 1) for every factor
    terms = (math.lgamma(2 * degree + 1) - 2.0 * math.lgamma(degree + 1)) / math.log(10.0)
    part = 4.0 if spread is None else 16.0
    factor = math.log10(1.0 + ((1.0 + noise.other_std**2) ** 2 - 1.0) / part)
    variance = terms + degree * factor + (0.0 if spread is None else 2.0 * math.log10(spread))
    bracket = variance + math.log1p(10.0**-variance) / math.log(10.0)  # of 1 + 10^variance
    direction = math.log10((1.0 + noise.first_std**2) * (1.0 + n_features * noise.first_std**2))
    return 0.5 * (bracket + direction)
