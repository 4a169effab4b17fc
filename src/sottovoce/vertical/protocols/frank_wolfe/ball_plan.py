r"""Public facts of Frank-Wolfe on the l1 ball over columns at several parties.

Entries are in units of each party's ``data_bound`` B_k, labels in units of half of the width of ``label_bounds``. The
ball is |w|_1 <= radius, where the intercept, if there is one, is the weight of a column of the value B at the label
holder (B its own bound), and numeric labels are counted from the middle of their bounds.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from sottovoce._shown import quoted
from sottovoce._validation import magnitude
from sottovoce.exceptions import ParameterError, PartyError
from sottovoce.vertical.coordinator.plan import SumOfScores, Term, VerticalPlan
from sottovoce.vertical.protocols.frank_wolfe.worker import signed_column

SCORED_THROUGH = (
    "the people who are scored through the parties, those of the training included: each party sends one exact number "
    "for each (whoever computes scores from coef_ needs nothing from them)"
)
"""What no statement covers of a model on a ball, for the receipt."""


@dataclass(frozen=True, kw_only=True)
class BallPlan(VerticalPlan):
    """What every training on the l1 ball has, with and without noise."""

    proof: ClassVar[str] = "docs/privacy/vertical_frank_wolfe.md"

    alpha: float = 0.0
    radius: float  # > 0: in the unit of the labels over that of the columns

    @cached_property
    def middle(self) -> float:
        """What numeric labels are counted from."""
        if self.loss.is_classification or self.facts.label_bounds is None or not self.fit_intercept:
            return 0.0
        return 0.5 * (self.facts.label_bounds[0] + self.facts.label_bounds[1])

    def intercept_at(self, name: str) -> int:
        """Return 1 where the party has a column of ones."""
        return int(self.fit_intercept and name == self.facts.label_holder)

    def n_columns(self, name: str) -> int:
        """Return how many columns a party may choose from."""
        return self.facts.descriptions[name].n_features + self.intercept_at(name)

    def data_bound(self, name: str) -> float:
        """Return the public bound on a party's entries."""
        return self.facts.descriptions[name].data_bound

    @property
    def bounds_in_words(self) -> tuple[str, ...]:
        """Return what a receipt says of each party's public bound on its entries."""
        return tuple(
            f"{quoted(name)}: data_bound = {self.data_bound(name):g} (entries beyond were clipped to it)"
            for name in self.facts.names
        )

    def checked_place(self, name: str, place: float) -> tuple[int, int]:
        """Return the column and the sign of a party's choice."""
        if not (0 <= place < 2 * self.n_columns(name) and place == int(place)):
            raise PartyError(f"party {name!r} chose the place {place:g}; it has {self.n_columns(name)} columns.")
        return signed_column(int(place))

    @property
    def scorer(self) -> SumOfScores:
        """Say who adds up what, when people are scored."""
        return SumOfScores({name: Term() for name in self.facts.names}, constant=self.middle)

    @property
    def of_holder(self) -> str:
        """Return what of a person the statement about the label holder covers."""
        return "row of its columns" if self.labels_public else "label and row of its columns"


def check_entry_bounds(plan: BallPlan) -> None:
    """Refuse a training in which a party gave no bound on its entries; nothing has been spent by then."""
    for name in plan.facts.names:
        if not math.isfinite(plan.data_bound(name)):
            raise ParameterError(
                f"private Frank-Wolfe needs data_bound of party {name!r}, a public bound on the size of its "
                f"entries; that party must give it: Party(..., name={name!r}, data_bound=...). Never compute "
                "it from the data."
            )
        magnitude(f"data_bound of party {name!r}", plan.data_bound(name))
