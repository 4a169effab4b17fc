r"""The device: one person's (x, y) becomes one report, M noisy copies of it.

Wire format, little-endian::

    4 bytes   "LDPB"
    8 bytes   id of the protocol
    4 bytes   each: M rows of d + 1 whole numbers (signed), copy by copy, y last; in ticks of the protocol

The record is rounded toward zero to whole ticks, so that its norm, checked in exact whole numbers, is at most 1. The
noise is rounded to whole ticks too (``docs/privacy/gaussian_on_a_grid.md``). Each number takes 64 bits of the operating
system, one for the sign and 63 for the tail probability, and the inverse normal distribution function of
`sottovoce.local.candidates`.

This module needs numpy and the standard library only.
"""

import os
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce._validation import number
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.local.candidates import normal_quantile

if TYPE_CHECKING:
    from sottovoce.published.bernstein.protocol import BernsteinProtocol

__all__ = ["HEAD", "MAGIC", "BernsteinRandomizer", "standard_normals"]

MAGIC: Final = b"LDPB"
HEAD: Final = struct.Struct("<4s8s")

_BATCH: Final = 2**21  # numbers drawn at a time


class BernsteinRandomizer:
    """Makes reports of a protocol.

    Parameters
    ----------
    protocol : BernsteinProtocol
    max_epsilon : float, optional
        Refuse a protocol whose reports really cost more, at its delta: a device should not let the collector choose
        the loss alone.
    random_bytes : callable, default `os.urandom`
        From a number of bytes to as many random ones. Anything but the default is for tests: whoever can repeat the
        bytes can subtract the noise.

    Notes
    -----
    Every new report on a person spends the budget again. A device makes one, keeps it, and sends that one again.
    """

    def __init__(
        self,
        protocol: "BernsteinProtocol",
        *,
        max_epsilon: float | None = None,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        if max_epsilon is not None:
            most = number("max_epsilon", max_epsilon, above=0.0)
            if not protocol.copy_noise.delta(most) <= protocol.delta * (1.0 + 1e-8):
                raise ParameterError(
                    f"a report of this protocol costs more than max_epsilon={most!r} at delta={protocol.delta!r}: no "
                    "report is made."
                )
        self._protocol = protocol
        self._random_bytes = random_bytes

    def report(self, x: ArrayLike, y: float) -> bytes:
        """Return the report on one record.

        Parameters
        ----------
        x : array of shape (n_features,)
            Finite; in the unit of ``data_norm``, and shortened to it where it is longer.
        y : {-1, 1}, or a number
            For a loss of residuals a finite number; what is beyond [-1, 1] is moved to the end.

        Raises
        ------
        DataError
            If the record is not of this form; nothing has been drawn then.
        """
        return self.reports(np.asarray(x, dtype=np.float64)[None], np.asarray(y, dtype=np.float64)[None])[0]

    def reports(self, X: ArrayLike, y: ArrayLike) -> list[bytes]:
        """Return the reports of many devices, for simulations: the same as `report` on each."""
        protocol = self._protocol
        record = self._record(np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64))
        shape = (protocol.n_copies, protocol.n_features + 1)
        stds = protocol.copy_noise.stds
        head = HEAD.pack(MAGIC, protocol.id)
        out: list[bytes] = []
        step = max(1, _BATCH // (shape[0] * shape[1]))
        for start in range(0, len(record), step):
            part = record[start : start + step]
            normals = standard_normals(len(part) * shape[0] * shape[1], self._random_bytes).reshape(-1, *shape)
            # half up, as the proof of the Gaussian mechanism on a grid wants it
            noise = np.floor(normals * (stds / protocol.tick)[:, None] + 0.5).astype(np.int64)
            ticks = (part[:, None, :] + noise).astype("<i4")
            out.extend(head + report.tobytes() for report in ticks)
        return out

    def _record(self, X: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return (x, y) of each person in whole ticks, |x| <= 1 exactly."""
        protocol = self._protocol
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
