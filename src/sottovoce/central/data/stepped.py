"""Tables on disk whose rows go through a step, block by block, each time that they are read: nothing is written."""

from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sottovoce.central.data.row_memory import RowMemory
from sottovoce.central.data.streamed import StreamedTable, is_sparse
from sottovoce.exceptions import DataError

__all__ = ["SteppedTable", "rows_after"]


class SteppedTable(StreamedTable):
    """The rows of another table after a step that treats each row by itself; its labels are beside them.

    ``step``: from some rows to as many. What comes of a row of ones says how many columns there are, and of what type.
    """

    # known at once, where others have to look
    shape: tuple[int, int] = (0, 0)
    dtype: np.dtype[Any] = np.dtype(np.float64)
    feature_names: tuple[str, ...] = ()  # columns are no longer those of the table
    whole_rows: int = 0
    has_labels: bool = False

    def __init__(self, table: StreamedTable, step: Callable[[Any], Any]) -> None:
        self._table, self._step = table, step
        self.first_row, self.whole_rows = table.first_row, table.whole_rows
        self.scratch, self.has_labels = table.scratch, table.has_labels
        like = rows_after(step, np.ones((1, table.shape[1]), table.dtype))
        self.shape, self.dtype, self.has_sparse_rows = (table.shape[0], like.shape[1]), like.dtype, is_sparse(like)

    def __repr__(self) -> str:
        return f"{self._table!r}, after a step"

    def labels(self) -> NDArray[Any]:
        return self._table.labels()

    def label_blocks(self) -> Generator[tuple[slice, NDArray[Any]]]:
        return self._table.label_blocks()

    def row_memory(self, n_rows: int) -> RowMemory:
        return self._table.row_memory(n_rows)

    def _read(self, n_threads: int) -> Generator[Any]:
        with closing(self._table._read(n_threads)) as blocks:
            for block in blocks:
                rows = rows_after(self._step, block)
                if rows.shape[1] != self.shape[1]:
                    raise DataError(
                        f"a step made {rows.shape[1]} columns of some rows, and {self.shape[1]} of a row of ones: "
                        "it does not treat each row by itself."
                    )
                yield rows.astype(self.dtype, copy=False)


def rows_after(step: Callable[[Any], Any], rows: Any) -> Any:
    """Return what a step makes of some rows, as kernels take it: C-contiguous floats, or canonical CSR."""
    made = step(rows) if rows.shape[0] else step(np.ones((1, rows.shape[1]), rows.dtype))[:0]
    if made.shape[0] != rows.shape[0]:
        raise DataError(f"a step made {made.shape[0]} rows of {rows.shape[0]}: it does not treat each row by itself.")
    dtype = made.dtype if made.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    if not is_sparse(made):
        return np.ascontiguousarray(made, dtype)
    made = sp.csr_array(made.astype(dtype, copy=False))
    made.sum_duplicates()
    return made
