"""Partitions of a Dask data frame: computed once by the cluster, turned into numbers by the worker that holds them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sottovoce.cluster.dask_pool import check_client
from sottovoce.cluster.inline import digest_of
from sottovoce.cluster.partitions import Prepare
from sottovoce.cluster.sources import LoadedRows, Source
from sottovoce.exceptions import DataError, ParameterError

__all__ = ["FrameSource", "frame_sources"]


class FrameSource(Source):
    """One partition of a data frame.

    Parameters
    ----------
    place : int
        Of the partition.
    features : tuple of str
    target : str or None
    dtype : str
    partition : distributed.Future or None
        The partition while it is computed; None where it is not to be read yet.
    """

    def __init__(
        self, place: int, features: tuple[str, ...], target: str | None, dtype: str, partition: Any = None
    ) -> None:
        self.place, self.features, self.target, self.dtype = place, features, target, dtype
        self.partition = partition

    def __repr__(self) -> str:
        return f"partition {self.place} of the data frame"

    def computed_as(self, partition: Any) -> "FrameSource":
        """Return the source with its partition under way."""
        return FrameSource(self.place, self.features, self.target, self.dtype, partition)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"partition": None if self.partition is None else self.partition.key}

    def load(self, scratch: Path | None) -> LoadedRows:
        """Wait for the partition, and make numbers of it."""
        from distributed import Future, get_client

        key = getattr(self.partition, "key", self.partition)
        frame: pd.DataFrame = Future(key, get_client()).result()
        raw = np.empty((len(frame), len(self.features)), self.dtype)
        for k, name in enumerate(self.features):
            with np.errstate(over="ignore"):  # beyond float32 is infinity, which is refused with its row
                raw[:, k] = frame[name].to_numpy(np.float64 if raw.dtype == np.float64 else None, na_value=np.nan)
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

    Raises
    ------
    ParameterError
        If this is no data frame of Dask's, or a column is missing or no number.
    """
    check_client(client)
    if not (hasattr(frame, "to_delayed") and hasattr(frame, "dtypes")):
        raise ParameterError(
            f"frame must be a dask.dataframe.DataFrame; got {type(frame).__name__}. From pandas: "
            "dask.dataframe.from_pandas(frame, npartitions=8)."
        )
    names = tuple(str(name) for name in frame.columns)
    chosen = tuple(features) if features is not None else tuple(name for name in names if name != target)
    if not chosen:
        raise ParameterError("features must name at least one column besides the target; got none.")
    for name in (*chosen, *(() if target is None else (target,))):
        if name not in names:
            raise ParameterError(
                f"the data frame has no column {name!r} among its {len(names)}: {', '.join(names[:8])}."
            )
    if target in chosen:
        raise ParameterError(f"target {target!r} is also among features: a model would learn to copy it. Leave it out.")
    no_numbers = [name for name in chosen if not pd.api.types.is_numeric_dtype(frame.dtypes[name])]
    if no_numbers:
        raise ParameterError(
            f"columns of the data frame are no numbers: {', '.join(no_numbers[:8])}. Name the columns to use in "
            "features, or encode text and categories first."
        )
    wanted = [*chosen, *(() if target is None else (target,))]
    delayed = frame[wanted].to_delayed()
    sources = [FrameSource(place, chosen, target, dtype) for place in range(len(delayed))]

    def prepare(places: tuple[int, ...]) -> Mapping[int, Source]:
        partitions = client.compute([delayed[place] for place in places])
        return {
            place: sources[place].computed_as(partition) for place, partition in zip(places, partitions, strict=True)
        }

    return list(sources), chosen, prepare
