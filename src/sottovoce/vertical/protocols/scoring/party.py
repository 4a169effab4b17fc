"""The party's side of scoring: one exact number a row, or the columns as they are. No budget covers either."""

from typing import Any

import numpy as np

from sottovoce.privacy.events import Event
from sottovoce.vertical.protocol import Desk, PartyFacts, RefusalError, Training, Uncharged, Unprotected
from sottovoce.vertical.protocols.scoring.messages import (
    Score,
    Scores,
    ShowColumn,
    ShowFeatures,
    ShownColumn,
    ShownFeatures,
)

__all__ = ["ScoreHandler", "ShowColumnHandler", "ShowFeaturesHandler"]


class ScoreHandler(Uncharged[Score]):
    """The party's part of the prediction."""

    request = Score
    changes = False

    def run(self, desk: Desk, request: Score) -> Scores:
        part = desk.models.get(request.model)
        if part is None:
            raise RefusalError(f"it has no part of a model named {request.model!r}")
        return Scores(desk.columns().times(part.coef) + part.intercept)


class ShowFeaturesHandler(Uncharged[ShowFeatures]):
    """All columns."""

    request = ShowFeatures

    def run(self, desk: Desk, request: ShowFeatures) -> ShownFeatures:
        return ShownFeatures(_dense(desk.table))


class ShowColumnHandler(Unprotected[ShowColumn]):
    """One column, in a training without noise."""

    request = ShowColumn

    def plan(self, facts: PartyFacts, training: Training, request: ShowColumn) -> Event:
        if request.column >= facts.n_features:
            raise RefusalError(f"it has no column {request.column}")
        return super().plan(facts, training, request)

    def run(self, desk: Desk, request: ShowColumn) -> ShownColumn:
        return ShownColumn(_dense(desk.table[:, [request.column]]))


def _dense(table: Any) -> Any:
    return np.asarray(table if isinstance(table, np.ndarray) else table.toarray()).ravel()
