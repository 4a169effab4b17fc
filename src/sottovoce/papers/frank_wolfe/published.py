r"""Private Frank-Wolfe over distributed columns as published, among parties; for reproduction.

In every step each party draws some of its columns, chooses a signed one by a noisy maximum with Laplace noise, and
sends it together with a noisy Gaussian sketch of the column; the model moves towards the *sum* of all parties'
vertices. The noise is the printed one. Its claim does not hold: the receipt says what does, which is an epsilon in the
hundreds and more, at the same delta (``docs/privacy/published_vertical_frank_wolfe.md``).

Parties and estimator must both be given it, within one process:

>>> from sottovoce.vertical import Party, VerticalLasso
>>> clinic = Party([[0.5], [1.0]], name="clinic", data_bound=1.0, protocols=[PROTOCOL])
>>> lasso = VerticalLasso(radius=1.0, label_bounds=(-1, 1), labels_public=True, mechanism=PublishedBallPlan)

Algorithm 2 does not run as it is printed. Mended here, and nothing else:

* q is a vector of m numbers, so the gradient from it is (1/n) (J a)'(q - J y) and not a'q - a'y. J'q is the prediction
  of each record; the labels are used as they are, not through J.
* eq. (15) and line 5 leave out eta, the size of the vertices, and mix indices of two steps.
* the maximum is over both signs of every column (text of subroutine A); line 11 takes those with a positive
  derivative only, and eq. (14) has the opposite sign of line 3.
* G, "a constant", is the largest derivative of the data. Here it is a public bound, and slopes are clipped to it:
  without that no noise of any size would be enough.
* T and m are given up to constants; here the constants are 1.

Logistic loss, which the paper does not treat, needs the prediction of every record: columns are shared raw, with
sigma(J) = 1.

References
----------
.. [1] Lou, Cheung (2018). Uplink Communication Efficient Differentially Private Sparse Optimization With Feature-Wise
   Distributed Data. AAAI 2018; Algorithm 2.
"""

import math
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from sottovoce._numerics import ROUNDING_SLACK, Vector
from sottovoce._validation import number, whole_number
from sottovoce.exceptions import MessageError, ParameterError, PartyError, PrivacyWarning
from sottovoce.papers.frank_wolfe.noise import (
    Sketch,
    column_release,
    published_column_std,
    published_event,
    published_rows,
    published_selection_scale,
    published_steps,
)
from sottovoce.papers.frank_wolfe.party import (
    PublishedBallReply,
    PublishedBallStart,
    PublishedBallStartHandler,
    PublishedBallStep,
    PublishedBallStepHandler,
    selection_epsilon,
)
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.events import Event, compose
from sottovoce.randomness import Streams
from sottovoce.vertical.coordinator.charges import check_affordable
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import VerticalSolution
from sottovoce.vertical.protocol import Answer, Protocol
from sottovoce.vertical.protocols.frank_wolfe.ball_plan import PrivateBallPlan, kept_weights
from sottovoce.vertical.protocols.frank_wolfe.columns import ColumnRelease
from sottovoce.vertical.wire import Done

__all__ = ["PROTOCOL", "PublishedBallPlan"]


