"""InlineSource: rows that are sent to their worker as they are."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sottovoce.cluster.digest import digest_of
from sottovoce.cluster.sources import LoadedRows, Source

__all__ = ["InlineSource"]


class InlineSource(Source):
    """Rows in memory, of the driver first and then of the worker.

    ``raw``: ndarray or CSR matrix of shape (n, d), float32 or float64.
    ``labels``: ndarray of shape (n,) or None.
    """

    is_readable_anywhere = False  # it is, but a look should not send the rows once more

    def __init__(
        self, raw: Any, labels: NDArray[Any] | None, *, first_row: int = 0, names: tuple[str, ...] = ()
    ) -> None:
        self.raw, self.labels = raw, labels
        self.first_row, self.n_rows = first_row, int(raw.shape[0])
        self.names = names

    def __repr__(self) -> str:
        return f"{self.n_rows} rows from {self.first_row} on"

    def load(self, scratch: Path | None) -> LoadedRows:
        raw = self.raw if sp.issparse(self.raw) else np.ascontiguousarray(self.raw)
        return LoadedRows(raw, self.labels, digest_of(raw, self.labels, self.names), self.raw.shape[0])
