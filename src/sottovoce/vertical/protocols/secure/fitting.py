"""From what was opened to a model: post-processing, the same for everybody who sees the openings."""

from typing import TYPE_CHECKING

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.vertical.protocols.secure.training import Estimate

if TYPE_CHECKING:
    from sottovoce.vertical.protocols.secure.joint_plan import JointPlan

__all__ = ["Fitting"]


class Fitting:
    """The coordinator's side of a joint training, step by step.

    Parameters
    ----------
    plan : JointPlan
    """

    def __init__(self, plan: "JointPlan") -> None:
        self._plan, self._done = plan, 0
        self._estimate: Estimate | None = None

    def moments(self, values: Vector) -> dict[str, Vector] | None:
        """Take what step 0 opened; return the points of the first pass by party, or None where there is none."""
        matrix, correlations = self._plan.moments.matrix(values)
        self._estimate = self._plan.training.estimate(matrix, correlations)
        return self._points()

    def step(self, values: Vector) -> dict[str, Vector] | None:
        """Take what a pass opened; return the points of the next one by party, or None after the last."""
        plan, estimate = self._plan, self._begun()
        sums = values.astype(np.float64)
        if plan.constant:
            sums[-1] *= plan.constant
        estimate.take(sums)
        self._done += 1
        return self._points()

    @property
    def weights(self) -> dict[str, tuple[Vector, float]]:
        """Coefficients and intercept by party, for its own table."""
        return self._plan.in_user_units(self._begun().point)

    @property
    def chosen(self) -> dict[str, object]:
        """Public numbers that the training chose, for the receipt."""
        return dict(self._begun().chosen)

    def _begun(self) -> Estimate:
        if self._estimate is None:
            raise ValueError("the second moments come first.")
        return self._estimate

    def _points(self) -> dict[str, Vector] | None:
        if self._done >= self._plan.n_steps:
            return None
        point = self._begun().point
        points = {name: point[place] for name, place in self._plan.places.items()}
        return points | dict.fromkeys(self._plan.helpers, np.zeros(0))
