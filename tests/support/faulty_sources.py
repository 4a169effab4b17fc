"""Sources of rows in memory, and some whose worker comes to grief."""

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sottovoce.cluster.sources import LoadedRows, RowsDigest, Source


class InlineSource(Source):
    """Rows in memory, of the driver first and then of the worker."""

    def __init__(self, raw: Any, labels: NDArray[Any] | None, *, first_row: int = 0) -> None:
        self.raw, self.labels = raw, labels
        self.first_row, self.shape, self.dtype = first_row, raw.shape, raw.dtype
        self.has_labels, self.entries_a_row = labels is not None, raw.shape[1]

    def __repr__(self) -> str:
        """Return their place."""
        return f"{self.n_rows} rows from {self.first_row} on"

    def load(self, scratch: Path | None) -> LoadedRows:
        """Take them as they are."""
        raw = self.raw if sp.issparse(self.raw) else np.ascontiguousarray(self.raw)
        digest = RowsDigest((), raw.shape, raw.dtype)
        digest.add_rows(raw)
        digest.add_labels(self.labels)
        return LoadedRows(raw, self.labels, digest.value, self.raw.shape[0])


class FatalSource(InlineSource):
    """Its worker is killed whenever it reads the rows, as by a system that is out of memory."""

    def load(self, scratch: Path | None) -> LoadedRows:
        """Die."""
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError
