"""Digests of the rows of a partition, which must be the same when they are read again."""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


class RowsDigest:
    """Takes rows block by block, however they are cut, then their labels.

    ``names``: of the columns.
    """

    def __init__(self, names: tuple[str, ...], shape: tuple[int, int], dtype: Any) -> None:
        self._hash = hashlib.blake2b(repr((tuple(names), tuple(shape), str(dtype))).encode(), digest_size=16)

    def add(self, piece: NDArray[Any]) -> None:
        self._hash.update(np.ascontiguousarray(piece).view(np.uint8).data)

    def add_rows(self, rows: Any) -> None:
        for piece in (rows.data, rows.indices, rows.indptr) if hasattr(rows, "indptr") else (rows,):
            self.add(piece)

    def add_labels(self, labels: NDArray[Any] | None) -> None:
        if labels is not None:
            self._hash.update(str(labels.dtype).encode())
            self.add(labels if labels.dtype != object else np.array([repr(label) for label in labels]))

    @property
    def value(self) -> str:
        return self._hash.hexdigest()
