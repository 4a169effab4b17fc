r"""The largest eigenvalue of X'X, released once with a small share of the budget.

With rows |x_i| <= 1, lambda_max(X'X) moves by at most 1 between neighbours. Rows so long that X'X would cost more than
the training are projected first: each is multiplied by a random matrix Q of few columns, with four entries +-1/2 in
each line, and shortened to norm 1 again. For a direction v that carries the rows |Q'v| is near 1, so the largest
eigenvalue of the projected rows is near that of the rows, or above it: two columns that share one entry's place, and
would cancel there, hardly share four. Q may be known, but not before the rows are: each fit has its own, since those
of one Q could lie where it is 0. Sums, mechanism and sensitivity are the same.
Proofs: ``docs/privacy/dp_scd.md``, Proposition 3.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import eigh

from sottovoce._numerics import ROUNDING_SLACK, Vector
from sottovoce._validation import number
from sottovoce.central.core import Asked, Keep, Release, Shuffle
from sottovoce.central.data.operation import Columns, Ticks
from sottovoce.central.data.part import Part, Rows
from sottovoce.central.sums.whole_gram import Given, Gram, Triangle, most_rows
from sottovoce.privacy.adjacency import Neighbours
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, rounding_norm, shared, to_ticks

EIGENVALUE: Final = "lambda_max (noisy)"  # its name in the receipt
_WORDS: Final = "lambda_max of X'X/n of the scaled rows: a noisy upper estimate"

MAX_GRAM: Final = 2048  # weights; the Gram matrix of more costs more than the training
_INFLATION: Final = 2.0  # standard deviations added to the noisy eigenvalue: too small a value would diverge
_USEFUL_BITS: Final = 20  # ticks to a standard deviation of the noise
_SOLVER: Final = 4.0  # times width 2^-53 of the norm: what a symmetric eigensolver may err by

# of the projection
_COLUMNS: Final = 128  # k
_EACH: Final = 4  # entries of a line of Q
_SPREAD: Final = 1.0 + 3.0 / math.sqrt(_COLUMNS)  # a public factor: |Q'v|^2 may be so much below 1
_ORDERED: Final = 40  # things: their order, which Q follows from, is one of 2^159
_ENTRIES: Final = 2**22  # of rows in doubles, stored ones alone where they are sparse, projected at once
_FEWEST, _MOST = 32, 2**14  # rows


@shared
def eigenvalue_mechanism(width: int, n_public: int, neighbours: Neighbours, mu: float) -> GridGaussian:
    """Return the mechanism that releases lambda_max of X'X, or of projected rows, from public facts.

    The rounding of the finished value counts, in proportion to the public number of rows: the noise itself must not
    depend on a secret one.
    """
    summed = width if width <= MAX_GRAM else _COLUMNS
    error = (_SOLVER * summed + 1.0) * 2.0**-53 * most_rows(n_public, neighbours.adjacency)
    sensitivity = neighbours.count * ROUNDING_SLACK + 2.0 * error  # for every adjacency
    tick = power_of_two_below(sensitivity / mu) * 2.0**-_USEFUL_BITS
    return GridGaussian(sensitivity + rounding_norm(1, tick), 1.0 / mu, tick)


def largest_eigenvalue(width: int, n_public: int, neighbours: Neighbours, mu: float, *, entry: float) -> Asked[float]:
    """Release an upper estimate of lambda_max(X'X)/n in (0, 1] with a Gaussian of mean shift ``mu``.

    From the Gram matrix for up to `MAX_GRAM` weights, from that of projected rows beyond: the noisy value plus two
    standard deviations, within the public bounds. ``entry`` is that of the intercept's column.
    """
    mechanism = eigenvalue_mechanism(width, n_public, neighbours, mu)
    ask, spread = LargestEigenvalue(), 1.0
    if width > MAX_GRAM:
        ask, spread = OfProjectedRows(order=tuple((yield Shuffle(_ORDERED)).tolist())), _SPREAD
    (noisy,) = yield Release(_WORDS, ask, mechanism)
    estimate = spread * (float(noisy) + _INFLATION * mechanism.noise_std) / n_public
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
class OfProjectedRows(LargestEigenvalue):
    """The same of rows times Q, each shortened to norm 1: what it says of a row follows from the row alone."""

    order: tuple[int, ...] = field(kw_only=True)  # of `_ORDERED` things, random

    def width(self, columns: Columns) -> int:
        return _COLUMNS

    def given(self, part: Part, rows: Rows, lo: int, hi: int, *labels: NDArray[Any]) -> Iterator[Given]:
        projection: Any = _random_matrix(rows.n_weights, self.order)
        step = min(_MOST, max(_FEWEST, int(_ENTRIES * rows.n_samples / max(1.0, rows.work))))
        bare, d = rows._replace(raw=np.empty((rows.n_samples, 0)), constant=0.0), int(rows.raw.shape[1])
        of_features, of_constant = projection[:d], rows.constant * projection[d:].toarray().sum(axis=0)
        for first in range(lo, hi, step):
            end = min(first + step, hi)
            scaled = sp.diags_array(rows.scale[first:end]) @ rows.raw[first:end].astype(np.float64)
            projected: Any = scaled @ of_features
            found: Vector = of_constant + (projected if isinstance(projected, np.ndarray) else projected.toarray())
            found /= np.maximum(1.0, np.sqrt(np.square(found).sum(axis=1)))[:, None]
            yield first, end, bare, found


@lru_cache(maxsize=1)
def _random_matrix(width: int, order: tuple[int, ...]) -> Any:
    """Return Q: the columns are as equally filled as can be."""
    rng, size = np.random.Generator(np.random.PCG64(order)), _COLUMNS // _EACH
    columns = [rng.permutation(np.arange(width) % size) + size * block for block in range(_EACH)]
    signs = rng.choice([-1.0, 1.0], _EACH * width) / math.sqrt(_EACH)
    places = np.tile(np.arange(width), _EACH), np.concatenate(columns)
    return sp.csr_array((signs, places), shape=(width, _COLUMNS))
