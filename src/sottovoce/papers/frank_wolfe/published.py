r"""Private Frank-Wolfe over distributed columns as published, among parties; for reproduction.

In every step each party draws some of its columns, chooses a signed one by a noisy maximum with Laplace noise, and
sends it together with a noisy Gaussian sketch of the column; the model moves towards the *sum* of all parties'
vertices. The noise is the printed one. Its claim does not hold: the receipt says what does, which is an epsilon in the
hundreds and more, at the same delta. Algorithm 2 does not run as it is printed; what was mended, and nothing else, is
in a table of ``docs/privacy/published_vertical_frank_wolfe.md``.

Parties must be given it, within one process:

>>> from sottovoce.vertical import Party
>>> clinic = Party([[0.5], [1.0]], name="clinic", data_bound=1.0, protocols=[PROTOCOL])
>>> lasso = PublishedLasso(radius=1.0, label_bounds=(-1, 1), labels_public=True)
"""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import ROUNDING_SLACK, Vector
from sottovoce._parameters import estimator, parameter
from sottovoce._validation import number, whole_number
from sottovoce.central.data.lengths import make_bounded_rows
from sottovoce.central.parallel import Team
from sottovoce.central.sums.selection import TICKS, DenseScores
from sottovoce.exceptions import MessageError, ParameterError, PartyError, PrivacyWarning
from sottovoce.papers.frank_wolfe.noise import (
    ColumnRelease,
    Sketch,
    bounded_column,
    published_column_std,
    published_rows,
    published_selection_scale,
    published_steps,
)
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.events import Event, GaussianEvent, PureEvent, RepeatedEvent, compose
from sottovoce.randomness import Streams
from sottovoce.vertical.coordinator.exact import keep_weights
from sottovoce.vertical.coordinator.frank_wolfe import PrivateBallPlan
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import VerticalSolution, Words, checked
from sottovoce.vertical.estimators.choices import known_options
from sottovoce.vertical.estimators.sparse import VerticalLasso
from sottovoce.vertical.protocol import Answered, PartyFacts, Protocol, Request, count, opened, refuse, within
from sottovoce.vertical.requests.frank_wolfe import LOSSES, check_ball, cut, place_of
from sottovoce.vertical.wire import Count, Done, Payload

_MOVE = 2.0 * TICKS * ROUNDING_SLACK  # of a score, in ticks, when a person is replaced


def _choice_epsilon(scale: float, clip: float, n_people: int) -> float:
    """Return what one noisy maximum costs at a scale of the noise on the mean of slopes within ``clip``.

    With Laplace noise of scale b over scores that move by at most D it is (2 D / b)-DP.
    """
    return 2.0 * _MOVE / _ticks(scale, clip, n_people)


def _ticks(scale: float, clip: float, n_people: int) -> float:
    """Return a scale on the mean of slopes times entries in the unit of the scores."""
    return scale * n_people * TICKS / clip


def _steps_event(choice_epsilon: float, column_noise: float, n_steps: int) -> Event:
    """Return what so many steps of one party really cost: a choice and a shared column each."""
    return compose(*(RepeatedEvent(one, n_steps) for one in (PureEvent(choice_epsilon), GaussianEvent(column_noise))))


# --- a party's side ---------------------------------------------------------------------------------------------------


class _GivenScores(DenseScores):
    """Scores at predictions that come from outside."""

    def at(self, predicted: Vector) -> NDArray[np.int64]:
        self._margins[:] = predicted
        return self.sums()


