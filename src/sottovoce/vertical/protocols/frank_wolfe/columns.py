"""How a party names columns in few bytes, and how one is shared by forms for study: with Gaussian noise on a grid.

Signed columns travel as whole numbers, and many of them as few bytes. A place is twice the column, plus 1 for a step
down. Places below a public base are the digits of one number in that base; it takes as many bytes as the largest such
number needs, so that the length of a message is a public fact.

No mechanism of the product shares a column. For entries within [-1, 1] a replaced person moves one by at most 2.
Entries are cut toward zero to whole ticks, and the noisy ticks take 2 or 4 bytes each, which follows from public facts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import ROUNDING_SLACK, Vector
from sottovoce.exceptions import MessageError
from sottovoce.privacy.events import GaussianEvent
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below

_FINEST: Final = 2.0**-7  # of the largest entry: coarse enough for 2 bytes, fine enough to keep what a column says
_REACH: Final = 12.0  # standard deviations of the noise; what is beyond is cut, after the noise


@dataclass(frozen=True)
class ColumnRelease:
    """One shared column, in units of the party's public bound on its entries."""

    n_people: int
    noise_multiplier: float

    @property
    def event(self) -> GaussianEvent:
        return GaussianEvent(self.noise_multiplier)

    @property
    def size(self) -> int:
        return self.n_people

    @cached_property
    def mechanism(self) -> GridGaussian:
        exact = 2.0 * ROUNDING_SLACK
        return GridGaussian(exact, self.noise_multiplier, min(coarsest_tick(exact * self.noise_multiplier), _FINEST))

    @property
    def largest(self) -> float:
        """Bound on what is sent, without its noise."""
        return 1.0

    def ticks(self, column: Vector) -> NDArray[np.int64]:
        """Return what is sent, without its noise, in whole ticks."""
        return np.trunc(column / self.mechanism.tick).astype(np.int64)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        ticks = (self.largest + _REACH * self.mechanism.noise_std) / self.mechanism.tick
        return np.dtype("<i2" if ticks < 2**15 - 1 else "<i4" if ticks < 2**31 - 1 else "<i8")

    def release(self, column: Vector, noise: np.random.Generator) -> bytes:
        """Return the noisy column as it is sent; ``column`` is within [-1, 1]."""
        noisy, _ = self.mechanism.release(self.ticks(column), noise)
        limits = np.iinfo(self.dtype)
        return np.clip(np.rint(noisy / self.mechanism.tick), limits.min, limits.max).astype(self.dtype).tobytes()

    def read(self, raw: bytes) -> Vector:
        """Return the noisy column in units of the party's bound.

        Raises `MessageError` if there are not as many bytes as planned.
        """
        if len(raw) != self.size * self.dtype.itemsize:
            raise MessageError(f"a shared column has {len(raw)} bytes where {self.size * self.dtype.itemsize} are due.")
        return np.frombuffer(raw, self.dtype).astype(np.float64) * self.mechanism.tick


def coarsest_tick(std: float) -> float:
    """Return the coarsest tick that a `GridGaussian` of this noise takes."""
    return power_of_two_below(std * 2.0**-6)


def bounded_column(table: Any, column: int, data_bound: float) -> Vector:
    """Return a column of the table within [-1, 1]: divided by ``data_bound``, and clipped; ones behind the last one."""
    if column == table.shape[1]:
        return np.ones(table.shape[0])
    sparse = not isinstance(table, np.ndarray)
    entries = table[:, [column]].toarray().ravel() if sparse else table[:, column]
    return np.clip(np.asarray(entries, dtype=np.float64), -data_bound, data_bound) / data_bound


def place_of(column: int, sign: int) -> int:
    """Return the place of a step up (``sign`` 1) or down (-1) along ``column``."""
    return 2 * column + (sign < 0)


def signed_column(place: int) -> tuple[int, int]:
    return place // 2, -1 if place % 2 else 1


def pack_places(places: Sequence[int], n_columns: int) -> bytes:
    base, value = 2 * n_columns, 0
    for place in reversed(places):
        value = value * base + place
    return value.to_bytes(_size(len(places), base), "little")


def unpack_places(raw: bytes, count: int, n_columns: int) -> list[int]:
    """Return ``count`` places.

    Raises `MessageError` if the bytes are not what `pack_places` writes for so many places and columns.
    """
    base, value = 2 * n_columns, int.from_bytes(raw, "little")
    if len(raw) != _size(count, base) or value >= base**count:
        raise MessageError(f"{len(raw)} bytes are not {count} places of {n_columns} columns.")
    places = []
    for _ in range(count):
        value, place = divmod(value, base)
        places.append(place)
    return places


def _size(count: int, base: int) -> int:
    largest: int = base**count - 1
    return (largest.bit_length() + 7) // 8
