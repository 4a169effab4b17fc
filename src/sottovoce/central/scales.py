r"""The scales of the data that the solvers need, each released with a small share of the budget.

*Length of the rows.* A bisection of a fixed number of noisy counts finds a bound that most rows keep: where the
public one is loose, rows are shortened to it, and a loose bound costs no accuracy.

*Location and scale of the labels.* A count of rows moves by at most one for every adjacency. Two bisections of a fixed
number of noisy counts find a median and a quantile of the distances from it, inside the public bounds.

Proofs: ``docs/privacy/dp_scd.md``.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
from scipy.special import ndtri

from sottovoce._numerics import Vector
from sottovoce._validation import number
from sottovoce.central.core import Asked, Keep, Release
from sottovoce.central.data.lengths import CountWithin
from sottovoce.central.data.operation import Count
from sottovoce.central.data.targets import CountBelow, CountNear
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, rounding_norm
from sottovoce.privacy.neighbours import Neighbours

__all__ = ["LABEL", "LOCATION", "NORM", "label_location_and_scale", "median", "most_rows_bound", "number_of_counts"]

# names in the receipt
NORM: Final = "bound of most rows, in units of data_norm (noisy)"
LOCATION: Final = "label location, from the middle of the bounds (noisy)"
LABEL: Final = "label scale (noisy)"

_OF_ROWS: Final = "a bound that most rows keep, noisy; longer rows were shortened to it"
_OF_LABELS: Final = "location and scale of the labels (a median, a 90 % quantile of the distances from it), noisy"
_GRID: Final = 2.0 ** (-np.arange(24, -1, -1) / 2.0)  # from 1 / 4096 to 1, two edges a factor of 2
_LOCATION_STEPS: Final = 12
_SCALE_STEPS: Final = 5  # enough to bisect the 25 edges
_QUANTILE: Final = 0.9
_ROUNDED: Final = 1.000001  # rows of the same length, exactly that of an edge, are within it
_FEWEST, _MOST = 0.8, 0.98  # share of the rows that are most of them
_LOOSE: Final = 0.5  # a bound on the rows is taken to be loose when most of them keep half of it


def number_of_counts(*, located: bool) -> int:
    return _SCALE_STEPS + (_LOCATION_STEPS if located else 0)


def most_rows_bound(n_public: int, neighbours: Neighbours, mu: float) -> Asked[float]:
    """Release a bound that most rows keep, in units of the public one, by noisy bisection.

    Most are 98 % where the noise allows it, and never fewer than 80 %. The bound is on a geometric grid with two edges
    a factor of 2, from 1 / 4096 to 1. It is 1 where the public one is not loose, and the more likely so the larger the
    noise is: what is taken for a small norm should be one.
    """
    counting = _counting(_SCALE_STEPS, neighbours, mu)
    share = min(_MOST, max(_FEWEST, 1.0 - 2.0 * counting.noise_std / n_public))
    enough = share * n_public + counting.noise_std
    edge = yield from _first_edge(_GRID, lambda edge: CountWithin(edge * _ROUNDED), enough, counting, _OF_ROWS)
    bound = edge if edge <= _LOOSE else 1.0
    kept: float = yield Keep(NORM, bound, partial(number, above=0.0, at_most=1.0), 1.0)
    return kept


def median(n_public: int, bound: float, counting: GridGaussian, words: str) -> Asked[float]:
    """Release a median of labels within ``bound`` of 0, on a grid of 2 bound / 4096, by noisy bisection."""
    low, high = -bound, bound
    for _ in range(_LOCATION_STEPS):
        middle = 0.5 * (low + high)
        (count,) = yield Release(words, CountBelow(middle), counting)
        low, high = (low, middle) if count >= 0.5 * n_public else (middle, high)
    kept: float = yield Keep(LOCATION, 0.5 * (low + high), partial(number, at_least=-bound, at_most=bound), 0.0)
    return kept


def label_location_and_scale(
    n_public: int, bound: float, neighbours: Neighbours, mu: float, *, located: bool
) -> Asked[tuple[float, float]]:
    """Release a median of the labels and a 90 % quantile of the distances from it, by noisy bisection.

    ``bound``: > 0; public bound on the absolute labels: targets of the first model are each within it.
    ``located``: False takes 0 for the median and spends all on the scale.

    The scale is on a geometric grid with two edges a factor of 2, from 1 / 4096 to 1 times the widest distance; where
    the noise is too large for that quantile, it is what a nearer one says of it for a normal law, at most the widest.
    """
    counting = _counting(number_of_counts(located=located), neighbours, mu)
    if located:
        location = yield from median(n_public, bound, counting, _OF_LABELS)
    else:
        location = yield Keep(LOCATION, 0.0, partial(number, at_least=0.0, at_most=0.0), 0.0)
    widest = bound + abs(location)
    # with much noise the tail cannot be told from nothing: a nearer quantile, and its ratio for a normal law
    share = min(_QUANTILE, max(0.5, 1.0 - 2.0 * counting.noise_std / n_public))
    ratio = float(ndtri(0.5 + 0.5 * _QUANTILE) / ndtri(0.5 + 0.5 * share))
    edges = widest * _GRID
    scale = yield from _first_edge(edges, partial(CountNear, location), share * n_public, counting, _OF_LABELS)
    kept = yield Keep(LABEL, min(ratio * scale, widest), partial(number, above=0.0), widest)
    return location, kept


def _counting(n_counts: int, neighbours: Neighbours, mu: float) -> GridGaussian:
    """Return the mechanism of each of some counts that cost ``mu`` together."""
    multiplier, count = math.sqrt(n_counts) / mu, neighbours.count
    noise = power_of_two_below(count * multiplier)
    # counts are whole ticks, but for noise so large that ticks of 1 would be absurdly fine
    tick = max(min(1.0, noise * 2.0**-20), noise * 2.0**-42)
    return GridGaussian(count + (rounding_norm(1, tick) if tick > 1.0 else 0.0), multiplier, tick)


def _first_edge(
    edges: Vector, count: Callable[[float], Count], enough: float, counting: GridGaussian, words: str
) -> Asked[float]:
    """Return the first of 25 edges with ``enough`` rows, by bisection; the last one is taken to have them."""
    first, last = 0, len(edges) - 1  # the answer is one of edges[first..last]
    for _ in range(_SCALE_STEPS):
        place = (first + last) // 2
        (noisy,) = yield Release(words, count(float(edges[place])), counting)
        first, last = (first, place) if noisy >= enough else (min(place + 1, last), last)
    return float(edges[last])
