r"""A bound that most rows keep, released where no public one is known: what ``data_norm="auto"`` stands for.

*Release.* Each row that is not zero falls into a bin by its norm, and is counted in three histograms: with eight bins
to a factor of 2, with two, and with one to a factor of 4. All of them run from 2^-166 to 2^166, which is nearly the
whole range of public numbers, and shorter or longer rows are in the first or last bin: the bins are the same for all
data. Adding, removing or zeroing a row moves three counts by 1, replacing it six: sensitivity sqrt 3 or sqrt 6, however
many bins there are. All counts are one Gaussian release.

*Choice.* Wide bins find the rows: a bin counts if it holds more than noise can, and so does the one above it, which may
hold the rest of the same rows. From the longest such bin downward, rows are counted until as many are beyond as may be;
the narrower bins inside that bin then say where. Three widths keep the noise small: a quantile adds up a few noisy
counts, not hundreds.

*Where noise hides everything* no bin counts, and the bound is 1.

Proof: ``docs/privacy/released_norm.md``.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce._validation import LARGEST, SMALLEST, magnitude
from sottovoce.central.core import Asked, Keep, Release, Unprotected
from sottovoce.central.data.operation import Columns, Count, Operation, Ticks
from sottovoce.central.data.row_memory import LENGTH
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, counts_mechanism
from sottovoce.privacy.neighbours import Neighbours

if TYPE_CHECKING:
    from sottovoce.central.data.part import Part

__all__ = ["FALLBACK", "MOST_KEEP", "NORM", "NormRelease", "largest_norm"]

NORM: Final = "data_norm that was found in the rows"  # its name in the receipt
MOST_KEEP: Final = "a bound on the norm of a row that most rows keep, noisy; longer rows were shortened to it"

FALLBACK: Final = 1.0  # the bound where nothing can be seen
_FARTHEST: Final = 166  # powers of 2 on either side of 1: 2^166 is 9.4e49
_STEPS: Final = 8  # of the narrowest bins to a factor of 2
_BINS: Final = 2 * _FARTHEST * _STEPS
_EDGES: Final = 2.0 ** (np.arange(1, _BINS + 1) / _STEPS - _FARTHEST)
_ROUNDED: Final = 1.000001  # rows of the same length, exactly that of an edge, are within it
_WIDTHS: Final = (16, 4, 1)  # of the bins of each histogram, in narrowest ones

# Chosen on public data (`benchmarks/central/data_norm.py`).
_SHARE, _MOST_SHARE = 0.01, 0.1  # of mu^2
_WANTED: Final = 30.0  # number of rows over the noise of a count, for which more than the least share is spent
_BELIEVED, _BELIEVED_FAR = 4.5, 5.5  # standard deviations from which the fullest bin, and others, are more than noise
_KEPT: Final = 0.9  # share of the rows that keep the bound
_CERTAIN: Final = 1.0  # standard deviations of a count that are taken off it: longer rows have to be seen


@dataclass(frozen=True)
class NormRelease:
    """How a bound that most rows keep is released; all of it follows from public facts."""

    mu: float  # > 0; Gaussian-DP parameter of the whole run
    n_units: float  # public number of rows, or of persons with the most rows
    neighbours: Neighbours
    keeps_all: bool = False  # ask for a bound that all rows keep, for budgets that hardly are any

    @cached_property
    def share(self) -> float:
        """Share of mu^2: with few rows or little budget it takes more to see them at all."""
        return min(_MOST_SHARE, max(_SHARE, (_WANTED / (self.mu * self.n_units)) ** 2))

    @property
    def mu_norm(self) -> float:
        return self.mu * math.sqrt(self.share)

    @cached_property
    def mechanism(self) -> GridGaussian:
        size = CountLengths.size
        return counts_mechanism(size, math.sqrt(len(_WIDTHS)) * self.neighbours.square_factor, self.mu_norm)

    def asks(self) -> Asked[float]:
        """Release a bound that most rows keep; it is within the range of public numbers.

        Asked of rows whose lengths were measured, in the unit of the data; those of 0 are not counted.
        """
        noisy = yield Release(MOST_KEEP, CountLengths(), self.mechanism)
        kept: float = yield Keep(NORM, lambda: self._chosen(noisy), magnitude, FALLBACK)
        return kept

    def _chosen(self, noisy: Vector) -> float:
        ends = np.cumsum([_BINS // width for width in _WIDTHS])[:-1]
        wide, middle, narrow = np.split(noisy, ends)
        noise_std = self.mechanism.noise_std
        fullest, believed = int(np.argmax(wide)), wide > _BELIEVED_FAR * noise_std
        if not wide[fullest] > _BELIEVED * noise_std:
            return FALLBACK
        believed[fullest] = True
        above = np.roll(believed, 1)
        above[0] = False
        counted = np.where(believed | above, np.maximum(wide, 0.0), 0.0)
        share = 0.0 if self.keeps_all else 1.0 - _KEPT
        beyond = share * float(counted.sum()) + _CERTAIN * noise_std
        place, beyond = _first_from_above(counted, beyond)
        for counts in (middle, narrow):
            inside, beyond = _first_from_above(counts[4 * place : 4 * place + 4], beyond)
            place = 4 * place + inside
        return float(_EDGES[place])


@dataclass(frozen=True)
class CountLengths(Count):
    """The counts of all bins."""

    reads = (LENGTH,)
    size, times = sum(_BINS // width for width in _WIDTHS), len(_WIDTHS)

    def counts(self, part: "Part", views: Sequence[NDArray[Any]]) -> Ticks:
        return _counts(views[0])


@dataclass(frozen=True)
class LargestLength(Operation[float]):
    """The largest length of a row."""

    def on(self, part: "Part") -> float:
        """Return that of a part; 0 where there are no rows."""
        return max(float(np.max(length, initial=0.0)) for _, (length,) in part.columns([LENGTH]))

    def merged(self, answers: Sequence[float]) -> float:
        return max(answers)

    def allows(self, answer: object, n_rows: int, columns: Columns) -> bool:
        return isinstance(answer, float) and answer >= 0.0

    def blank(self) -> float:
        return 0.0


def largest_norm() -> Asked[float]:
    """Return the largest norm without privacy, within the range of public numbers; 1 where all rows are zero."""
    most = yield Release("", LargestLength(), Unprotected())
    found = min(max(float(most), SMALLEST), LARGEST) if most > 0.0 else FALLBACK
    kept: float = yield Keep(NORM, found, magnitude, FALLBACK)
    return kept


def _counts(norms: Vector) -> Ticks:
    """Return the counts of all bins, those of the widest first."""
    places = np.minimum(np.searchsorted(_EDGES * _ROUNDED, norms[norms > 0.0]), _BINS - 1)
    narrow: NDArray[np.int64] = np.bincount(places, minlength=_BINS)
    return np.concatenate([narrow.reshape(-1, width).sum(axis=1) for width in _WIDTHS])


def _first_from_above(counts: Vector, beyond: float) -> tuple[int, float]:
    """Return the first bin from the last one downward with which more than ``beyond`` rows are in it or above.

    The other number is what is left of ``beyond`` for rows in that bin. Where there is none it is the first bin.
    """
    for place in range(len(counts) - 1, 0, -1):
        if counts[place] > beyond:
            return place, beyond
        beyond -= float(counts[place])
    return 0, beyond
