r"""Where the columns of a table lie and how wide they are, from noisy histograms.

Round one counts, for each column, entries by sign and power of two, from 2^-40 to 2^40: a row is in one cell of each
column, so all histograms together have the sensitivity sqrt(d) whatever the number of cells is. The next rounds count
in 32 equal cells around what was found, for those columns alone that are narrow against their distance from 0, such as
years; their number is released already, and the fewer they are the less noise they get.

What is made of the noisy counts costs nothing. Round one compares them with a list of laws (a normal one at some
multiples of its width from 0, in powers of two, with some zeros) by their likelihood under the known noise; what is
likely for one column is made more likely for the others, so that columns that noise hides follow those that it shows.
Location and scale are mean and deviation of what is expected *given the noise*: the less it shows, the larger the scale
and the less a column can do harm.

Privacy: Gaussian mechanisms on whole numbers. Statement and proof: ``docs/privacy/scaler.md``.
"""

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, softmax

from sottovoce._numerics import Vector
from sottovoce._validation import truth
from sottovoce.central.core import Asked, Keep, Release, Unprotected, replay
from sottovoce.central.plan import FrozenPlan
from sottovoce.central.sums.histograms import (
    CELLS,
    HIGH,
    LOW,
    OCTAVES,
    ZOOM_CELLS,
    CountCells,
    CountMagnitudes,
    columns_mechanism,
)
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.events import Event

_WIDE: Final = 3.0  # scales on either side of the location that a zoom looks at
_ZOOM_FROM: Final = 20.0  # signal from which zooms are worth their share
_ROUND_SHARES: Final = (0.5, 0.25, 0.25)  # of mu^2: powers of two, and two zooms
_LEAST_SIGNAL: Final = 2.0  # below it the noise hides each column, and nothing is released
_MISFIT: Final = 0.01  # of the rows, in a cell: no law of the list is quite that of a column
_CAUTIOUS: Final = 0.9  # quantile of the magnitudes that are likely
_POOL: Final = 0.8  # share of what columns tell each other
_POOLED_ROUNDS: Final = 20
_MOST_POOLED: Final = 1024  # columns that tell the others; of more, so many at equal distances
_NARROW: Final = 1.5  # location over scale from which a zoom is worthwhile
_FEW_ZEROS: Final = 0.25


@dataclass(frozen=True, kw_only=True)
class ColumnScalesPlan(FrozenPlan):
    """Public facts and privacy parameters of a release of locations and scales."""

    what = "A scaler"
    # The budget; ``epsilon=inf`` adds no noise.
    epsilon: float
    delta: float
    share: float = 1.0  # in [0, 1]; of mu^2 of that budget that is spent here; 0 releases nothing
    adjacency: Adjacency
    n_samples: int  # public number of rows, or a stand-in for it
    n_features: int
    centred: bool = True  # whether locations are released too
    cut: float = math.inf  # where scaled entries are cut; infinite where they are not
    # Public lower and upper bounds: one for each column, or one for all; None is +-2^40.
    bounds: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    max_rows_per_group: int | None = None  # rows of one person that are used; None where the unit is a row

    @cached_property
    def mu(self) -> float:
        return math.sqrt(self.share) * gaussian_mu(self.epsilon, self.delta) if self.is_private else math.inf

    @property
    def per_column(self) -> float:
        """How far a row, or the rows of a person, can move the histogram of one column (L2)."""
        return Neighbours(self.adjacency, self.max_rows_per_group or 1).square_factor

    @property
    def signal(self) -> float:
        """Number of rows over the noise of a count, if all of mu were spent on one round."""
        return signal_of(self.mu, self.n_samples, self.n_features, self.per_column) if self.share > 0.0 else 0.0

    @property
    def rounds(self) -> tuple[float, ...]:
        """Shares of mu^2 of the rounds: of powers of two, unless bounds are given, then zooms; none, if too few."""
        if not self.signal >= _LEAST_SIGNAL:
            return ()
        zooms: tuple[float, ...] = _ROUND_SHARES[1:] if self.centred and self.signal >= _ZOOM_FROM else ()
        if self.bounds is not None:  # the first zoom is for all columns, within the bounds
            zooms = zooms or (1.0,)
            return tuple(share / sum(zooms) for share in zooms)
        shares: tuple[float, ...] = (_ROUND_SHARES[0], *zooms)
        return tuple(share / sum(shares) for share in shares)

    @cached_property
    def event(self) -> Event:
        return replay(lambda: column_scales(self)).event

    def details(self) -> dict[str, object]:
        return {
            "share of mu^2 for the scaler": self.share,
            "rounds of histograms": len(self.rounds),
            "locations are released": self.centred and bool(self.rounds),
            "scaled entries are cut at": self.cut if self.rounds else math.inf,
        }

    def event_in_words(self) -> str:
        return self.event.describe()