@dataclass(frozen=True, kw_only=True)
class PublishedBallPlan(PrivateBallPlan):
    """Plan of one training with the published noise; ``epsilon`` and ``delta`` are what the paper claims for all of it.

    Attributes
    ----------
    jl_parameter : float, in (0, 1]
        iota: m = ln(2 T / delta) / iota^2.
    sampled_columns : int or None
        tau, columns that each party draws for a step; None for all.
    sketch_rows : int or None
        m; None by the rule.
    sketch_seed : int
        Public.

    Raises
    ------
    ParameterError
        If a parameter is out of range, or the labels are secret.
    """

    name: ClassVar[str] = "lou-cheung"
    proof: ClassVar[str] = "docs/privacy/published_vertical_frank_wolfe.md"
    options: ClassVar[tuple[str, ...]] = ("jl_parameter", "sampled_columns", "sketch_rows", "sketch_seed")

    jl_parameter: float = 0.3
    sampled_columns: int | None = None
    sketch_rows: int | None = None
    sketch_seed: int = 0

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
        if self.sketch_rows is not None and self.loss.is_classification:
            raise ParameterError(
                "sketch_rows is for squared loss: logistic loss needs the prediction of every record, so columns are "
                "shared raw."
            )
        self.public_sketch  # noqa: B018  refuses a wrong size before anything is spent

    @cached_property
    def n_steps(self) -> int:
        """T of Theorem 3."""
        if self.n_steps_given is not None:
            return self.n_steps_given
        return published_steps(self.facts.n_samples, self.epsilon)

    @cached_property
    def public_sketch(self) -> Sketch | None:
        """J; None for raw columns."""
        if self.loss.is_classification:
            return None
        rows = self.sketch_rows
        if rows is None:
            rows = published_rows(self.n_steps, self.delta, self.jl_parameter)
        return Sketch(self.facts.n_samples, rows, self.sketch_seed)

    @cached_property
    def column_std(self) -> float:
        """Standard deviation of the printed noise, pi."""
        return published_column_std(
            1.0 if self.public_sketch is None else self.public_sketch.leading_singular_value,
            n_people=self.facts.n_samples,
            n_parties=len(self.facts.names),
            n_steps=self.n_steps,
            epsilon=self.epsilon,
            delta=self.delta,
        )

    @cached_property
    def column(self) -> ColumnRelease:
        """How a column is released: with noise pi, which is this multiple of what one person can move it by."""
        largest = 1.0 if self.public_sketch is None else self.public_sketch.largest_norm
        multiplier = self.column_std / (2.0 * largest * ROUNDING_SLACK)
        return column_release(self.facts.n_samples, multiplier, self.public_sketch)

    def selection_scale(self, name: str) -> float:
        """Return the scale of the printed Laplace noise at a party."""
        return published_selection_scale(
            self.slope_bound(name),
            self.vertex(name),
            n_people=self.facts.n_samples,
            n_steps=self.n_steps,
            epsilon=self.epsilon,
            delta=self.delta,
        )

    def selection_epsilon(self, name: str) -> float:
        """Return what one choice of a party costs."""
        return selection_epsilon(self.selection_scale(name), clip=self.slope_bound(name), n_people=self.facts.n_samples)

    def party_event(self, name: str) -> Event:
        """Return what a party's steps cost."""
        return published_event(self.selection_epsilon(name), self.column.noise_multiplier, self.n_steps)

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
        """Take all steps; see `VerticalPlan.solve`."""
        names = self.facts.names
        events = {name: self.party_event(name) for name in names}
        check_affordable(parties, events)
        warnings.warn(
            f"PublishedBallPlan reproduces the paper: its claim of epsilon={self.epsilon:g} does not hold, the receipt "
            f"states epsilon={self.promised_epsilon:.4g}. Use mechanism='frank-wolfe' for a model that keeps its "
            "budget.",
            PrivacyWarning,
            stacklevel=3,
        )
        parties.exchange(self._starts(self.soft_labels(y, streams)), Done)
        weights = {name: np.zeros(self.n_columns(name)) for name in names}
        predicted = np.zeros(self.column.size)
        for step in range(self.n_steps):
            size = 2.0 / (self._least_chance * step + 2.0)
            replies = parties.exchange(dict.fromkeys(names, PublishedBallStep(predicted)), PublishedBallReply)
            predicted = (1.0 - size) * predicted
            for name, reply in replies.items():
                column, sign, shared = self._checked(name, reply)
                weights[name] *= 1.0 - size
                weights[name][column] += size * sign * self.vertex(name)
                predicted += size * sign * self.vertex(name) * shared
        parts = {name: self.in_units(name, self.label_unit * weights[name]) for name in names}
        parties.exchange({name: kept_weights(model, *parts[name]) for name in names}, Done)
        return VerticalSolution(
            scorer=self.scorer, event=self.event, party_events=events, n_rounds=self.n_steps, weights=parts
        )

    @cached_property
    def _least_chance(self) -> float:
        """p_min of the steps' sizes, 2 / (p_min t + 2): how likely a column is drawn at the largest party."""
        if self.sampled_columns is None:
            return 1.0
        return self.sampled_columns / max(self.n_columns(name) for name in self.facts.names)

    def _starts(self, labels: dict[str, Vector]) -> dict[str, PublishedBallStart]:
        sketch = self.public_sketch
        return {
            name: PublishedBallStart(
                self.loss.name,
                labels[name],
                self.slope_bound(name),
                self.selection_scale(name),
                self.column.noise_multiplier,
                self.n_steps,
                self.n_columns(name) if self.sampled_columns is None else self.sampled_columns,
                self.intercept_at(name),
                0 if sketch is None else sketch.n_rows,
                self.sketch_seed,
            )
            for name in self.facts.names
        }

    def _checked(self, name: str, reply: PublishedBallReply) -> tuple[int, int, Vector]:
        """Return the column, the sign of the step and the noisy column, if they are what was planned."""
        column, sign = self.checked_place(name, reply.place)
        spent = reply.selection_epsilon, reply.column_noise
        planned = self.selection_epsilon(name), self.column.noise_multiplier
        if spent != planned:
            raise PartyError(
                f"party {name!r} says that a step cost {spent!r}; planned was {planned!r}: bring all parties to the "
                "same version."
            )
        try:
            return column, sign, self.column.read(reply.ticks)
        except MessageError as error:
            raise PartyError(f"party {name!r} answered with something that is not a column: {error}") from error

    @property
    def mechanism(self) -> str:
        """The algorithm in one sentence, for the receipt."""
        return (
            "Frank-Wolfe over distributed columns with the noise of Lou and Cheung (2018), for reproduction: the noise "
            "of a shared column is about 1/n of what the claim needs"
        )

    @property
    def releases(self) -> tuple[str, ...]:
        """What leaves whom for whom, for the receipt."""
        column = "its entries" if self.public_sketch is None else "a public sketch of it"
        return (
            f"to everybody, {self.n_steps} times: the signed column that each party chooses, and {column} with noise "
            "(the model is a function of them)",
        )

    def details(self) -> dict[str, object]:
        """Return what the paper claims, and what becomes of it."""
        sketch = self.public_sketch
        return {
            **super().details(),
            "epsilon that the paper claims": self.epsilon,
            "epsilon that holds": self.promised_epsilon,
            "mean shift mu of all shared columns together": self.mu,
            "zCDP of all shared columns together": 0.5 * self.mu**2,
            "noise of a shared column": self.column_std,
            "noise multiplier of a shared column": self.column.noise_multiplier,
            "pure epsilon of a choice": {name: self.selection_epsilon(name) for name in self.facts.names},
            "largest l1 norm that the sum of vertices may have": self.radius * len(self.facts.names),
            "sketch rows": 0 if sketch is None else sketch.n_rows,
            "sketch seed": self.sketch_seed,
            "columns drawn for a step": "all" if self.sampled_columns is None else self.sampled_columns,
        }


PROTOCOL = Protocol(
    Answer("lou-cheung", "what Lou and Cheung (2018) print, for study", charged=True),
    handlers=(PublishedBallStartHandler, PublishedBallStepHandler),
    plan=PublishedBallPlan,
)
