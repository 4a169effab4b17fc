r"""The Frobenius norm of G = X'X from a sketch: for tables so wide that G would cost more than the training.

It is at least lambda_max(G), and near it when few directions carry the rows. Q is a public random d x k matrix with one
entry +1 or -1 in each row, its columns as equally filled as can be. Then E |GQ|_F^2 = |G|_F^2, and GQ = X'(XQ) costs
2k passes over X at the speed of matrix products. G -> |GQ|_F is a seminorm: when a row |x| <= 1 is added, removed or
zeroed it moves by at most

.. math:: |x x^\top Q|_F \le |Q^\top x| \le \sqrt{\lceil d/k \rceil},

and by twice that when the row is replaced. Proof: ``docs/privacy/dp_scd.md``, Proposition 3.

GQ is summed in whole numbers: entries of X are cut toward zero to multiples of 2^-b. The products of 1,024 rows add up
to at most 2^(10 + 2b) sqrt(ceil(d/k)), which b keeps below 2^53; it follows from the public width: 20 for up to 6,000
columns, 18 for a million.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce.central.data.operation import Columns, Operation
from sottovoce.central.data.part import Part
from sottovoce.central.data.rows import Rows
from sottovoce.central.kernels import whole
from sottovoce.central.sums.whole_numbers import Shared, WholeNumbers, WholeSum

__all__ = ["Sketch", "bits", "sketch_estimate", "sketch_pieces", "sketch_sensitivity", "sum_of_squares"]

_COLUMNS: Final = 128  # k
_SPREAD: Final = 1.0 + 1.0 / math.sqrt(_COLUMNS)  # a public factor: a sketch may fall short of the norm
_ENTRIES: Final = 2**23  # of GQ, summed at once
_SEED: Final = 1  # Q is public: any fixed value will do
_MOST_BITS: Final = 20
_PIECE: Final = 2**10  # rows
_PIECE_ENTRIES: Final = 2**22  # of the rows of a piece in doubles
_FEWEST: Final = 32  # rows of a piece
_AT_ONCE: Final = 2**10  # squares that are added in double precision


def sketch_sensitivity(width: int) -> float:
    """Return how far `sketch_estimate` moves when one row of norm at most 1 is added, removed or zeroed."""
    return _SPREAD * math.sqrt(_deepest(width))


def bits(width: int) -> int:
    # 2^-0.1 is kept for rows that are longer than 1 by rounding
    return min(_MOST_BITS, math.floor((53.0 - 0.1 - math.log2(_PIECE) - 0.5 * math.log2(_deepest(width))) / 2.0))


def _deepest(width: int) -> int:
    """Return the largest number of entries in a column of Q: the square of its length."""
    return math.ceil(width / _COLUMNS)


@dataclass(frozen=True)
class Sketch(Operation[WholeNumbers]):
    """X'XQ for some columns of Q, in units of 2^-2b."""

    width: int  # number of weights
    first: int  # column
    end: int

    def on(self, part: Part) -> WholeNumbers:
        sums = Shared(lambda: _Adder(self), min(part.n_parts, 2 * _ENTRIES // math.prod(self.shape)))

        def task(_: int, lo: int, hi: int, block: Rows) -> None:
            with sums.one() as adder:
                adder.add(block, lo, hi)

        part.sweep(task)
        return sum((adder.total() for adder in sums.all[1:]), sums.all[0].total())

    @property
    def shape(self) -> tuple[int, int]:
        return self.width, self.end - self.first

    @property
    def most(self) -> int:
        """What a row adds to a number at most."""
        # the products of a row of norm 1 with sqrt(ceil(d/k)) at most; twice that leaves room for rounding
        return 2 * math.ceil(4.0 ** bits(self.width) * math.sqrt(_deepest(self.width)))

    def allows(self, answer: object, n_rows: int, columns: Columns) -> bool:
        return type(answer) is WholeNumbers and answer.are_within(self.shape, n_rows * self.most)


def sketch_pieces(width: int) -> Generator[Sketch]:
    """Yield operations that cover all columns of Q, few enough at a time to fit the memory."""
    at_once = max(1, _ENTRIES // width)
    for first in range(0, _COLUMNS, at_once):
        yield Sketch(width, first, min(first + at_once, _COLUMNS))


def sum_of_squares(part: WholeNumbers, width: int) -> float:
    """Return the sum of the squares of some columns of GQ, with a relative error of less than 2^-42."""
    squares = np.square(part.doubles(4.0 ** bits(width)).ravel())
    return math.fsum(float(np.sum(squares[lo : lo + _AT_ONCE])) for lo in range(0, len(squares), _AT_ONCE))


def sketch_estimate(square: float) -> float:
    """Return an estimate of |X'X|_F, a little upward, from the sum of the squares of all of GQ."""
    return _SPREAD * math.sqrt(square)


class _Adder:
    """One thread's sum."""

    def __init__(self, sketch: Sketch) -> None:
        self._first = sketch.first
        self._shape = sketch.shape
        self._column, self._sign = _public_matrix(sketch.width)
        self._grid = 2.0 ** bits(sketch.width)
        self._sum = WholeSum(self._shape, sketch.most)

    def add(self, rows: Rows, lo: int, hi: int) -> None:
        border = np.empty((hi - lo, 0))
        if sp.issparse(rows.raw):
            for start in range(lo, hi, _PIECE):
                end = min(start + _PIECE, hi)
                words = self._sum.open(end - start)
                whole.add_projected(
                    rows.kernel, border, self._grid, self._column, self._sign, self._first, start, end, words
                )
            return
        for start in range(lo, hi, len(self._piece)):
            end = min(start + len(self._piece), hi)
            piece, projected = self._piece[: end - start], self._projected[: end - start]
            whole.fill(rows.kernel, border, self._grid, start, end, piece)
            whole.project(piece, self._column, self._sign, self._first, projected)
            np.matmul(piece.T, projected, out=self._product)
            whole.add_all(self._product, self._sum.open(end - start))

    @cached_property
    def _piece(self) -> Vector:
        width = self._shape[0]
        return np.empty((min(_PIECE, max(_FEWEST, _PIECE_ENTRIES // width)), width))

    @cached_property
    def _projected(self) -> Vector:
        return np.empty((len(self._piece), self._shape[1]))

    @cached_property
    def _product(self) -> Vector:
        return np.empty(self._shape)

    def total(self) -> WholeNumbers:
        return WholeNumbers(*self._sum.total())


def _public_matrix(width: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the place and the sign of the one entry in each row of Q."""
    rng = np.random.Generator(np.random.PCG64(_SEED))
    column = rng.permutation(np.arange(width) % _COLUMNS)
    return column, rng.choice([-1.0, 1.0], width)
