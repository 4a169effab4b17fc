r"""The privacy loss of exponential mechanisms beside Gaussian releases and randomised responses, in any order.

Let V_k be the profile of k adaptively chosen e-bounded-range mechanisms (`sottovoce.privacy.profiles.bounded_range`),
and L the privacy loss of all Gaussian releases and responses together, whose law does not depend on the data. Then the
whole, in whatever order and with everything before in sight, has

.. math:: \delta(\varepsilon) \le E_L \big[ V_k(e^{\varepsilon - L}) \big].

It is what comes out when the selections come last, and no order costs more. V_k is known on a lattice of log x and is
convex in x; between two points the chord is taken, whose mean needs the mass of the cell under both laws of L alone.

Proof: ``docs/privacy/vertical_frank_wolfe.md``, section "Composition".
"""

import math
from typing import Final

import numpy as np
from scipy.special import ndtr

from sottovoce._numerics import Vector
from sottovoce.privacy.profiles.bounded_range import BoundedRangeProfile

__all__ = ["mixed_delta"]

_ROUNDING: Final = 1e-9  # relative: far above what the differences of two chances lose against a whole cell
_FLOOR: Final = 1e-15  # absolute, a cell: chances are differences of numbers up to 1/2


def mixed_delta(profile: BoundedRangeProfile, mu: float, losses: Vector, shares: Vector, epsilon: float) -> float:
    """Return an upper bound on delta at ``epsilon``.

    ``profile``: of the selections.
    ``mu``: >= 0; mean shift of all Gaussian releases together.
    ``losses``, ``shares``: values of the privacy loss of all responses together and their probabilities; ``[0.]`` and
        ``[1.]`` for none.
    """
    terms = (
        share * (profile.delta(epsilon - loss) if mu == 0.0 else _beside_gaussian(profile, mu, epsilon - loss))
        for loss, share in zip(losses.tolist(), shares.tolist(), strict=True)
    )
    return min(1.0, math.fsum(terms))


def _beside_gaussian(profile: BoundedRangeProfile, mu: float, epsilon: float) -> float:
    """Return E V(exp(epsilon - L)) for L of a Gaussian release, as the mean of the chords."""
    size = len(profile.values) // 2
    points = profile.step * np.arange(-size, size + 1)
    # L falls as the order rises: cell i holds L in [epsilon - points[i + 1], epsilon - points[i]]
    ends = np.asarray((epsilon - points[::-1]) / mu, dtype=np.float64)
    chance, other = _between(ends - 0.5 * mu)[::-1], _between(ends + 0.5 * mu)[::-1]
    # mean of x = exp(epsilon - L) over the cell, in units of the order at its left end
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite factor of a cell without any chance
        moved = np.exp(epsilon - points[:-1]) * other
    width = math.expm1(profile.step)
    moved[~np.isfinite(moved)] = 0.0  # the value at the left end is the larger one
    right = np.clip((moved - chance) / width, 0.0, chance)
    inside = profile.values[:-1] * (chance - right) + profile.values[1:] * right
    above = float(ndtr((epsilon - points[-1]) / mu - 0.5 * mu)) * float(profile.values[-1])
    low = float(points[0])
    # below the lattice: the chord from V(0) = 1 to the first value
    left = float(ndtr((low - epsilon) / mu + 0.5 * mu))
    far = math.exp(min(700.0, epsilon - low)) * float(ndtr((low - epsilon) / mu - 0.5 * mu))
    below = left - (1.0 - float(profile.values[0])) * min(left, far)
    total = float(inside.sum()) + above + max(0.0, below)
    return total * (1.0 + _ROUNDING) + _FLOOR * float(np.sum(profile.values) + 2.0)


def _between(ends: Vector) -> Vector:
    """Return the standard normal chances between neighbouring ``ends``, by the tail in which they are smaller."""
    upper = ends[:-1] > 0.0
    return np.where(upper, ndtr(-ends[:-1]) - ndtr(-ends[1:]), ndtr(ends[1:]) - ndtr(ends[:-1]))
