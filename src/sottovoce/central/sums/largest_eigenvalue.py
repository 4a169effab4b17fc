r"""The largest eigenvalue of X'X, released once with a small share of the budget.

With rows |x_i| <= 1, lambda_max(X'X) moves by at most 1 when a row is added, removed, zeroed or replaced (Weyl's
inequality: X'X moves by a positive semidefinite matrix of norm at most 1 in each direction, and for a replacement both
tables lie within [lambda, lambda + 1] of the table without the row). Wide tables use a sketch of the Frobenius norm of
X'X in its place, which is at least as large.

X'X is summed in whole numbers, so no rounding depends on n but that of the finished matrix: it is proportional to n
2^-53, whatever the number of pieces. Proofs: ``docs/privacy/dp_scd.md``, Proposition 3.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from scipy.linalg import eigh

from sottovoce._numerics import ROUNDING_SLACK
from sottovoce._validation import number
from sottovoce.central.core import Asked, Keep, Release
from sottovoce.central.data.holder import Holder
from sottovoce.central.data.operation import AtHome, Ticks
from sottovoce.central.data.part import Part
from sottovoce.central.sums.sketch import sketch_estimate, sketch_pieces, sketch_sensitivity, sum_of_squares
from sottovoce.central.sums.whole_gram import Gram, Triangle
from sottovoce.central.sums.whole_numbers import most_rows
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, rounding_norm, to_ticks
from sottovoce.privacy.neighbours import Neighbours

__all__ = ["EIGENVALUE", "MAX_GRAM", "eigenvalue_mechanism", "largest_eigenvalue"]

EIGENVALUE: Final = "lambda_max (noisy)"  # its name in the receipt
_WORDS: Final = "lambda_max of X'X/n of the scaled rows: a noisy upper estimate"

MAX_GRAM: Final = 2048  # weights; the Gram matrix of more costs more than the training
_INFLATION: Final = 2.0  # standard deviations added to the noisy eigenvalue: too small a value would diverge
_USEFUL_BITS: Final = 20  # ticks to a standard deviation of the noise
_SOLVER: Final = 4.0  # times width 2^-53 of the norm: what a symmetric eigensolver may err by
_SKETCH_ERROR: Final = 2.0**-43  # of the estimate


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

    From the Gram matrix for up to `MAX_GRAM` weights, from a sketch of it (`sottovoce.central.sums.sketch`) beyond: the
    noisy value plus two standard deviations, within the public bounds. ``entry`` is that of the intercept's column.
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
