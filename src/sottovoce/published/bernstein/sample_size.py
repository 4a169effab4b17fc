r"""How many people Theorem 4.5 asks for, with explicit constants, for the hinge at 1/2 by Algorithm 1.

For a target alpha of the expected excess risk over the unit ball:

* beta = alpha/2: smoothing raises the loss by at most beta/2 = alpha/4.
* degree p: the smallest with sup |P - f_beta'| <= 0.2147 / (beta^2 p) <= alpha/8, so that the surrogate Q differs from
  f_beta by at most alpha/8 plus a constant on [-1, 1], and its minimiser loses at most alpha/4. (Bernstein's bound
  sup |g''| / (8p) on [0, 1], with |f_beta'''| <= 0.4294 / beta^2.) So p = 6.87 / alpha^3.
* n: 1.44 sigma / sqrt(n) <= alpha/4 and L / n <= alpha/4 in the bound of SIGM.

sigma^2 grows linearly in d, and like (p^c / epsilon^4)^p: the numbers are astronomical for any alpha of use, and the
table of `docs/papers/noninteractive_ldp.md` shows them. They are bounds; what the method does is measured there too.
"""

import math
from dataclasses import dataclass

from sottovoce._validation import number, whole_number
from sottovoce.published.bernstein.noise import CopyNoise
from sottovoce.published.bernstein.oracle import Oracle
from sottovoce.published.bernstein.sigm import STEP_FACTOR
from sottovoce.published.bernstein.smoothing import THIRD_DERIVATIVE

__all__ = ["TheoremChoice", "theorem_choice"]

_EXACT_UP_TO = 20  # beyond, the second moment leaves the doubles for small budgets; a bound in logarithms then


@dataclass(frozen=True)
class TheoremChoice:
    """Parameters for a target excess risk.

    Attributes
    ----------
    alpha, beta : float
    degree : int
    n_copies : int
        Of each report.
    log10_reports : float
        Decimal logarithm of the number of people.
    """

    alpha: float
    beta: float
    degree: int
    n_copies: int
    log10_reports: float


def theorem_choice(
    alpha: float, n_features: int, epsilon: float, delta: float, *, noise: str = "tight"
) -> TheoremChoice:
    """Return beta, degree and the number of reports for an expected excess risk of at most ``alpha``; see the module.

    Parameters
    ----------
    alpha : float, in (0, 1/2]
    n_features : int, >= 1
    epsilon, delta : float
    noise : {"tight", "basic", "printed"}
    """
    alpha = number("alpha", alpha, above=0.0, at_most=0.5)
    n_features = whole_number("n_features", n_features, at_least=1)
    beta = 0.5 * alpha
    degree = math.ceil(4.0 * THIRD_DERIVATIVE / (8.0 * beta**2 * (alpha / 8.0)))
    copy_noise = CopyNoise.calibrated(noise, epsilon, delta, degree)
    log_std = _log10_gradient_std(degree, beta, copy_noise, n_features)
    from_noise = 2.0 * (math.log10((0.5 * STEP_FACTOR + 1.0 / STEP_FACTOR) * 4.0 / alpha) + log_std)
    from_smoothness = math.log10(4.0 / (alpha * 2.0 * beta))
    return TheoremChoice(alpha, beta, degree, copy_noise.degree * (degree + 1) + 1, max(from_noise, from_smoothness))


def _log10_gradient_std(degree: int, beta: float, noise: CopyNoise, n_features: int) -> float:
    if degree <= _EXACT_UP_TO:
        return math.log10(Oracle(degree, beta).gradient_std(noise, n_features))
    # |c_j| <= 1, sum of C(p, j)^2 = C(2p, p), and E v^2 <= 1 + ((1 + s_1^2)^2 - 1) / 4 for every factor
    terms = (math.lgamma(2 * degree + 1) - 2.0 * math.lgamma(degree + 1)) / math.log(10.0)
    factor = math.log10(1.0 + ((1.0 + noise.other_std**2) ** 2 - 1.0) / 4.0)
    direction = math.log10((1.0 + noise.first_std**2) * (1.0 + n_features * noise.first_std**2))
    return 0.5 * (terms + degree * factor + direction)
