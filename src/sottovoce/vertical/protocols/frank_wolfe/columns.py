"""How a party shares one column: its entries, or a public sketch of them, plus Gaussian noise on a grid.

For entries within [-1, 1] a replaced person moves one entry by at most 2, and J a by at most 2 |J e_i|. The entries are
cut toward zero to whole ticks, or to multiples of 2^-20 before they are sketched. A sketch is rounded to whole ticks as
a whole, which the sensitivity counts.

What is sent is the noisy number of ticks, in 2 or 4 bytes each: which of them follows from public facts.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from sottovoce._numerics import ROUNDING_SLACK, Vector
from sottovoce.exceptions import MessageError
from sottovoce.privacy.events import GaussianEvent
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, rounding_norm, to_ticks
from sottovoce.vertical.protocols.frank_wolfe.sketch import Sketch

__all__ = ["ColumnRelease", "bounded_column"]

_FINEST: Final = 2.0**-7  # of the largest entry: coarse enough for 2 bytes, fine enough to keep what a column says
_REACH: Final = 12.0  # standard deviations of the noise; what is beyond is cut, after the noise


@dataclass(frozen=True)
class ColumnRelease:
    """One shared column, in units of the party's public bound on its entries.

    Parameters
    ----------
    n_people : int
    noise_multiplier : float, > 0
    sketch : Sketch or None
    """

    n_people: int
    noise_multiplier: float
    sketch: Sketch | None = None

    @property
    def event(self) -> GaussianEvent:
        """What it costs."""
        return GaussianEvent(self.noise_multiplier)

    @property
    def size(self) -> int:
        """How many numbers are sent."""
        return self.n_people if self.sketch is None else self.sketch.n_rows

    @cached_property
    def mechanism(self) -> GridGaussian:
        """The noise; it follows from public facts."""
        if self.sketch is None:
            exact = 2.0 * ROUNDING_SLACK
            return GridGaussian(exact, self.noise_multiplier, min(_tick(exact * self.noise_multiplier), _FINEST))
        exact = 2.0 * self.sketch.largest_norm * ROUNDING_SLACK
        tick = min(_tick(exact * self.noise_multiplier), power_of_two_below(exact / math.sqrt(self.size)) * 2.0**-12)
        exact += rounding_norm(self.size, tick) + self.sketch.rounding
        return GridGaussian(exact, self.noise_multiplier, tick)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers that are sent."""
        largest = 1.0 if self.sketch is None else self.sketch.largest_sum
        ticks = (largest + _REACH * self.mechanism.noise_std) / self.mechanism.tick
        return np.dtype("<i2" if ticks < 2**15 - 1 else "<i4" if ticks < 2**31 - 1 else "<i8")

    def release(self, column: Vector, noise: np.random.Generator) -> bytes:
        """Return the noisy column as it is sent; ``column`` is within [-1, 1]."""
        tick = self.mechanism.tick
        if self.sketch is None:
            ticks = np.trunc(column / tick).astype(np.int64)
        else:
            ticks = to_ticks(self.sketch.compress(np.trunc(column * 2.0**20) * 2.0**-20), tick)
        noisy, _ = self.mechanism.release(ticks, noise)
        limits = np.iinfo(self.dtype)
        return np.clip(np.rint(noisy / tick), limits.min, limits.max).astype(self.dtype).tobytes()

    def read(self, raw: bytes) -> Vector:
        """Return the noisy column (or sketch) in units of the party's bound.

        Raises
        ------
        MessageError
            If there are not as many bytes as planned.
        """
        if len(raw) != self.size * self.dtype.itemsize:
            raise MessageError(f"a shared column has {len(raw)} bytes where {self.size * self.dtype.itemsize} are due.")
        return np.frombuffer(raw, self.dtype).astype(np.float64) * self.mechanism.tick


def _tick(std: float) -> float:
    return power_of_two_below(std * 2.0**-6)  # the coarsest that a `GridGaussian` takes


def bounded_column(table: Any, column: int, data_bound: float) -> Vector:
    """Return a column of the table within [-1, 1]: divided by ``data_bound``, and clipped; ones behind the last one."""
    if column == table.shape[1]:
        return np.ones(table.shape[0])
    sparse = not isinstance(table, np.ndarray)
    entries = table[:, [column]].toarray().ravel() if sparse else table[:, column]
    return np.clip(np.asarray(entries, dtype=np.float64), -data_bound, data_bound) / data_bound
