r"""The scales of the data that the solvers need, each released with a small share of the budget.

*Length of the rows.* A bisection of a fixed number of noisy counts finds a bound that most rows keep: where the
public one is loose, rows are shortened to it, and a loose bound costs no accuracy.

*Location and scale of the labels.* A count of rows moves by at most one for every adjacency. Two bisections of a fixed
number of noisy counts find a median and a quantile of the distances from it, inside the public bounds.

Proofs: ``docs/privacy/dp_scd.md``.
"""

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from scipy.special import ndtri

from sottovoce._numerics import Vector
from sottovoce.central.data.holder import Holder
from sottovoce.central.data.lengths import CountWithin
from sottovoce.central.data.operation import Operation, Ticks
from sottovoce.central.data.targets import CountBelow, CountNear, Targets
from sottovoce.privacy.events import Event, GaussianEvent, RepeatedEvent
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, rounding_norm, to_ticks
from sottovoce.privacy.neighbours import Neighbours

__all__ = [
    "noisy_count",
    "norm_counts",
    "number_of_counts",
    "release_label_location_and_scale",
    "release_row_norm",
]

_GRID: Final = 2.0 ** (-np.arange(24, -1, -1) / 2.0)  # from 1 / 4096 to 1, two edges a factor of 2
_LOCATION_STEPS: Final = 12
_SCALE_STEPS: Final = 5  # enough to bisect the 25 edges
_QUANTILE: Final = 0.9
_ROUNDED: Final = 1.000001  # rows of the same length, exactly that of an edge, are within it
_FEWEST, _MOST = 0.8, 0.98  # share of the rows that are most of them
_LOOSE: Final = 0.5  # a bound on the rows is taken to be loose when most of them keep half of it


def number_of_counts(*, located: bool) -> int:
    return _SCALE_STEPS + (_LOCATION_STEPS if located else 0)


def norm_counts(mu: float) -> RepeatedEvent:
    return RepeatedEvent(GaussianEvent(math.sqrt(_SCALE_STEPS) / mu), _SCALE_STEPS)


def release_row_norm(
    holder: Holder, *, n_public: int, neighbours: Neighbours, mu: float, noise: np.random.Generator
) -> tuple[float, RepeatedEvent]:
    """Release a bound that most rows keep, in units of the public one, by noisy bisection.

    Most are 98 % where the noise allows it, and never fewer than 80 %. The bound is on a geometric grid with two edges
    a factor of 2, from 1 / 4096 to 1. It is 1 where the public one is not loose, and the more likely so the larger the
    noise is: what is taken for a small norm should be one.
    """
    counting = _counting(_SCALE_STEPS, neighbours, mu)
    share = min(_MOST, max(_FEWEST, 1.0 - 2.0 * counting.noise_std / n_public))

    def inside(edge: float) -> bool:
        count = noisy_count(holder, CountWithin(edge * _ROUNDED), counting, noise)
        return count >= share * n_public + counting.noise_std

    edge = _first_edge(_GRID, inside)
    return edge if edge <= _LOOSE else 1.0, RepeatedEvent(counting.event, _SCALE_STEPS)


def release_label_location_and_scale(
    holder: Holder,
    targets: Targets,
    *,
    n_public: int,
    bound: float,
    located: bool,
    neighbours: Neighbours,
    mu: float,
    noise: np.random.Generator,
) -> tuple[float, float, Event]:
    """Release a median of the labels and a 90 % quantile of the distances from it, by noisy bisection.

    ``targets``: those of the first model are each within ``bound`` of 0.
    ``bound``: > 0; public bound on the absolute labels.
    ``located``: False takes 0 for the median and spends all on the scale.

    The location is on a grid of 2 bound / 4096 within the bounds, and 0 when not ``located``. The scale is on a
    geometric grid with two edges a factor of 2, from 1 / 4096 to 1 times the widest distance; where the noise is too
    large for that quantile, it is what a nearer one says of it for a normal law, at most the widest.
    """
    n_counts = number_of_counts(located=located)
    counting = _counting(n_counts, neighbours, mu)

    def enough(inside: Operation[Ticks], share: float) -> bool:
        return noisy_count(holder, inside, counting, noise) >= share * n_public

    location = 0.0
    if located:
        low, high = -bound, bound
        for _ in range(_LOCATION_STEPS):
            middle = 0.5 * (low + high)
            if enough(CountBelow(targets, middle), 0.5):
                high = middle
            else:
                low = middle
        location = 0.5 * (low + high)
    widest = bound + abs(location)
    # with much noise the tail cannot be told from nothing: a nearer quantile, and its ratio for a normal law
    share = min(_QUANTILE, max(0.5, 1.0 - 2.0 * counting.noise_std / n_public))
    ratio = float(ndtri(0.5 + 0.5 * _QUANTILE) / ndtri(0.5 + 0.5 * share))
    scale = _first_edge(widest * _GRID, lambda edge: enough(CountNear(targets, location, edge), share))
    return location, min(ratio * scale, widest), RepeatedEvent(counting.event, n_counts)


def _counting(n_counts: int, neighbours: Neighbours, mu: float) -> GridGaussian:
    """Return the mechanism of each of some counts that cost ``mu`` together."""
    multiplier, count = math.sqrt(n_counts) / mu, neighbours.count
    noise = power_of_two_below(count * multiplier)
    # counts are whole ticks, but for noise so large that ticks of 1 would be absurdly fine
    tick = max(min(1.0, noise * 2.0**-20), noise * 2.0**-42)
    return GridGaussian(count + (rounding_norm(1, tick) if tick > 1.0 else 0.0), multiplier, tick)


def noisy_count(holder: Holder, inside: Operation[Ticks], counting: GridGaussian, noise: np.random.Generator) -> float:
    ticks = lambda count: to_ticks(count.astype(np.float64), counting.tick)  # noqa: E731
    return float(holder.release(inside, counting, noise, ticks=ticks)[0])


def _first_edge(edges: Vector, enough: Callable[[float], bool]) -> float:
    """Return the first of 25 edges that is ``enough``, by bisection; the last one is taken to be."""
    first, last = 0, len(edges) - 1  # the answer is one of edges[first..last]
    for _ in range(_SCALE_STEPS):
        place = (first + last) // 2
        if enough(float(edges[place])):
            last = place
        else:
            first = min(place + 1, last)
    return float(edges[last])
