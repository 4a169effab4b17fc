r"""Intervals of ratios of noisy sums, which count the noise and the sampling.

A measure is a ratio :math:`\theta = A / B` of two functions of the released counts. An interval holds all values for
which :math:`A - \theta B` is not further from 0 than its standard deviation allows (Fieller [1]_):

.. math:: (A - \theta B)^2 \le z^2\, \mathrm{Var}(A - \theta B).

The variance is that of the noise, which is known, plus that of the rows, which is estimated from the counts; for a
share of counts it is that of a share :math:`\theta` (Wilson [2]_). Where the noise hides the denominator every value is
possible, and the interval says so. Means of measures of different rows are put together from their intervals (Zou,
Donner [3]_).

References
----------
.. [1] Fieller (1954). Some Problems in Interval Estimation. JRSS B 16(2).
.. [2] Wilson (1927). Probable Inference, the Law of Succession, and Statistical Inference. JASA 22(158).
.. [3] Zou, Donner (2008). Construction of confidence limits about effect measures. Statistics in Medicine 27(10).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import norm

from sottovoce._numerics import Vector
from sottovoce.evaluation.tables import Table


@dataclass(frozen=True)
class Measure:
    """An estimate with its interval."""

    value: float
    low: float
    high: float

    def map(self, function: "np.ufunc") -> "Measure":
        """Return a growing function of the measure."""
        return Measure(*(float(function(number)) for number in (self.value, self.low, self.high)))

    def within(self, least: float, most: float) -> "Measure":
        """Return the part of it that is possible."""
        return Measure(*(min(max(number, least), most) for number in (self.value, self.low, self.high)))


def share(table: Table, part: Vector, whole: Vector, level: float) -> Measure:
    """Return the share of the rows of some cells (``whole``) that is in some of them (``part``); both hold 0 and 1."""
    n = max(float(np.sum(table.cells * whole)), 0.0)
    return _interval(
        float(np.sum(table.cells * part)), n, np.array([[0.0, -0.5 * n], [-0.5 * n, -n]]) + _noise(table, part, whole),
        (0.0, 1.0), level,
    )  # fmt: skip


def ratio(
    table: Table, values: tuple[float, float], slopes: tuple[Vector, Vector], limits: tuple[float, float], level: float
) -> Measure:
    """Return a ratio of two functions of the counts, of these values and slopes."""
    return _interval(*values, _sampling(table, *slopes) + _noise(table, *slopes), limits, level)


def mean_of(measures: Sequence[Measure]) -> Measure:
    """Return the mean of shares of different rows.

    Of one that the noise hides the middle counts; it may be anything, so its whole interval is added to that of the
    others, where errors are independent and lessen each other.
    """
    hidden = [one.low <= 0.0 and one.high >= 1.0 for one in measures]
    measures = [replace(one, value=0.5) if unseen else one for one, unseen in zip(measures, hidden, strict=True)]
    value = sum(one.value for one in measures) / len(measures)

    def reach(lengths: Sequence[float]) -> float:
        seen = math.hypot(*(length for length, unseen in zip(lengths, hidden, strict=True) if not unseen))
        return (seen + 0.5 * sum(hidden)) / len(measures)

    low, high = reach([one.value - one.low for one in measures]), reach([one.high - one.value for one in measures])
    return Measure(value, value - low, value + high)


def _noise(table: Table, *slopes: Vector) -> Vector:
    flat = np.stack([slope.ravel() for slope in slopes])
    return np.asarray(table.noise_std**2 * flat @ flat.T)


def _sampling(table: Table, *slopes: Vector) -> Vector:
    """Return the sums over rows of products of what they add, as if each were on one node, less what sharing takes."""
    flat = np.stack([slope.ravel() for slope in slopes])
    sums = flat * table.cells.ravel() @ flat.T
    for side, axis in enumerate(table.axes):
        if axis is None:
            continue
        lines = np.moveaxis(table.cells, side, -1).reshape(-1, len(axis))
        kept = axis.between(lines)
        jumps = [
            np.diff(np.moveaxis(slope, side, -1).reshape(-1, len(axis)), axis=1)[:, axis.starts] for slope in slopes
        ]
        sums -= np.array([[np.sum(kept * one * other) for other in jumps] for one in jumps])
    values, vectors = np.linalg.eigh(sums)
    return np.asarray(vectors * np.maximum(values, 0.0) @ vectors.T)


def _interval(a: float, b: float, variance: Vector, limits: tuple[float, float], level: float) -> Measure:
    """Return all theta with (a - theta b)^2 <= z^2 Var(a - theta b), as far as they are within the limits."""
    least, most = limits
    z2 = float(norm.isf(0.5 * (1.0 - level))) ** 2
    square = b * b - z2 * variance[1, 1]
    middle, last = a * b - z2 * variance[0, 1], a * a - z2 * variance[0, 0]
    value = min(max(a / b, least), most) if b > 0.0 else math.nan
    if not (b > 0.0 and square > 0.0):
        return Measure(value, least, most)
    root = math.sqrt(max(middle * middle - square * last, 0.0))
    low, high = (middle - root) / square, (middle + root) / square
    return Measure(value, min(max(low, least), value), max(min(high, most), value))
