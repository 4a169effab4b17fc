r"""``aggregation="secure"``: one ball, and the column of a step is chosen inside secure computation.

It is private Frank-Wolfe on the joined table: slopes, products and scores stay secret, every party adds noise of its
own, and the place of the largest noisy score is all that is opened. No column is shared, no score is told, no label is
released, and a step is charged once, not once a party.

Proof: ``docs/privacy/secure_frank_wolfe.md``.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from sottovoce._numerics import Vector
from sottovoce._validation import number
from sottovoce.exceptions import ParameterError
from sottovoce.randomness import Streams
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import VerticalSolution
from sottovoce.vertical.protocols.frank_wolfe.ball_plan import SCORED_THROUGH, BallPlan, check_entry_bounds
from sottovoce.vertical.protocols.secure.column_plan import ColumnPlan, Columns
from sottovoce.vertical.protocols.secure.together import TrainedTogether

__all__ = ["SecureBallPlan"]


@dataclass(frozen=True, kw_only=True)
class SecureBallPlan(TrainedTogether, BallPlan):
    """Plan of one joint training.

    Attributes
    ----------
    n_steps_given : int or None
        Steps; None follows a public rule.
    residual_bound : float or None
        Bound on a residual of squared loss; None is half of the width of ``label_bounds``.
    engine : {"spu", "in-process"}
    patience : float
        Seconds that one step may take at all parties together.
    """

    name: ClassVar[str] = "secure"
    proof: ClassVar[str] = "docs/privacy/secure_frank_wolfe.md"

    n_steps_given: int | None = None
    residual_bound: float | None = None
    engine: str = "in-process"
    patience: float = 3600.0

    def __post_init__(self) -> None:
        number("patience", self.patience, above=0.0)
        if self.radius_shares is not None:
            raise ParameterError("radius_shares are for several balls; aggregation='secure' has one. Leave them out.")
        if self.residual_bound is not None and self.loss.is_classification:
            raise ParameterError("residual_bound is for squared loss; slopes of logistic loss are within 1.")
        check_entry_bounds(self)
        _ = self.joint  # refuses what cannot be planned before anything is spent

    @cached_property
    def joint(self) -> ColumnPlan:
        return ColumnPlan.of(
            self,
            blocks=tuple(
                Columns(name, each.n_features, each.data_bound) for name, each in self.facts.descriptions.items()
            ),
            residual_bound=self.residual_bound,
            radius=self.radius,
            n_steps_given=self.n_steps_given,
        )

    def solve(self, parties: Parties, y: Vector, model: str, streams: Streams) -> VerticalSolution:
        return self.trained(parties, y, model, self.scorer)

    # ------------------------------------------------------------------ receipts

    @property
    def given_away_by_holder(self) -> str:
        return "label and row of its columns"

    @property
    def mechanism(self) -> str:
        return (
            f"Frank-Wolfe on the l1 ball: {self.joint.n_choices} exponential mechanisms over the signed columns of all "
            f"parties, inside secure computation ({self.computed_by}); each of "
            f"{len(self.joint.ranks)} parties adds a Gumbel noise of its own, and only the place of the largest score "
            "is opened"
        )

    @property
    def releases(self) -> tuple[str, ...]:
        return (
            f"the signed column that each of {self.joint.n_choices} steps takes, to all parties",
            "the model, which follows from them",
        )

    @property
    def row_bounds(self) -> tuple[str, ...]:
        return tuple(
            f"{name}: data_bound = {self.data_bound(name):g} (entries beyond were clipped to it)"
            for name in self.facts.names
        )

    @property
    def view(self) -> str:
        K = len(self.joint.ranks)
        return (
            f"each of {K} parties adds the whole noise of the statement: as far as noise goes it holds against the "
            f"other {K - 1} together, who follow the protocol"
        )

    @property
    def not_covered(self) -> tuple[str, ...]:
        return (
            *super().not_covered,
            "a party that does not clip its own entries to the bound it declared, or leaves its noise out",
            SCORED_THROUGH,
        )

    def details(self) -> dict[str, object]:
        return {**self.joint.details(), "fit_intercept": self.fit_intercept, **super().details()}
