r"""Histograms that lose little: a row shares its count between the two nodes beside its score.

Let :math:`\varphi_j` be the hat functions on the nodes of an axis: piecewise linear, 1 at node j and 0 at the others.
They add up to 1, so a row adds exactly one to the counts, and a mean of f over rows is read off them as
:math:`\sum_j c_j f_j`, where f_j are the values at the nodes of the L2 projection of f onto the hats. That is exact
whatever f is if the density of the scores is piecewise linear, and its error is of fourth order in the distance of the
nodes where both are smooth: a dozen nodes are enough, and each cell that is saved is noise that is saved.

An axis has pieces: a score on the one side of a threshold never adds to a node on the other side, so that counts on
both sides of it are exact. An axis may have a centre: a row is then shared so that the sum of squares of distances to
it is exact, whatever the rows are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import Vector

_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(8)
# integrals over two points u > v of one interval of length 1; hats: falling, rising
_SAME: Final = np.array([[1 / 8, 1 / 24], [5 / 24, 1 / 8]])


@dataclass(frozen=True)
class Axis:
    """Nodes on a line."""

    # Growing nodes of each piece, at least two; a piece ends where the next one begins.
    pieces: tuple[tuple[float, ...], ...]
    centre: float | None = None  # a node; shares are then linear in the signed square of the distance to it

    @cached_property
    def nodes(self) -> Vector:
        """All nodes; the end of a piece and the start of the next one are two."""
        return np.concatenate([np.array(piece) for piece in self.pieces])

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Where each interval between two nodes begins."""
        lengths = np.cumsum([len(piece) for piece in self.pieces])
        return np.setdiff1d(np.arange(len(self.nodes) - 1), lengths - 1).astype(np.int64)

    @property
    def steps(self) -> Vector:
        return self.nodes[self.starts + 1] - self.nodes[self.starts]

    def __len__(self) -> int:
        return len(self.nodes)

    def places(self, values: Vector, parts: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the node on the left of each value, and how many of ``parts`` its right neighbour gets.

        Total: values beyond the ends count as the ends, and NaN as the first node.
        """
        cut = np.clip(np.nan_to_num(values, nan=-np.inf), self.nodes[0], self.nodes[-1])
        interval = np.clip(np.searchsorted(self.nodes[self.starts], cut, side="right") - 1, 0, len(self.starts) - 1)
        left = self.starts[interval]
        with np.errstate(divide="ignore", invalid="ignore"):  # between two nodes that are one the share is 0 or 1
            share = np.clip(np.nan_to_num(self._rising(left, cut)), 0.0, 1.0)
        return left, np.rint(parts * share).astype(np.int64)

    def _rising(self, left: Any, values: Vector) -> Vector:
        """Return the share of the right one of two nodes, for values between them."""
        low, high = (self._measured(self.nodes[at]) for at in (left, left + 1))
        return np.asarray((self._measured(values) - low) / (high - low))

    def _measured(self, values: Vector) -> Vector:
        if self.centre is None:
            return values
        away = values - self.centre
        return np.sign(away) * away**2

    @cached_property
    def _mass(self) -> Vector:
        """The integrals of products of two hats."""
        mass = np.zeros((len(self), len(self)))
        for start, step in zip(self.starts.tolist(), self.steps.tolist(), strict=True):
            points = self.nodes[start] + 0.5 * step * (1.0 + _POINTS)
            rising = self._rising(start, points)
            hats = np.stack([1.0 - rising, rising])
            mass[start : start + 2, start : start + 2] += 0.5 * step * (hats * _WEIGHTS) @ hats.T
        return mass

    def project(self, function: Callable[[Vector], Vector], *breaks: float) -> Vector:
        """Return the values at the nodes of the projection of a function, which may jump at ``breaks``."""
        return np.asarray(np.linalg.solve(self._mass, self._integrals(function, *breaks)), dtype=np.float64)

    def averages(self, function: Callable[[Vector], Vector]) -> Vector:
        """Return the mean of a function over the rows that add to each node, as if they were spread evenly."""
        return self._integrals(function) / self._integrals(np.ones_like)

    def _integrals(self, function: Callable[[Vector], Vector], *breaks: float) -> Vector:
        right = np.zeros(len(self))
        for start in self.starts.tolist():
            low, high = self.nodes[start : start + 2]
            ends = np.unique(np.clip([low, high, *breaks], low, high))
            for a, b in pairwise(ends.tolist()):
                points = 0.5 * (a + b) + 0.5 * (b - a) * _POINTS
                values = 0.5 * (b - a) * _WEIGHTS * function(points)
                rising = self._rising(start, points)
                right[start : start + 2] += (1.0 - rising) @ values, rising @ values
        return right

    @cached_property
    def above(self) -> Vector:
        """The projection of 1[u > v] in both arguments, one half where they are equal."""
        right = np.zeros((len(self), len(self)))
        halves = 0.5 * self.steps
        for one, (start, step) in enumerate(zip(self.starts, self.steps, strict=True)):
            right[start : start + 2, start : start + 2] += step * step * _SAME
            for other in range(one):
                below = self.starts[other]
                right[start : start + 2, below : below + 2] += halves[one] * halves[other]
        half = np.linalg.solve(self._mass, right)
        return np.asarray(np.linalg.solve(self._mass, half.T).T, dtype=np.float64)

    def between(self, counts: Vector) -> Vector:
        """Return the sum over rows of the product of the two shares of a row, for each interval; a line at a time."""
        density = np.linalg.solve(self._mass, counts.T).T
        both = np.diag(self._mass, 1)[self.starts]
        found: Vector = 0.5 * both * np.maximum(density[:, self.starts] + density[:, self.starts + 1], 0.0)
        return found
