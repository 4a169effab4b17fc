"""A table whose partitions are held by any pool, without Dask: numbering and replay in whole fits."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

from sottovoce.central.data.operation import Holder
from sottovoce.cluster.predicting import say
from sottovoce.cluster.table import DaskTable
from tests.support.faulty_sources import InlineSource
from tests.support.parts_pool import PartsPool


def inline(X: Any, y: np.ndarray | None, ends: Sequence[int]) -> list[InlineSource]:
    """Return sources of rows, and their labels, that are cut at some rows."""
    edges = pairwise((0, *ends, X.shape[0]))
    return [InlineSource(X[a:b], None if y is None else y[a:b], first_row=a) for a, b in edges]


class PooledTable(DaskTable):
    """Rows and labels in partitions that end at some rows, and at the last one.

    ``seen`` makes what a fit is given of the holder.
    """

    def __init__(
        self, pool: PartsPool, X: Any, y: np.ndarray | None, ends: Sequence[int],
        seen: Callable[[Holder], Holder] = lambda holder: holder,
    ) -> None:  # fmt: skip
        self._seen = seen
        super().__init__(pool, inline(X, y, ends), max_rebuilds=100, read=False)  # type: ignore[arg-type]

    def _pool(self, client: Any, time_limit: float) -> Any:
        return client

    @contextmanager
    def opened(self) -> Iterator[Holder]:
        """Open it for one fit."""
        with super().opened() as holder:
            yield self._seen(holder)

    def counted(self, model: Any, method: str) -> list[Any]:
        """Say it as workers do, one after another."""
        self.partitions.settle()
        own = zip(self.partitions.sources, self.partitions.first_rows, strict=True)
        return [say(model, method, source, (), first_row, len(self), True) for source, first_row in own]
