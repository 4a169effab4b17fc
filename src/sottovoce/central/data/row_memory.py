"""What is remembered of each row, by name: scale, label, dual variables. It stays where the rows are.

In memory for tables that fit. On scratch disk for tables that do not: then no number of rows fills the memory.
"""

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.central.data.scratch import mapped

# names of columns that several operations know
SCALE: Final = "scale"  # what a raw row is multiplied by
DIVISOR: Final = "divisor"  # upper bound on the norm of the scaled row
LENGTH: Final = "length"  # norm of the raw row, until it is scaled
LABEL: Final = "label"  # the class by its place in the public list, or the number within its bounds
TARGET: Final = "target"  # what the model at work is trained on
KEPT: Final = "kept"  # whether a release uses the row, where it does not use all
WEIGHT: Final = "weight"  # of the row over its public bound
DUAL: Final = "dual"  # its dual variable after the last pass
DUAL_BEFORE: Final = "dual before"  # and after the one before

Column = NDArray[Any]


class RowMemory:
    """Columns of one number, or of a vector, for each row: arrays, here in memory."""

    def __init__(self, n_rows: int) -> None:
        self.n_rows = n_rows
        self._columns: dict[str, Column] = {}

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Column:
        """Return room for a column."""
        return np.zeros(shape, dtype)

    def new(self, name: str, *, width: int | None = None, dtype: Any = np.float64) -> None:
        """Make a column of zeros, of ``width`` numbers a row; it replaces one of the same name."""
        self.drop(name)
        self._columns[name] = self.zeros((self.n_rows,) if width is None else (self.n_rows, width), dtype)

    def whole(self, name: str) -> Column:
        return self._columns[name]

    def get(self, name: str, place: slice) -> Column:
        """Return some rows of a column; what is written there counts after `put`."""
        column = self._columns[name]
        return column if place == slice(0, self.n_rows) else column[place]

    def put(self, name: str, place: slice, values: Column) -> None:
        """Write some rows; a view that was written to is there already."""
        into = self.get(name, place)
        if values is not into and not np.shares_memory(into, values):
            into[...] = values

    def drop(self, name: str) -> None:
        self._columns.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def set(self, name: str, values: Column) -> None:
        """Make a column of these values, one (or one vector) a row; in memory without a copy."""
        self._columns[name] = values

    def fill(self, name: str, value: float) -> None:
        """Make a column of one number in all rows."""
        self.new(name)
        self._columns[name][...] = value

    def close(self) -> None:
        """Forget all columns; the room of those on disk is given back with the last who knows one."""
        self._columns.clear()


class OnDisk(RowMemory):
    """Columns in scratch files that are mapped into memory, of which the system keeps what it has room for.

    ``folder``: where the files take their room; None: where temporary files are.
    """

    def __init__(self, n_rows: int, folder: "str | Path | None" = None) -> None:
        super().__init__(n_rows)
        self._folder = folder

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Column:
        return mapped(shape, dtype, self._folder)

    def set(self, name: str, values: Column) -> None:
        self.new(name, width=None if values.ndim == 1 else values.shape[1], dtype=values.dtype)
        self.put(name, slice(0, self.n_rows), values)
