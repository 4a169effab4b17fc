r"""Private Frank-Wolfe over columns at several parties without secure computation: every party alone, or together.

Shares of the budget are measured (``benchmarks/vertical/frank_wolfe.py``). Proof:
``docs/privacy/vertical_frank_wolfe.md``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._validation import magnitude, number
from sottovoce.exceptions import MessageError, PartyError
from sottovoce.privacy.calibration import bounded_range, least_scale
from sottovoce.privacy.events import BoundedRangeEvent, Event, GaussianEvent, RepeatedEvent, compose
from sottovoce.randomness import Streams
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import VerticalSolution
from sottovoce.vertical.protocols.frank_wolfe import messages
from sottovoce.vertical.protocols.frank_wolfe.ball_plan import PrivateBallPlan, kept_weights
from sottovoce.vertical.protocols.frank_wolfe.columns import ColumnRelease, unpack_places
from sottovoce.vertical.protocols.frank_wolfe.messages import Chosen, TrainOnBall
from sottovoce.vertical.protocols.frank_wolfe.worker import weights_of
from sottovoce.vertical.wire import Done


@dataclass(frozen=True, kw_only=True)
class LocalBallPlan(PrivateBallPlan):
    """``aggregation="local"``: every party takes all its steps alone, and tells which columns it took.

    The ball is a product of K balls. Party k fits the labels with its own columns, by private Frank-Wolfe without
    shrinking (`sottovoce.central.solvers.frank_wolfe`), and sends its T signed columns in one message of a few bytes.
    The model is made of them and of public facts, so it is public. Nothing is spent on showing columns to others; what
    is lost is that two parties whose columns say the same cannot know.
    """

    name: ClassVar[str] = "local"
    first_request = TrainOnBall
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
    def column_events(self) -> Mapping[str, Event]:
        return dict.fromkeys(self.facts.names, RepeatedEvent(BoundedRangeEvent(self.selection_range), self.n_steps))

    @property
    def event(self) -> Event:
        count = self.n_steps * len(self.facts.names)
        return compose(self.label_event, RepeatedEvent(BoundedRangeEvent(self.selection_range), count))

    def solve(self, parties: Parties, y: Vector, model: str, streams: Streams) -> VerticalSolution:
        labels = self.soft_labels(parties, y, streams)
        requests = {
            name: TrainOnBall(
                self.loss.name, labels[name], self.shares[name] * self.vertex(name), self.slope_bound(name),
                self.n_steps, self.selection_range, self.intercept_at(name), self.label_unit, model,
            )
            for name in self.facts.names
        }  # fmt: skip
        with self.after_labels():
            replies = parties.exchange(requests, Chosen)
            weights = {name: self._weights(name, reply) for name, reply in replies.items()}
        return VerticalSolution(
            scorer=self.scorer,
            event=self.event,
            n_rounds=1,
            weights=weights,
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


_SCORES: Final = 0.05  # of what is not for columns, for the scores of choices

_Column = tuple[str, int]  # of which party, which one


@dataclass(frozen=True, kw_only=True)
class JointBallPlan(PrivateBallPlan):
    """``aggregation="global"``: one ball, and steps that see what the other parties' columns predict.

    In every round each party chooses a signed column by the slopes of its own exact part of the predictions plus what
    the *released* columns of the others predict, and releases a noisy score of its choice. The party with the largest
    takes the step alone, if the score says that the loss falls. No secure computation is involved, and the coordinator
    is covered like everybody else.

    A column is released once, with noise, the first time that it is stepped along; a column that is first taken in the
    last round is not released, because nobody would use it.

    Predictions from noisy columns are noisy themselves, and slopes are clipped accordingly: at
    c = max(1, s |step| sqrt(columns)), where s is the noise of a shared entry.
    """

    name: ClassVar[str] = "global"
    first_request = messages.BallStart
    most_steps: ClassVar[int] = 12
    mechanism: ClassVar[str] = (
        "Frank-Wolfe on the l1 ball: exponential mechanisms over each party's signed columns, and every column "
        "that is stepped along shared once with Gaussian noise on a grid"
    )
    options: ClassVar[tuple[str, ...]] = ("sharing_share",)

    sharing_share: float = 0.85  # in (0, 1): share of the squared noise budget for shared columns

    def __post_init__(self) -> None:
        super().__post_init__()
        number("sharing_share", self.sharing_share, above=0.0, below=1.0)
        choices, score, column = self._noise(self._scale)
        self.check_choice(choices)
        remedy = "Give a larger epsilon, or fewer steps."
        number("the noise multiplier of a column", column, at_least=1e-6, at_most=1e6, remedy=remedy)
        number("the noise multiplier of a score", score, at_least=1e-6, at_most=1e6, remedy=remedy)
        for name in self.facts.names:
            magnitude(f"the clip of a record's slope at party {name!r}", self.slope_bound(name))

    @property
    def n_choices(self) -> int:
        """Choices of all parties together: each makes one a round."""
        return self.n_steps * len(self.facts.names)

    @property
    def n_shared(self) -> int:
        return self.n_steps - 1

    @property
    def _shares(self) -> tuple[float, float, float]:
        columns = self.sharing_share if self.n_shared else 0.0
        scores = _SCORES * (1.0 - columns)
        return 1.0 - columns - scores, scores, columns

    def _noise(self, scale: float) -> tuple[float, float, float]:
        """Return the range of a choice, and the noise multipliers of a score and of a column."""
        choices, scores, columns = self._shares
        return (
            math.sqrt(8.0 * choices / self.n_choices) / scale,
            scale * math.sqrt(self.n_choices / (2.0 * scores)),
            scale * math.sqrt(self.n_shared / (2.0 * columns)) if columns else 1.0,
        )

    def _event(self, scale: float) -> Event:
        return compose(self.label_event, *self._steps(scale, self.n_choices, self.n_shared))

    def _steps(self, scale: float, n_choices: int, n_shared: int) -> list[Event]:
        """Return what so many choices, with their scores, and shared columns cost."""
        choices, score, column = self._noise(scale)
        parts: list[Event] = [
            RepeatedEvent(BoundedRangeEvent(choices), n_choices),
            RepeatedEvent(GaussianEvent(score), n_choices),
        ]
        if self.n_shared:
            parts.append(RepeatedEvent(GaussianEvent(column), n_shared))
        return parts

    @cached_property
    def _scale(self) -> float:
        return least_scale(self._event, self.epsilon, self.delta)

    @property
    def event(self) -> Event:
        return self._event(self._scale)

    @property
    def column_events(self) -> Mapping[str, Event]:
        return dict.fromkeys(self.facts.names, compose(*self._steps(self._scale, self.n_steps, self.n_shared)))

    @cached_property
    def column(self) -> ColumnRelease:
        return ColumnRelease(self.facts.n_samples, self._noise(self._scale)[2])

    def slope_bound(self, name: str) -> float:
        """Return the bound on a record's slope: wider where the predictions of the others are noisy."""
        exact = super().slope_bound(name)
        if self.loss.is_classification or not self.n_shared:
            return exact
        steps = [self.vertex(other) / self.n_steps for other in self.facts.names]
        return max(exact, self.column.mechanism.noise_std * (max(steps) * math.sqrt(self.n_steps)))

    def solve(self, parties: Parties, y: Vector, model: str, streams: Streams) -> VerticalSolution:
        names = self.facts.names
        starts = self._starts(self.soft_labels(parties, y, streams))
        with self.after_labels():
            parties.exchange(starts, Done)
            taken, columns = self._rounds(parties)
            weights = {name: self._weights(name, taken) for name in names}
            parties.exchange({name: kept_weights(model, *weights[name]) for name in names}, Done)
        return VerticalSolution(
            scorer=self.scorer,
            event=self.event,
            n_rounds=self.n_steps,
            chosen={"columns shared": len(columns)},
            weights=weights,
        )

    def _starts(self, labels: dict[str, Vector]) -> dict[str, messages.BallStart]:
        choices, score, column = self._noise(self._scale)
        return {
            name: messages.BallStart(
                self.loss.name, labels[name], self.vertex(name), self.slope_bound(name), self.n_steps, choices,
                self.intercept_at(name), score, column, self.n_steps - 1,
            )
            for name in self.facts.names
        }  # fmt: skip

    def _rounds(self, parties: Parties) -> tuple[dict[_Column, int], dict[_Column, Vector]]:
        """Take all steps; return steps up less steps down, and what was released, by column that was stepped along."""
        names, n = self.facts.names, self.facts.n_samples
        taken: dict[_Column, int] = {}
        columns: dict[_Column, Vector] = {}
        told = {name: np.zeros(n) for name in names}  # what the released columns of each party predict
        for step in range(1, self.n_steps + 1):
            everybody = np.sum(list(told.values()), axis=0)
            asked = {name: messages.BallSelect(everybody - told[name]) for name in names}
            choices = parties.exchange(asked, messages.BallChoice)
            places = {name: self.checked_place(name, choices[name].place) for name in names}
            winner = self._winner(choices)
            if winner is None:
                continue
            column, sign = places[winner]
            parties.ask(winner, messages.BallStep(choices[winner].place), Done)
            taken[winner, column] = taken.get((winner, column), 0) + sign
            if step == self.n_steps:  # nobody would use a column of the last round
                break
            if (winner, column) not in columns:
                columns[winner, column] = self._released(parties, winner, column)
            told[winner] += sign * self.vertex(winner) / self.n_steps * columns[winner, column]
        return taken, columns

    def _winner(self, choices: Mapping[str, messages.BallChoice]) -> str | None:
        """Return along whose vertex the loss seems to fall fastest; None where it falls along none.

        A step of length s along a column changes the loss by at most -s score + n b s^2 / 2, b its smoothness.
        """
        best = max(self.facts.names, key=lambda name: self.vertex(name) * choices[name].score)
        least = 0.5 * self.loss.smoothness * self.facts.n_samples * self.vertex(best) / self.n_steps
        return best if choices[best].score > least else None

    def _released(self, parties: Parties, name: str, column: int) -> Vector:
        """Return a column that its party releases now; that of an intercept everybody knows."""
        if column == self.facts.descriptions[name].n_features:
            return np.ones(self.facts.n_samples)
        reply = parties.ask(name, messages.ShareColumn(column), messages.SharedColumn)
        if reply.noise_multiplier != self.column.noise_multiplier:
            raise PartyError(
                f"party {name!r} says that its column has noise {reply.noise_multiplier!r}; planned was "
                f"{self.column.noise_multiplier!r}: bring all parties to the same version."
            )
        try:
            return self.column.read(reply.ticks)
        except MessageError as error:
            raise PartyError(f"party {name!r} answered with something that is not a column: {error}") from error

    def _weights(self, name: str, taken: Mapping[_Column, int]) -> tuple[Vector, float]:
        weights = np.zeros(self.n_columns(name))
        for (owner, column), steps in taken.items():
            if owner == name:
                weights[column] = self.label_unit * steps * self.vertex(name) / self.n_steps
        return self.in_units(name, weights)

    @property
    def releases(self) -> tuple[str, ...]:
        return (
            *self.label_release,
            "to everybody: the signed column that each party chooses in every round, and its score with noise (the "
            "model is a function of them)",
            "to everybody: each column that is stepped along, once: its entries with noise",
        )

    def details(self) -> dict[str, object]:
        choices, score, column = self._noise(self._scale)
        details = {
            **super().details(), "bounded range of a choice": choices, "noise multiplier of a score": score,
        }  # fmt: skip
        if self.n_shared:
            details |= {"noise multiplier of a shared column": column, "columns that may be shared": self.n_shared}
        return details
