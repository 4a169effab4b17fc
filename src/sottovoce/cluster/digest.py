"""Fingerprint of the rows of a partition: rows that are read again must be the rows that were read at first."""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["RowsDigest", "digest_of"]


class RowsDigest:
    """Takes rows block by block, however they are cut, then their labels.

    ``names``: of the columns.
    """

    def __init__(self, names: tuple[str, ...], shape: tuple[int, int], dtype: Any) -> None:
        self._hash = hashlib.blake2b(repr((tuple(names), tuple(shape), str(dtype))).encode(), digest_size=16)

    def add(self, piece: NDArray[Any]) -> None:
        self._hash.update(np.ascontiguousarray(piece).view(np.uint8).data)

    def add_labels(self, labels: NDArray[Any] | None) -> None:
        if labels is not None:
            self._hash.update(str(labels.dtype).encode())
            self.add(labels if labels.dtype != object else np.array([repr(label) for label in labels]))

    @property
    def value(self) -> str:
        return self._hash.hexdigest()


def digest_of(raw: Any, labels: NDArray[Any] | None, names: tuple[str, ...]) -> str:
    """Return the fingerprint of rows in memory, dense or CSR, and of their labels."""
    digest = RowsDigest(names, raw.shape, raw.dtype)
    for piece in [raw.data, raw.indices, raw.indptr] if hasattr(raw, "indptr") else [raw]:
        digest.add(piece)
    digest.add_labels(labels)
    return digest.value
