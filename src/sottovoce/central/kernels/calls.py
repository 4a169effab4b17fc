"""What the rest of the package takes of the kernels. Numba is loaded when the first of them is called."""

from functools import partial
from importlib import import_module
from typing import Any, Final, NamedTuple

from numpy.typing import NDArray

from sottovoce._lazy import Later

FEW: Final = 2**16  # entries up to which numpy does what a fit asks once, bit by bit the same: nothing is compiled
MOST_TICKS: Final = 2**24  # of one entry of one row's term: 64 of them fit in 32 bits, and float32 holds it exactly


class CSR(NamedTuple):
    """A sparse matrix in compressed rows: the three arrays of `scipy.sparse.csr_array` and the width."""

    data: NDArray[Any]
    indices: NDArray[Any]
    indptr: NDArray[Any]
    n_columns: int


class ScaledRows(NamedTuple):
    """Rows (scale_i x_i, constant), each at most 1 long."""

    X: Any  # a C-contiguous 2-d array or a `CSR`
    scale: NDArray[Any]
    divisor: NDArray[Any]  # of a row's clip, so that its whole term is clipped: at least its norm
    constant: float


_NAMES: Final = ("multinomial", "passes", "persons", "whole")
multinomial, passes, persons, whole = (Later(partial(import_module, f"{__package__}.{name}")) for name in _NAMES)
