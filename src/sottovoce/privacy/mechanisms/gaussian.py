r"""The Gaussian mechanism on a grid.

A floating-point Gaussian leaks through its low bits [1]_: which numbers ``value + noise`` can be depends on ``value``.
Here the value is a whole number of ticks of a public step g (a power of two, far below the noise), and the noise is
rounded to whole ticks before it is added:

.. math:: g \, (k + \mathrm{round}(N / g)) = g \, \mathrm{round}((g k + N) / g), \qquad k \in \mathbb{Z}^d.

The right side is a function of g k + N, the ideal Gaussian mechanism on the value g k, and so is the release: it has
the same privacy, and every output is a whole number of ticks whatever the data are. Both ways into the mechanism are
total: values beyond 2^61 ticks are cut there, entry by entry, which brings no two values further apart. Nothing is
refused that depends on the value.

Who calls it must hold the sum in whole ticks already, with the stated sensitivity counting the rounding. The kernels of
this library round each row's term toward zero, which can only shorten it; `to_ticks` rounds a value that was computed
as a whole, and `rounding_norm` is what that can add to the sensitivity.

Proof: ``docs/privacy/gaussian_on_a_grid.md``.

References
----------
.. [1] Mironov (2012). On Significance of the Least Significant Bits for Differential Privacy. CCS 2012.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._validation import number, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.events import GaussianEvent

# arrays, as numpy would make them of numbers at each use; ticks: with the noise, at most 40 x 2^44, they fit in 63 bits
_LEAST, _MOST = np.array(-(2**61)), np.array(2**61)
_ROOTS = 1.0 + 2.0**-50  # covers what a sensitivity that is a product of up to three roots loses in its last digit
_FINEST = 2.0**-44  # of the standard deviation: below it the steps of double precision would show in the noise


@dataclass(frozen=True)
class GridGaussian:
    """Release whole ticks plus Gaussian noise of ``noise_multiplier * l2_sensitivity``, rounded to whole ticks.

    Parameters
    ----------
    l2_sensitivity : float, > 0
        How far (L2) the exact value can move between neighbours, rounding included, in the unit of the value.
    noise_multiplier : float, > 0
        Standard deviation of the noise divided by ``l2_sensitivity``.
    tick : float
        The step g of the grid: a power of two, at most a 64th of the standard deviation of the noise and at least
        2^-44 of it.
    """

    l2_sensitivity: float
    noise_multiplier: float
    tick: float

    def __post_init__(self) -> None:
        number("l2_sensitivity", self.l2_sensitivity, above=0.0)
        number("noise_multiplier", self.noise_multiplier, above=0.0)
        number("tick", self.tick, above=0.0)
        if math.frexp(self.tick)[0] != 0.5:
            raise ParameterError(f"tick must be a power of two; got {self.tick!r}.")
        if not self.tick * 64 <= self.noise_std:
            raise ParameterError(
                f"tick must be at most noise_std / 64 = {self.noise_std / 64:g}, or the rounding would show in the "
                f"noise; got {self.tick!r}."
            )
        if not self.tick >= self.noise_std * _FINEST:
            raise ParameterError(
                f"tick must be at least noise_std / 2**44 = {self.noise_std * _FINEST:g}, or the steps of double "
                f"precision would show in the noise; got {self.tick!r}."
            )

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise, in the unit of the value."""
        return self.noise_multiplier * self.l2_sensitivity

    @cached_property
    def event(self) -> GaussianEvent:
        return GaussianEvent(self.noise_multiplier)

    def release(
        self, ticks: NDArray[np.int64], noise: np.random.Generator
    ) -> tuple[NDArray[np.float64], GaussianEvent]:
        """Return the noisy value, in the unit of the value, and the event that pays for it."""
        if ticks.dtype != np.int64:
            raise ParameterError(f"ticks must be an int64 array; got {ticks.dtype}.")
        drawn = self.drawn(ticks.shape, noise)
        return (np.minimum(np.maximum(ticks, _LEAST), _MOST) + drawn) * self.tick, self.event

    def drawn(self, shape: tuple[int, ...], noise: np.random.Generator) -> NDArray[np.int64]:
        """Return noise in whole ticks; that of several releases is what they would draw one after the other."""
        # half up: ties do happen in double precision, and half to even would show the parity of the value
        drawn: NDArray[np.float64] = np.floor(self.noise_std / self.tick * noise.standard_normal(shape) + 0.5)
        return drawn.astype(np.int64)


# fits that ask alike share their mechanisms, which are values, with their events; a 2 is not a 2.0, which receipts say
shared: Final = lru_cache(maxsize=256, typed=True)


@shared
def counts_mechanism(size: int, sensitivity: float, mu: float) -> GridGaussian:
    """Return the mechanism that releases ``size`` counts of rows with a Gaussian of mean shift ``mu``.

    ``sensitivity``: > 0; how far (L2) the counts move between neighbours.
    """
    noise = number("sensitivity", sensitivity, above=0.0) / number("mu", mu, above=0.0)
    # counts are whole ticks, but for noise so large that ticks of 1 would be absurdly fine
    tick = max(min(1.0, power_of_two_below(noise) * 2.0**-20), power_of_two_below(noise) * 2.0**-42)
    rounding = rounding_norm(size, tick) if tick > 1.0 else 0.0
    return GridGaussian(sensitivity * _ROOTS + rounding, 1.0 / mu, tick)


def power_of_two_below(value: float) -> float:
    """Return the largest power of two that is at most ``value``."""
    value = number("value", value, above=0.0)
    return math.ldexp(1.0, math.frexp(value)[1] - 1)


def to_ticks(value: NDArray[np.float64], tick: float) -> NDArray[np.int64]:
    """Round ``value`` to whole ticks; what this adds to the sensitivity is `rounding_norm`.

    Total: entries beyond 2^61 ticks are cut there, and NaN, which no value of bounded terms holds, counts as 0.
    """
    with np.errstate(over="ignore"):
        scaled = np.asarray(value, dtype=np.float64) / tick
    known = np.where(np.isnan(scaled), 0.0, scaled)
    ticks: NDArray[np.int64] = np.rint(np.minimum(np.maximum(known, _LEAST), _MOST)).astype(np.int64)
    return ticks


def rounding_norm(size: int, tick: float) -> float:
    """Return how much `to_ticks` can add to the distance of two values of ``size`` entries: tick * sqrt(size)."""
    return number("tick", tick, above=0.0) * math.sqrt(whole_number("size", size, at_least=1))
