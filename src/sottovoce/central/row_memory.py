"""What is remembered of each row, by name: scale, label, dual variables. It stays where the rows are.

In memory for tables that fit. In a private folder for tables that do not: then no number of rows fills the memory.
"""

import shutil
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["DIVISOR", "LABEL", "LENGTH", "SCALE", "TARGET", "WEIGHT", "InMemory", "OnDisk", "RowMemory"]

# names of columns that several operations know
SCALE: Final = "scale"  # what a raw row is multiplied by
DIVISOR: Final = "divisor"  # upper bound on the norm of the scaled row
LENGTH: Final = "length"  # norm of the raw row, until it is scaled
LABEL: Final = "label"  # the class by its place in the public list, or the number within its bounds
TARGET: Final = "target"  # what the model at work is trained on
WEIGHT: Final = "weight"  # of the row over its public bound

Column = NDArray[Any]


class RowMemory(ABC):
    """Columns of one number, or of a vector, for each row.

    Parameters
    ----------
    n_rows : int
    """

    def __init__(self, n_rows: int) -> None:
        self.n_rows = n_rows

    @abstractmethod
    def new(self, name: str, *, width: int | None = None, dtype: Any = np.float64) -> None:
        """Make a column of zeros, of ``width`` numbers a row; it replaces one of the same name."""

    @abstractmethod
    def get(self, name: str, place: slice) -> Column:
        """Return some rows of a column; what is written there counts after `put`."""

    @abstractmethod
    def put(self, name: str, place: slice, values: Column) -> None:
        """Write some rows of a column."""

    @abstractmethod
    def drop(self, name: str) -> None:
        """Forget a column."""

    @abstractmethod
    def __contains__(self, name: object) -> bool: ...

    def whole(self, name: str) -> Column:
        """Return a column of all rows."""
        return self.get(name, slice(0, self.n_rows))

    def set(self, name: str, values: Column) -> None:
        """Make a column of these values, one (or one vector) a row."""
        self.new(name, width=None if values.ndim == 1 else values.shape[1], dtype=values.dtype)
        self.put(name, slice(0, self.n_rows), values)

    def close(self) -> None:  # noqa: B027 - memory needs no closing
        """Give back what the columns take."""


class InMemory(RowMemory):
    """Columns as arrays."""

    def __init__(self, n_rows: int) -> None:
        super().__init__(n_rows)
        self._columns: dict[str, Column] = {}

    def new(self, name: str, *, width: int | None = None, dtype: Any = np.float64) -> None:
        """Make a column of zeros."""
        self._columns[name] = np.zeros(self.n_rows if width is None else (self.n_rows, width), dtype)

    def get(self, name: str, place: slice) -> Column:
        """Return a view."""
        return self._columns[name][place]

    def put(self, name: str, place: slice, values: Column) -> None:
        """Write some rows; a view that was written to is there already."""
        into = self._columns[name][place]
        if not np.shares_memory(into, values):
            into[...] = values

    def set(self, name: str, values: Column) -> None:
        """Take these values for a column, without a copy."""
        self._columns[name] = values

    def drop(self, name: str) -> None:
        """Forget a column."""
        self._columns.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._columns


class OnDisk(RowMemory):
    """Columns as files of a private folder, which is deleted at the end.

    Parameters
    ----------
    n_rows : int
    folder : str, Path or None, default=None
        Where the private folder is made; None: where temporary files are.
    """

    def __init__(self, n_rows: int, folder: "str | Path | None" = None) -> None:
        super().__init__(n_rows)
        self._folder = Path(tempfile.mkdtemp(prefix="sottovoce-rows-", dir=folder))
        self._shapes: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}

    def new(self, name: str, *, width: int | None = None, dtype: Any = np.float64) -> None:
        """Make a column of zeros."""
        shape, kind = () if width is None else (width,), np.dtype(dtype)
        self._shapes[name] = shape, kind
        with self._path(name).open("wb") as file:
            file.truncate(self.n_rows * self._bytes(name))

    def get(self, name: str, place: slice) -> Column:
        """Read some rows."""
        shape, kind = self._shapes[name]
        count = place.stop - place.start
        values = np.fromfile(
            self._path(name), kind, count * max(1, int(np.prod(shape))), offset=place.start * self._bytes(name)
        )
        return values.reshape(count, *shape)

    def put(self, name: str, place: slice, values: Column) -> None:
        """Write some rows."""
        with self._path(name).open("r+b") as file:
            file.seek(place.start * self._bytes(name))
            np.ascontiguousarray(values, self._shapes[name][1]).tofile(file)

    def drop(self, name: str) -> None:
        """Forget a column."""
        if self._shapes.pop(name, None) is not None:
            self._path(name).unlink()

    def __contains__(self, name: object) -> bool:
        return name in self._shapes

    def close(self) -> None:
        """Delete the folder."""
        self._shapes.clear()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _path(self, name: str) -> Path:
        return self._folder / name.replace(" ", "_")

    def _bytes(self, name: str) -> int:
        shape, kind = self._shapes[name]
        return kind.itemsize * int(np.prod(shape, dtype=np.int64))
