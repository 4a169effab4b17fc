"""Checks of arrays: finite, of the right shape, copied so that the caller cannot change them afterwards."""

import numpy as np
from numpy.typing import NDArray

from sottovoce.exceptions import ParameterError

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


def vector(name: str, value: object, *, size: int | None = None) -> Array:
    """Return ``value`` as a new finite vector; with ``size``, a number stands for a vector of equal entries."""
    out = _finite(name, value)
    if size is not None and out.ndim == 0:
        return np.full(size, float(out))
    if out.ndim != 1 or (size is not None and len(out) != size):
        wanted = "one-dimensional" if size is None else f"a vector of {size} numbers"
        raise ParameterError(f"{name} must be {wanted}; got an array of shape {out.shape}.")
    return out


def matrix(name: str, value: object) -> Array:
    """Return ``value`` as a new finite matrix with at least one row and one column."""
    out = _finite(name, value)
    if out.ndim != 2 or 0 in out.shape:
        raise ParameterError(f"{name} must be a matrix with rows and columns; got an array of shape {out.shape}.")
    return out


def _finite(name: str, value: object) -> Array:
    try:
        out = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError(f"{name} must hold numbers; got {value!r}.") from None
    if not np.isfinite(out).all():
        raise ParameterError(f"{name} holds NaN or infinite entries; remove or replace them.")
    return out
