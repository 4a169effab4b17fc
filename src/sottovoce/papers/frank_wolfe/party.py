"""A party's side of private Frank-Wolfe with the published noise, and its messages; see `PublishedBallPlan`."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import ROUNDING_SLACK, Vector
from sottovoce.central.data.rows import make_bounded_rows
from sottovoce.central.parallel import Team
from sottovoce.central.solvers.frank_wolfe import TICKS, DenseScores
from sottovoce.papers.frank_wolfe.noise import Sketch, column_release, published_event
from sottovoce.privacy.events import Event
from sottovoce.vertical.protocol import Desk, Handler, PartyFacts, RefusalError, Step, Training, within
from sottovoce.vertical.protocols.frank_wolfe.columns import ColumnRelease, bounded_column, place_of
from sottovoce.vertical.protocols.frank_wolfe.party import NOISES, check_ball
from sottovoce.vertical.protocols.frank_wolfe.worker import LOSSES, cut
from sottovoce.vertical.wire import Count, Done, Message
from sottovoce.vertical.wire import Vector as Numbers

__all__ = [
    "PublishedBallReply",
    "PublishedBallStart",
    "PublishedBallStartHandler",
    "PublishedBallStep",
    "PublishedBallStepHandler",
    "PublishedBallWorker",
    "selection_epsilon",
    "start_event",
]


class PublishedBallStart(Message, code=72):
    """Open steps of Frank-Wolfe with the published noise.

    ``clip`` bounds a record's slope, ``selection`` is the scale of the Laplace noise on a mean of slopes times entries,
    ``column_noise`` the noise multiplier of a shared column. Of ``sampled`` columns, drawn again for each step, one is
    chosen. ``sketch_rows`` is 0 for raw columns.
    """

    loss: str
    labels: Numbers
    clip: float
    selection: float
    column_noise: float
    n_steps: Count
    sampled: Count
    intercept: Count
    sketch_rows: Count
    sketch_seed: Count


class PublishedBallStep(Message, code=73):
    """What the released columns predict: one number a record, or a row of the sketch; take one step."""

    predicted: Numbers


class PublishedBallReply(Message, code=74):
    """Twice the column, plus 1 for a step down; the noisy column in whole ticks; pure epsilon and noise multiplier."""

    place: Count
    ticks: bytes
    selection_epsilon: float
    column_noise: float


_MOVE = 2.0 * TICKS * ROUNDING_SLACK  # of a score, in ticks, when a person is replaced


def selection_epsilon(scale: float, *, clip: float, n_people: int) -> float:
    """Return what one noisy maximum costs at a scale of the noise on the mean of slopes within ``clip``."""
    return 2.0 * _MOVE / _ticks(scale, clip, n_people)


def start_event(request: PublishedBallStart, n_people: int) -> Event:
    """Return what the steps that a `PublishedBallStart` opens cost a person at this party."""
    return published_event(
        selection_epsilon(request.selection, clip=request.clip, n_people=n_people),
        request.column_noise,
        request.n_steps,
    )


def _ticks(scale: float, clip: float, n_people: int) -> float:
    """Return a scale on the mean of slopes times entries in the unit of the scores."""
    return scale * n_people * TICKS / clip


class _GivenScores(DenseScores):
    """Scores at predictions that come from outside."""

    def at(self, predicted: Vector) -> NDArray[np.int64]:
        """Return the sum of slopes of every column, in ticks."""
        self._margins[:] = predicted
        return self.sums()


class PublishedBallWorker:
    """Steps with the published noise.

    Parameters
    ----------
    table : ndarray or csr_array
    data_bound : float
    start : PublishedBallStart
    noise : numpy.random.Generator
    """

    def __init__(self, table: Any, data_bound: float, start: PublishedBallStart, noise: np.random.Generator) -> None:
        self._table, self._data_bound, self._start, self._noise = table, data_bound, start, noise
        team = Team(1, None)
        rows = make_bounded_rows(table, data_bound=data_bound, constant=float(start.intercept), names=None, team=team)
        self._scores = _GivenScores(rows, cut(start.labels), LOSSES[start.loss], start.clip, TICKS, team)
        self._n_people, self._n_columns = rows.n_samples, rows.n_weights
        self._steps = 0

    @cached_property
    def _sketch(self) -> Sketch | None:
        rows = self._start.sketch_rows
        return Sketch(self._n_people, rows, self._start.sketch_seed) if rows else None

    @cached_property
    def _release(self) -> ColumnRelease:
        return column_release(self._n_people, self._start.column_noise, self._sketch)

    def why_not(self, request: PublishedBallStep) -> str:
        """Return why a step goes beyond what was charged, or makes no sense; empty if it does not."""
        if self._steps >= self._start.n_steps:
            return "all steps that were charged have been taken"
        if not 1 <= self._start.sampled <= self._n_columns:
            return f"{self._start.sampled} of {self._n_columns} columns cannot be drawn"
        return (
            ""
            if len(request.predicted) == self._release.size
            else f"PublishedBallStep has {len(request.predicted)} numbers where {self._release.size} are due"
        )

    def step(self, request: PublishedBallStep) -> PublishedBallReply:
        """Choose a signed column by noisy maximum, and share it with noise."""
        self._steps += 1
        predicted = cut(request.predicted)
        sums = self._scores.at(predicted if self._sketch is None else self._sketch.spread(predicted))
        drawn = np.arange(self._n_columns)
        if self._start.sampled < self._n_columns:
            drawn = self._noise.choice(drawn, self._start.sampled, replace=False)
        scale = _ticks(self._start.selection, self._start.clip, self._n_people)
        noisy = np.concatenate([sums[drawn], -sums[drawn]]) + self._noise.laplace(0.0, scale, 2 * len(drawn))
        best = int(np.argmax(noisy))
        column = int(drawn[best % len(drawn)])
        # a steep positive derivative is a step down
        place = place_of(column, -1 if best < len(drawn) else 1)
        shared = self._release.release(bounded_column(self._table, column, self._data_bound), self._noise)
        return PublishedBallReply(place, shared, 2.0 * _MOVE / scale, self._release.event.noise_multiplier)


class PublishedBallStartHandler(Handler[PublishedBallStart]):
    """Steps with the published noise, charged as a whole at what it is worth."""

    request = PublishedBallStart

    def plan(self, facts: PartyFacts, training: Training, request: PublishedBallStart) -> Event:
        self._bound = check_ball(facts, request)
        within("column_noise", request.column_noise, *NOISES)
        return start_event(request, facts.n_rows)

    def run(self, desk: Desk, request: PublishedBallStart) -> Done:
        desk.training.worker = PublishedBallWorker(desk.table, self._bound, request, desk.noise())
        return Done()


class PublishedBallStepHandler(Step[PublishedBallStep]):
    """One step."""

    request, worker = PublishedBallStep, PublishedBallWorker

    def plan(self, facts: PartyFacts, training: Training, request: PublishedBallStep) -> None:
        super().plan(facts, training, request)
        reason = training.open(PublishedBallWorker, request).why_not(request)
        if reason:
            raise RefusalError(reason)

    def run(self, desk: Desk, request: PublishedBallStep) -> PublishedBallReply:
        return desk.training.open(PublishedBallWorker, request).step(request)
