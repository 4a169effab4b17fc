"""X'X in whole numbers: the same, bit by bit, for every number of threads, of parts and of machines.

Entries of the scaled rows are cut toward zero to whole multiples of 2^-21. Their products are whole multiples of 2^-42,
at most 1 in size, so the products of 2,048 rows add up to less than 2^53 of these: exact in double precision in
whatever order a library adds them. Sums of pieces are whole numbers of two words. Cutting can only shorten a row, so
the bounds on its norm hold for what is summed. The one rounding is that of the finished sum to doubles.

Privacy: ``docs/privacy/newton.md``, ``docs/privacy/dp_scd.md``.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import add
from queue import SimpleQueue
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sottovoce._numerics import ROUNDING_SLACK, Vector
from sottovoce.central.core import Asked, Release
from sottovoce.central.data.labels import Targets
from sottovoce.central.data.operation import Columns, Operation, Ticks
from sottovoce.central.data.part import Part, Rows
from sottovoce.central.data.row_memory import LABEL
from sottovoce.central.kernels.calls import passes, whole
from sottovoce.central.sums.whole_numbers import WholeNumbers, WholeSum, most_rows
from sottovoce.privacy.adjacency import Neighbours
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, rounding_norm, to_ticks

MAX_WEIGHTS: Final = 4096  # a matrix of 128 MiB; its eigenvectors take a minute
_BITS: Final = 21  # of an entry
_GRID: Final = 2.0**_BITS
_MOST: Final = 2 ** (2 * _BITS)  # what a row adds to a product
_PIECE: Final = 2**11  # rows: their products are below 2^(11 + 42) = 2^53
_MOST_ENTRIES: Final = 2**24  # of the matrices that are added to at the same time
_PAIRS_PAY: Final = 7  # times as many columns as entries in a row: then pairs are faster than a dense product
_USEFUL_BITS: Final = 30  # ticks to a standard deviation of the noise
_MOST_BITS: Final = 58  # of the largest entry in ticks
_FEW: Final = 2**16  # rows of a sparse table at a time
Given = tuple[int, int, Rows, Vector]
# What a coordinate errs by, in units of 2^-53 of it: its own rounding, that of its factor, and that of the product.
_ROUNDINGS: Final = 8.0


@dataclass(frozen=True)
class LabelColumn:
    """The target of the first model as a further column of the rows: clip((t - location) / clip, -1, 1)."""

    location: float = 0.0  # public or released, as is the clip
    clip: float = 1.0

    def of(self, labels: NDArray[Any], targets: Targets) -> Vector:
        column: Vector = np.clip((targets.of(labels, 0) - self.location) / self.clip, -1.0, 1.0)
        return column


class Triangle(WholeNumbers):
    """The upper triangle of a symmetric matrix, line by line, in units of 2^-42."""

    @property
    def entries(self) -> Vector:
        """The entries in double precision, each rounded once."""
        return self.doubles(_GRID**2)

    @property
    def width(self) -> int:
        return _width(len(self.low))

    @property
    def matrix(self) -> Vector:
        return symmetric(self.entries)


@dataclass(frozen=True)
class Gram(Operation[Triangle]):
    """X'X of the scaled rows, with the intercept's column and, if wanted, one more."""

    label: LabelColumn | None = None  # the further column

    def width(self, columns: Columns) -> int:
        return columns.n_weights + (self.label is not None)

    def on(self, part: Part) -> Triangle:
        width = self.width(part)
        # fewer threads add at once where their matrices would need too much memory
        most = min(part.n_parts, _MOST_ENTRIES // width**2)
        adders = [Products(width) for _ in range(max(1, most))]
        free = SimpleQueue[Products]()  # sums are exact, so it does not matter who adds to which
        for adder in adders:
            free.put(adder)

        def task(place: int, lo: int, hi: int, block: Rows, *labels: NDArray[Any]) -> None:
            for first, end, rows, border in self.given(part, block, lo, hi, *labels):
                adder = free.get()
                try:
                    adder.add(rows, first, end, border)
                finally:
                    free.put(adder)

        part.sweep(task, reads=() if self.label is None else (LABEL,))
        found, upper = reduce(add, (adder.total() for adder in adders)), np.tri(width, dtype=bool).T
        return Triangle(found.high[upper], found.low[upper])

    def given(self, part: Part, rows: Rows, lo: int, hi: int, *labels: NDArray[Any]) -> Iterator[Given]:
        """Yield the ends of a range, the rows of which this range is added, and what it has in further columns."""
        border = (
            np.empty((hi - lo, 0)) if self.label is None else self.label.of(labels[0][lo:hi], part.targets)[:, None]
        )
        yield lo, hi, rows, border

    def allows(self, answer: object, n_rows: int, columns: Columns) -> bool:
        width = self.width(columns)
        return type(answer) is Triangle and answer.are_within((width * (width + 1) // 2,), n_rows * _MOST)


class Products:
    """One thread's sum of products of rows in whole steps.

    Dense rows are gathered to pieces, so that small blocks cost no more than large ones.
    """

    def __init__(self, width: int) -> None:
        self.sum, self._width, self._filled = WholeSum((width, width), _MOST), width, 0

    def add(self, rows: Rows, lo: int, hi: int, border: Vector) -> None:
        """Add the rows lo to hi of a block; ``border`` is what they have in further columns."""
        # with so few entries in a row a product entry by entry is faster than a dense one
        if sp.issparse(rows.raw) and rows.work * _PAIRS_PAY < rows.n_samples * rows.n_weights:
            for first in range(lo, hi, _FEW):
                end = min(first + _FEW, hi)
                words = self.sum.open(end - first)
                whole.add_pairs(rows.kernel, border[first - lo : end - lo], _GRID, first, end, words)
            return
        first = lo
        while first < hi:
            end = min(first + _PIECE - self._filled, hi)
            whole.fill(rows.kernel, border[first - lo : end - lo], _GRID, first, end, self._piece[self._filled :])
            self._filled += end - first
            first = end
            if self._filled == _PIECE:
                self._multiply()

    @cached_property
    def _piece(self) -> Vector:
        return np.empty((_PIECE, self._width))

    @cached_property
    def _product(self) -> Vector:
        return np.empty((self._width, self._width))

    def _multiply(self) -> None:
        piece = self._piece[: self._filled]
        np.matmul(piece.T, piece, out=self._product)
        self.sum.add(self._product, self._filled)
        self._filled = 0

    def total(self) -> WholeNumbers:
        if self._filled:
            self._multiply()
        return self.sum.total()


def _width(n_entries: int) -> int:
    return (math.isqrt(8 * n_entries + 1) - 1) // 2


def symmetric(entries: Vector) -> Vector:
    """Return the symmetric matrix of which ``entries`` are the upper triangle, line by line."""
    width = _width(len(entries))
    matrix = np.empty((width, width))
    upper = np.triu_indices(width)
    matrix[upper] = entries
    matrix.T[upper] = entries
    return matrix


def coordinate_factors(width: int, label_weight: float = 1.0) -> Vector:
    """Return what the upper triangle of X'X is multiplied by.

    The products are the coordinates (G_jj, sqrt(2) G_jk), j < k, whose length is the Frobenius norm, of the matrix G
    with the last column of X times ``label_weight``.
    """
    factors = np.full(width * (width + 1) // 2, math.sqrt(2.0))
    lines = np.arange(width)
    begins = lines * width - lines * (lines - 1) // 2  # a line begins with its entry of the diagonal
    factors[begins] = 1.0
    factors[begins + width - 1 - lines] *= label_weight  # and ends with the one of the last column
    factors[-1] *= label_weight
    return factors


def moments_mechanism(width: int, *, square: float, length: float, n_rows: int, mu: float) -> GridGaussian:
    """Return the mechanism that releases the coordinates of X'X in ticks, from public facts.

    ``square``: how far the sum of all u u' moves between neighbours, in Frobenius norm.
    ``length``: bound on |u|^2 of a row.
    ``n_rows``: most rows that there may be.
    """
    # the finished sums are rounded to doubles: so much of their Frobenius norm, for each table
    exact = square * ROUNDING_SLACK + 2.0 * _ROUNDINGS * 2.0**-53 * n_rows * length
    useful = power_of_two_below(exact / mu) * 2.0**-_USEFUL_BITS
    tick = max(useful, power_of_two_below(n_rows * length) * 2.0**-_MOST_BITS)
    return GridGaussian(exact + rounding_norm(width * (width + 1) // 2, tick), 1.0 / mu, tick)


def gram_mechanism(n_weights: int, n_public: int, neighbours: Neighbours, mu: float) -> GridGaussian:
    """Return the mechanism that releases the coordinates of `Gram` for rows at most 1 long, from public facts."""
    n_rows = most_rows(n_public, neighbours.adjacency)
    # a replaced row: |xx' - zz'| <= sqrt(2)
    return moments_mechanism(n_weights, square=neighbours.square_factor, length=1.0, n_rows=n_rows, mu=mu)


@dataclass(frozen=True)
class ReleasedGram(Gram):
    """The same in the coordinates that are released: entries beside the diagonal times sqrt(2)."""

    label_weight: float = 1.0  # > 0; public factor of the further column

    def protected(self, exact: Triangle, mechanism: Any) -> Ticks:
        weight = 1.0 if self.label is None else self.label_weight
        return to_ticks(exact.entries * coordinate_factors(exact.width, weight), mechanism.tick)

    def blank(self) -> Any:
        return np.zeros(1 if self.label is None else 3)


@dataclass(frozen=True, eq=False)
class CurvatureGram(ReleasedGram):
    """X'VX: each row x is shortened by the root of V, four times the logistic loss's second derivative at x.w."""

    w: Vector = field(kw_only=True)  # of shape (n_weights,); released, in the precision of the matrix

    def given(self, part: Part, rows: Rows, lo: int, hi: int, *labels: NDArray[Any]) -> Iterator[Given]:
        scores, scale = np.empty(rows.n_samples), rows.scale.copy()
        passes.margins(rows.kernel, part.weights(self.w), lo, hi, scores)
        with np.errstate(over="ignore"):
            root = 1.0 / np.cosh(0.5 * np.nan_to_num(scores[lo:hi], nan=0.0))
        scale[lo:hi] *= root
        # the constant is no column of the matrix, so it is shortened as a further one
        border = root[:, None] * rows.constant if rows.constant > 0.0 else np.empty((hi - lo, 0))
        yield lo, hi, rows._replace(scale=scale, constant=0.0), border


def gram(
    mechanism: GridGaussian, words: str, *, label: LabelColumn | None = None, label_weight: float = 1.0,
    at: Vector | None = None,
) -> Asked[Vector]:  # fmt: skip
    """Release X'X, or X'VX at some weights. The noise has variance s^2 on the diagonal and s^2 / 2 beside it.

    ``mechanism``: its sensitivity is in Frobenius norm.
    ``label``, ``label_weight``: a further column, and its public factor.
    ``at``: the weights, released.
    """
    ask = ReleasedGram(label, label_weight) if at is None else CurvatureGram(w=at)
    noisy = yield Release(words, ask, mechanism)
    return symmetric(noisy / coordinate_factors(_width(len(noisy))))
