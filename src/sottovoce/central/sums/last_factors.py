r"""What finished models are multiplied by, fitted privately at the end of a training.

*Numbers get a slope and a shift.* Where noise dominates the weights, predictions z = x.w of numbers are worse than a
constant: their noise is added to what a constant misses. So they become a z + b, from four released sums over rows: of
squares of predictions, their products with residuals, predictions and residuals. a tends to 0 where noise hides whether
there is anything to predict, and b then makes a mean of the labels of what is left. The residuals are cut, not the
labels: where the weights are as good as passes with cut residuals make them, nothing is moved, for skewed labels too.

Formulas and proof: ``docs/privacy/calibration.md``, "Numbers".

*Several classes get a length.* Noisy passes find the direction of the weights W long before their length: few passes
leave scores too short, and much noise too long. So W becomes e^t W, with t near the minimiser of sum_i l(y_i, e^t W
x_i), a convex problem in e^t. The penalty, which noisy passes do not need, has no part in it. In each of `ROUNDS`
rounds the derivative and a curvature in t,

.. math:: g_i = p_i^\top z_i - z_{i y_i}, \qquad h_i = \sum_k p_{ik} (z_{ik} - p_i^\top z_i)^2, \qquad z_i = e^t W x_i,

are cut together to a length of at most `CLIP` for each row, and their sums are released with noise. What is released
says how far a Newton step can be trusted: each round's is weighed against a public prior for t by their variances, so
that a small table keeps the prior. Cutting leaves rows with large errors less to say.

Privacy: 2 ROUNDS numbers, Gaussian mechanisms of sensitivity `CLIP` (twice that for replace-one) in R^2; the rest is
post-processing. ``docs/privacy/dp_scd.md``, Proposition 5.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from sottovoce._numerics import PIECE, Vector
from sottovoce.central.core import Asked, Release
from sottovoce.central.data.operation import Columns, RowSum, Ticks
from sottovoce.central.data.row_memory import TARGET
from sottovoce.central.kernels.calls import ScaledRows, passes
from sottovoce.central.sums.clipped_sums import clipped_sum
from sottovoce.privacy.adjacency import Neighbours

# of numbers
_SLOPE: Final = "noisy sums of predictions, their squares, residuals and products of both: slope and shift follow"
_DOUBT: Final = 80.0  # over mu n of the release, and 2 at least: what the noise weighs beside the squares
_LEAST: Final = 0.25  # of the noise: a sum of squares is no less, whatever the noise was
_WIDER: Final = 100.0  # mu n of the release from which on R is beyond the scale of the labels
LONGEST: Final = 1.25  # early stopping leaves weights a little short, never by much
# of several classes
_LENGTH: Final = "the length of the scores, from noisy sums of derivatives of the loss"

ROUNDS: Final = 2
CLIP: Final = 4.0  # of (g_i, h_i), in natural units of log loss
# of t, measured on digits and on made-up tables of 3 and 20 classes; a round moves by at most 1
PASSES: Final = 0.3  # its mean beforehand
_PRIOR_STD, _LARGEST_STEP, _LARGEST = 0.4, 1.0, 1.5
_FAR: Final = 1e100


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
    (square, product, along, left), std = yield from line_moments(weights, cut, neighbours, mu, _SLOPE)
    square, doubt = max(square, _LEAST * std), max(2.0, _DOUBT / (mu * n_public))
    slope = min(max(0.0, (product + square) * square / (square**2 + doubt * std**2)), LONGEST)
    return slope, cut * (1.0 - slope) * min(max(-1.0, (left + along) / n_public), 1.0)


def line_moments(
    weights: Vector, cut: float, neighbours: Neighbours, mu: float, words: str
) -> Asked[tuple[list[float], float]]:
    """Release the four sums of `LineMoments`; return them with the standard deviation of their noise."""
    sums = clipped_sum(neighbours, 1.0, 1.0 / mu)
    moments = yield Release(words, LineMoments(weights, cut, sums.ticks_per_unit), sums.mechanism)
    return [float(moment) for moment in moments], sums.mechanism.noise_std


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
        return _cut_together(parts, self.ticks_per_unit)


def score_length(weights: Vector, neighbours: Neighbours, mu: float, likely: float = PASSES) -> Asked[float]:
    """Release the factor by which scores should be longer, from exp(-1.5) to exp(1.5); exp(likely) if all is noise.

    Asked of rows with the class of each, 0, ..., K - 1, as target.

    ``weights``: of shape (K, n_weights); released.
    ``likely``: the mean of t beforehand.
    """
    sums = clipped_sum(neighbours, CLIP, math.sqrt(ROUNDS) / mu)
    std = sums.mechanism.noise_std
    t, mean, precision = likely, likely, _PRIOR_STD**-2
    for _ in range(ROUNDS):
        moments = ScoreMoments(weights, math.exp(t), sums.clip, sums.ticks_per_unit)
        # where the derivative is 0, this is the second derivative too
        slope, curvature = yield Release(_LENGTH, moments, sums.mechanism)
        if not curvature >= 2.0 * std:  # it may be noise alone, and tells nothing
            continue
        seen = t - min(max(float(slope) / curvature, -_LARGEST_STEP), _LARGEST_STEP)
        trust = (curvature / std) ** 2
        mean, precision = (mean * precision + seen * trust) / (precision + trust), precision + trust
        t = min(max(mean, -_LARGEST), _LARGEST)
    return math.exp(t)


@dataclass(frozen=True, eq=False)
class ScoreMoments(RowSum):
    """The sums of derivative and curvature in t, cut together for each row."""

    weights: Vector  # of shape (n_classes, n_weights); released
    factor: float  # e^t
    clip: float
    ticks_per_unit: float

    reads = (TARGET,)

    def shape(self, columns: Columns) -> tuple[int, ...]:
        return (2,)

    def add(self, rows: ScaledRows, views: Sequence[NDArray[Any]], lo: int, hi: int, total: Ticks) -> None:
        codes, column = views[0], np.empty(len(views[0]))
        for first in range(lo, hi, PIECE):
            last = min(first + PIECE, hi)
            scores = np.empty((last - first, len(self.weights)))
            for k, w in enumerate(self.weights):
                passes.margins(rows, w, first, last, column)
                scores[:, k] = column[first:last]
            total += self.moments(scores, codes[first:last].astype(np.intp))

    def moments(self, scores: Vector, codes: NDArray[np.intp]) -> Ticks:
        """Return the sums of some rows in whole ticks; total, and each row's part is within the clip."""
        with np.errstate(all="ignore"):
            z = np.clip(np.nan_to_num(self.factor * scores, nan=0.0), -_FAR, _FAR)
            p = softmax(z, axis=1)
            middle = (p * z).sum(axis=1)
            slope = middle - z[np.arange(len(z)), codes]
            curvature = (p * (z - middle[:, None]) ** 2).sum(axis=1)
            pair = np.clip(np.nan_to_num(np.stack([slope, curvature], axis=1), nan=0.0), -_FAR, _FAR) / self.clip
        return _cut_together(pair, self.clip * self.ticks_per_unit)


def _cut_together(parts: Vector, ticks_per_unit: float) -> Ticks:
    """Return the sum in whole ticks of rows' parts, one a line, each cut to a length of 1."""
    parts /= np.maximum(1.0, np.sqrt((parts * parts).sum(axis=1)))[:, None]
    # toward zero, which can only shorten a row's part
    sums: Ticks = (parts * ticks_per_unit).astype(np.int64).sum(axis=0)
    return sums
