r"""How long the scores of a multinomial model should be: one number, fitted privately at the end of a training.

Noisy passes find the direction of the weights W long before their length: few passes leave scores too short, and much
noise too long. So W becomes e^t W, with t near the minimiser of sum_i l(y_i, e^t W x_i), a convex problem in e^t. The
penalty, which noisy passes do not need, has no part in it. In each of `ROUNDS` rounds the derivative and a curvature
in t,

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
from sottovoce.central.kernels import passes
from sottovoce.central.kernels.scaled import ScaledRows
from sottovoce.central.sums.clipped_sums import clipped_sum
from sottovoce.privacy.adjacency import Neighbours

_WORDS: Final = "the length of the scores, from noisy sums of derivatives of the loss"

ROUNDS: Final = 2
CLIP: Final = 4.0  # of (g_i, h_i), in natural units of log loss
# of t, measured on digits and on made-up tables of 3 and 20 classes; a round moves by at most 1
PASSES: Final = 0.3  # its mean beforehand
_PRIOR_STD, _LARGEST_STEP, _LARGEST = 0.4, 1.0, 1.5
_FAR: Final = 1e100


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
        slope, curvature = yield Release(_WORDS, moments, sums.mechanism)
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
            pair /= np.maximum(1.0, np.sqrt((pair * pair).sum(axis=1)))[:, None]
        # toward zero, which can only shorten a row's part
        sums: Ticks = (pair * (self.clip * self.ticks_per_unit)).astype(np.int64).sum(axis=0)
        return sums
