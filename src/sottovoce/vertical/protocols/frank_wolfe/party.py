"""The party's side of private Frank-Wolfe: which requests, at what cost; the steps are `BallSteps`."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._validation import LARGEST, SMALLEST
from sottovoce.central.parallel import team
from sottovoce.privacy.events import Event
from sottovoce.vertical.protocol import (
    Answer,
    Desk,
    Handler,
    PartyFacts,
    Protocol,
    RefusalError,
    Step,
    Training,
    Uncharged,
    Unprotected,
    count,
    within,
)
from sottovoce.vertical.protocols.exact.party import EXACT
from sottovoce.vertical.protocols.frank_wolfe import messages
from sottovoce.vertical.protocols.frank_wolfe.columns import pack_places, place_of
from sottovoce.vertical.protocols.frank_wolfe.worker import (
    LOSSES,
    BallSteps,
    check_mechanisms,
    choose_alone,
    start_event,
    train_event,
)
from sottovoce.vertical.wire import Done

__all__ = ["NOISES", "PROTOCOLS", "TrainOnBallHandler", "check_ball"]

FRANK_WOLFE = Answer("frank-wolfe", "name columns by private selection, and share some with noise", private=True)
FOREIGN_WEIGHTS = Answer(
    "foreign-weights",
    "keep weights that it did not train, so that they can be scored: one exact sum over the columns of each row, of "
    "the asker's choice",
)
NOISES: Final = (1e-6, 1e6)  # noise multipliers
_SAME_WEIGHTS: Final = 1e-9  # relative: how a coordinator's sums may differ from the party's own


def check_ball(facts: PartyFacts, request: Any) -> float:
    """Return the bound on entries, where a request that opens steps of Frank-Wolfe makes sense."""
    bound = facts.entry_bound
    if request.loss not in LOSSES:
        raise RefusalError(f"there is no Frank-Wolfe for the loss {request.loss!r}")
    facts.one_a_row(request, "labels")
    if request.intercept > 1:
        raise RefusalError(f"intercept is 0 or 1; it is {request.intercept}")
    for name in ("clip", "selection", "vertex"):
        if hasattr(request, name):
            within(name, getattr(request, name))
    for name, least in (("n_steps", 1), ("n_columns", 0), ("sketch_rows", 0)):
        if hasattr(request, name):
            count(name, getattr(request, name), least)
    return bound


class TrainOnBallHandler(Handler[messages.TrainOnBall]):
    """All steps of one party alone, charged as a whole."""

    request = messages.TrainOnBall

    def plan(self, facts: PartyFacts, training: Training, request: messages.TrainOnBall) -> Event:
        self._bound = check_ball(facts, request)
        within("unit", request.unit)
        check_mechanisms(request, facts.n_rows)
        return train_event(request)

    def run(self, desk: Desk, request: messages.TrainOnBall) -> messages.Chosen:
        with team() as threads:
            places, weights = choose_alone(desk.table, self._bound, request, desk.noise(), threads)
        _keep_columns(desk, request.model, request.unit * weights)
        return messages.Chosen(pack_places(places, len(weights)), request.selection)


class BallStartHandler(Handler[messages.BallStart]):
    """Steps that are taken together, charged as a whole."""

    request = messages.BallStart

    def plan(self, facts: PartyFacts, training: Training, request: messages.BallStart) -> Event:
        self._bound = check_ball(facts, request)
        within("score_noise", request.score_noise, *NOISES)
        within("column_noise", request.column_noise, *NOISES)
        if request.sketch or request.sketch_rows or request.sketch_seed:
            raise RefusalError("columns are not sketched: sketch is empty, sketch_rows and sketch_seed are 0")
        check_mechanisms(request, facts.n_rows)
        return start_event(request)

    def run(self, desk: Desk, request: messages.BallStart) -> Done:
        desk.training.worker = BallSteps(desk.table, self._bound, request, desk.noise())
        return Done()


class _BallStep(Step[Any]):
    """A request of a round; what was not charged is refused."""

    worker = BallSteps

    def plan(self, facts: PartyFacts, training: Training, request: Any) -> None:
        super().plan(facts, training, request)
        place, column = getattr(request, "place", None), getattr(request, "column", None)
        reason = training.open(BallSteps, request).why_not(place=place, column=column)
        if reason:
            raise RefusalError(reason)


class BallSelectHandler(_BallStep):
    """A choice."""

    request, by_row = messages.BallSelect, "others"

    def run(self, desk: Desk, request: messages.BallSelect) -> messages.BallChoice:
        return messages.BallChoice(*desk.training.open(BallSteps, request).select(request.others))


class BallStepHandler(_BallStep):
    """A step along a choice."""

    request = messages.BallStep

    def run(self, desk: Desk, request: messages.BallStep) -> Done:
        desk.training.open(BallSteps, request).step(request.place)
        return Done()


class ShareColumnHandler(_BallStep):
    """A chosen column, with noise."""

    request = messages.ShareColumn

    def run(self, desk: Desk, request: messages.ShareColumn) -> messages.SharedColumn:
        worker = desk.training.open(BallSteps, request)
        return messages.SharedColumn(worker.share(request.column), worker.column_noise)


class BallVertexHandler(Unprotected[messages.BallVertex]):
    """The steepest signed column, in a training without noise."""

    request = messages.BallVertex

    def plan(self, facts: PartyFacts, training: Training, request: messages.BallVertex) -> Event:
        facts.one_a_row(request, "slopes")
        return super().plan(facts, training, request)

    def run(self, desk: Desk, request: messages.BallVertex) -> messages.BallChoice:
        gradient = desk.columns(intercept=request.intercept != 0.0).back(request.slopes)
        gradient[desk.facts.n_features :] *= request.intercept
        column = int(np.argmax(np.abs(gradient)))
        steepest = float(gradient[column])
        return messages.BallChoice(place_of(column, -1 if steepest > 0.0 else 1), abs(steepest))


class KeepWeightsHandler(Uncharged[messages.KeepWeights]):
    """Weights that are, up to one public factor, those of this session's steps; others where allowed."""

    request = messages.KeepWeights

    def needs(self, facts: PartyFacts, training: Training, request: messages.KeepWeights) -> Answer | None:
        self._weights, self._own = _checked(facts, request), None
        if isinstance(training.worker, BallSteps):
            self._own = _own_weights(self._weights, training.worker.weights, facts.data_bound)
        return FOREIGN_WEIGHTS if self._own is None else None

    def run(self, desk: Desk, request: messages.KeepWeights) -> Done:
        if self._own is not None:
            _keep_columns(desk, request.model, self._own)
        else:
            desk.keep(request.model, self._weights[:-1], float(self._weights[-1]), released=True)
        return Done()


