"""Rows in memory as the kernels see them: each at most 1 long, whatever the data are, without a copy of the matrix.

Solvers see rows in a unit of their own: divided by a public bound, with the intercept's column, at most 1 long. A whole
table that is in memory (or mapped into it), or a block of one that is not: `sottovoce.central.data.part` has both.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from sottovoce._numerics import PIECE, Vector
from sottovoce.central.data.streamed import StreamedTable, not_finite
from sottovoce.central.kernels import passes
from sottovoce.central.kernels.rows import CSR
from sottovoce.central.kernels.scaled import ScaledRows
from sottovoce.central.parallel import Team


class _Lengths:
    """What follows from the bound on a row and the intercept's column."""

    square: float  # of `whole`: a penalty on the user's weights is this many times smaller on those of the solver
    whole: float  # length of the longest row with its constant, in units of ``data_norm``
    scale: float  # factor of a row of norm ``data_norm``
    entry: float  # value of the intercept's column as the solver sees it


@dataclass(frozen=True)
class RowUnit(_Lengths):
    """A user's row x of norm at most ``data_norm`` is seen as (x / data_norm, constant) / whole."""

    data_norm: float  # > 0; public bound on the norm of a row
    constant: float  # >= 0; value of the intercept's column in units of ``data_norm``; 0 for none

    def __post_init__(self) -> None:
        square = 1.0 + self.constant**2
        whole = math.sqrt(square)
        vars(self).update(square=square, whole=whole, scale=1.0 / self.data_norm / whole, entry=self.constant / whole)

    def to_user(self, weights: Vector) -> tuple[Vector, Vector]:
        """Turn the weights of models, one a line, into coefficients and intercepts for the user's rows."""
        if self.constant == 0.0:
            return weights / (self.data_norm * self.whole), np.zeros(len(weights))
        return weights[:, :-1] / (self.data_norm * self.whole), weights[:, -1] * self.entry


Matrix = Any  # a C-contiguous ndarray of shape (n, d), or a scipy CSR matrix of that shape

# Below this a computed norm may be zero for a row that is not; using the floor in its place only shortens its term.
_NORM_FLOOR = 1e-140
_ROUNDED = 2e-8


class Rows(NamedTuple):
    """A table of rows x_i, scaled to norm at most 1, with the column of the intercept appended.

    Row i is (scale_i * raw_i, constant): its norm is at most 1 (`sottovoce.central.data.lengths`).
    """

    raw: Matrix  # the user's matrix, untouched
    scale: Vector  # of shape (n,)
    divisor: Vector  # of shape (n,); what kernels divide a row's clip by: an upper bound on its norm, in (0, 1]
    constant: float  # entry of the intercept's column; 0 when there is none

    @property
    def kernel(self) -> ScaledRows:
        """The same memory as the kernels take it."""
        X: Any = self.raw
        if _is_sparse(X):
            X = CSR(X.data, X.indices, X.indptr, X.shape[1])
        elif X.flags.writeable:  # no kernel writes to it; one that is compiled for this serves a memory map, too
            X = X.view()
            X.flags.writeable = False
        return ScaledRows(X, self.scale, self.divisor, self.constant)

    @property
    def n_samples(self) -> int:
        return int(self.raw.shape[0])

    @property
    def n_weights(self) -> int:
        return int(self.raw.shape[1]) + (self.constant > 0.0)

    @property
    def work(self) -> float:
        return float(self.raw.nnz if _is_sparse(self.raw) else self.raw.size)

    def scaled_pieces(self) -> Iterator[Any]:
        """Yield the scaled rows, without the constant, in double precision: `PIECE` at a time, the last time fewer.

        The pieces are the same however the rows are stored. A dense piece is overwritten by the next one.
        """
        raw: Any = self.raw
        if _is_sparse(raw):
            for lo in range(0, self.n_samples, PIECE):
                yield sp.diags_array(self.scale[lo : lo + PIECE]) @ raw[lo : lo + PIECE].astype(np.float64)
            return
        piece = np.empty((min(PIECE, self.n_samples), raw.shape[1]))
        for lo in range(0, self.n_samples, PIECE):
            hi = min(lo + PIECE, self.n_samples)
            np.multiply(raw[lo:hi], self.scale[lo:hi, None], out=piece[: hi - lo])
            yield piece[: hi - lo]

    def margins(self, w: Vector, team: Team) -> Vector:
        kernel, out = self.kernel, np.empty(self.n_samples)
        team.run(lambda _, lo, hi: passes.margins(kernel, w, lo, hi, out), team.split(self.n_samples, self.work))
        return out


def scales_for(length: Vector, unit: RowUnit) -> Vector:
    """Return what raw rows of a ``length`` are multiplied by, to be at most 1 long with their constant."""
    return np.minimum(unit.scale, 1.0 / np.maximum(length, 1e-300) / unit.whole)


def norms_within(divisor: Vector, constant: float) -> Vector:
    """Return an upper bound on the norm of each row without its constant, over the largest that it can be."""
    # the divisor is the norm with the constant, rounded: the root of the difference is off by 1e-8 at most
    own = np.sqrt(np.maximum(divisor**2 - constant**2, 0.0)) + _ROUNDED
    return np.minimum(own / max(math.sqrt(max(1.0 - constant**2, 0.0)), _ROUNDED), 1.0)


def norm_bounds(scale: Vector, length: Vector, constant: float) -> Vector:
    """Return upper bounds in (0, 1] on the norms of rows of a ``length`` times ``scale``, with their constant."""
    with np.errstate(invalid="ignore"):
        scaled = np.where(np.isfinite(length), scale * length, 1.0)
    return np.clip(np.sqrt(scaled**2 + constant**2), _NORM_FLOOR, 1.0)


def _is_sparse(raw: Matrix) -> bool:
    return not isinstance(raw, np.ndarray) and bool(sp.issparse(raw))


def describe_not_finite(raw: Matrix, row: int, first_row: int, names: tuple[str, ...] | None) -> str:
    """Return the message about a row with NaN or infinity; ``first_row`` is the place of the first one of ``raw``."""
    if isinstance(raw, StreamedTable):
        values = raw.row(row)
    else:
        values = raw[[row], :].toarray().ravel() if _is_sparse(raw) else np.asarray(raw[row])
    return not_finite(values, first_row + row, names).removesuffix(".")
