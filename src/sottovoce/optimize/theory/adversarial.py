"""A hostile pair of gradient and oracle that uses all that Assumption 1 allows."""

import numpy as np

from sottovoce._validation import number
from sottovoce.optimize._arrays import Array, Indices
from sottovoce.optimize.domains import ProductDomain
from sottovoce.optimize.objectives import Position

__all__ = ["AdversarialGradient", "AdversarialOracle"]


class _Adversary:
    """An error of error * step * curvature / 2 for each block."""

    def __init__(self, domain: ProductDomain, error: float, curvature: float) -> None:
        self.domain = domain
        self.error = number("error", error, at_least=0.0)
        self.curvature = number("curvature", curvature, at_least=0.0)

    def _allowed(self, step: float) -> float:
        return 0.5 * self.error * step * self.curvature


class AdversarialGradient(_Adversary):
    r"""The exact partial gradient of block i, pulled toward 0 and beyond by all that eq. (5) allows.

    The Euclidean error is error * step * curvature / 2 for each block: a gradient that is smaller is turned round.

    Parameters
    ----------
    domain : ProductDomain
    error : float, >= 0
        rho_g.
    curvature : float, >= 0
        Expected curvature.
    """

    def __call__(self, position: Position, blocks: Indices, coordinates: Indices | slice, step: float) -> Array:
        """Return the pulled gradient."""
        exact = position.gradient(coordinates)
        lengths = np.sqrt(self.domain.sum_by_block(exact**2, blocks))
        factors = 1.0 - self._allowed(step) / np.where(lengths > 0.0, lengths, np.inf)
        return exact * np.repeat(factors, self.domain.sizes[blocks])


class AdversarialOracle(_Adversary):
    """The point of a block that is worse than the best by all that eq. (4) allows, or the worst if that is less.

    It lies between the best point and the worst: the excess is error * step * curvature / 2.

    Parameters
    ----------
    domain : ProductDomain
    error : float, >= 0
        rho_l.
    curvature : float, >= 0
        Expected curvature.
    """

    def __call__(self, gradient: Array, blocks: Indices, step: float) -> Array:
        """Return the poor points."""
        best, worst = self.domain.oracle(gradient, blocks), self.domain.oracle(-gradient, blocks)
        span = self.domain.sum_by_block((worst - best) * gradient, blocks)
        allowed = self._allowed(step)
        share = np.where(span > allowed, allowed / np.where(span > allowed, span, 1.0), 1.0)
        return best + np.repeat(share, self.domain.sizes[blocks]) * (worst - best)
