"""People who are scored, one exact number a row, or whose columns are shown as they are: no budget covers either."""

from typing import Any, Final

import numpy as np

from sottovoce.vertical.protocol import Answered, PartyFacts, RefusalError, Request
from sottovoce.vertical.wire import Payload

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
