"""Draws from whole numbers alone, without one floating-point operation, so that their law is exact.

For u at most t, a coin of probability exp(-u / t) is made of coins whose probabilities are fractions of whole numbers;
two-sided geometric noise and the discrete Gaussian are made of such coins [1]_.

References
----------
.. [1] Canonne, Kamath, Steinke (2020). The Discrete Gaussian for Differential Privacy. NeurIPS 2020; arXiv:2004.00010,
   Algorithms 1 to 3.
"""

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]


def happens(numerators: Whole, denominator: int, noise: np.random.Generator) -> NDArray[np.bool_]:
    """Return True with exactly the probability exp(-a), a = numerator / denominator at most 1.

    Coins of probability a / k are thrown for k = 1, 2, ... until one fails: the number of throws exceeds k with
    probability a^k / k!, so it is odd with probability 1 - a + a^2/2! - ...
    """
    odd = np.ones(len(numerators), bool)
    going, k = np.arange(len(numerators)), 1
    while going.size:
        going = going[noise.integers(denominator * k, size=going.size) < numerators[going]]
        odd[going] = k % 2 == 0  # of those that are left, at least k + 1 throws
        k += 1
    return odd


def two_sided(scale: int, size: int, noise: np.random.Generator) -> Whole:
    """Draw whole numbers x with probability proportional to exp(-|x| / scale)."""
    drawn = np.zeros(size, np.int64)
    left = np.arange(size)
    while left.size:
        below = noise.integers(scale, size=left.size)
        kept = happens(below, scale, noise)
        magnitude = below + scale * _failures(left.size, noise)
        sign = noise.integers(2, size=left.size)
        kept &= (magnitude > 0) | (sign == 0)  # or 0 would be drawn twice as often
        drawn[left[kept]] = np.where(sign == 0, magnitude, -magnitude)[kept]
        left = left[~kept]
    return drawn


def _failures(size: int, noise: np.random.Generator) -> Whole:
    """Draw v with probability proportional to exp(-v)."""
    counts = np.zeros(size, np.int64)
    going = np.arange(size)
    while going.size:
        going = going[happens(np.ones(going.size, np.int64), 1, noise)]
        counts[going] += 1
    return counts


def whole_gaussian(scale: int, size: int, noise: np.random.Generator) -> Whole:
    """Draw whole numbers x with probability proportional to exp(-x^2 / (2 scale^2)).

    Two-sided geometric draws x of the same scale are kept with probability exp(-D^2 / (2 scale^2)), D = |x| - scale.

    ``scale``: in [1, 2**50].
    """
    drawn = np.zeros(size, np.int64)
    left = np.arange(size)
    while left.size:
        proposed = two_sided(scale, left.size, noise)
        kept = _near(np.abs(np.abs(proposed) - scale), scale, noise)
        drawn[left[kept]] = proposed[kept]
        left = left[~kept]
    return drawn


def _near(distances: Whole, scale: int, noise: np.random.Generator) -> NDArray[np.bool_]:
    """Return True with exactly the probability exp(-(D / scale)^2 / 2).

    With D = q scale + r it is the product of exp(-1/2), q^2 times; of exp(-r / scale), q times; and of
    exp(-(r / scale)^2 / 2): every exponent is at most 1, and no number is larger than the scale times a few.
    """
    whole, rest = np.divmod(distances, scale)
    kept = _half_square(rest, scale, noise)
    for times, numerators, denominator in ((whole, rest, scale), (whole**2, np.ones_like(rest), 2)):
        going, done = np.flatnonzero(kept & (times > 0)), 0
        while going.size:
            happened = happens(numerators[going], denominator, noise)
            kept[going[~happened]] = False
            done += 1
            going = going[happened & (times[going] > done)]
    return kept


def _half_square(numerators: Whole, denominator: int, noise: np.random.Generator) -> NDArray[np.bool_]:
    """Return True with exactly the probability exp(-a^2 / 2), a = numerator / denominator at most 1.

    As `happens`, where a coin of probability a^2 / (2 k) is one of a, one more of a, and one of 1 / (2 k).
    """
    odd = np.ones(len(numerators), bool)
    going, k = np.arange(len(numerators)), 1
    while going.size:
        for denominators, most in ((denominator, numerators), (denominator, numerators), (2 * k, None)):
            bounds = 1 if most is None else most[going]
            going = going[noise.integers(denominators, size=going.size) < bounds]
        odd[going] = k % 2 == 0
        k += 1
    return odd
