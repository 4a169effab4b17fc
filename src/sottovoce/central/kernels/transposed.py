"""The compiled transposed product X'r, in double precision, summed in blocks so that rounding errors stay small."""

import numpy as np

from sottovoce._compiling import JIT, njit
from sottovoce.central.kernels.rows import axpy

__all__ = ["BLOCK", "transposed"]

BLOCK = 1024  # rows summed before their sum is added to the total


@njit(**JIT)
def transposed(rows, r, lo, hi, total):  # type: ignore[no-untyped-def]
    """Add sum_i r_i x_i over the rows lo to hi to ``total``."""
    X, scale, _, constant = rows
    last = total.shape[0] - 1
    part = np.zeros_like(total)
    for start in range(lo, hi, BLOCK):
        for i in range(start, min(start + BLOCK, hi)):
            if r[i] != 0.0:
                axpy(X, i, r[i] * scale[i], part)
                if constant > 0.0:
                    part[last] += r[i] * constant
        for k in range(total.shape[0]):
            total[k] += part[k]
            part[k] = 0.0
