"""The party's side of scoring: one exact number a row, or the columns as they are. No budget covers either."""

from typing import Any

import numpy as np

from sottovoce.privacy.events import Event
from sottovoce.vertical.protocol import Desk, PartyFacts, RefusalError, Training, Uncharged, Unprotected
from sottovoce.vertical.protocols.scoring.messages import (
    Score,
    Scores,
    ShowColumn,
    ShownColumn,
)

__all__ = ["ScoreHandler", "ShowColumnHandler"]


class ScoreHandler(Uncharged[Score]):
    """The party's part of the prediction."""

    request = Score
    changes = False

    def run(self, desk: Desk, request: Score) -> Scores:
        part = desk.models.get(request.model)
        if part is None:
            raise RefusalError(f"it has no part of a model named {request.model!r}")
        if part.exact:
            raise RefusalError(
                f"its part of the model {request.model!r} was made from its rows without noise, and its budget did not "
                "pay for that: scores by it could tell the rows. Train by another mechanism"
            )
        return Scores(desk.columns().times(part.coef) + part.intercept)


class ShowColumnHandler(Unprotected[ShowColumn]):
    """One column, in a training without noise."""

    request = ShowColumn

    def plan(self, facts: PartyFacts, training: Training, request: ShowColumn) -> Event:
        if request.column >= facts.n_features:
            raise RefusalError(f"it has no column {request.column}")
        return super().plan(facts, training, request)

    def run(self, desk: Desk, request: ShowColumn) -> ShownColumn:
        column: Any = desk.table[:, [request.column]]
        return ShownColumn(np.asarray(column if isinstance(column, np.ndarray) else column.toarray()).ravel())
