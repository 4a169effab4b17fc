"""The device: one person's (x, y) becomes one report, M noisy copies of it in whole ticks of the protocol.

The record is rounded toward zero to whole ticks, so that its norm, checked in exact whole numbers, is at most 1. The
noise is rounded to whole ticks too (``docs/privacy/gaussian_on_a_grid.md``). Each number takes 64 bits of the operating
system, one for the sign and 63 for the tail probability, and the inverse normal distribution function of
`sottovoce.local.candidates`.
"""

import os
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce.exceptions import DataError
from sottovoce.local.candidates import normal_quantile
from sottovoce.papers.ldp.protocol import BernsteinProtocol

__all__ = ["bernstein_reports", "standard_normals"]

_BATCH: Final = 2**21  # numbers drawn at a time


def bernstein_reports(
    protocol: BernsteinProtocol, X: ArrayLike, y: ArrayLike, *, random_bytes: Callable[[int], bytes] = os.urandom
) -> NDArray[np.int32]:
    """Return the reports of the devices of many people, one a person.

    Parameters
    ----------
    protocol : BernsteinProtocol
    X : array of shape (n, n_features)
        Finite; in the unit of ``data_norm``, and shortened to it where it is longer.
    y : array of shape (n,)
        -1 or 1. For a loss of residuals finite numbers; what is beyond [-1, 1] is moved to the end.
    random_bytes : callable, default `os.urandom`
        From a number of bytes to as many random ones. Anything but the default is for tests: whoever can repeat the
        bytes can subtract the noise.

    Returns
    -------
    ndarray of shape (n, n_copies, n_features + 1), int32
        Whole ticks; y is the last column.

    Raises
    ------
    DataError
        If a record is not of this form; nothing has been drawn then.

    Notes
    -----
    Every new report on a person spends the budget again.
    """
    record = _record(protocol, np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64))
    shape = (protocol.n_copies, protocol.n_features + 1)
    scales = (protocol.copy_noise.stds / protocol.tick)[:, None]
    out = np.empty((len(record), *shape), dtype=np.int32)
    step = max(1, _BATCH // (shape[0] * shape[1]))
    for start in range(0, len(record), step):
        part = record[start : start + step]
        normals = standard_normals(len(part) * shape[0] * shape[1], random_bytes).reshape(-1, *shape)
        # half up, as the proof of the Gaussian mechanism on a grid wants it
        noise = np.floor(normals * scales + 0.5).astype(np.int64)
        out[start : start + step] = part[:, None, :] + noise
    return out


def _record(protocol: BernsteinProtocol, X: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return (x, y) of each person in whole ticks, |x| <= 1 exactly."""
    if not (X.ndim == 2 and X.shape[1] == protocol.n_features and y.shape == X.shape[:1]):
        raise DataError(
            f"a record is {protocol.n_features} features and one label; got shapes {X.shape[1:]} and {y.shape[1:]}."
        )
    if not np.isfinite(X).all():
        raise DataError("a feature is not finite: fill missing values in on the device, from public knowledge.")
    if protocol.regression:
        if not np.isfinite(y).all():
            raise DataError("a label is not finite: a device without a label has no record to report.")
        y = np.clip(y, -1.0, 1.0)
    elif not np.isin(y, (-1.0, 1.0)).all():
        raise DataError("a label must be -1 or 1.")
    unit = X / protocol.data_norm
    largest = np.maximum(np.abs(unit).max(axis=1, keepdims=True), 1.0)  # no overflow in the squares
    norms = np.linalg.norm(unit / largest, axis=1, keepdims=True)
    unit = unit / largest / np.maximum(norms, 1.0 / largest)
    one = round(1.0 / protocol.tick)
    ticks = np.trunc(unit * one).astype(np.int64)
    while (long := (ticks**2).sum(axis=1) > one**2).any():  # only where rounding left a norm above 1
        ticks[long] -= np.sign(ticks[long])
    return np.column_stack([ticks, np.trunc(y * one).astype(np.int64)])


def standard_normals(size: int, random_bytes: Callable[[int], bytes]) -> NDArray[np.float64]:
    """Return ``size`` normal numbers from 64 bits each; the farthest is 9.2 standard deviations out."""
    bits = np.frombuffer(random_bytes(8 * size), dtype="<u8")
    tail = (bits >> np.uint64(1)).astype(np.float64)
    size_of = -normal_quantile((tail + 0.5) * 2.0**-64)
    return np.where(bits & np.uint64(1), size_of, -size_of)
