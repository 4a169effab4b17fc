"""Digests: of the rows of a partition, which must be the same when they are read again, and of what is asked of it."""

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
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


def question_digest(value: object) -> str:
    """Return a SHA-256 of a value made of numbers, words, arrays, tuples and dataclasses; of what it says, not how.

    Raises TypeError if there is something else in it.
    """
    total = hashlib.sha256()
    for piece in _pieces(value):
        total.update(struct.pack("<Q", len(piece)))
        total.update(piece)
    return total.hexdigest()


def _pieces(value: Any) -> Iterator[bytes]:
    if value is None or isinstance(value, (bool, np.bool_)):
        yield f"{value}".encode()
    elif isinstance(value, Enum):
        yield f"enum {_name(type(value))}.{value.name}".encode()
    elif isinstance(value, (int, np.integer)):
        yield f"int {int(value)}".encode()
    elif isinstance(value, (float, np.floating)):
        yield b"float" + struct.pack("<d", float(value))
    elif isinstance(value, str):
        yield b"str" + value.encode()
    elif isinstance(value, bytes):
        yield b"bytes" + value
    elif isinstance(value, np.dtype):
        yield b"dtype" + value.str.encode()
    elif isinstance(value, type):
        yield b"type" + _name(value).encode()
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        yield f"array {value.dtype.str} {value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, (tuple, list)):
        yield f"{_name(type(value))} of {len(value)}".encode()
        for each in value:
            yield from _pieces(each)
    elif isinstance(value, dict):
        yield f"dict of {len(value)}".encode()
        for key in sorted(value, key=repr):
            yield from _pieces(key)
            yield from _pieces(value[key])
    elif is_dataclass(value):
        yield f"{_name(type(value))} {[field.name for field in fields(value)]}".encode()
        for field in fields(value):
            yield from _pieces(getattr(value, field.name))
    else:
        raise TypeError(f"there is no digest of {value!r}: {_name(type(value))} is none of the plain values.")


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
