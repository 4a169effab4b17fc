r"""Gaussian noise on whole numbers in shares: every party adds its own, and no few of them know enough of it.

A sum k of whole numbers is opened with the noise of K parties added, each an exact discrete Gaussian,

.. math:: k + \sum_{m=1}^K N_m, \qquad P(N_m = x) \propto e^{-x^2 / (2 s^2)}, \quad x \in \mathbb{Z}.

t parties that tell each other their own shares still face K - t of them, of the variance sigma^2 = (K - t) s^2. Sums of
discrete Gaussians are, up to a factor within exp(+-1e-290) in every probability, discrete Gaussians [2]_ and
post-processings of a continuous Gaussian of variance sigma^2 - 36 (Peikert's convolution). So with s^2 at least
((sensitivity / mu)^2 + 36) / (K - t) the release is mu-Gaussian DP, and it is accounted as one.

Proof: ``docs/privacy/discrete_gaussian.md``.

References
----------
.. [1] Canonne, Kamath, Steinke (2020). The Discrete Gaussian for Differential Privacy. NeurIPS 2020.
.. [2] Kairouz, Liu, Steinke (2021). The Distributed Discrete Gaussian Mechanism for Federated Learning with Secure
   Aggregation. ICML 2021.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._validation import number, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.events import GaussianEvent
from sottovoce.privacy.mechanisms.exact_coins import whole_gaussian

Whole = NDArray[np.int64]

SPENT: Final = 1.0 - 2.0**-40  # of mu: covers the factors exp(+-1e-290), and the rounding of shares and square roots
_SMOOTHED: Final = 36  # variance of the last step of the proof's convolution: its error is below 1e-300
_LEAST: Final = 64  # of a share's scale: below it sums of shares would not be discrete Gaussians as closely
_MOST: Final = 2**50


@dataclass(frozen=True)
class SharedGaussian:
    """Open whole numbers with a share of noise from each of several parties.

    Parameters
    ----------
    square : int, >= 1
        Square of how far (L2) the numbers move between neighbours, rounded up; each is first multiplied by the square
        root of its weight, where they have weights.
    mu : float, > 0
        Gaussian-DP parameter that the release may cost against any ``colluding`` parties that know their own shares.
    n_parties : int, >= 1
        K: parties that add a share.
    colluding : int, >= 0, below ``n_parties``
        Parties whose shares are taken to be known.
    """

    square: int
    mu: float
    n_parties: int
    colluding: int = 1

    def __post_init__(self) -> None:
        whole_number("square", self.square, at_least=1)
        number("mu", self.mu, above=0.0)
        whole_number("n_parties", self.n_parties, at_least=1)
        whole_number("colluding", self.colluding, at_least=0, at_most=self.n_parties - 1)
        if self.scale() > _MOST:
            raise ParameterError(
                f"the noise of a share would be larger than 2**50, beyond what can be added in whole numbers; got mu = "
                f"{self.mu!r} for numbers that move by {math.sqrt(self.square):g}. Raise epsilon or delta."
            )

    def scale(self, weight: int = 1) -> int:
        """Return the scale s of a share of an entry of this weight, rounded up in exact arithmetic."""
        unknown = Fraction(self.square) / Fraction(self.mu) ** 2 / weight + _SMOOTHED
        return max(_LEAST, 1 + math.isqrt(math.floor(unknown / (self.n_parties - self.colluding))))

    def share(self, size: int, noise: np.random.Generator, weight: int = 1) -> Whole:
        """Draw one party's share of the noise of ``size`` entries of this weight."""
        return whole_gaussian(self.scale(weight), size, noise)

    def total_std(self, weight: int = 1) -> float:
        """Return the standard deviation of all shares together, for an entry of this weight."""
        return math.sqrt(self.n_parties) * self.scale(weight)

    @property
    def event(self) -> GaussianEvent:
        """What one release costs; the scale is rounded up."""
        return GaussianEvent(1.0 / self.mu)
