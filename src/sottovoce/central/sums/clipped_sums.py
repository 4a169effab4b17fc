"""The mechanism that releases a sum of clipped row terms, in whole ticks."""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import ROUNDING_SLACK
from sottovoce._validation import number
from sottovoce.central.data.operation import Columns, Operation, are_ticks
from sottovoce.central.data.part import Part
from sottovoce.central.data.row_memory import LABEL
from sottovoce.central.kernels.calls import MOST_TICKS
from sottovoce.privacy.adjacency import Neighbours
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, shared

Ticks = NDArray[np.int64]

_USEFUL_BITS: Final = 32  # of the noise; many more would show the steps of double precision
_TICK_BITS: Final = 23  # a row's term is at most 2^24 ticks long, which 64 rows of 32-bit sums can hold
# beyond what public numbers in their ranges make of it; a step is a clip over a norm of at least 1e-140, and finite
_SMALLEST_CLIP: Final = 1e-250
_LARGEST_CLIP: Final = 1e160


class ClippedSum(NamedTuple):
    """A sum of row terms, each at most ``clip`` long, and the mechanism that releases it, made for this clip."""

    clip: float
    mechanism: GridGaussian

    @property
    def ticks_per_unit(self) -> float:
        """What terms are multiplied by to be counted in ticks."""
        return 1.0 / self.mechanism.tick


def clipped_sum(neighbours: Neighbours, clip: float, noise_multiplier: float) -> ClippedSum:
    """Return the clip for the kernels together with the mechanism that releases a sum of terms that are so long."""
    return ClippedSum(clip, clipped_mechanism(neighbours.sum_factor * clip, clip, noise_multiplier))


@shared
def clipped_mechanism(l2_sensitivity: float, clip: float, noise_multiplier: float) -> GridGaussian:
    """Return the mechanism that releases what is made of terms, each at most ``clip`` long, in ticks.

    Ticks are as fine as the kernels can count, but not absurdly finer than the noise of a tiny budget. Raises
    ParameterError if ``clip`` is so small or large that numbers of ticks leave the doubles; it follows from public
    facts and released values, and is never so for parameters within their ranges.
    """
    number("the clip of a row's term", clip, at_least=_SMALLEST_CLIP, at_most=_LARGEST_CLIP)
    sensitivity = l2_sensitivity * ROUNDING_SLACK
    countable = power_of_two_below(clip) * 2.0**-_TICK_BITS
    useful = power_of_two_below(noise_multiplier * sensitivity) * 2.0**-_USEFUL_BITS
    return GridGaussian(sensitivity, noise_multiplier, max(countable, useful))


@dataclass(frozen=True)
class SumOfTargets(Operation[Ticks]):
    """The sum of the targets of the first model, each cut to a bound and then to whole ticks."""

    bound: float
    ticks_per_unit: float

    reads = (LABEL,)

    def on(self, part: Part) -> Ticks:
        total = np.zeros(1, np.int64)
        for _, (labels,) in part.columns(self.reads):
            cut = np.clip(part.targets.of(labels, 0), -self.bound, self.bound) * self.ticks_per_unit
            total += np.trunc(np.clip(cut, -MOST_TICKS, MOST_TICKS)).astype(np.int64).sum()
        return total

    def allows(self, answer: object, n_rows: int, columns: Columns) -> bool:
        return are_ticks(answer, (1,), -n_rows * MOST_TICKS, n_rows * MOST_TICKS)
