"""Where the rows of a partition come from: a value that is sent to a worker, and read there."""

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class LoadedRows:
    """The rows of one partition, in the worker that holds them. It is never sent anywhere."""

    raw: Any  # ndarray, CSR matrix or StreamedTable of shape (n_rows, n_features)
    # As they are in the table: numbers, booleans or texts. None where the table names no target.
    labels: NDArray[Any] | None
    # Fingerprint of the decoded rows, their labels, the names of the columns and the type of the entries. A rebuilt
    # partition must have the same one, or it is not the same rows.
    digest: str
    n_rows: int

    def close(self) -> None:
        close = getattr(self.raw, "close", None)
        if close is not None:
            close()


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


class Source(ABC):
    """Rows of one partition, before they are read. Subclasses can be pickled, and hold no open file.

    What the driver knows of them before is public, and no worker is asked for it:

    ``shape``, ``dtype``, ``has_labels``: of the rows, and whether a label belongs to each.
    ``entries_a_row``: that a row takes in memory at most.
    ``storage``: where a worker keeps the rows: "memory" or "scratch" (its disk).
    ``first_row``: place of the first row in the whole table, for messages.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    has_labels: bool
    entries_a_row: int
    storage: str = "memory"
    first_row: int = 0

    @property
    def n_rows(self) -> int:
        return self.shape[0]

    @property
    def n_bytes(self) -> int:
        """How much memory the rows take at most, where they are held."""
        return self.n_rows * self.entries_a_row * self.dtype.itemsize if self.storage == "memory" else 0

    @property
    def key(self) -> str:
        """Name of these rows, the same in every process that the source was sent to."""
        key: str = self.__dict__.setdefault("_key", uuid4().hex)
        return key

    def __getstate__(self) -> dict[str, Any]:
        assert self.key
        return self.__dict__

    @abstractmethod
    def load(self, scratch: Path | None) -> LoadedRows:
        """Read the rows, in the worker, once; a second call gives the same rows, or raises.

        ``scratch``: folder on the worker's disk where a private folder may be made; None: where temporary files are.

        Raises DataError if the rows cannot be read, or are not those that the table was opened with.
        """

    def opened(self, scratch: Path | None) -> LoadedRows:
        """Return the rows for one look at them in order, where nobody holds them; need not keep them, nor hash them."""
        return self.load(scratch)


_HELD: Final[WeakValueDictionary[str, LoadedRows]] = WeakValueDictionary()


def load(source: Source, scratch: Path | None) -> LoadedRows:
    """Read the rows of a source, and let whoever looks for them in this process find them while they are held."""
    loaded = source.load(scratch)
    _HELD[source.key] = loaded
    return loaded


def held(source: Source) -> LoadedRows | None:
    return _HELD.get(source.key)
