"""Arrays of whole numbers too large for one machine word: sums that are exact in any order, on any number of machines.

A number is ``high * 2^32 + low`` with 0 <= low < 2^32. Each pair of words is unique, so equal sums are equal words.
"""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.central.data.operation import Ticks, are_ticks
from sottovoce.privacy.adjacency import Adjacency

_SHIFT: Final = 32
_MASK: Final = 2**_SHIFT - 1
_ROOM: Final = 2**62  # what a word may hold at most


@dataclass(frozen=True)
class WholeNumbers:
    """An array of whole numbers within +-2^94."""

    # Of the same shape; low is within [0, 2^32).
    high: Ticks
    low: Ticks

    def __add__(self, other: Self) -> Self:
        low = self.low + other.low
        return type(self)(self.high + other.high + (low >> _SHIFT), low & _MASK)

    def are_within(self, shape: tuple[int, ...], most: int) -> bool:
        """Return whether these are words of that shape, of numbers of at most ``most`` in size, up to its rounding."""
        if not (are_ticks(self.low, shape, 0, _MASK) and are_ticks(self.high, shape, -_ROOM, _ROOM)):
            return False
        return float(np.max(np.abs(self.doubles(1.0)), initial=0.0)) <= most

    def doubles(self, unit: float) -> Vector:
        """Return the numbers in units of ``unit``, a power of two: each rounded once."""
        # |high| is below 2^53 as long as the number is below 2^85, so that the one rounding is that of the sum
        whole = self.high.astype(np.float64)
        whole *= 2.0**_SHIFT
        whole += self.low
        whole *= 1.0 / unit
        return whole


class WholeSum:
    """A growing sum in one word a number, which is carried over to a second one in good time.

    ``most``: what one row adds to a number at most, in absolute value.
    """

    def __init__(self, shape: tuple[int, ...], most: int) -> None:
        self.words = np.zeros(shape, np.int64)
        self._high: Ticks | None = None
        self._rows = 0
        self.most_rows = _ROOM // most

    def open(self, n_rows: int) -> Ticks:
        """Return the words, to which the terms of so many rows may be added now; at most ``most_rows``."""
        assert n_rows <= self.most_rows
        if self._rows + n_rows > self.most_rows:
            self._carry()
        self._rows += n_rows
        return self.words

    def add(self, product: Vector, n_rows: int) -> None:
        """Add whole numbers in doubles, which are the terms of so many rows, some lines at a time."""
        words, at_once = self.open(n_rows), max(1, 2**14 // product.shape[1])
        for first in range(0, len(words), at_once):
            words[first : first + at_once] += product[first : first + at_once].astype(np.int64)

    def _carry(self) -> None:
        if self._high is None:
            self._high = np.zeros_like(self.words)
        self._high += self.words >> _SHIFT
        self.words &= _MASK
        self._rows = 1  # what is left is less than 2^32, or what one row adds

    def total(self) -> WholeNumbers:
        self._carry()
        assert self._high is not None
        return WholeNumbers(self._high, self.words)


MOST_ROWS: Final = 10  # the true number of rows over its public stand-in, up to which rounding errors are bounded


def most_rows(n_public: int, adjacency: Adjacency) -> int:
    """Return the number of rows for which rounding errors are bounded; under add-remove the true number is secret."""
    return n_public * (MOST_ROWS if adjacency is Adjacency.ADD_REMOVE else 1)
