r"""How much of the predictions of a linear model is signal: a slope and a shift for numbers, released at the end.

Where noise dominates the weights, predictions z = x.w of numbers are worse than a constant: their noise is added to
what a constant misses. So they become a z + b, from four released sums over rows: of squares of predictions, their
products with residuals, predictions and residuals. a tends to 0 where noise hides whether there is anything to predict,
and b then makes a mean of the labels of what is left. The residuals are cut, not the labels: where the weights are as
good as passes with cut residuals make them, nothing is moved, for skewed labels too.

Formulas and proof: ``docs/privacy/calibration.md``, "Numbers".
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import PIECE, Vector
from sottovoce.central.core import Asked, Release
from sottovoce.central.data.operation import Columns, RowSum, Ticks
from sottovoce.central.data.row_memory import TARGET
from sottovoce.central.kernels import passes
from sottovoce.central.kernels.scaled import ScaledRows
from sottovoce.central.sums.clipped_sums import clipped_sum
from sottovoce.privacy.adjacency import Neighbours

_WORDS: Final = "noisy sums of predictions, their squares, residuals and products of both: slope and shift follow"
_DOUBT: Final = 80.0  # over mu n of the release, and 2 at least: what the noise weighs beside the squares
_LEAST: Final = 0.25  # of the noise: a sum of squares is no less, whatever the noise was
_WIDER: Final = 100.0  # mu n of the release from which on R is beyond the scale of the labels
LONGEST: Final = 1.25  # early stopping leaves weights a little short, never by much


def cut_for(scale: float, information: float) -> float:
    """Return R for the released scale of the labels and mu n of the release.

    Residuals of skewed labels are beyond their scale, and to cut them moves slope and shift; with more information they
    are cut less, as its noise allows.
    """
    return scale * max(1.0, math.sqrt(information / _WIDER))


def slope_and_shift(
    weights: Vector, cut: float, n_public: int, neighbours: Neighbours, mu: float
) -> Asked[tuple[float, float]]:
    """Release the factor, from 0 to `LONGEST`, and then the shift, within ``cut``, that predictions of numbers need.

    Asked of rows with the numbers themselves as targets.

    ``weights``: of shape (n_weights,); released.
    ``cut``: > 0; released; predictions and residuals are cut to it.
    """
    sums = clipped_sum(neighbours, 1.0, 1.0 / mu)
    moments = yield Release(_WORDS, LineMoments(weights, cut, sums.ticks_per_unit), sums.mechanism)
    square, product, along, left = map(float, moments)
    std = sums.mechanism.noise_std
    square, doubt = max(square, _LEAST * std), max(2.0, _DOUBT / (mu * n_public))
    slope = min(max(0.0, (product + square) * square / (square**2 + doubt * std**2)), LONGEST)
    return slope, cut * (1.0 - slope) * min(max(-1.0, (left + along) / n_public), 1.0)


@dataclass(frozen=True, eq=False)
class LineMoments(RowSum):
    """The sums of z^2, z r, z and r over all rows, in units of a cut, cut together for each row."""

    w: NDArray[Any]  # of shape (n_weights,); released
    cut: float
    ticks_per_unit: float

    reads = (TARGET,)

    def shape(self, columns: Columns) -> tuple[int, ...]:
        return (4,)

    def blank(self) -> Any:
        return np.zeros(4)

    def add(self, rows: ScaledRows, views: Sequence[NDArray[Any]], lo: int, hi: int, total: Ticks) -> None:
        margins = np.empty(len(views[0]))
        for first in range(lo, hi, PIECE):
            here = slice(first, min(first + PIECE, hi))
            passes.margins(rows, self.w, here.start, here.stop, margins)
            total += self.moments(margins[here], views[0][here])

    def moments(self, margins: Vector, targets: Vector) -> Ticks:
        """Return the sums of some rows in whole ticks; total, and each row's part is at most 1 long."""
        with np.errstate(all="ignore"):
            seen = np.clip(np.nan_to_num(margins / self.cut, nan=0.0), -1.0, 1.0)
            left = np.clip(np.nan_to_num((targets - margins) / self.cut, nan=0.0), -1.0, 1.0)
        parts = np.stack([seen * seen, seen * left, seen, left], axis=1)
        parts /= np.maximum(1.0, np.sqrt((parts * parts).sum(axis=1)))[:, None]
        # toward zero, which can only shorten a row's part
        sums: Ticks = (parts * self.ticks_per_unit).astype(np.int64).sum(axis=0)
        return sums