class PublishedBallWorker:
    """Steps with the published noise."""

    def __init__(self, table: Any, data_bound: float, start: "PublishedBallStart", noise: np.random.Generator) -> None:
        self._table, self._data_bound, self._start, self._noise = table, data_bound, start, noise
        team = Team(1, None)
        rows = make_bounded_rows(table, data_bound=data_bound, constant=float(start.intercept), names=None, team=team)
        self._scores = _GivenScores(rows, cut(start.labels), LOSSES[start.loss], start.clip, TICKS, team)
        self._n_people, self._n_columns = rows.n_samples, rows.n_weights
        self._steps = 0
        self._release = ColumnRelease(start.column_noise, Sketch(self._n_people, start.sketch_rows, start.sketch_seed))

    def why_not(self, request: "PublishedBallStep") -> str:
        """Return why a step goes beyond what was charged, or makes no sense; empty if it does not."""
        if self._steps >= self._start.n_steps:
            return "all steps that were charged have been taken"
        if request.step != self._steps:
            return f"step {self._steps} is due, not {request.step}"
        if not 1 <= self._start.sampled <= self._n_columns:
            return f"{self._start.sampled} of {self._n_columns} columns cannot be drawn"
        if len(request.predicted) != self._release.size:
            return f"PublishedBallStep has {len(request.predicted)} numbers where {self._release.size} are due"
        return ""

    def step(self, request: "PublishedBallStep") -> Payload:
        """Choose a signed column by noisy maximum, and share it with noise."""
        self._steps += 1
        sums = self._scores.at(self._release.sketch.spread(cut(request.predicted)))
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
        told = np.array([place, 2.0 * _MOVE / scale, self._release.event.noise_multiplier])
        return Payload(told, shared)


class PublishedBallStart(Request, code=72, opens=True):
    """Open steps of Frank-Wolfe with the published noise.

    ``clip`` bounds a record's slope, ``selection`` is the scale of the Laplace noise on a mean of slopes times entries,
    ``column_noise`` the noise multiplier of a shared column. Of ``sampled`` columns, drawn again for each step, one is
    chosen.
    """

    loss: str
    labels: Vector
    clip: float
    selection: float
    column_noise: float
    n_steps: Count
    sampled: Count
    intercept: Count
    sketch_rows: Count
    sketch_seed: Count

    def answer(self, facts: PartyFacts, worker: Any) -> Answered[Done]:
        bound = check_ball(facts, self)
        within("column_noise", self.column_noise, 1e-6, 1e6)
        count("sketch_rows", self.sketch_rows)
        Sketch(facts.n_rows, self.sketch_rows, self.sketch_seed)  # what it refuses is refused before the charge
        choice = _choice_epsilon(self.selection, self.clip, facts.n_rows)
        desk = yield _steps_event(choice, self.column_noise, self.n_steps)  # charged at what the steps are worth
        desk.worker = PublishedBallWorker(desk.table, bound, self, desk.noise())
        return Done()


class PublishedBallStep(Request, code=73, once=True):
    """What the released columns predict, one number a row of the sketch; take the step of this number, from 0 on.

    The answer is twice the column, plus 1 for a step down, pure epsilon and noise multiplier; and the noisy column in
    whole ticks.
    """

    step: Count
    predicted: Vector

    def answer(self, facts: PartyFacts, worker: Any) -> Answered[Payload]:
        steps = opened(PublishedBallWorker, worker, self)
        refuse(steps.why_not(self))
        yield None
        return steps.step(self)


