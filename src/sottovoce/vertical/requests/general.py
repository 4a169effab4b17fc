"""What every conversation with a party has: facts, what may be spent, scores, farewell; and columns as they are."""

import json
import math
from typing import Any, Final

import numpy as np
import scipy.sparse as sp

from sottovoce._numerics import Vector
from sottovoce._version import RELEASE
from sottovoce.exceptions import AccountingError
from sottovoce.privacy.events import NonPrivateEvent, event_from_dict
from sottovoce.vertical.protocol import Answered, PartyFacts, RefusalError, Request, refuse
from sottovoce.vertical.wire import Count, Done, Message, Payload


class Description(Message, code=15, unbounded=("data_norm", "data_bound")):
    """Sizes of the party's table, and what it declares publicly of its rows.

    ``data_norm`` bounds the length of a row, ``data_bound`` the size of an entry; ``inf`` when the party gave none.
    ``nonnegative`` is 0 or 1. ``other_rows`` are those that an alignment may take people from and the present one
    did not, and ``version`` is that of its software (`sottovoce._version.RELEASE`). ``engines``: those of secure
    computation that it may use, by name and version, as JSON, where it was asked for them.
    """

    n_rows: Count
    n_features: Count
    data_norm: float
    nonnegative: Count
    data_bound: float = math.inf
    other_rows: Count = 0
    version: Count = RELEASE
    engines: str = ""


class Describe(Request, code=14):
    """Ask for the public facts of a party; with ``engines`` 1 for those of secure computation that it may use, too."""

    engines: Count = 0

    def answer(self, facts: PartyFacts, worker: Any) -> Answered[Description]:
        if self.engines > 1:
            raise RefusalError(f"engines is 0 or 1; it is {self.engines}")
        yield None
        norm, bound = (math.inf if each is None else each for each in (facts.data_norm, facts.data_bound))
        others = max(0, facts.whole_rows - facts.n_rows)
        engines = json.dumps(facts.engines, sort_keys=True) if self.engines else ""
        return Description(facts.n_rows, facts.n_features, norm, int(facts.nonnegative), bound, others, engines=engines)


class Afford(Request, code=39):
    """Ask whether the party's budget covers an event (JSON) about its columns; nothing is spent yet.

    ``request`` is the number of the kind of request that is to spend it, which the owner must allow; 0 for none.
    """

    event: str
    request: Count = 0

    def answer(self, facts: PartyFacts, worker: Any) -> Answered[Done]:
        desk = yield None
        try:
            event = event_from_dict(json.loads(self.event))
        except (ValueError, RecursionError):
            raise RefusalError("what it was asked to afford is not an event") from None
        try:
            refuse(desk.not_allowed(self.request) or desk.shortage(event))
        except AccountingError as error:
            raise RefusalError(f"what it was asked to afford cannot be accounted for: {error}") from None
        return Done()


class Close(Request, code=11):
    """End the session: free what the party holds for it."""

    def answer(self, facts: PartyFacts, worker: Any) -> Answered[Done]:
        desk = yield None
        desk.ended = True
        return Done()


# ------------------------------------------------------------------ people who are scored: no budget covers it

LARGEST_SCORE: Final = 1e140  # beyond it sums of scores would leave the doubles


class Score(Request, code=7):
    """Ask for the party's part of the prediction of the model ``model``. The answer is one number a row.

    One beyond `LARGEST_SCORE` is cut to it; 0 where it is no number.
    """

    model: str

    def answer(self, facts: PartyFacts, worker: Any) -> Answered[Payload]:
        desk = yield None
        part = desk.models.get(self.model)
        if part is None:
            raise RefusalError(f"it has no part of a model named {self.model!r}")
        if part.exact:
            raise RefusalError(
                f"its part of the model {self.model!r} was made from its rows without noise, and its budget did not "
                "pay for that: scores by it could tell the rows. Train by another mechanism"
            )
        with np.errstate(all="ignore"):
            scores = desk.columns().times(part.coef) + part.intercept
        return Payload(np.clip(np.nan_to_num(scores, nan=0.0), -LARGEST_SCORE, LARGEST_SCORE))


# ------------------------------------------------------------------ without noise: no budget covers it


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
