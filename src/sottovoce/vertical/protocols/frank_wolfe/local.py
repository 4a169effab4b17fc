r"""``aggregation="local"``: every party takes all its steps alone, and tells which columns it took.

The ball is a product of K balls. Party k fits the labels with its own columns, by private Frank-Wolfe without shrinking
(`sottovoce.central.solvers.frank_wolfe`), and sends its T signed columns in one message of a few bytes. The model is
made of them and of public facts, so it is public. Nothing is spent on showing columns to others; what is lost is that
two parties whose columns say the same cannot know.

Proof: ``docs/privacy/vertical_frank_wolfe.md``.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from sottovoce._numerics import Vector
from sottovoce.exceptions import MessageError, PartyError
from sottovoce.privacy.calibration import bounded_range, least_scale
from sottovoce.privacy.events import BoundedRangeEvent, Event, RepeatedEvent, compose
from sottovoce.randomness import Streams
from sottovoce.vertical.coordinator.charges import check_affordable
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import VerticalSolution
from sottovoce.vertical.protocols.frank_wolfe.ball_plan import PrivateBallPlan
from sottovoce.vertical.protocols.frank_wolfe.columns import unpack_places
from sottovoce.vertical.protocols.frank_wolfe.messages import Chosen, TrainOnBall
from sottovoce.vertical.protocols.frank_wolfe.worker import weights_of

__all__ = ["LocalBallPlan"]


@dataclass(frozen=True, kw_only=True)
class LocalBallPlan(PrivateBallPlan):
    """All steps of a party alone."""

    name: ClassVar[str] = "local"
    most_steps: ClassVar[int] = 16
    mechanism: ClassVar[str] = (
        "Frank-Wolfe on a product of l1 balls: each party by itself, by adaptive composition of exponential "
        "mechanisms over its signed columns"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_choice(self.selection_range)

    @cached_property
    def selection_range(self) -> float:
        count = self.n_steps * len(self.facts.names)
        if self.response is None:
            return bounded_range(self.epsilon, self.delta, count)
        labels = self.label_event

        def run(scale: float) -> Event:
            return compose(labels, RepeatedEvent(BoundedRangeEvent(1.0 / scale), count))

        return 1.0 / least_scale(run, self.epsilon, self.delta)

    @property
    def _party_event(self) -> Event:
        return RepeatedEvent(BoundedRangeEvent(self.selection_range), self.n_steps)

    @property
    def event(self) -> Event:
        count = self.n_steps * len(self.facts.names)
        return compose(self.label_event, RepeatedEvent(BoundedRangeEvent(self.selection_range), count))

    def solve(self, parties: Parties, y: Vector, model: str, streams: Streams) -> VerticalSolution:
        planned = self._party_event
        check_affordable(parties, dict.fromkeys(self.facts.names, planned))
        labels = self.soft_labels(y, streams)
        requests = {
            name: TrainOnBall(
                self.loss.name,
                labels[name],
                self.shares[name] * self.vertex(name),
                self.slope_bound(name),
                self.n_steps,
                self.selection_range,
                self.intercept_at(name),
                self.label_unit,
                model,
            )
            for name in self.facts.names
        }
        replies = parties.exchange(requests, Chosen)
        return VerticalSolution(
            scorer=self.scorer,
            event=self.event,
            party_events=self.with_labels(dict.fromkeys(self.facts.names, planned)),
            n_rounds=1,
            weights={name: self._weights(name, reply) for name, reply in replies.items()},
        )

    def _weights(self, name: str, reply: Chosen) -> tuple[Vector, float]:
        """Return a party's coefficients and intercept, in the units of its columns and of the labels."""
        if reply.selection != self.selection_range:
            raise PartyError(
                f"party {name!r} says that each of its choices spent {reply.selection!r}; planned was "
                f"{self.selection_range!r}. Its noise is not what the plan accounts for: bring all parties to the same "
                "version."
            )
        columns = self.n_columns(name)
        try:
            places = unpack_places(reply.places, self.n_steps, columns)
        except MessageError as error:
            raise PartyError(f"party {name!r} answered with something that is not a choice: {error}") from error
        weights = self.label_unit * weights_of(places, columns, self.shares[name] * self.vertex(name) / self.n_steps)
        return self.in_units(name, weights)

    @property
    def releases(self) -> tuple[str, ...]:
        return (
            *self.label_release,
            "to everybody: the signed column that every step of every party takes (the model is a function of them)",
        )

    def details(self) -> dict[str, object]:
        return {**super().details(), "bounded range of a choice": self.selection_range, "radius shares": self.shares}
