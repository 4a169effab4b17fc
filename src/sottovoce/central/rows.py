"""The rows as the solvers see them: each at most 1 long, whatever the data are, without a copy of the matrix."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sottovoce.central.kernels import passes
from sottovoce.central.kernels.rows import CSR
from sottovoce.central.parallel import Team
from sottovoce.exceptions import DataError

__all__ = ["Rows", "make_rows"]

Matrix = Any  # a C-contiguous ndarray of shape (n, d), or a scipy CSR matrix of that shape

# Below this a computed norm may be zero for a row that is not; using the floor in its place only shortens its term.
_NORM_FLOOR = 1e-140


@dataclass(frozen=True)
class Rows:
    """A table of rows x_i, scaled to norm at most 1, with the column of the intercept appended.

    Row i is (scale_i * raw_i, constant): its norm is at most 1 because ``make_rows`` clips.

    Attributes
    ----------
    raw : Matrix
        The user's matrix, untouched.
    kernel : ndarray or CSR
        The same memory as the kernels take it.
    scale : ndarray of shape (n,)
    norm : ndarray of shape (n,)
        Upper bound on the norm of each row, in (0, 1].
    constant : float
        Entry of the intercept's column; 0 when there is none.
    """

    raw: Matrix
    kernel: Any
    scale: NDArray[np.float64]
    norm: NDArray[np.float64]
    constant: float

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return int(self.raw.shape[0])

    @property
    def n_weights(self) -> int:
        """Number of weights: features, and one for the intercept."""
        return int(self.raw.shape[1]) + (self.constant > 0.0)

    @property
    def work(self) -> float:
        """Entries touched by one pass."""
        return _entries(self.raw)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the matrix, in which the kernels multiply."""
        dtype: np.dtype[Any] = self.raw.dtype
        return dtype

    def margins(self, w: NDArray[np.float64], team: Team) -> NDArray[np.float64]:
        """Return x_i . w of every row, in double precision."""
        out = np.empty(self.n_samples)
        team.run(
            lambda part, lo, hi: passes.margins(self.kernel, self.scale, self.constant, w, lo, hi, out),
            team.split(self.n_samples, self.work),
        )
        return out


def make_rows(raw: Matrix, *, data_norm: float, constant: float, names: "list[str] | None", team: Team) -> Rows:
    """Divide rows by ``data_norm``, shorten those beyond it, append the constant, and scale the whole to norm 1.

    Parameters
    ----------
    raw : ndarray or CSR matrix of shape (n, d), float32 or float64
    data_norm : float, > 0
        Public bound on the norm of a raw row.
    constant : float, >= 0
        Value of the intercept's column in units of ``data_norm``; 0 for none.
    names : list of str or None
        Column names for error messages.
    team : Team

    Raises
    ------
    DataError
        If an entry is NaN or infinite; the message names the first one.
    """
    kernel = CSR(raw.data, raw.indices, raw.indptr, raw.shape[1]) if _is_sparse(raw) else raw
    length = np.empty(raw.shape[0])
    team.run(lambda part, lo, hi: passes.norms(kernel, lo, hi, length), team.split(raw.shape[0], _entries(raw)))
    bad = np.flatnonzero(np.isnan(length))
    if bad.size:
        raise DataError(_describe(raw, int(bad[0]), bad.size, names))
    whole = np.sqrt(1.0 + constant**2)
    scale = np.minimum(1.0 / data_norm, 1.0 / np.maximum(length, 1e-300)) / whole
    entry = constant / whole
    with np.errstate(invalid="ignore"):
        scaled = np.where(np.isfinite(length), scale * length, 1.0)
    norm = np.sqrt(scaled**2 + entry**2)
    return Rows(raw, kernel, scale, np.clip(norm, _NORM_FLOOR, 1.0), entry)


def _is_sparse(raw: Matrix) -> bool:
    return bool(sp.issparse(raw))


def _entries(raw: Matrix) -> float:
    return float(raw.nnz if _is_sparse(raw) else raw.size)


def _describe(raw: Matrix, row: int, count: int, names: "list[str] | None") -> str:
    values = raw[[row], :].toarray().ravel() if _is_sparse(raw) else np.asarray(raw[row])
    column = int(np.flatnonzero(~np.isfinite(values))[0])
    kind = "NaN" if np.isnan(values[column]) else "infinity"
    name = f"column {names[column]!r}" if names is not None else f"column {column}"
    return (
        f"Input X contains {kind}: row {row}, {name} ({count} row(s) hold NaN or infinity). Replace missing values by "
        "a public constant, or drop those rows, before fit; a value computed from the data would need a share of the "
        "budget."
    )
