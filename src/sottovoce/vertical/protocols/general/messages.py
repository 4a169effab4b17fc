"""What every conversation with a party has: facts, what may be spent, scores, farewell."""

import json
import math
from typing import Any, Final

import numpy as np

from sottovoce._version import RELEASE
from sottovoce.exceptions import AccountingError
from sottovoce.privacy.events import event_from_dict
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
