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
from functools import cached_property, lru_cache, reduce
from operator import add
from queue import SimpleQueue
from typing import Any, Final, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sottovoce._numerics import ROUNDING_SLACK, Vector
from sottovoce.central.core import Asked, Release
from sottovoce.central.data.labels import Targets
from sottovoce.central.data.operation import Columns, Operation, Ticks, are_ticks
from sottovoce.central.data.part import Part, Rows
from sottovoce.central.data.row_memory import LABEL
from sottovoce.central.kernels.calls import passes, whole
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, rounding_norm, shared, to_ticks

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

# of the words of sums: a number is high * 2^32 + low with 0 <= low < 2^32, so that equal sums are equal words
_SHIFT: Final = 32
_MASK: Final = 2**_SHIFT - 1
_ROOM: Final = 2**62  # what a word may hold at most
MOST_ROWS: Final = 10  # the true number of rows over its public stand-in, up to which rounding errors are bounded


@dataclass(frozen=True)
class LabelColumn:
    """The target of the first model as a further column of the rows: clip((t - location) / clip, -1, 1)."""

    location: float = 0.0  # public or released, as is the clip
    clip: float = 1.0

    def of(self, labels: NDArray[Any], targets: Targets) -> Vector:
        column: Vector = np.clip((targets.of(labels, 0) - self.location) / self.clip, -1.0, 1.0)
        return column


@dataclass(frozen=True)
class WholeNumbers:
    """An array of whole numbers within +-2^94."""

    # Of the same shape; low is within [0, 2^32).
    high: Ticks
    low: Ticks

    def __add__(self, other: Self) -> Self:
        low = self.low + other.low
        return type(self)(self.high + other.high + (low >> _SHIFT), low & _MASK)

    def are_within(self, shape: tuple[int, ...], most: int) -> bool:
        """Return whether these are words of that shape, of numbers of at most ``most`` in size, up to its rounding."""
        if not (are_ticks(self.low, shape, 0, _MASK) and are_ticks(self.high, shape, -_ROOM, _ROOM)):
            return False
        return float(np.max(np.abs(self.doubles(1.0)), initial=0.0)) <= most

    def doubles(self, unit: float) -> Vector:
        """Return the numbers in units of ``unit``, a power of two: each rounded once."""
        # |high| is below 2^53 as long as the number is below 2^85, so that the one rounding is that of the sum
        whole = self.high.astype(np.float64)
        whole *= 2.0**_SHIFT
        whole += self.low
        whole *= 1.0 / unit
        return whole


class WholeSum:
    """A growing sum in one word a number, which is carried over to a second one in good time.

    ``most``: what one row adds to a number at most, in absolute value.
    """

    def __init__(self, shape: tuple[int, ...], most: int) -> None:
        self.words = np.zeros(shape, np.int64)
        self._high: Ticks | None = None
        self._rows = 0
        self.most_rows = _ROOM // most

    def open(self, n_rows: int) -> Ticks:
        """Return the words, to which the terms of so many rows may be added now; at most ``most_rows``."""
        assert n_rows <= self.most_rows
        if self._rows + n_rows > self.most_rows:
            self._carry()
        self._rows += n_rows
        return self.words

    def add(self, product: Vector, n_rows: int) -> None:
        """Add whole numbers in doubles, which are the terms of so many rows, some lines at a time."""
        words, at_once = self.open(n_rows), max(1, 2**14 // product.shape[1])
        for first in range(0, len(words), at_once):
            words[first : first + at_once] += product[first : first + at_once].astype(np.int64)

    def _carry(self) -> None:
        if self._high is None:
            self._high = np.zeros_like(self.words)
        self._high += self.words >> _SHIFT
        self.words &= _MASK
        self._rows = 1  # what is left is less than 2^32, or what one row adds

    def total(self) -> WholeNumbers:
        self._carry()
        assert self._high is not None
        return WholeNumbers(self._high, self.words)


def most_rows(n_public: int, adjacency: Adjacency) -> int:
    """Return the number of rows for which rounding errors are bounded; under add-remove the true number is secret."""
    return n_public * (MOST_ROWS if adjacency is Adjacency.ADD_REMOVE else 1)


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
        found, upper = reduce(add, (adder.total() for adder in adders)), _upper(width)
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

    def _multiply(self) -> None:
        piece = self._piece[: self._filled]
        self.sum.add(piece.T @ piece, self._filled)
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
    matrix, upper = np.empty((width, width)), _upper(width)
    matrix[upper] = entries
    matrix.T[upper] = entries
    return matrix


@lru_cache(maxsize=2)  # a run has one width, and its replay another
def _upper(width: int) -> NDArray[np.bool_]:
    return np.tri(width, dtype=bool).T


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


@shared
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
