r"""How far labels lie from predictions, released as a histogram of signed distances, and the clip that it asks for.

*Location.* A bisection of a fixed number of noisy counts finds a median inside the public bounds, as in
`sottovoce.central.split`.

*Histogram.* A row falls into one of 2 x 12 bins: the sign of its distance, and its size times the norm of the row,
because so its term is clipped; each edge is twice the one before. Adding, removing or zeroing a row moves one count by
1, replacing it two: sensitivity 1 or sqrt 2.

*Clip.* Cutting residuals times rows at a length R leaves noise in proportion to R in their sum, and pulls predictions
toward a median. With M the filter of the solver (`sottovoce.central.solvers.refinement`), P the share of rows within R
and S the mean of what is cut off, signs included, in the unit of the labels (over the root mean square of the norms of
rows, which the released Gram matrix shows), the mean squared error that R adds is taken to be

.. math:: \frac{R^2}{P^2} \frac{\mathrm{tr}(M A M)}{\mu^2 n} + \kappa S^2.

S is what a clip does to the intercept. The whole pull was 1.5 to 5 times S^2 on skewed made-up labels, house prices and
comments, over clips from the median to the 99 % quantile; symmetric tails are cut without harm. Bins in which the noise
may be all that there is count as empty: with mu the thresholds vanish, and the clip tends to the longest residual.

Proof: ``docs/privacy/refinement.md``.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.central.core import Asked, Release
from sottovoce.central.split import median
from sottovoce.central.sums.histograms import DISTANCE_BINS, CountDistances, clip_grid, distances_mechanism
from sottovoce.privacy.adjacency import Neighbours
from sottovoce.privacy.mechanisms.gaussian import counts_mechanism

__all__ = ["Distances", "clip_grid", "distances", "distances_mechanism", "label_location"]

_WORDS: Final = "histograms of the signed distances of labels from the location and, later, from predictions, noisy"
_LOCATION_COUNTS: Final = 12
_BELIEVED: Final = 3.0  # standard deviations from which a count is more than noise
_BIAS: Final = 8.0  # kappa
_KEPT: Final = 0.7  # share of the rows that a clip leaves as they are, at least


def label_location(n_public: int, bound: float, neighbours: Neighbours, mu: float) -> Asked[float]:
    """Release a median of labels within ``bound`` of 0."""
    counting = counts_mechanism(1, neighbours.count, mu / math.sqrt(_LOCATION_COUNTS))
    return (yield from median(n_public, bound, counting, "location of the labels (a median), noisy"))


@dataclass(frozen=True)
class Distances:
    """A noisy histogram of signed distances."""

    clips: Vector  # from `clip_grid`; two for a bin
    # Noisy counts of positive distances, and of the others.
    above: Vector
    below: Vector
    noise_std: float

    def clip(self, n_public: int, *, noise_gain: float, length: float) -> float:
        """Return the clip with the least estimated error.

        ``noise_gain``: tr(M A M) / mu^2.
        ``length``: in (0, 1]; root mean square of the norms of the rows, estimated.
        """
        both = np.stack([self.above, self.below])
        counts = 0.5 * np.repeat(both, 2, axis=1)  # a bin's rows are taken to lie in its halves alike
        believed = np.where(np.repeat(both, 2, axis=1) > _BELIEVED * self.noise_std, counts, 0.0)
        middles = self.clips * 2.0**-0.25
        best, least = float(self.clips[-1]), math.inf
        for place, clip in enumerate(self.clips):
            beyond = slice(place + 1, None)
            kept = 1.0 - float(np.sum(believed[:, beyond])) / n_public
            # what is not seen beyond must be seen within, or noise hides it all
            seen = float(np.sum(counts[:, : place + 1])) / n_public
            if kept < _KEPT or seen < 0.3 * _KEPT:
                continue
            cut_off = float((believed[0, beyond] - believed[1, beyond]) @ (middles[beyond] - clip)) / n_public
            error = (clip / kept) ** 2 * noise_gain / n_public + _BIAS * (cut_off / length) ** 2
            if error < least:
                best, least = float(clip), error
        return best


def distances(w: Vector | None, widest: float, neighbours: Neighbours, mu: float) -> Asked[Distances]:
    """Release the histogram of signed distances; those beyond ``widest``, and NaN, count as ``widest``.

    ``w``: of shape (n_weights,); released; distances are from what it predicts. None: from 0.
    ``widest``: > 0; public.
    """
    mechanism = distances_mechanism(neighbours, mu)
    noisy = yield Release(_WORDS, CountDistances(w, widest), mechanism)
    return Distances(clip_grid(widest), noisy[DISTANCE_BINS:], noisy[:DISTANCE_BINS], mechanism.noise_std)
