r"""``aggregation="product"`` and ``"global"``: steps that see what the other parties' columns predict.

In every round each party chooses a signed column by the slopes of its own exact part of the predictions plus what the
*released* columns of the others predict. With ``"product"`` each party steps in its own ball. With ``"global"`` there
is one ball: each party also releases a noisy score of its choice, and the party with the largest takes the step alone,
if the score says that the loss falls. No secure computation is involved, and the coordinator is covered like everybody
else.

A column is released once, with noise, the first time that it is stepped along; a column that is first taken in the last
round is not released, because nobody would use it.

Predictions from noisy columns are noisy themselves, and slopes are clipped accordingly: at
c = max(1, s |step| sqrt(columns)), where s is the noise of a shared entry. Shares of the budget are measured
(``benchmarks/vertical/frank_wolfe.py``).

Proof: ``docs/privacy/vertical_frank_wolfe.md``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._validation import choice, magnitude, number
from sottovoce.exceptions import MessageError, ParameterError, PartyError
from sottovoce.privacy.calibration import least_scale
from sottovoce.privacy.events import BoundedRangeEvent, Event, GaussianEvent, RepeatedEvent, compose
from sottovoce.randomness import Streams
from sottovoce.vertical.coordinator.charges import check_affordable
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import VerticalSolution
from sottovoce.vertical.protocols.frank_wolfe.ball_plan import PrivateBallPlan, kept_weights
from sottovoce.vertical.protocols.frank_wolfe.columns import ColumnRelease
from sottovoce.vertical.protocols.frank_wolfe.messages import BallChoice, BallStart, SharedColumn
from sottovoce.vertical.protocols.frank_wolfe.rounds import JointRounds
from sottovoce.vertical.protocols.frank_wolfe.sketch import KINDS, Sketch
from sottovoce.vertical.wire import Done

__all__ = ["JointBallPlan"]

_MOST: Final = {"product": 6, "global": 12}
_SCORES: Final = 0.05  # of what is not for columns, for the scores of choices
_ROOM: Final = 1.0 + 2.0**-40


@dataclass(frozen=True, kw_only=True)
class JointBallPlan(PrivateBallPlan):
    """Steps of all parties together.

    Attributes
    ----------
    aggregation : {"product", "global"}
    sharing_share : float, in (0, 1)
        Share of the squared noise budget for shared columns.
    sketch : {"sparse-sign", "gaussian"} or None
        Compress shared columns by a public linear map; None shares them raw.
    sketch_rows : int or None
        Numbers that a compressed column has; None for a fifth of the people, at least 64.
    sketch_seed : int
        Public.
    """

    options: ClassVar[tuple[str, ...]] = ("sharing_share", "sketch", "sketch_rows", "sketch_seed")

    aggregation: str = "global"
    sharing_share: float = 0.85
    sketch: str | None = None
    sketch_rows: int | None = None
    sketch_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("aggregation", self.aggregation, tuple(_MOST))
        self.check_attendance(self.aggregation)
        number("sharing_share", self.sharing_share, above=0.0, below=1.0)
        if self.sketch is not None:
            choice("sketch", self.sketch, KINDS)
            if self.loss.is_classification:
                raise ParameterError(
                    "sketch is for squared loss, whose slopes are linear in the predictions: logistic loss needs the "
                    "prediction of every record. Use sketch=None, which shares raw columns, or aggregation='local'."
                )
        self.public_sketch  # noqa: B018  refuses a wrong size before anything is spent
        choices, score, column = self._noise(self._scale)
        self.check_choice(choices)
        remedy = "Give a larger epsilon, or fewer steps."
        number("the noise multiplier of a column", column, at_least=1e-6, at_most=1e6, remedy=remedy)
        if math.isfinite(score):
            number("the noise multiplier of a score", score, at_least=1e-6, at_most=1e6, remedy=remedy)
        for name in self.facts.names:
            magnitude(f"the clip of a record's slope at party {name!r}", self.slope_bound(name))

    @cached_property
    def public_sketch(self) -> Sketch | None:
        """The public map of shared columns."""
        if self.sketch is None:
            return None
        n = self.facts.n_samples
        return Sketch(
            self.sketch, n, max(64, n // 5) if self.sketch_rows is None else self.sketch_rows, self.sketch_seed
        )

    @property
    def most_steps(self) -> int:
        """Cap of the rule for the number of steps."""
        return _MOST[self.aggregation]

    @property
    def is_global(self) -> bool:
        """Whether there is one ball, and one party steps in a round."""
        return self.aggregation == "global"

    @property
    def n_choices(self) -> int:
        """Choices of all parties together: each makes one a round."""
        return self.n_steps * len(self.facts.names)

    @property
    def n_shared(self) -> int:
        """Columns that all parties together may share."""
        return (self.n_steps - 1) * (1 if self.is_global else len(self.facts.names))

    @property
    def _shares(self) -> tuple[float, float, float]:
        """Shares of the squared budget for choices, scores and columns."""
        columns = self.sharing_share if self.n_shared else 0.0
        scores = _SCORES * (1.0 - columns) if self.is_global else 0.0
        return 1.0 - columns - scores, scores, columns

    def _noise(self, scale: float) -> tuple[float, float, float]:
        """Return the range of a choice, and the noise multipliers of a score and of a column."""
        choices, scores, columns = self._shares
        return (
            math.sqrt(8.0 * choices / self.n_choices) / scale,
            scale * math.sqrt(self.n_choices / (2.0 * scores)) if scores else math.inf,
            scale * math.sqrt(self.n_shared / (2.0 * columns)) if columns else 1.0,
        )

    def _event(self, scale: float) -> Event:
        return compose(self.label_event, *self._steps(scale, self.n_choices, self.n_shared))

    def _steps(self, scale: float, n_choices: int, n_shared: int) -> list[Event]:
        """Return what so many choices, with their scores, and shared columns cost."""
        choices, score, column = self._noise(scale)
        parts: list[Event] = [RepeatedEvent(BoundedRangeEvent(choices), n_choices)]
        if math.isfinite(score):
            parts.append(RepeatedEvent(GaussianEvent(score), n_choices))
        if self.n_shared:
            parts.append(RepeatedEvent(GaussianEvent(column), n_shared))
        return parts

    @cached_property
    def _scale(self) -> float:
        return least_scale(self._event, self.epsilon, self.delta)

    @property
    def event(self) -> Event:
        """Labels, choices, scores and shared columns of all parties."""
        return self._event(self._scale)

    @cached_property
    def column(self) -> ColumnRelease:
        """How a column is released."""
        return ColumnRelease(self.facts.n_samples, self._noise(self._scale)[2], self.public_sketch)

    def ball(self, name: str) -> float:
        """Return the size of a vertex that the party steps to."""
        return self.vertex(name) * (1.0 if self.is_global else self.shares[name])

    def slope_bound(self, name: str) -> float:
        """Return the bound on a record's slope: wider where the predictions of the others are noisy."""
        exact = super().slope_bound(name)
        if self.loss.is_classification or not self.n_shared:
            return exact
        steps = [self.ball(other) / self.n_steps for other in self.facts.names]
        length = (
            max(steps) * math.sqrt(self.n_steps) if self.is_global else math.hypot(*steps) * math.sqrt(self.n_steps)
        )
        sketch, noise = self.public_sketch, self.column.mechanism.noise_std
        if sketch is not None:  # J'J mixes other people's entries in, about n / m of them in variance
            noise = math.hypot(noise * sketch.largest_norm, math.sqrt(self.facts.n_samples / sketch.n_rows))
        return max(exact, noise * length)

    def solve(self, parties: Parties, y: Vector, model: str, streams: Streams) -> VerticalSolution:
        """Take all rounds; see `VerticalPlan.solve`."""
        names = self.facts.names
        planned = dict.fromkeys(names, compose(*self._steps(self._scale, self.n_steps, self.n_steps - 1)))
        check_affordable(parties, planned)
        attendance = self.attendance(parties)
        rounds = JointRounds(self, attendance)
        rounds.run(self._starts(self.soft_labels(y, streams)))
        weights = {name: self._weights(name, rounds.taken) for name in names}
        n_rounds = attendance.round
        keeping = {name: kept_weights(model, *weights[name]) for name in rounds.can_be_asked()}
        kept = attendance.ask(keeping, Done)
        return self.solution_over(
            attendance,
            weights,
            set(names) - set(kept),
            rounds.lacking(),
            party_events=self.with_labels(planned),
            n_rounds=n_rounds,
            chosen={"columns shared": len(rounds.columns)},
        )

    def _starts(self, labels: dict[str, Vector]) -> dict[str, BallStart]:
        choices, score, column = self._noise(self._scale)
        sketch = self.public_sketch
        return {
            name: BallStart(
                self.loss.name,
                labels[name],
                self.ball(name),
                self.slope_bound(name),
                self.n_steps,
                choices,
                self.intercept_at(name),
                score,
                column,
                self.n_steps - 1,
                "" if sketch is None else sketch.kind,
                0 if sketch is None else sketch.n_rows,
                0 if sketch is None else sketch.seed,
            )
            for name in self.facts.names
        }

    def winners(self, choices: Mapping[str, BallChoice]) -> tuple[str, ...]:
        """Return who steps: all who chose, or the one along whose vertex the loss seems to fall fastest, if it falls.

        A step of length s along a column changes the loss by at most -s score + n b s^2 / 2, b its smoothness.
        """
        present = tuple(name for name in self.facts.names if name in choices)
        if not self.is_global:
            return present
        best = max(present, key=lambda name: self.ball(name) * choices[name].score)
        least = 0.5 * self.loss.smoothness * self.facts.n_samples * self.ball(best) / self.n_steps
        return (best,) if choices[best].score > least else ()

    def is_intercept(self, name: str, column: int) -> bool:
        """Tell whether a party's column is that of an intercept, which everybody knows."""
        return column == self.facts.descriptions[name].n_features

    def read_column(self, name: str, reply: SharedColumn) -> Vector:
        """Return a released column, or where it is compressed what stands for it, one number a person."""
        if reply.noise_multiplier != self.column.noise_multiplier:
            raise PartyError(
                f"party {name!r} says that its column has noise {reply.noise_multiplier!r}; planned was "
                f"{self.column.noise_multiplier!r}: bring all parties to the same version."
            )
        try:
            shared = self.column.read(reply.ticks)
        except MessageError as error:
            raise PartyError(f"party {name!r} answered with something that is not a column: {error}") from error
        return shared if self.public_sketch is None else self.public_sketch.spread(shared)

    def _weights(self, name: str, taken: dict[tuple[str, int], int]) -> tuple[Vector, float]:
        weights = np.zeros(self.n_columns(name))
        for (owner, column), steps in taken.items():
            if owner == name:
                weights[column] = self.label_unit * steps * self.ball(name) / self.n_steps
        return self.in_units(name, weights)

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the mechanism as users give it."""
        return self.aggregation

    @property
    def mechanism(self) -> str:
        """The algorithm in one sentence, for the receipt."""
        ball = "the l1 ball" if self.is_global else "a product of l1 balls"
        return (
            f"Frank-Wolfe on {ball}: exponential mechanisms over each party's signed columns, and every column that is "
            "stepped along shared once with Gaussian noise on a grid"
        )

    @property
    def releases(self) -> tuple[str, ...]:
        """What leaves whom for whom, for the receipt."""
        scores = ", and its score with noise" if self.is_global else ""
        column = "its entries" if self.sketch is None else "a public sketch of it"
        return (
            *self.label_release,
            f"to everybody: the signed column that each party chooses in every round{scores} (the model is a function "
            "of them)",
            f"to everybody: each column that is stepped along, once: {column} with noise",
        )

    def details(self) -> dict[str, object]:
        """Return the mechanism's own parameters for the receipt."""
        choices, score, column = self._noise(self._scale)
        details = {**super().details(), "bounded range of a choice": choices}
        if math.isfinite(score):
            details["noise multiplier of a score"] = score
        if self.n_shared:
            details |= {"noise multiplier of a shared column": column, "columns that may be shared": self.n_shared}
        if self.public_sketch is not None:
            sketch = self.public_sketch
            details |= {"sketch": sketch.kind, "sketch rows": sketch.n_rows, "sketch seed": sketch.seed}
        return details if self.is_global else {**details, "radius shares": self.shares}
