r"""Two-sided geometric noise on whole counts: pure differential privacy, with exact coins.

Counts are whole numbers of ticks, and a row moves all of them together by at most Delta ticks. To each is added an
independent whole number x with probability proportional to exp(-|x| / t) [1]_. The scale t is a whole number of ticks
too, at least Delta / epsilon, so the release is (Delta / t)-DP and Delta / t is at most epsilon.

The noise is drawn from whole numbers alone, without one floating-point operation [2]_
(`sottovoce.privacy.mechanisms.exact_coins`). So its law is exact, and so is the guarantee.

Proof: ``docs/privacy/evaluation.md``.

References
----------
.. [1] Ghosh, Roughgarden, Sundararajan (2009). Universally Utility-Maximizing Privacy Mechanisms. STOC 2009.
.. [2] Canonne, Kamath, Steinke (2020). The Discrete Gaussian for Differential Privacy. NeurIPS 2020; arXiv:2004.00010,
   Algorithms 1 and 2.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._validation import MAX_EPSILON, MIN_EPSILON, number, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.events import PureEvent
from sottovoce.privacy.mechanisms.exact_coins import two_sided

_LARGEST: Final = 2**61  # ticks of a count
_LARGEST_SCALE: Final = 2**55  # the noise stays below 2^61 but with probability exp(-64)


@dataclass(frozen=True)
class DiscreteLaplace:
    """Release whole counts, each with noise x of probability proportional to ``exp(-|x| / scale)``.

    Parameters
    ----------
    epsilon : float, in [1e-9, 1e6]
        What a release may cost.
    l1_sensitivity : int, >= 1
        How far all counts together move between neighbours, in ticks.
    tick : float
        What a tick is worth: a power of two.
    """

    epsilon: float
    l1_sensitivity: int
    tick: float

    def __post_init__(self) -> None:
        number("epsilon", self.epsilon, at_least=MIN_EPSILON, at_most=MAX_EPSILON)
        whole_number("l1_sensitivity", self.l1_sensitivity, at_least=1, at_most=_LARGEST_SCALE)
        number("tick", self.tick, above=0.0)
        if math.frexp(self.tick)[0] != 0.5:
            raise ParameterError(f"tick must be a power of two; got {self.tick!r}.")
        if self.scale > _LARGEST_SCALE:
            raise ParameterError(
                f"l1_sensitivity / epsilon must be at most 2**55 ticks; got {self.l1_sensitivity} / {self.epsilon!r}."
            )

    @cached_property
    def scale(self) -> int:
        """The scale t of the noise, in ticks; rounded up, in exact arithmetic."""
        return math.ceil(Fraction(self.l1_sensitivity) / Fraction(self.epsilon))

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise, in the unit of the counts."""
        return self.tick / (math.sqrt(2.0) * math.sinh(0.5 / self.scale))

    @property
    def event(self) -> PureEvent:
        return PureEvent(self.l1_sensitivity / self.scale)

    def release(self, ticks: NDArray[np.int64], noise: np.random.Generator) -> tuple[NDArray[np.float64], PureEvent]:
        """Return the noisy counts, in their unit, and the event that pays for them."""
        if ticks.dtype != np.int64:
            raise ParameterError(f"ticks must be an int64 array; got {ticks.dtype}.")
        drawn = two_sided(self.scale, ticks.size, noise).reshape(ticks.shape)
        return (np.clip(ticks, -_LARGEST, _LARGEST) + drawn).astype(np.float64) * self.tick, self.event
