"""A training in rounds that are charged one by one, and whose last, exact state stays with the party: for tests alone.

What `Party` promises of every mechanism (sessions, journals, charges, what is never scored) is tried on it: a form for
study, `Party(..., protocols=[ROUNDS])`. A round sends, for each person, the sum of their entries times what came, cut
to [-1, 1], with Gaussian noise; the round without a message is the last one. What is kept depends on rows without
noise.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.privacy.events import Event, GaussianEvent, NothingReleased
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, rounding_norm, to_ticks
from sottovoce.vertical.protocol import (
    Answer,
    Answered,
    PartyFacts,
    Protocol,
    RefusalError,
    Request,
    Training,
    event_text,
    within,
)
from sottovoce.vertical.protocols.general.messages import Keep, Prepare
from sottovoce.vertical.wire import Done, Message


class RoundsScores(Message, code=246):
    """One noisy number a record (none on the last update), and the event."""

    scores: Vector
    event: str


class RoundsWorker:
    """The state of one training."""

    def __init__(self, table: Any, mu: float) -> None:
        self._table, self._mu = np.asarray(table, dtype=np.float64), mu
        tick = power_of_two_below(2.0 / mu) * 2.0**-30
        self._mechanism = GridGaussian(2.0 + rounding_norm(len(table), tick), 1.0 / mu, tick)
        self.x = np.zeros(table.shape[1])
        self.done = False

    @property
    def event(self) -> Event:
        """What one message costs."""
        return GaussianEvent(1.0 / self._mu)

    def as_arrays(self) -> Mapping[str, Any]:
        return {"x": self.x, "mu": self._mu, "done": self.done}

    @classmethod
    def restored(cls, held: Mapping[str, Any], training: Training, table: Any, facts: PartyFacts) -> "RoundsWorker":
        worker = cls(table, float(held["mu"]))
        worker.x, worker.done = held["x"], bool(held["done"])
        return worker

    def step(self, request: "RoundsStep", noise: np.random.Generator) -> RoundsScores:
        """Move, and answer where a message was asked for."""
        shift = np.clip(request.shift, -1e100, 1e100)
        self.x = self.x + shift @ self._table
        if not request.release:
            self.done = True
            return RoundsScores(np.empty(0), event_text(NothingReleased()))
        sums = np.clip(self._table.sum(axis=1) * shift, -1.0, 1.0)
        scores, event = self._mechanism.release(to_ticks(sums, self._mechanism.tick), noise)
        return RoundsScores(scores, event_text(event))


class RoundsStart(Request, code=244):
    """The mean shift that a replaced row may cause in each message."""

    mu: float

    def answer(self, facts: PartyFacts, training: Training) -> Answered[Done]:
        facts.row_bound  # noqa: B018
        within("mu", self.mu, 1e-6, 1e6)
        desk = yield None
        training.worker = RoundsWorker(desk.table, self.mu)
        return Done()


class RoundsStep(Request, code=245):
    """One number a record; ``release`` 0 updates without sending, once, as the last step."""

    shift: Vector
    release: int

    def answer(self, facts: PartyFacts, training: Training) -> Answered[RoundsScores]:
        worker = training.open(RoundsWorker, self)
        facts.one_a_row(self, "shift")
        if worker.done:
            raise RefusalError("the update that is not sent has been made, and it was the last one")
        desk = yield worker.event if self.release else None
        return worker.step(self, desk.noise())


ROUNDS = Protocol(
    Answer("noisy-rounds", "send noisy sums; what stays with it is exact", charged=True),
    requests=(Prepare, RoundsStart, RoundsStep, Keep),
    workers=(RoundsWorker,),
)