def signal_of(mu: float, n_samples: int, n_features: int, per_column: float) -> float:
    """Return the number of rows over the noise of one count of histograms of all columns that cost ``mu``."""
    return n_samples * mu / (per_column * math.sqrt(n_features))


class ColumnScales(NamedTuple):
    """What was released; both are finite, and scales are positive."""

    location: Vector  # of shape (n_features,), as is scale
    scale: Vector


def column_scales(plan: ColumnScalesPlan) -> Asked[ColumnScales]:
    """Release where columns lie and how wide they are, of rows that are finite."""
    rounds, n_rows = list(plan.rounds), float(plan.n_samples)
    if not rounds:
        return ColumnScales(*(np.broadcast_to(value, plan.n_features) for value in (0.0, 1.0)))  # takes no memory
    if plan.bounds is None:
        counts, std = yield from _released(CountMagnitudes(), plan.n_features, plan, rounds.pop(0))
        n_rows = _rows_seen(counts, std, plan)
        location, scale, zoomed = _from_magnitudes(counts, n_rows, std, centred=plan.centred)
    else:
        low, high = (np.array(bound) for bound in plan.bounds)  # of one entry, or of one for each column
        location, scale = 0.5 * low + 0.5 * high, (0.5 * high - 0.5 * low) / _WIDE
        zoomed = np.ones(1, bool)
    for number, share in enumerate(rounds):
        goes_on: bool = yield Keep(f"zoom {number + 1}", bool(zoomed.any()), truth, True)
        if not goes_on:
            break
        bounded = plan.bounds is not None and number == 0  # all columns
        columns = np.flatnonzero(zoomed) if zoomed.any() else np.arange(1)
        at: Any = slice(None) if bounded else columns
        unit = 2.0 * _WIDE * scale[at] / ZOOM_CELLS
        low = location[at] - _WIDE * scale[at]
        ask = CountCells(None if bounded else tuple(columns.tolist()), low, unit)
        counts, std = yield from _released(ask, plan.n_features if bounded else len(columns), plan, share)
        middle, spread = _from_cells(counts, n_rows, std, near=math.inf if bounded else ZOOM_CELLS / (2.0 * _WIDE))
        if bounded:
            location, scale, zoomed = low + middle * unit, spread * unit, spread < 2.0
        else:
            location[columns], scale[columns], zoomed[columns] = low + middle * unit, spread * unit, spread < 2.0
    if not plan.centred:
        location, scale = np.zeros(len(location)), np.hypot(location, scale)
    return ColumnScales(location, scale)


def _released(
    ask: CountMagnitudes, n_columns: int, plan: ColumnScalesPlan, share: float
) -> Asked[tuple[Vector, float]]:
    """Return noisy counts of shape (columns, cells), and the standard deviation of their noise."""
    cells = ZOOM_CELLS if isinstance(ask, CountCells) else CELLS
    if not plan.is_private:
        exact = yield Release("", ask, Unprotected())
        return np.asarray(exact, np.float64).reshape(-1, cells), 0.0
    mechanism = columns_mechanism(n_columns, n_columns * cells, plan.per_column, math.sqrt(share) * plan.mu)
    noisy = yield Release("", ask, mechanism)
    return noisy.reshape(-1, cells), mechanism.noise_std


def _rows_seen(counts: Vector, std: float, plan: ColumnScalesPlan) -> float:
    """Return the number of rows for likelihoods: the public one, unless it is a stand-in and the counts tell better."""
    if plan.adjacency is not Adjacency.ADD_REMOVE and plan.max_rows_per_group is None:
        return plan.n_samples
    told, off = float(counts.sum()) / len(counts), std * math.sqrt(counts.shape[1] / len(counts))
    return max(told, off, 1.0) if off < plan.n_samples / 3.0 else plan.n_samples


class _Laws(NamedTuple):
    """A list of laws: shares of the cells, and what each one says; shape of lists (magnitudes, kinds)."""

    shares: Vector
    mean: Vector
    deviation: Vector
    zeros: Vector
    prior: Vector


