"""Messages of Frank-Wolfe on the l1 ball, and how a party answers them, at what cost; the steps are `BallSteps`."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce._validation import LARGEST, SMALLEST
from sottovoce.central.parallel import team
from sottovoce.privacy.events import BoundedRangeEvent, Event, GaussianEvent, NonPrivateEvent, RepeatedEvent, compose
from sottovoce.vertical.protocol import (
    Answer,
    Answered,
    PartyFacts,
    RefusalError,
    Request,
    Training,
    count,
    refuse,
    within,
)
from sottovoce.vertical.protocols.frank_wolfe.columns import pack_places, place_of
from sottovoce.vertical.protocols.frank_wolfe.worker import (
    LOSSES,
    BallSteps,
    choose_alone,
    column_release,
    score_mechanism,
    selection_mechanism,
)
from sottovoce.vertical.wire import Count, Done, Message

FOREIGN_WEIGHTS: Final = Answer(
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


class Chosen(Message, code=61):
    """Signed columns in order, as one number (see its ``places``); the range of each choice."""

    places: bytes
    selection: float


class BallChoice(Message, code=64):
    """Twice the column, plus 1 for a step down; its score (0 where none was asked for)."""

    place: Count
    score: float


class SharedColumn(Message, code=67):
    """Whole ticks, of as many bytes each as the plan says, and the noise multiplier."""

    ticks: bytes
    noise_multiplier: float


class TrainOnBall(Request, code=60):
    """Take ``n_steps`` private steps of Frank-Wolfe alone, and keep the model under the name ``model``.

    Labels are in multiples of ``unit``; ``vertex`` is the size of a vertex of the party's ball
    for entries within [-1, 1]; ``clip`` bounds a record's slope;
    ``selection`` is the bounded range of each choice.
    """

    loss: str
    labels: Vector
    vertex: float
    clip: float
    n_steps: Count
    selection: float
    intercept: Count
    unit: float
    model: str

    def answer(self, facts: PartyFacts, training: Training) -> Answered[Chosen]:
        bound = check_ball(facts, self)
        within("unit", self.unit)
        selection_mechanism(self.selection)  # what it refuses is refused before anything is charged
        desk = yield RepeatedEvent(BoundedRangeEvent(self.selection), self.n_steps)
        desk.check_room(self.model)
        with team() as threads:
            places, weights = choose_alone(desk.table, bound, self, desk.noise(), threads)
        desk.later = self.model, *_in_units(facts, self.unit * weights)
        return Chosen(pack_places(places, len(weights)), self.selection)


class BallStart(Request, code=104):
    """Open steps of Frank-Wolfe that are taken together with other parties, charged as a whole.

    ``score_noise`` and ``column_noise`` are noise multipliers; at most ``n_columns`` columns will be asked for.
    """

    loss: str
    labels: Vector
    vertex: float
    clip: float
    n_steps: Count
    selection: float
    intercept: Count
    score_noise: float
    column_noise: float
    n_columns: Count

    def answer(self, facts: PartyFacts, training: Training) -> Answered[Done]:
        bound = check_ball(facts, self)
        within("score_noise", self.score_noise, *NOISES)
        within("column_noise", self.column_noise, *NOISES)
        selection_mechanism(self.selection)
        score_mechanism(self.score_noise)
        parts: list[Event] = [
            RepeatedEvent(BoundedRangeEvent(self.selection), self.n_steps),
            RepeatedEvent(GaussianEvent(self.score_noise), self.n_steps),
        ]
        release = column_release(self, facts.n_rows)
        if release is not None:
            release.mechanism  # noqa: B018
            parts.append(RepeatedEvent(GaussianEvent(self.column_noise), self.n_columns))
        desk = yield compose(*parts)
        training.worker = BallSteps(desk.table, bound, self)
        return Done()


class BallSelect(Request, code=63):
    """What the released columns of all other parties predict, one number a record; choose a signed column."""

    others: Vector

    def answer(self, facts: PartyFacts, training: Training) -> Answered[BallChoice]:
        worker = training.open(BallSteps, self)
        facts.one_a_row(self, "others")
        refuse(worker.why_not())
        desk = yield worker.next_choice
        return BallChoice(*worker.select(self.others, desk.noise()))


class BallStep(Request, code=65):
    """Step along ``place``, as chosen before, by one step of the plan."""

    place: Count

    def answer(self, facts: PartyFacts, training: Training) -> Answered[Done]:
        worker = training.open(BallSteps, self)
        refuse(worker.why_not(place=self.place))
        yield None
        worker.step(self.place)
        return Done()


class ShareColumn(Request, code=66):
    """Release a column that was chosen, with noise."""

    column: Count

    def answer(self, facts: PartyFacts, training: Training) -> Answered[SharedColumn]:
        worker = training.open(BallSteps, self)
        refuse(worker.why_not(column=self.column))
        desk = yield worker.next_column
        return SharedColumn(worker.share(self.column, desk.noise()), worker.column_noise)


class BallVertex(Request, code=68):
    """Derivative of the loss, one number a record: ask for the steepest signed column, without noise.

    ``intercept`` is the entry of a column behind the last one, which counts too; 0 for none.
    """

    slopes: Vector
    intercept: float

    def answer(self, facts: PartyFacts, training: Training) -> Answered[BallChoice]:
        facts.one_a_row(self, "slopes")
        desk = yield NonPrivateEvent()
        gradient = desk.columns(intercept=self.intercept != 0.0).back(self.slopes)
        gradient[facts.n_features :] *= self.intercept
        column = int(np.argmax(np.abs(gradient)))
        steepest = float(gradient[column])
        return BallChoice(place_of(column, -1 if steepest > 0.0 else 1), abs(steepest))


class KeepWeights(Request, code=71):
    """Keep a model of these columns' weights (the last column may be that of ones) under the name ``model``."""

    model: str
    columns: Vector
    weights: Vector

    def answer(self, facts: PartyFacts, training: Training) -> Answered[Done]:
        weights, own = self._checked(facts), None
        if isinstance(training.worker, BallSteps):
            own = _own_weights(weights, training.worker.weights, facts.data_bound)
        if own is None:
            yield FOREIGN_WEIGHTS
        desk = yield None
        if own is not None:
            desk.keep(self.model, *_in_units(facts, own), released=True)
        else:
            desk.keep(self.model, weights[:-1], float(weights[-1]), released=True)
        return Done()

    def _checked(self, facts: PartyFacts) -> NDArray[np.float64]:
        """Return one weight a column, the last one that of a column of ones."""
        columns = self.columns
        if len(columns) != len(self.weights) or not np.array_equal(columns, columns // 1):
            raise RefusalError("weights need a whole number of a column each")
        if len(columns) and not 0 <= columns.min() <= columns.max() <= facts.n_features:
            raise RefusalError("weights came for columns that it does not have")
        weights = np.zeros(facts.n_features + 1)
        np.add.at(weights, columns.astype(np.int64), self.weights)
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


def _in_units(facts: PartyFacts, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return coefficients and intercept for weights of columns of size 1, the last of which may be that of ones."""
    d = facts.n_features
    return weights[:d] / facts.entry_bound, float(weights[d:].sum())
