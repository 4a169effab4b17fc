"""From the places that were opened to a model: the sum of equal steps along signed columns."""

from typing import TYPE_CHECKING

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.exceptions import PartyError

if TYPE_CHECKING:
    from sottovoce.vertical.protocols.secure.column_plan import ColumnPlan

__all__ = ["ColumnsTaken"]


class ColumnsTaken:
    """The coordinator's side, step by step.

    Parameters
    ----------
    plan : ColumnPlan

    Attributes
    ----------
    taken : ndarray of int64
        Steps along every column, those down counted negative; the intercept's column is the last.
    """

    def __init__(self, plan: "ColumnPlan") -> None:
        self._plan, self._done = plan, 0
        self.taken = np.zeros(plan.n_columns, np.int64)

    def moments(self, values: Vector) -> dict[str, Vector] | None:
        """Take the first place; return the points of the next step by party, or None after the last."""
        return self.step(values)

    def step(self, values: Vector) -> dict[str, Vector] | None:
        """Take a place."""
        plan, width = self._plan, self._plan.n_columns
        if values.shape != (1,) or not (0 <= values[0] < 2 * width and values[0] == int(values[0])):
            raise PartyError(f"the parties opened {values[:3]!r} where the place of one of {2 * width} is due.")
        place = int(values[0])
        self.taken[place % width] += 1 if place < width else -1
        self._done += 1
        return self._points() if self._done < plan.n_choices else None

    @property
    def weights(self) -> dict[str, tuple[Vector, float]]:
        """Coefficients and intercept by party, for its own table; numeric labels are counted from their middle."""
        plan, found = self._plan, {}
        unit = plan.label_unit / plan.bound
        for name, part in self._by_party().items():
            width = plan.width(name) - (plan.fit_intercept and name == plan.label_holder)
            intercept = float(part[width:].sum()) * plan.intercept_entry * plan.label_unit
            found[name] = (part[:width] * unit, intercept)
        return found

    @property
    def chosen(self) -> dict[str, object]:
        """Nothing beyond the plan was chosen."""
        return {}

    def _points(self) -> dict[str, Vector]:
        return self._by_party() | dict.fromkeys(self._plan.helpers, np.zeros(0))

    def _by_party(self) -> dict[str, Vector]:
        """Return each party's weights in the plan's unit, the intercept's with the label holder's."""
        plan = self._plan
        weights = self.taken * (plan.vertex / plan.n_choices)
        ends = np.cumsum([block.n_features for block in plan.blocks])
        parts = dict(zip((block.name for block in plan.blocks), np.split(weights[: ends[-1]], ends[:-1]), strict=True))
        if plan.fit_intercept:
            parts[plan.label_holder] = np.append(parts[plan.label_holder], weights[-1])
        return parts
