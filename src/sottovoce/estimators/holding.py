"""Tables as fits hold them: rows in memory, on disk or on a cluster, with their labels beside them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sottovoce.central.data.holder import Holder, LocalHolder
from sottovoce.central.data.part import Part
from sottovoce.central.data.remote import RemoteTable
from sottovoce.central.data.streamed import StreamedTable
from sottovoce.central.parallel import Team
from sottovoce.estimators.reading import check_columns, read_rows
from sottovoce.estimators.ties import question_of

__all__ = ["holding"]


@contextmanager
def holding(estimator: Any, X: Any, y: Any, threads: Team) -> Iterator[Holder]:
    """Hold a table for one fit: its rows, their raw labels, and what is remembered of them until the end.

    The estimator is told number and names of the columns. Labels that a table names itself are read where they are.
    """
    if isinstance(X, RemoteTable):
        check_columns(estimator, X, reset=True)
        with X.opened(question_of(estimator)) as holder:
            yield holder
        return
    if isinstance(X, StreamedTable) and y is None:
        if not X.has_labels:
            X.labels()  # says that there are none
        check_columns(estimator, X, reset=True)
    else:
        X, y = read_rows(estimator, X, y)
    memory = X.row_memory(X.shape[0]) if isinstance(X, StreamedTable) else None
    part = Part(X, threads, memory, labels=y)
    try:
        yield LocalHolder(part)
    finally:
        part.memory.close()
