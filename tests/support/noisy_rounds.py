"""Steps that are charged one by one, and a part of a model that is exact: for tests alone.

What `Party` promises of every mechanism (sessions, journals, charges, what is never scored) is tried on it: a form for
study, `Party(..., protocols=[ROUNDS])`. A step sends, for each person, the sum of their entries times what came, cut
to [-1, 1], with Gaussian noise. What is kept depends on rows without noise.
"""

from typing import Any

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.privacy.events import Event, GaussianEvent
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, rounding_norm, to_ticks
from sottovoce.vertical.protocol import Answered, PartyFacts, Protocol, Request, event_text, within
from sottovoce.vertical.wire import Done, Payload


class RoundsStep(Request, code=245):
    """One number a record, and the mean shift that a replaced row may cause in the answer."""

    shift: Vector
    mu: float = 0.01

    def answer(self, facts: PartyFacts, worker: Any) -> Answered[Payload]:
        facts.bound_of("data_norm")
        within("mu", self.mu, 1e-6, 1e6)
        facts.one_a_row(self, "shift")
        desk = yield self.event
        return self.told(desk.table, desk.noise())

    @property
    def event(self) -> Event:
        return GaussianEvent(1.0 / self.mu)

    def told(self, table: Any, noise: np.random.Generator) -> Payload:
        tick = power_of_two_below(2.0 / self.mu) * 2.0**-30
        mechanism = GridGaussian(2.0 + rounding_norm(len(table), tick), 1.0 / self.mu, tick)
        sums = np.clip(np.asarray(table, dtype=np.float64).sum(axis=1) * self.shift, -1.0, 1.0)
        scores, event = mechanism.release(to_ticks(sums, tick), noise)
        return Payload(scores, event_text(event).encode())


class RoundsKeep(Request, code=246):
    """Keep sums over rows without noise under the name ``model``."""

    model: str
    shift: Vector
    released = False

    def answer(self, facts: PartyFacts, worker: Any) -> Answered[Done]:
        facts.one_a_row(self, "shift")
        desk = yield None
        desk.keep(self.model, self.shift @ np.asarray(desk.table, np.float64), 0.0, released=self.released)
        return Done()


ROUNDS = Protocol(
    "noisy-rounds", "send noisy sums; what stays with it is exact", (RoundsStep, RoundsKeep), charged=True
)
