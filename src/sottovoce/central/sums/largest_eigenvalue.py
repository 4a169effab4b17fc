r"""The largest eigenvalue of X'X, released once with a small share of the budget.

With rows |x_i| <= 1, lambda_max(X'X) moves by at most 1 between neighbours. Tables so wide that G = X'X would cost more
than the training use a sketch of its Frobenius norm, which is at least as large, and near it when few directions carry
the rows: |GQ|_F for a public random d x k matrix Q with one entry +1 or -1 in each row, its columns as equally filled
as can be. GQ = X'(XQ) costs 2k passes over X at the speed of matrix products. Both are summed in whole numbers; entries
of X are cut toward zero to multiples of 2^-b, and b follows from the public width. Sensitivities, rounding and proofs:
``docs/privacy/dp_scd.md``, Proposition 3.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from sottovoce._numerics import ROUNDING_SLACK
from sottovoce._validation import number
from sottovoce.central.core import Asked, Keep, Release
from sottovoce.central.data.operation import AtHome, Columns, Holder, Operation, Ticks
from sottovoce.central.data.part import Part, Rows
from sottovoce.central.sums.whole_gram import Gram, Products, Projection, Triangle
from sottovoce.central.sums.whole_numbers import Shared, WholeNumbers, most_rows
from sottovoce.privacy.adjacency import Neighbours
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, rounding_norm, to_ticks

EIGENVALUE: Final = "lambda_max (noisy)"  # its name in the receipt
_WORDS: Final = "lambda_max of X'X/n of the scaled rows: a noisy upper estimate"

MAX_GRAM: Final = 2048  # weights; the Gram matrix of more costs more than the training
_INFLATION: Final = 2.0  # standard deviations added to the noisy eigenvalue: too small a value would diverge
_USEFUL_BITS: Final = 20  # ticks to a standard deviation of the noise
_SOLVER: Final = 4.0  # times width 2^-53 of the norm: what a symmetric eigensolver may err by
_SKETCH_ERROR: Final = 2.0**-43  # of the estimate

# of the sketch
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
        piece = min(_PIECE, max(_FEWEST, _PIECE_ENTRIES // self.width))
        given = (
            self.shape,
            self.most,
            2.0 ** bits(self.width),
            piece,
            Projection(*_public_matrix(self.width), self.first),
        )
        sums = Shared(lambda: Products(*given), min(part.n_parts, 2 * _ENTRIES // math.prod(self.shape)))

        def task(_: int, lo: int, hi: int, block: Rows) -> None:
            with sums.one() as adder:
                adder.add(block, lo, hi, np.empty((hi - lo, 0)))

        part.sweep(task)
        return reduce(add, (adder.total() for adder in sums.all))

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


def _public_matrix(width: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the place and the sign of the one entry in each row of Q."""
    rng = np.random.Generator(np.random.PCG64(_SEED))
    column = rng.permutation(np.arange(width) % _COLUMNS)
    return column, rng.choice([-1.0, 1.0], width)


def eigenvalue_mechanism(width: int, n_public: int, neighbours: Neighbours, mu: float) -> GridGaussian:
    """Return the mechanism that releases lambda_max(X'X), or for wide tables its estimate, from public facts.

    The rounding of the finished value counts, in proportion to the public number of rows: the noise itself must not
    depend on a secret one.
    """
    n_rows = most_rows(n_public, neighbours.adjacency)
    if width <= MAX_GRAM:
        moves = neighbours.count  # for every adjacency
        error = (_SOLVER * width + 1.0) * 2.0**-53 * n_rows
    else:
        moves = neighbours.sum_factor * sketch_sensitivity(width)
        error = _SKETCH_ERROR * sketch_sensitivity(width) * n_rows
    sensitivity = moves * ROUNDING_SLACK + 2.0 * error
    tick = power_of_two_below(sensitivity / mu) * 2.0**-_USEFUL_BITS
    return GridGaussian(sensitivity + rounding_norm(1, tick), 1.0 / mu, tick)


def largest_eigenvalue(width: int, n_public: int, neighbours: Neighbours, mu: float, *, entry: float) -> Asked[float]:
    """Release an upper estimate of lambda_max(X'X)/n in (0, 1] with a Gaussian of mean shift ``mu``.

    From the Gram matrix for up to `MAX_GRAM` weights, from a sketch of it beyond: the noisy value plus two standard
    deviations, within the public bounds. ``entry`` is that of the intercept's column.
    """
    mechanism = eigenvalue_mechanism(width, n_public, neighbours, mu)
    (noisy,) = yield Release(_WORDS, LargestEigenvalue() if width <= MAX_GRAM else SketchedNorm(width), mechanism)
    estimate = (float(noisy) + _INFLATION * mechanism.noise_std) / n_public
    # the column of the intercept alone has the eigenvalue constant^2
    lowest = max(1.0 / width, entry**2)
    kept: float = yield Keep(EIGENVALUE, min(1.0, max(lowest, estimate)), partial(number, above=0.0), 1.0)
    return kept


class LargestEigenvalue(Gram):
    """Lambda_max(X'X)."""

    def protected(self, exact: Triangle, mechanism: Any) -> Ticks:
        last = exact.width - 1
        return to_ticks(eigh(exact.matrix, eigvals_only=True, subset_by_index=(last, last)), mechanism.tick)


@dataclass(frozen=True)
class SketchedNorm(AtHome[float]):
    """An estimate of the Frobenius norm of X'X, a little upward: the columns of the sketch are added some at a time."""

    width: int  # number of weights

    def asked_of(self, holder: Holder) -> float:
        squares = (sum_of_squares(holder.ask(piece), self.width) for piece in sketch_pieces(self.width))
        return sketch_estimate(sum(squares))

    def protected(self, exact: float, mechanism: Any) -> Ticks:
        return to_ticks(np.array([exact]), mechanism.tick)

    def on(self, part: Part) -> float:
        raise NotImplementedError("squares of parts do not add up: it is asked piece by piece")
