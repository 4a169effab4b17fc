"""Where predictions should be cut so that most rows are on the right side, from counts that were released anyway.

A calibrated model says class 1 where that is more likely than not: the best cut if the odds are logistic. Where they
are not, another one errs less. How many rows a cut puts right follows from the counts at the nodes of a grid
(`sottovoce.central.sums.shared_counts`), so the choice is post-processing and costs nothing.
"""

from functools import cache
from typing import Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.central.sums.shared_counts import NODES

_SURE: Final = 3.0  # standard deviations, of noise and rows that move, by which a cut has to be better
_BEYOND: Final = 2.0 * NODES[-1]  # where a cut leaves all rows on one side
_CUTS: Final = np.unique([*np.linspace(-3.0, 3.0, 241), *np.linspace(NODES[0], NODES[-1], 241), -_BEYOND, _BEYOND])


def accurate_shift(counts: Vector, across: Vector, noise_std: float, slope: float, shift: float) -> float:
    """Return the shift of the cut that puts most rows right; the given one, unless another is surely better.

    Parameters
    ----------
    counts : array of shape (2 * nodes,)
        Rows of label -1 at each node, then those of label +1; noisy.
    across : array of shape (2 * nodes, n)
        What n independent terms of noise, of standard deviation ``noise_std``, add to the counts.
    slope, shift : float
        Of the calibrated predictions.
    """
    cut = np.array([-shift / slope])
    more = _all() - _below(cut)  # rows of label -1 that are right then, less those of +1 that were
    signed = counts[: len(NODES)] - counts[len(NODES) :]
    noise = more @ (across[: len(NODES)] - across[len(NODES) :])
    moved = np.abs(more) @ np.maximum(counts[: len(NODES)] + counts[len(NODES) :], 0.0)
    gains = more @ signed - _SURE * np.sqrt(noise_std**2 * np.square(noise).sum(axis=1) + moved)
    best = int(gains.argmax())
    return float(-slope * _CUTS[best]) if gains[best] > 0.0 else shift


def _below(cuts: Vector) -> Vector:
    """Return which share of the rows of each node is below each cut, of shape (cuts, nodes).

    A row was shared between the nodes beside it, so the rows of a node lie in a triangle.
    """
    gaps = np.diff(NODES)
    left, right = np.append(1.0, gaps), np.append(gaps, 1.0)
    away = cuts[:, None] - NODES
    rising = np.square(np.clip(away + left, 0.0, left)) / left
    falling = right - np.square(np.clip(right - away, 0.0, right)) / right
    shares: Vector = (rising + np.where(away > 0.0, falling, 0.0)) / (left + right)
    return shares


@cache
def _all() -> Vector:
    return _below(_CUTS)