# --- the plan, and the coordinator's side -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PublishedBallPlan(PrivateBallPlan):
    """Plan of one training with the published noise; ``epsilon`` and ``delta`` are what the paper claims for it."""

    name: ClassVar[str] = "lou-cheung"
    first_request = PublishedBallStart
    proof: ClassVar[str] = "docs/privacy/published_vertical_frank_wolfe.md"
    options: ClassVar[tuple[str, ...]] = ("jl_parameter", "sampled_columns", "sketch_rows", "sketch_seed")

    jl_parameter: float = 0.3  # iota: m = ln(2 T / delta) / iota^2
    sampled_columns: int | None = None  # tau, columns that each party draws for a step; None for all
    sketch_rows: int | None = None  # m; None by the rule
    sketch_seed: int = 0  # public

    def __post_init__(self) -> None:
        super().__post_init__()
        number("jl_parameter", self.jl_parameter, above=0.0, at_most=1.0)
        whole_number("sketch_seed", self.sketch_seed, at_least=0)
        if not self.labels_public:
            raise ParameterError(
                "Algorithm 2 gives the labels to all parties as they are: it needs labels_public=True. Use the default "
                "mechanism for secret labels."
            )
        if self.sampled_columns is not None:
            fewest = min(self.n_columns(name) for name in self.facts.names)
            remedy = f"The smallest party has {fewest} columns."
            whole_number("sampled_columns", self.sampled_columns, at_least=1, at_most=fewest, remedy=remedy)
        self.public_sketch  # noqa: B018  refuses a wrong size before anything is spent

    @cached_property
    def n_steps(self) -> int:
        """T of Theorem 3."""
        return self.n_steps_given or published_steps(self.facts.n_samples, self.epsilon)

    @cached_property
    def public_sketch(self) -> Sketch:
        """J."""
        rows = self.sketch_rows
        if rows is None:
            rows = published_rows(self.n_steps, self.delta, self.jl_parameter)
        return Sketch(self.facts.n_samples, rows, self.sketch_seed)

    @cached_property
    def _claim(self) -> dict[str, Any]:
        people = self.facts.n_samples
        return {"n_people": people, "n_steps": self.n_steps, "epsilon": self.epsilon, "delta": self.delta}

    @cached_property
    def column_std(self) -> float:
        """Standard deviation of the printed noise, pi."""
        sensitivity = self.public_sketch.leading_singular_value
        return published_column_std(sensitivity, n_parties=len(self.facts.names), **self._claim)

    @cached_property
    def column(self) -> ColumnRelease:
        """How a column is released: with noise pi, which is this multiple of what one person can move it by."""
        multiplier = self.column_std / (2.0 * self.public_sketch.largest_norm * ROUNDING_SLACK)
        return ColumnRelease(multiplier, self.public_sketch)

    def selection_scale(self, name: str) -> float:
        """Return the scale of the printed Laplace noise at a party."""
        return published_selection_scale(self.slope_bound(name), self.vertex(name), **self._claim)

    def selection_epsilon(self, name: str) -> float:
        """Return what one choice of a party costs."""
        return _choice_epsilon(self.selection_scale(name), self.slope_bound(name), self.facts.n_samples)

    def party_event(self, name: str) -> Event:
        """Return what all steps of one party cost."""
        return _steps_event(self.selection_epsilon(name), self.column.noise_multiplier, self.n_steps)

    @property
    def column_events(self) -> Mapping[str, Event]:
        return {name: self.party_event(name) for name in self.facts.names}

    @property
    def event(self) -> Event:
        """Choices and shared columns of all parties."""
        return compose(*(self.party_event(name) for name in self.facts.names))

    @property
    def mu(self) -> float:
        """Mean shift of all shared columns together: what they cost, exactly, at one person and one table."""
        return math.sqrt(self.n_steps * len(self.facts.names)) / self.column.noise_multiplier

    @cached_property
    def promised_epsilon(self) -> float:
        """What holds at delta."""
        return accountant_for(self.event).epsilon(self.event, self.delta)

    def solve(self, parties: Parties, y: Vector, model: str, streams: Streams) -> VerticalSolution:
        names = self.facts.names
        warnings.warn(
            f"PublishedBallPlan reproduces the paper: its claim of epsilon={self.epsilon:g} does not hold, the receipt "
            f"states epsilon={self.promised_epsilon:.4g}. Use VerticalLasso, which keeps its budget.",
            PrivacyWarning,
            stacklevel=3,
        )
        tau, widest = self.sampled_columns, max(self.n_columns(name) for name in names)
        p_min = 1.0 if tau is None else tau / widest
        labels = self.soft_labels(parties, y, streams)
        parties.exchange({name: self._start(name, labels[name]) for name in names}, Done)
        weights = {name: np.zeros(self.n_columns(name)) for name in names}
        predicted = np.zeros(self.column.size)
        for step in range(self.n_steps):
            size = 2.0 / (p_min * step + 2.0)
            replies = parties.exchange(dict.fromkeys(names, PublishedBallStep(step, predicted)), Payload)
            predicted = (1.0 - size) * predicted
            for name, reply in replies.items():
                column, sign, shared = self._checked(name, reply)
                weights[name] *= 1.0 - size
                weights[name][column] += size * sign * self.vertex(name)
                predicted += size * sign * self.vertex(name) * shared
        parts = {name: self.in_units(name, self.label_unit * weights[name]) for name in names}
        keep_weights(parties, model, parts)
        return VerticalSolution(scorer=self.scorer, event=self.event, n_rounds=self.n_steps, weights=parts)

    def _start(self, name: str, labels: Vector) -> PublishedBallStart:
        return PublishedBallStart(
            loss=self.loss.name,
            labels=labels,
            clip=self.slope_bound(name),
            selection=self.selection_scale(name),
            column_noise=self.column.noise_multiplier,
            n_steps=self.n_steps,
            sampled=self.sampled_columns or self.n_columns(name),
            intercept=self.intercept_at(name),
            sketch_rows=self.public_sketch.n_rows,
            sketch_seed=self.sketch_seed,
        )

    def _checked(self, name: str, reply: Payload) -> tuple[int, int, Vector]:
        """Return the column, the sign of the step and the noisy column, if they are what was planned."""
        place, *spent = checked(name, reply.numbers, 3).tolist()
        column, sign = self.checked_place(name, place)
        planned = [self.selection_epsilon(name), self.column.noise_multiplier]
        if spent != planned:
            raise PartyError(
                f"party {name!r} says that a step cost {spent!r}; planned was {planned!r}: bring all parties to the "
                "same version."
            )
        try:
            return column, sign, self.column.read(reply.octets)
        except MessageError as error:
            raise PartyError(f"party {name!r} answered with something that is not a column: {error}") from error

    @property
    def words(self) -> Words:
        """What the paper claims, and what becomes of it."""
        return self.said(
            "Frank-Wolfe over distributed columns with the noise of Lou and Cheung (2018), for reproduction: the noise "
            "of a shared column is about 1/n of what the claim needs",
            f"to everybody, {self.n_steps} times: the signed column that each party chooses, and a public sketch of it "
            "with noise (the model is a function of them)",
            **{
                "epsilon that the paper claims": self.epsilon,
                "epsilon that holds": self.promised_epsilon,
                "mean shift mu of all shared columns together": self.mu,
                "zCDP of all shared columns together": 0.5 * self.mu**2,
                "noise of a shared column": self.column_std,
                "noise multiplier of a shared column": self.column.noise_multiplier,
                "pure epsilon of a choice": {name: self.selection_epsilon(name) for name in self.facts.names},
                "largest l1 norm that the sum of vertices may have": self.radius * len(self.facts.names),
                "sketch rows": self.public_sketch.n_rows,
                "sketch seed": self.sketch_seed,
                "columns drawn for a step": "all" if self.sampled_columns is None else self.sampled_columns,
            },
        )


PROTOCOL = Protocol(
    "lou-cheung", "what Lou and Cheung (2018) print, for study", (PublishedBallStart, PublishedBallStep), charged=True
)


# --- the estimator ----------------------------------------------------------------------------------------------------


@estimator
class PublishedLasso(VerticalLasso):
    """`VerticalLasso` with the published noise."""

    mechanism_options: Mapping[str, Any] | None = parameter(
        "dict or None",
        default=None,
        text="``jl_parameter``, ``sampled_columns``, ``sketch_rows`` and ``sketch_seed``.",
    )

    def _make_plan(self, **facts: Any) -> PublishedBallPlan:
        if math.isinf(facts["epsilon"]):
            raise ParameterError("PublishedLasso is about noise: give a finite epsilon.")
        if self.aggregation != "local" or self.radius_shares is not None:
            raise ParameterError("aggregation and radius_shares are for VerticalLasso. Leave them out.")
        known = known_options("mechanism_options", self.mechanism_options, PublishedBallPlan.options)
        return PublishedBallPlan(**facts, **self._own_options(), **known)
