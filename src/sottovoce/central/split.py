r"""How a budget is divided among what a solver releases before, in and after its steps; and the scales before them.

*Length of the rows.* A bisection of a fixed number of noisy counts finds a bound that most rows keep: where the
public one is loose, rows are shortened to it, and a loose bound costs no accuracy.

*Location and scale of the labels.* A count of rows moves by at most one for every adjacency. Two bisections of a fixed
number of noisy counts find a median and a quantile of the distances from it, inside the public bounds.

Proofs: ``docs/privacy/dp_scd.md``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from scipy.special import ndtri

from sottovoce._numerics import Vector
from sottovoce._validation import number
from sottovoce.central.calibration import calibrated, prior_for, shrunk
from sottovoce.central.core import Asked, Keep, Release, Steps
from sottovoce.central.data.labels import BeginModel, CountBelow, CountNear
from sottovoce.central.data.lengths import CountWithin, Shorten
from sottovoce.central.data.operation import Count
from sottovoce.central.plan import HARDLY_ANY_NOISE, TrainingFacts
from sottovoce.central.sums.histograms import CountDistances, distances_mechanism
from sottovoce.central.sums.largest_eigenvalue import largest_eigenvalue
from sottovoce.central.sums.last_factors import line_moments
from sottovoce.privacy.adjacency import Neighbours
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, rounding_norm, shared

AFTER_STEPS: Final = "the weights after every step (the model is an average of them)"
State = tuple[Vector, ...]  # the point where a model is, and whatever else its steps need

_ORIGIN: Final[State] = (np.zeros(1),)  # one entry stands for all weights
_SHARE: Final = 0.02  # of mu^2, for each estimated scale
# Over mu n: the share of the labels' scales where a slope follows. Bisections that err would move and cut all labels.
_LABELS: Final = 20.0
_MOST_OF_LABELS: Final = 0.2
_NORM_SHARE: Final = 0.01  # of mu^2, for the length of the rows

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
_IN_PARTS: Final = "counts of the labels in equal parts of their bounds, noisy"
MEAN: Final = "noisy sums of predictions, their squares, residuals and products of both: a mean of the labels follows"
_UNIT: Final = "a unit for the labels (a median of the distances from their mean, rounded up to a power of 2), noisy"
_PARTS: Final = 16
_HELD: Final = 0.8  # share of the rows that are most
_UNIT_STEPS: Final = 3  # enough to bisect the 8 powers of 2 from 1 / 128 to 1
_ROUNDED: Final = 1.000001  # rows of the same length, exactly that of an edge, are within it
_FEWEST, _MOST = 0.8, 0.98  # share of the rows that are most of them
_LOOSE: Final = 0.5  # a bound on the rows is taken to be loose when most of them keep half of it
# The same for two classes: far rows are often those that no line fits, and a shortened one pulls less.
_MOST_OF_TWO, _LOOSE_OF_TWO = 0.75, 0.75


def most_rows_bound(n_public: int, neighbours: Neighbours, mu: float, *, two: bool) -> Asked[float]:
    """Release a bound that most rows keep, in units of the public one, by noisy bisection.

    Most are 75 % for two classes, and else 98 % where the noise allows it, and never fewer than 80 %. The bound is on a
    geometric grid with two edges a factor of 2, from 1 / 4096 to 1. It is 1 where the public one is not loose, and the
    more likely so the larger the noise is: what is taken for a small norm should be one.
    """
    counting = _counting(_SCALE_STEPS, neighbours, mu)
    share = _MOST_OF_TWO if two else min(_MOST, max(_FEWEST, 1.0 - 2.0 * counting.noise_std / n_public))
    enough = share * n_public + counting.noise_std
    edge = yield from _first_edge(_GRID, lambda edge: CountWithin(edge * _ROUNDED), enough, counting, _OF_ROWS)
    bound = edge if edge <= (_LOOSE_OF_TWO if two else _LOOSE) else 1.0
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
    counting = _counting(_SCALE_STEPS + _LOCATION_STEPS * located, neighbours, mu)
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


def mean_and_unit(facts: TrainingFacts, mu: float) -> Asked[tuple[float, float]]:
    """Release a mean of the labels, and the median of their distances from it, each times a bound on its row's norm.

    The median is the next power of two times the widest distance: steps cut what rows pull, which is as long.

    ``mu``: of each of three releases: counts in equal parts of the bounds, the sum of the labels within those that hold
        most of them, and the bisection for the unit, which is all where there is no intercept: the mean is then 0.
    """
    n, location, neighbours = facts.n_samples, 0.0, facts.neighbours
    assert facts.label_bound is not None
    bound: float = facts.label_bound
    yield BeginModel(0)
    if facts.constant > 0.0:
        counting = distances_mechanism(neighbours, mu, _PARTS)
        noisy = yield Release(_IN_PARTS, CountDistances(None, bound, _PARTS), counting)
        near, far = noisy[: _PARTS // 2], noisy[_PARTS // 2 :]
        middle, half = _most_labels(np.append(near[::-1], far), n, counting.noise_std)
        yield BeginModel(0, bound * middle)
        (*_, left), _ = yield from line_moments(np.zeros(1), bound * half, neighbours, mu, MEAN)
        mean = bound * (middle + half * min(max(-1.0, left / n), 1.0))
        location = yield Keep(LOCATION, mean, partial(number, at_least=-bound, at_most=bound), 0.0)
        yield BeginModel(0, location)
    widest, counting = bound + abs(location), _counting(_UNIT_STEPS, neighbours, mu)
    edges = widest * _GRID[1 - 2 ** (_UNIT_STEPS + 1) :: 2]
    edge = yield from _first_edge(edges, partial(CountNear, location, by_length=True), 0.5 * n, counting, _UNIT)
    unit = yield Keep(LABEL, edge, partial(number, above=0.0), widest)
    return location, unit


def _most_labels(counts: Vector, n_public: int, noise_std: float) -> tuple[float, float]:
    """Return middle and half width of the fewest neighbouring parts that surely hold most, for bounds of -1 and 1."""
    for width in (1, 2, 3, 4, 6):
        held = np.convolve(counts, np.ones(width), "valid")
        first = int(held.argmax())
        if held[first] >= _HELD * n_public + math.sqrt(width) * noise_std:
            low, high = max(0, first - 1), min(len(counts), first + width + 1)  # and one on either side
            return (low + high) / len(counts) - 1.0, (high - low) / len(counts)
    return 0.0, 1.0


@shared
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
    """Return the first of 25 or 8 edges with ``enough`` rows, by bisection; the last one is taken to have them."""
    first, last = 0, len(edges) - 1  # the answer is one of edges[first..last]
    for _ in range(last.bit_length()):
        place = (first + last) // 2
        (noisy,) = yield Release(words, count(float(edges[place])), counting)
        first, last = (first, place) if noisy >= enough else (min(place + 1, last), last)
    return float(edges[last])


@dataclass(frozen=True)
class Scales:
    """Noisy scales of the data, released; one that is not estimated has its public value."""

    norm: float = 1.0
    eigenvalue: float = 1.0
    location: float = 0.0
    label: float = 1.0


class _Shares:
    """What follows: mu is the Gaussian-DP parameter of a release."""

    whole: float  # mu of the whole run
    # False for budgets that hardly are any: a run then tends to the penalised optimum, length and all.
    is_noisy: bool
    # Whether a bound that most rows keep is released within the public one: not where there is hardly any noise that it
    # could lessen, nor where no bound is public, for then one was released.
    shortens_rows: bool
    share_of_norm: float  # of mu^2
    norm: float  # mu for the length of the rows
    scale: float  # mu for lambda_max
    of_labels: float  # mu for the labels: 0 where nothing is released of them
    slopes: float  # mu for slope and shift of all models together
    steps: float  # mu that is left for the steps of all models together
    model: float  # mu that is left for the steps of each model


@dataclass(frozen=True, kw_only=True)
class Split(_Shares):
    """The Gaussian-DP parameter of each release of a run, from public facts; the squares add up to mu^2.

    Parameters
    ----------
    shortens : bool
        Whether the solver gains from a bound that most rows keep, which is then released within a public one.
    eigenvalue, labels : bool
        Whether lambda_max, and two numbers on the labels, are released.
    others : float
        Share of mu^2 for what the solver releases once, beside its steps.
    calibration : float
        Share of mu^2 for slope and shift of the finished models.
    """

    facts: TrainingFacts
    shortens: bool = False
    eigenvalue: bool = False
    labels: bool = False
    others: float = 0.0
    calibration: float = 0.0

    def __post_init__(self) -> None:
        whole = gaussian_mu(self.facts.epsilon, self.facts.delta)
        noisy, scale = whole <= HARDLY_ANY_NOISE, whole * math.sqrt(_SHARE)
        shortens = self.shortens and noisy and not self.facts.releases_norm
        norm = _NORM_SHARE * shortens + self.facts.share_of_norm
        label = _SHARE * self.labels
        if self.labels and self.calibration:
            label = min(_MOST_OF_LABELS, max(_SHARE, _LABELS / (whole * self.facts.n_units)))
        scales = norm + _SHARE * self.eigenvalue + label
        steps = whole * math.sqrt(1.0 - self.others - scales - self.calibration)
        vars(self).update(
            whole=whole, is_noisy=noisy, shortens_rows=shortens, share_of_norm=norm, norm=whole * math.sqrt(norm),
            scale=scale, of_labels=whole * math.sqrt(label), slopes=whole * math.sqrt(self.calibration),
            steps=steps, model=steps / math.sqrt(self.facts.n_models),
        )  # fmt: skip

    def scales(self) -> Asked[Scales]:
        """Release the scales as planned; rows are shortened to the bound that was found."""
        facts, norm, eigenvalue, location, label = self.facts, 1.0, 1.0, 0.0, 1.0
        if self.shortens_rows:
            two = facts.n_models == 1 and facts.loss.is_classification
            norm = yield from most_rows_bound(facts.n_samples, facts.neighbours, self.norm, two=two)
        if norm < 1.0:
            yield Shorten(norm)
        if self.eigenvalue:
            eigenvalue = yield from largest_eigenvalue(
                facts.n_weights, facts.n_samples, facts.neighbours, self.scale, entry=facts.entry
            )
        if self.labels:
            assert facts.label_bound is not None
            location, label = yield from label_location_and_scale(
                facts.n_samples, facts.label_bound, facts.neighbours, self.of_labels, located=facts.constant > 0.0
            )
        return Scales(norm, eigenvalue, location, label)

    def calibrated(self, weights: Vector, scales: Scales, model: int) -> Asked[Vector]:
        """Return finished weights of the model at work with slope and shift as planned."""
        if not self.calibration:
            return weights
        facts, mu = self.facts, self.slopes / math.sqrt(self.facts.n_models)
        if not facts.loss.is_classification:
            return (yield from shrunk(weights, scales.label, mu, facts, model))
        prior = prior_for(self.model * facts.n_units, facts, scales.eigenvalue, self.scale * facts.n_samples)
        return (yield from calibrated(weights, prior, mu, facts, model))


def averaged(
    step: Callable[[int, State, tuple[int, int]], Asked[State]],
    start: State,
    n_points: int,
    share: float,
    *,
    unit: float = 1.0,
    model: tuple[int, int] = (0, 1),
    apart: int = 0,
) -> Asked[Vector]:
    """Take noisy steps, and return the mean of the last points: all of them are released.

    ``step``: takes the number of a step, the state before it, and what a progress bar is told with it.
    ``start``: one entry of the point stands for all weights.
    ``share``: share of the points, the last ones, that the mean is over.
    ``unit``: what a point is divided by to be weights.
    ``model``: which model it is, and of how many, for the progress bar.
    ``apart``: the one step that releases other things than all others.
    """
    (place, of), state, total = model, start, np.zeros_like(start[0])
    last = max(1, round(share * n_points))

    def one(number: int) -> Asked[None]:
        nonlocal state, total
        state = yield from step(number, state, (place * n_points + number + 1, n_points * of))
        if number >= n_points - last:
            total = total + state[0]

    for numbers in (range(apart), range(apart, min(apart + 1, n_points)), range(apart + 1, n_points)):
        yield Steps(numbers, one)
    return total / (last * unit)


def one_by_one(
    split: Split,
    scales: Scales,
    step: Callable[[int, State, tuple[int, int]], Asked[State]],
    n_points: int,
    share: float,
    *,
    start: State = _ORIGIN,
    duals: tuple[tuple[str, int | None], ...] = (),
    unit: float = 1.0,
) -> Asked[list[Vector]]:
    """Train one model for each target by the same noisy steps; return their weights for rows as they were.

    ``duals``: columns of dual variables, zeros when a model is begun, and how many numbers each has for a row.
    The rest is as in `averaged`.
    """
    weights, n_models = [], split.facts.n_models
    for model in range(n_models):
        yield BeginModel(model, scales.location, duals)
        point = yield from averaged(step, start, n_points, share, unit=unit, model=(model, n_models))
        found = yield from split.calibrated(point, scales, model)
        weights.append(unshortened(found, scales.norm, split.facts.n_features))
    return weights


def unshortened(weights: Vector, norm: float, n_features: int) -> Vector:
    """Return weights for rows as they were before they were shortened to ``norm``."""
    found = np.array(weights)
    found[..., :n_features] /= norm
    return found
