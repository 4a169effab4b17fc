r"""How much noise a report needs, and what the noise that the paper prints really gives.

A report is M = p(p+1) + 1 noisy copies of one person's (x, y), |x| <= 1, |y| <= 1. Copy 0 has noise s_0, the others
s_1, on each of their d + 1 numbers. It is one Gaussian release of M (d + 1) numbers: another person's (x, y) moves each
copy by at most sqrt(8), so the report is mu-Gaussian DP with

.. math:: \mu^2 = 8 / s_0^2 + 8 \, p (p + 1) / s_1^2,

and no smaller mu will do, for opposite unit vectors with opposite labels attain it. Kinds of noise:

* ``"tight"``: s_0 = s_1 = sqrt(8 M) / mu(epsilon, delta), exact.
* ``"printed"``: the paper's s_0^2 = 32 L / epsilon^2 and s_1^2 = 8 L p^2 (p + 1)^2 / epsilon^2 with
  L = log(1.25 / delta), which breaks its claim from epsilon = 2 on at p = 1 (delta = 1e-6). Kept for reproduction.

Statement and proof: ``docs/privacy/bernstein_reports.md``.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._validation import choice, number, whole_number
from sottovoce.privacy.accounting import gaussian_epsilon
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.events import GaussianEvent

KINDS: Final = ("tight", "printed")
SENSITIVITY: Final = math.sqrt(8.0)  # of one copy: |x - x'| <= 2 and |y - y'| <= 2

_SLACK: Final = 1.0 + 2.0**-40  # the square roots and divisions below are rounded


def copies(degree: int) -> int:
    """Return the number M of noisy copies in a report: one for the direction, p for each of p + 1 terms."""
    return degree * (degree + 1) + 1


@dataclass(frozen=True)
class CopyNoise:
    """Standard deviations of the noise in a report, and what they give."""

    degree: int  # p
    first_std: float  # s_0, of copy 0
    other_std: float  # s_1, of the p(p+1) other copies

    def __post_init__(self) -> None:
        whole_number("degree", self.degree, at_least=1)
        number("first_std", self.first_std, above=0.0)
        number("other_std", self.other_std, above=0.0)

    @classmethod
    def calibrated(cls, kind: str, epsilon: float, delta: float, degree: int) -> "CopyNoise":
        """Return the noise of a kind for a target, see the module."""
        kind = choice("noise", kind, KINDS)
        epsilon = number("epsilon", epsilon, above=0.0)
        delta = number("delta", delta, above=0.0, below=1.0)
        degree = whole_number("degree", degree, at_least=1)
        log_term = math.log(1.25 / delta)
        if kind == "printed":
            first, other = math.sqrt(32.0 * log_term), math.sqrt(8.0 * log_term) * degree * (degree + 1)
            return cls(degree, first / epsilon, other / epsilon)
        std = SENSITIVITY * math.sqrt(copies(degree)) / gaussian_mu(epsilon, delta) * _SLACK
        return cls(degree, std, std)

    @property
    def stds(self) -> NDArray[np.float64]:
        return np.array([self.first_std, *[self.other_std] * (copies(self.degree) - 1)])

    @property
    def mu(self) -> float:
        """Mean shift of the whole report, exact up to rounding, which is upward."""
        others = self.degree * (self.degree + 1)
        return SENSITIVITY * math.hypot(1.0 / self.first_std, math.sqrt(others) / self.other_std) * (1.0 + 2.0**-45)

    @property
    def event(self) -> GaussianEvent:
        return GaussianEvent(1.0 / self.mu)

    def epsilon(self, delta: float) -> float:
        """Return what a report really gives at ``delta``: the smallest true epsilon."""
        return gaussian_epsilon(self.mu, delta)