@cache
def _laws() -> _Laws:
    """Return normal laws by width and distance from 0, with some zeros among them."""
    edges = 2.0 ** np.arange(LOW, HIGH)
    cuts = np.concatenate([-edges[::-1], edges])
    width = 2.0 ** np.arange(LOW + 4, HIGH)  # not so small that it is all in the cell next to 0
    off = [
        (0.0, 1.0),
        *((sign * r, w) for r, w in ((1.0, 0.5), (2.0, 0.5), (4.0, 0.5), (8.0, 0.25)) for sign in (1, -1)),
    ]
    empty = [(0.0, 1.0), *((share, 0.25) for share in (0.5, 0.8, 0.95, 0.99))]
    kinds = [(r, w, none, v) for r, w in off for none, v in empty]
    r, weight, none, rare = np.array(kinds).T
    scaled = cuts / width[:, None]
    below = ndtr(scaled[:, None, :] - r[:, None])
    shares = np.diff(below, axis=2, prepend=0.0, append=1.0) * (1.0 - none)[:, None]
    shares[:, :, OCTAVES] += none
    mean = width[:, None] * r * (1.0 - none)
    square = width[:, None] ** 2 * (r**2 + 1.0) * (1.0 - none)
    # magnitudes near 1 are a little more likely, before anything is seen
    far = np.exp(-np.abs(np.log2(width)) / 8.0)
    prior = np.log(far / far.sum())[:, None] + np.log(weight * rare / (weight * rare).sum())
    return _Laws(shares, mean, np.sqrt(square - mean**2), np.broadcast_to(none, mean.shape), prior)


def _from_magnitudes(
    counts: Vector, n_rows: float, std: float, *, centred: bool
) -> tuple[Vector, Vector, NDArray[np.bool_]]:
    """Return location and scale of each column, and whether a zoom would tell more."""
    laws = _laws()
    shape, flat = laws.prior.shape, laws.shares.reshape(-1, CELLS)
    pooled = counts[:: -(-len(counts) // _MOST_POOLED)]
    fits, prior = _fits(pooled, flat, n_rows, std).reshape(-1, *shape), laws.prior
    for _ in range(_POOLED_ROUNDS):
        likely = softmax(fits + prior, axis=(1, 2)).mean(axis=0)
        prior = sum(
            np.log(
                _POOL * likely.sum(axis=axis, keepdims=True)
                + (1.0 - _POOL) * np.exp(laws.prior).sum(axis=axis, keepdims=True)
            )
            for axis in (0, 1)
        )
    magnitude = 0.5 * np.log2(laws.mean**2 + laws.deviation**2).ravel()
    order = np.argsort(magnitude, kind="stable")
    mean, deviation, zeros = laws.mean.ravel(), laws.deviation.ravel(), laws.zeros.ravel()
    found = []
    for lo in range(0, len(counts), _MOST_POOLED):
        likely = softmax(_fits(counts[lo : lo + _MOST_POOLED], flat, n_rows, std) + prior.ravel(), axis=1)
        place = (np.cumsum(likely[:, order], axis=1) >= _CAUTIOUS).argmax(axis=1)
        # a mean over all magnitudes would be that of the largest, however unlikely
        likely *= np.abs(magnitude - magnitude[order][place][:, None]) <= 1.5
        likely /= likely.sum(axis=1, keepdims=True)
        location = likely @ mean
        found.append(
            (location, np.sqrt(np.maximum(likely @ (mean**2 + deviation**2) - location**2, 0.0)), likely @ zeros)
        )
    location, scale, empty = (np.concatenate(part) for part in zip(*found, strict=True))
    return location, scale, (np.abs(location) > _NARROW * scale) & (empty < _FEW_ZEROS)


def _from_cells(counts: Vector, n_rows: float, std: float, *, near: float) -> tuple[Vector, Vector]:
    """Return mean and deviation of each column, in cells; ``near`` is the deviation that was expected, if any was."""
    middles, spreads = np.meshgrid(
        np.linspace(0.0, ZOOM_CELLS, 2 * ZOOM_CELLS + 1), 2.0 ** np.arange(-1.0, 4.1, 0.5), indexing="ij"
    )
    m, s = middles.ravel(), spreads.ravel()
    below = ndtr((np.arange(1, ZOOM_CELLS) - m[:, None]) / s[:, None])
    shares = np.diff(below, axis=1, prepend=0.0, append=1.0)
    prior = np.zeros(len(m))
    if math.isfinite(near):
        prior = -0.5 * ((m - 0.5 * ZOOM_CELLS) / near) ** 2 - 0.5 * (np.log2(s / near) / 1.5) ** 2
    likely = softmax(_fits(counts, shares, n_rows, std) + prior, axis=1)
    mean = likely @ m
    return mean, np.sqrt(np.maximum(likely @ (m**2 + s**2) - mean**2, 0.25))


def _fits(counts: Vector, shares: Vector, n_rows: float, std: float) -> Vector:
    """Return log-likelihoods of shape (columns, laws), up to a constant of the column."""
    variance = std**2 + (_MISFIT * n_rows) ** 2
    fits: Vector = (n_rows * (counts @ shares.T) - 0.5 * n_rows**2 * (shares**2).sum(axis=1)) / variance
    return fits
