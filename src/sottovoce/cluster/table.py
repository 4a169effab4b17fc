"""DaskTable: a table whose rows lie in the workers of a Dask cluster, as X of fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sottovoce._validation import in_order, number, whole_number
from sottovoce.central.data.operation import Holder
from sottovoce.central.data.streamed import RemoteTable
from sottovoce.cluster.dask_pool import DaskPool, warn_of_network
from sottovoce.cluster.holder import ClusterHolder
from sottovoce.cluster.partitions import Partitions
from sottovoce.cluster.sources import Source, partitions_of
from sottovoce.exceptions import ClusterError, DataError, ParameterError
from sottovoce.tables.parquet import ParquetTable

if TYPE_CHECKING:
    from distributed import Client

    from sottovoce.tables import Schema


class DaskTable(RemoteTable):
    """Numeric columns whose rows are held by the workers of a cluster, for training where they are.

    Each partition is read once, by one worker, and stays there with all that a fit remembers of its rows. What leaves
    a worker is exact sums, to the driver (the process that calls ``fit``), which adds noise before anything is used.
    Estimators take the table in place of X and release the same model, bit by bit, as for the same rows in one array.
    When a worker dies, others read its partitions again and repeat the released steps: the model is still the same.

    Make one with `from_parquet`. A second fit reads nothing again. `close` gives the memory of the
    workers back; the table is a context manager that does.

    Parameters
    ----------
    client : distributed.Client
        Of Dask's scheduler. Whoever reaches that one can run code there: use TLS, or a network of your own.
    sources : sequence of Source
        One for each partition, in the order of rows.
    features : sequence of str
        Names of the columns; empty where they have none.
    target : str or None
        Name of the column of labels.
    time_limit : float, default=300
        Seconds without a sign of life after which a worker is held to be lost. One that lives and does not answer is
        given up ``time_limit`` seconds after it has taken ten times as long as the slowest of the others.
    wait_for_workers : float, default=60
        Seconds to wait for a worker when there is none.
    max_rebuilds : int, default=5
        How often in a row a partition may be lost before the fit is given up.
    read : bool, default=True
        False leaves reading to the first fit, as where values are read after the charge.

    Raises
    ------
    ParameterError
        If an argument is wrong, or ``sottovoce[cluster]`` is not installed.
    DataError
        If rows cannot be read.
    ClusterError
        If there is no worker.
    """

    def __init__(
        self,
        client: Client,
        sources: Sequence[Source],
        features: Sequence[str] = (),
        target: str | None = None,
        *,
        time_limit: float = 300.0,
        wait_for_workers: float = 60.0,
        max_rebuilds: int = 5,
        read: bool = True,
    ) -> None:
        if not sources:
            raise ParameterError("sources must name at least one partition; got none.")
        self.told: Callable[[ClusterHolder], None] | None = None  # called after each operation of a fit
        self._client, self._features, self._target = client, in_order("features", features), target
        self._groups: Callable[[], Any] | None = None
        self._busy = Lock()
        self._closed = False
        self.partitions = Partitions(
            self._pool(client, time_limit),
            sources,
            max_rebuilds=whole_number("max_rebuilds", max_rebuilds, at_least=0),
            wait_for_workers=number("wait_for_workers", wait_for_workers, at_least=0.0),
        )
        try:
            self._check_sources()
            if read:
                self.partitions.settle()
        except BaseException:
            self.close()
            raise

    def _pool(self, client: Client, time_limit: float) -> DaskPool:
        pool = DaskPool(client, time_limit=time_limit)
        warn_of_network(client)
        return pool

    @classmethod
    def from_parquet(
        cls,
        client: Client,
        path: str | Path | Sequence[str | Path],
        *,
        features: Sequence[str] | None = None,
        target: str | None = None,
        dtype: str = "float32",
        schema: Schema | None = None,
        partitions: int | None = None,
        storage: str | None = None,
        filesystem: Any = None,
        **options: Any,
    ) -> Self:
        """Return a table of Parquet files that workers read; the driver reads their footers only.

        Parameters
        ----------
        client : distributed.Client
        path : str, Path or sequence of them
            Files, folders or patterns, as `sottovoce.ParquetTable` takes them: ``s3://``, ``gs://``, ``hdfs://``, or a
            path that leads to the same files on all machines.
        features : sequence of str or None, default=None
            The columns of the matrix, in this order. None: all but the target.
        target : str or None, default=None
            The column of labels.
        dtype : {"float32", "float64"}, default="float32"
        schema : sottovoce.tables.Schema or None, default=None
            As `sottovoce.ParquetTable` takes it. Values are read when a fit has paid for them.
        partitions : int or None, default=None
            How many are wanted; None: 6 a worker. There are fewer where files have fewer row groups.
        storage : {"memory", "scratch"} or None, default=None
            Where workers keep the rows: in memory, or on their scratch disk. None: in memory if all rows take less than
            half of it.
        filesystem : pyarrow.fs.FileSystem or None, default=None
            As `sottovoce.ParquetTable` takes it: where the paths are, with keys and endpoints. It goes to all workers.
        **options
            Of the class: ``time_limit``, ``wait_for_workers``, ``max_rebuilds``.
        """
        limits = [worker.memory_limit for worker in DaskPool(client).workers()]
        table = ParquetTable(path, features=features, target=target, dtype=dtype, schema=schema, filesystem=filesystem)
        sources = partitions_of(table, limits, partitions, storage)
        made = cls(client, sources, table.feature_names, table.target, read=schema is None, **options)
        made._groups = table.groups
        return made

    def __repr__(self) -> str:
        n_rows, n_columns = self.shape
        n_workers = self.partitions.n_workers
        return (
            f"DaskTable({n_rows} rows x {n_columns} columns, {self.dtype}, {len(self.partitions.sources)} partitions "
            f"on {n_workers} worker{'s' * (n_workers != 1)}, {self._kept()}{', closed' * self._closed})"
        )

    @property
    def shape(self) -> tuple[int, int]:
        sources = self.partitions.sources
        return sum(source.n_rows for source in sources), sources[0].shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.partitions.sources[0].dtype

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self._features

    @property
    def target(self) -> str | None:
        """Name of the column of labels."""
        return self._target

    @property
    def has_labels(self) -> bool:
        return self.partitions.sources[0].has_labels

    @property
    def groups(self) -> Callable[[], Any] | None:
        """What has the driver read whose row each is, when a fit has paid for it; None where the unit is a row."""
        return self._groups

    @contextmanager
    def opened(self) -> Iterator[Holder]:
        """Open the table for one fit; another one at the same time is refused."""
        self._refuse_closed()
        if not self._busy.acquire(blocking=False):
            raise ParameterError("the DaskTable is in use by another fit: wait for it, or make a second table.")
        try:
            self.partitions.settle()
            holder = ClusterHolder(self.partitions, self.told)
            try:
                yield holder
            finally:
                with suppress(ClusterError):  # nobody is left to forget anything
                    holder.close()
        finally:
            self._busy.release()

    def predicted(self, model: Any, method: str) -> Any:
        """Return what a method of a fitted model says of each row: an array of Dask's, one chunk a partition.

        Nothing is done, and nothing is gathered, before it is asked for: ``compute()``, ``to_zarr(...)``, ``sum()``.
        """
        from sottovoce.cluster.predicting import predicted_array

        self._refuse_closed()
        return predicted_array(self.partitions, self._features, model, method)

    def counted(self, model: Any, method: str) -> Sequence[Any]:
        """Return what a method of a fitted model says of each partition and its labels, now."""
        from sottovoce.cluster.predicting import counted

        self._refuse_closed()
        return counted(self.partitions, self._features, model, method, self._client)

    def _kept(self) -> str:
        kept = {source.storage for source in self.partitions.sources}
        words = {"memory": "in memory", "scratch": "on scratch disk"}
        return " and ".join(words[name] for name in sorted(kept))

    def _refuse_closed(self) -> None:
        if self._closed:
            raise ParameterError("the DaskTable is closed: make a new one.")

    def close(self) -> None:
        """Have workers let go of the rows."""
        self._closed = True
        self.partitions.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_sources(self) -> None:
        kinds = [
            f"{one.shape[1]} columns of {one.dtype}, with{'' if one.has_labels else 'out'} labels"
            for one in self.partitions.sources
        ]
        for place, kind in enumerate(kinds):
            if kind != kinds[0]:
                raise DataError(f"partition {place} has {kind}, and partition 0 has {kinds[0]}.")
        if self._features and len(self._features) != self.shape[1]:
            raise ParameterError(f"features names {len(self._features)} columns; the rows have {self.shape[1]}.")
        if not self.shape[0]:
            raise DataError("the table has columns, but no row of data.")
