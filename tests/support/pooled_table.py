"""A table whose partitions are held by any pool, without Dask: numbering and replay in whole fits."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

from sottovoce.central.data.holder import Holder
from sottovoce.central.data.outside import RemoteTable
from sottovoce.cluster.holder import ClusterHolder
from sottovoce.cluster.partitions import Partitions
from sottovoce.cluster.pool import Pool
from tests.support.faulty_sources import InlineSource


class PooledTable(RemoteTable):
    """Rows and labels in partitions that end at some rows, and at the last one.

    Parameters
    ----------
    pool : Pool
    X, y : ndarray
    ends : sequence of int
    seen : callable
        Makes what a fit is given of the holder.
    """

    feature_names: tuple[str, ...] = ()  # type: ignore[assignment]
    has_labels = True  # type: ignore[assignment]

    def __init__(
        self,
        pool: Pool,
        X: np.ndarray,
        y: np.ndarray,
        ends: Sequence[int],
        seen: Callable[[Holder], Holder] = lambda holder: holder,
    ) -> None:
        self._X = X
        self._seen = seen
        sources = [InlineSource(X[a:b], y[a:b], first_row=a) for a, b in pairwise((0, *ends, X.shape[0]))]
        self.partitions = Partitions(pool, sources, max_rebuilds=100)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self._X.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the entries."""
        return self._X.dtype

    @contextmanager
    def opened(self) -> Iterator[Holder]:
        """Open it for one fit."""
        holder = ClusterHolder(self.partitions)
        yield self._seen(holder)
        holder.close()

    def predicted(self, model: Any, method: str) -> Any:
        """Not here."""
        raise NotImplementedError

    def counted(self, model: Any, method: str) -> Any:
        """Not here."""
        raise NotImplementedError
