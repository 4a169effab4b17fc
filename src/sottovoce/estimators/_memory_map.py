"""Memory-mapped arrays: used in place, and refused where that is impossible and a copy could fill the memory."""

from mmap import mmap
from typing import Any

import numpy as np

from sottovoce.exceptions import DataError

__all__ = ["refuse_copy_of_map"]

_SMALL = 2**28  # bytes; up to this a map is copied like an array, which tools that map arrays unasked rely on


def refuse_copy_of_map(X: Any, *, row_by_row: bool) -> None:
    """Raise a DataError if X is a large memory map that cannot be used without a copy of the whole.

    Parameters
    ----------
    X : object
        Anything; only arrays backed by a memory map are looked at.
    row_by_row : bool
        Whether rows must lie one after another in memory (C order), as the kernels need them.
    """
    if not _is_mapped(X) or X.size * max(X.itemsize, 4) <= _SMALL:
        return
    is_float = X.dtype in (np.dtype(np.float32), np.dtype(np.float64))
    if is_float and (X.flags.c_contiguous or not row_by_row):
        return
    layout = "" if X.flags.c_contiguous else " in Fortran order" if X.flags.f_contiguous else " with gaps"
    raise DataError(
        f"X is a memory map of {X.dtype.name} ({X.dtype.str}){layout} with {X.size:,} entries: using it would copy all "
        "of it into memory. Write it once as float32 or float64 in C order, piece by piece, into "
        'numpy.lib.format.open_memmap(path, mode="w+", dtype="float32", shape=X.shape), and give '
        'numpy.load(path, mmap_mode="r").'
    )


def _is_mapped(X: Any) -> bool:
    while isinstance(X, np.ndarray):
        if isinstance(X, np.memmap):
            return True
        X = X.base
    return isinstance(X.obj if isinstance(X, memoryview) else X, mmap)
