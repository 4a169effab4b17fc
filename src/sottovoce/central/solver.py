"""A solver as an object: a way to train that the product's own list of names does not have."""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from sottovoce.central.plan import Plan
from sottovoce.losses import Loss

__all__ = ["OBJECT", "Solver"]

OBJECT: Final = "solver object"  # the entry of a description that says which class it is of


@dataclass(frozen=True, kw_only=True)
class Solver:
    """Base of what ``solver=`` takes beside a name: a frozen dataclass whose fields are the options of its plan.

    A subclass says which `Plan` it makes. The plan settles the noise, what is charged and what the receipt says, as for
    a solver with a name; a description in plain data stands for the object in receipts, model files and ledgers.
    """

    # Its ``solver`` is the name of this class in receipts, from the package on: "papers.dp_scd.Published".
    plan: ClassVar[type[Plan]]

    def options(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def loss_for(self, loss: Loss) -> Loss:
        """Return the loss of an estimator as the solver's steps take it."""
        return loss

    def plain_data(self) -> dict[str, Any]:
        """Return name and options as plain data, for `sottovoce._plain_data.encode`."""
        return {OBJECT: self.plan.solver, **self.options()}
