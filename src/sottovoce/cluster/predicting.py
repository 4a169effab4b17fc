"""What fitted models say of rows that workers hold: tasks that only read, so that Dask may run them again.

A task runs where its partition is held. Where it is run elsewhere (the worker died) it reads the partition again.
"""

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.central.data.streamed import StreamedTable
from sottovoce.cluster.partitions import Partitions
from sottovoce.cluster.sources import LoadedRows, Source, held
from sottovoce.exceptions import ClusterError

_ROWS: Final = 1 << 16  # of a matrix in memory that are looked at together


class PartTable(StreamedTable):
    """The rows that a worker holds, as a table that fitted models take.

    ``first_row``, ``whole_rows``: place of the first row in the whole table, and the number of its rows.
    """

    shape: tuple[int, int] = (0, 0)
    dtype: np.dtype[Any] = np.dtype(np.float64)
    feature_names: tuple[str, ...] = ()
    whole_rows: int = 0

    def __init__(self, loaded: LoadedRows, names: tuple[str, ...], first_row: int, whole_rows: int) -> None:
        self._loaded, self.feature_names, self.first_row, self.whole_rows = loaded, names, first_row, whole_rows
        self.shape, self.dtype = (loaded.n_rows, int(loaded.raw.shape[1])), np.dtype(loaded.raw.dtype)

    def labels(self) -> NDArray[Any]:
        assert self._loaded.labels is not None
        return self._loaded.labels

    def _read(self, n_threads: int) -> Generator[Any]:
        raw = self._loaded.raw
        if isinstance(raw, StreamedTable):
            for _, block in raw.blocks(n_threads):
                yield block
            return
        for lo in range(0, raw.shape[0], _ROWS):
            yield raw[lo : lo + _ROWS]


def predicted_array(parts: Partitions, names: tuple[str, ...], model: Any, method: str) -> Any:
    """Return what a method of a fitted model says of each row: an array of Dask's, one chunk a partition.

    Nothing is done before it is asked for (``compute``, ``to_zarr``, ...).
    """
    arrays = import_module("dask.array")
    # the answer about one row, of zeros, tells type and shape
    one = LoadedRows(np.zeros((1, model.n_features_in_), parts.sources[0].dtype), None, "", 1)
    sample = getattr(model, method)(PartTable(one, names, 0, 1))
    return arrays.concatenate([
        arrays.from_delayed(answer, shape=(source.n_rows, *sample.shape[1:]), meta=sample[:0])
        for source, answer in zip(parts.sources, _tasks(parts, names, model, method), strict=True)
    ])  # fmt: skip


def counted(parts: Partitions, names: tuple[str, ...], model: Any, method: str, client: Any) -> list[Any]:
    """Return what a method of a fitted model says of the rows and labels of each partition, now.

    Raises what it raised first, in the order of rows.
    """
    return [future.result() for future in client.compute(_tasks(parts, names, model, method, labelled=True))]


def _tasks(parts: Partitions, names: tuple[str, ...], model: Any, method: str, *, labelled: bool = False) -> list[Any]:
    dask, whole, tasks = import_module("dask"), sum(source.n_rows for source in parts.sources), []
    sent = dask.delayed(model, pure=False)
    for place, (source, first_row) in enumerate(zip(parts.sources, parts.first_rows, strict=True)):
        worker = parts.worker_of(place)
        with dask.annotate(**({} if worker is None else {"workers": [worker], "allow_other_workers": True})):
            tasks.append(dask.delayed(say, pure=False)(sent, method, source, names, first_row, whole, labelled))
    return tasks


def say(
    model: Any, method: str, source: Source, names: tuple[str, ...], first_row: int, whole: int, labelled: bool
) -> Any:
    with _rows(source) as loaded:
        table = PartTable(loaded, names, first_row, whole)
        return getattr(model, method)(table, *([table.labels()] if labelled else []))


@contextmanager
def _rows(source: Source) -> Iterator[LoadedRows]:
    """Yield the rows of a source in this worker: those that are held, else read for this once."""
    from distributed import get_worker

    found = held(source)
    if found is not None:
        yield found
        return
    try:
        scratch = Path(get_worker().local_directory)
    except ValueError:
        raise ClusterError(
            "rows of a DaskTable are read by workers of its cluster alone: give this array to the client that the "
            "table was made with (client.compute(array).result()), or keep that client open and the default one."
        ) from None
    with closing(source.opened(scratch)) as own:
        yield own