def _checked(facts: PartyFacts, request: messages.KeepWeights) -> NDArray[np.float64]:
    """Return one weight a column, the last one that of a column of ones."""
    columns = request.columns
    if len(columns) != len(request.weights) or not np.array_equal(columns, columns // 1):
        raise RefusalError("weights need a whole number of a column each")
    if len(columns) and not 0 <= columns.min() <= columns.max() <= facts.n_features:
        raise RefusalError("weights came for columns that it does not have")
    weights = np.zeros(facts.n_features + 1)
    np.add.at(weights, columns.astype(np.int64), request.weights)
    return weights


def _own_weights(
    sent: NDArray[np.float64], steps: NDArray[np.float64], data_bound: float | None
) -> NDArray[np.float64] | None:
    """Return a party's own steps times the factor by which ``sent`` is them; None if it is something else."""
    own = np.zeros(len(sent))
    own[: len(steps)] = steps
    largest = int(np.argmax(np.abs(own)))
    with np.errstate(over="ignore", invalid="ignore"):  # whatever was sent; it is then something else
        given = sent * np.append(np.full(len(sent) - 1, data_bound or 1.0), 1.0)  # in the unit of the steps
        factor = given[largest] / own[largest] if own[largest] else 1.0
        same = np.abs(given - factor * own) <= _SAME_WEIGHTS * np.abs(factor * own)
    return factor * own if SMALLEST <= factor <= LARGEST and same.all() else None


def _keep_columns(desk: Desk, model: str, weights: NDArray[np.float64]) -> None:
    """Keep weights of columns of size 1, the last of which may be that of ones."""
    d = desk.facts.n_features
    desk.keep(model, weights[:d] / desk.facts.entry_bound, float(weights[d:].sum()), released=True)


PROTOCOLS: Final = (
    Protocol(
        FRANK_WOLFE,
        handlers=(
            TrainOnBallHandler,
            BallStartHandler,
            BallSelectHandler,
            BallStepHandler,
            ShareColumnHandler,
            KeepWeightsHandler,
        ),
    ),
    Protocol(EXACT, handlers=(BallVertexHandler,)),
    Protocol(FOREIGN_WEIGHTS, handlers=(KeepWeightsHandler,)),
)
