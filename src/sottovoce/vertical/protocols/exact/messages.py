"""Messages of a training without noise: columns as they are, and weights that are made of them.

No budget covers it: whoever asks learns the columns.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from sottovoce._numerics import Vector
from sottovoce.privacy.events import NonPrivateEvent
from sottovoce.vertical.protocol import Answered, PartyFacts, RefusalError, Request
from sottovoce.vertical.wire import Done, Payload


class ShowColumns(Request, code=108):
    """Ask for the whole table without noise.

    The answer is all entries, row by row, and no bytes; of a sparse table those that are not zero, row by row, and
    their columns and where each row begins, as i64, little endian.
    """

    def answer(self, facts: PartyFacts, worker: Any) -> Answered[Payload]:
        desk = yield NonPrivateEvent()
        return shown(desk.table)


class KeepWeights(Request, code=63):
    """Keep a model of one weight a column, and that of a column of ones behind them, under the name ``model``."""

    model: str
    weights: Vector

    def answer(self, facts: PartyFacts, worker: Any) -> Answered[Done]:
        if len(self.weights) != facts.n_features + 1:
            raise RefusalError(f"{len(self.weights)} weights came for {facts.n_features} columns and that of ones")
        desk = yield None
        desk.keep(self.model, self.weights[:-1].copy(), float(self.weights[-1]), released=True)
        return Done()


def shown(table: Any) -> Payload:
    """Return a table as a party shows it."""
    if isinstance(table, np.ndarray):
        return Payload(np.asarray(table, dtype=np.float64).ravel())
    places = [np.ascontiguousarray(each, dtype="<i8").tobytes() for each in (table.indices, table.indptr)]
    return Payload(np.asarray(table.data, dtype=np.float64), b"".join(places))


def table_from(told: Payload, n_rows: int, n_features: int) -> Any:
    """Return the table that a party showed, dense or CSR.

    Raises `ValueError` if it is none of that shape.
    """
    if not told.octets:
        return told.numbers.reshape(n_rows, n_features)
    indices, indptr = np.split(np.frombuffer(told.octets, dtype="<i8"), [len(told.numbers)])
    table = sp.csr_array((told.numbers, indices, indptr), shape=(n_rows, n_features))
    table.check_format(full_check=True)
    return table
