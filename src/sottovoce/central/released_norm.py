r"""A bound that most rows keep, released where no public one is known: what ``data_norm="auto"`` stands for.

*Release.* Each row that is not zero falls into a bin by its norm, and is counted in three histograms: with eight bins
to a factor of 2, with two, and with one to a factor of 4. All counts are one Gaussian release, whose sensitivity does
not depend on the number of bins.

*Choice.* Wide bins find the rows: a bin counts if it holds more than noise can, and so does the one above it, which may
hold the rest of the same rows. From the longest such bin downward, rows are counted until as many are beyond as may be;
the narrower bins inside that bin then say where. Three widths keep the noise small: a quantile adds up a few noisy
counts, not hundreds.

*Where noise hides everything* no bin counts, and the bound is 1.

Proof: ``docs/privacy/released_norm.md``.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._validation import LARGEST, SMALLEST, magnitude
from sottovoce.central.core import Asked, Keep, Release, Unprotected
from sottovoce.central.sums.histograms import (
    LENGTH_BINS,
    LENGTH_EDGES,
    LENGTH_WIDTHS,
    CountLengths,
    LargestLength,
    lengths_mechanism,
)
from sottovoce.privacy.adjacency import Neighbours
from sottovoce.privacy.mechanisms.gaussian import GridGaussian

NORM: Final = "data_norm that was found in the rows"  # its name in the receipt
_MOST_KEEP: Final = "a bound on the norm of a row that most rows keep, noisy; longer rows were shortened to it"

FALLBACK: Final = 1.0  # the bound where nothing can be seen

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
    def mechanism(self) -> GridGaussian:
        return lengths_mechanism(self.neighbours, self.mu * math.sqrt(self.share))

    def asks(self) -> Asked[float]:
        """Release a bound that most rows keep; it is within the range of public numbers.

        Asked of rows whose lengths were measured, in the unit of the data; those of 0 are not counted.
        """
        noisy = yield Release(_MOST_KEEP, CountLengths(), self.mechanism)
        kept: float = yield Keep(NORM, lambda: self._chosen(noisy), magnitude, FALLBACK)
        return kept

    def _chosen(self, noisy: Vector) -> float:
        ends = np.cumsum([LENGTH_BINS // width for width in LENGTH_WIDTHS])[:-1]
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
        return float(LENGTH_EDGES[place])


def largest_norm() -> Asked[float]:
    """Return the largest norm without privacy, within the range of public numbers; 1 where all rows are zero."""
    most = yield Release("", LargestLength(), Unprotected())
    found = min(max(float(most), SMALLEST), LARGEST) if most > 0.0 else FALLBACK
    kept: float = yield Keep(NORM, found, magnitude, FALLBACK)
    return kept


def _first_from_above(counts: Vector, beyond: float) -> tuple[int, float]:
    """Return the first bin from the last one downward with which more than ``beyond`` rows are in it or above.

    The other number is what is left of ``beyond`` for rows in that bin. Where there is none it is the first bin.
    """
    for place in range(len(counts) - 1, 0, -1):
        if counts[place] > beyond:
            return place, beyond
        beyond -= float(counts[place])
    return 0, beyond
