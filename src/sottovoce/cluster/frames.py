"""Partitions of a Dask data frame: computed once by the cluster, turned into numbers by the worker that holds them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from sottovoce._columns import refuse_by_cell, refuse_by_type, refuse_texts
from sottovoce._validation import in_order
from sottovoce.cluster.dask_pool import check_client
from sottovoce.cluster.digest import digest_of
from sottovoce.cluster.partitions import Prepare
from sottovoce.cluster.sources import LoadedRows, Source
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.tables.parquet import check_names

if TYPE_CHECKING:
    import pandas as pd

_LOOK: Final = 1.0  # seconds between two looks at which workers are there
_READY: "Final[dict[str, pd.DataFrame]]" = {}  # computed partitions, in the worker that is about to hold them


class FrameSource(Source):
    """One partition of a data frame. A worker is told which task of Dask's makes it, and cannot make it alone.

    ``place``: of the partition.
    ``token``: under which the computed partition lies in the process of the worker.
    """

    is_readable_anywhere = False  # it is computed first, and brought to its worker

    def __init__(self, place: int, features: tuple[str, ...], target: str | None, dtype: str, token: str = "") -> None:
        self.place, self.features, self.target, self.dtype = place, features, target, dtype
        self.token = token

    def __repr__(self) -> str:
        return f"partition {self.place} of the data frame"

    def computed(self) -> "FrameSource":
        source = FrameSource(self.place, self.features, self.target, self.dtype, uuid4().hex)
        source.__dict__["_key"] = self.key  # the same rows
        return source

    def load(self, scratch: Path | None) -> LoadedRows:
        frame = _READY.pop(self.token)
        columns = frame[list(self.features)]
        refuse_by_type(columns)  # a partition may have other types than its frame says
        refuse_by_cell(columns)
        raw = np.empty((len(frame), len(self.features)), self.dtype)
        try:
            for k, name in enumerate(self.features):
                with np.errstate(over="ignore"):  # beyond float32 is infinity, which is refused with its row
                    raw[:, k] = frame[name].to_numpy(np.float64, na_value=np.nan)
        except (TypeError, ValueError, OverflowError):  # words of numpy, with the cell in them
            refuse_texts(columns)
            raise
        labels = None if self.target is None else self._labels(frame[self.target])
        return LoadedRows(raw, labels, digest_of(raw, labels, self.features), len(frame))

    def _labels(self, column: "pd.Series[Any]") -> NDArray[Any]:
        missing = np.flatnonzero(column.isna().to_numpy())
        if missing.size:
            raise DataError(
                f"column {self.target!r}: row {missing[0]} of {self!r} has no label ({missing.size} row(s) in it). "
                "Drop those rows before."
            )
        labels: NDArray[Any] = column.to_numpy()
        return labels


def frame_sources(
    client: Any, frame: Any, *, features: Sequence[str] | None, target: str | None, dtype: str
) -> tuple[list[Source], tuple[str, ...], Prepare]:
    """Return the sources of the partitions of a Dask data frame, the names of the columns, and how to compute some.

    Raises ParameterError if this is no data frame of Dask's, or a column is missing or no number.
    """
    check_client(client)
    if not (hasattr(frame, "to_delayed") and hasattr(frame, "dtypes")):
        raise ParameterError(
            f"frame must be a dask.dataframe.DataFrame; got {type(frame).__name__}. From pandas: "
            "dask.dataframe.from_pandas(frame, npartitions=8)."
        )
    names = tuple(str(name) for name in frame.columns)
    chosen = in_order("features", features) if features is not None else tuple(name for name in names if name != target)
    check_names(chosen, target)
    for name in (*chosen, *(() if target is None else (target,))):
        if name not in names:
            raise ParameterError(
                f"the data frame has no column {name!r} among its {len(names)}: {', '.join(names[:8])}."
            )
    import pandas as pd  # no package of ours brings it: whoever has a data frame has it

    is_number, is_complex = pd.api.types.is_numeric_dtype, pd.api.types.is_complex_dtype
    no_numbers = [name for name in chosen if not is_number(frame.dtypes[name]) or is_complex(frame.dtypes[name])]
    if no_numbers:
        raise ParameterError(
            f"columns of the data frame are no numbers: {', '.join(no_numbers[:8])}. Name the columns to use in "
            "features, or encode text and categories first."
        )
    wanted = [*chosen, *(() if target is None else (target,))]
    delayed = frame[wanted].to_delayed()
    sources = [FrameSource(place, chosen, target, dtype) for place in range(len(delayed))]

    def prepare(workers: Mapping[int, str]) -> Mapping[int, Source]:
        computed = {place: sources[place].computed() for place in workers}
        partitions = client.compute([delayed[place] for place in workers])
        ready = [
            client.submit(
                _lay_ready, partition, computed[place].token, workers=[worker], allow_other_workers=False, pure=False
            )
            for partition, (place, worker) in zip(partitions, workers.items(), strict=True)
        ]
        _wait(client, ready, list(workers.values()))
        return computed

    return list(sources), chosen, prepare


def _lay_ready(frame: "pd.DataFrame", token: str) -> None:
    _READY[token] = frame


def _wait(client: Any, futures: Sequence[Any], workers: Sequence[str]) -> None:
    """Wait until partitions lie ready, but not for workers that are gone."""
    from distributed import wait

    waiting = dict(zip(futures, workers, strict=True))
    while waiting:
        with suppress(TimeoutError):
            wait(list(waiting), timeout=_LOOK, return_when="FIRST_COMPLETED")  # type: ignore[no-untyped-call]
        there = client.scheduler_info(n_workers=-1)["workers"]
        for future, worker in list(waiting.items()):
            if future.done():
                future.result()  # raises what the computation did
            if future.done() or worker not in there:
                del waiting[future]
