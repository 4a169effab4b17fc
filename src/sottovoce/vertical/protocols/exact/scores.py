r"""The coordinator's own problem, eq. (7) of the paper: one scalar problem a record, and the loss's part of V^t.

.. math:: z_i = \arg\min_z \; l(y_i, z) + \tfrac{k}{2} (z - c_i)^2.

A convex loss is solved by its dual step, exactly; a smooth one that is not convex by safeguarded Newton steps, which
needs k above its smoothness (Assumption 1.2 of the paper), so that each problem is strongly convex.
"""

import math

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.exceptions import ParameterError
from sottovoce.losses.base import Loss, SmoothLoss
from sottovoce.vertical.table.kernels import proximal_points

__all__ = ["ScoreProblem"]

_NEWTON = 60


class ScoreProblem:
    """Loss and labels of all records.

    Parameters
    ----------
    loss : Loss or SmoothLoss
    y : ndarray of shape (n,)
    """

    def __init__(self, loss: Loss | SmoothLoss, y: Vector) -> None:
        self.loss = loss
        self.y = np.ascontiguousarray(y, dtype=np.float64)
        self.convex = isinstance(loss, Loss)
        self._dual = np.zeros(len(y))

    def value(self, z: Vector) -> float:
        """Return the sum of losses."""
        return float(self.loss.value(self.y, z).sum())

    def minimise(self, centre: Vector, strength: float) -> Vector:
        """Return the proximal point of each record."""
        if self.convex:
            z = np.empty_like(centre)
            proximal_points(self.loss, self.y, centre, float(strength), self._dual, z)
            return z
        return self._newton(centre, strength)

    def residual(self, z: Vector, gradient: Vector) -> Vector:
        """Return the derivative of l(z) + gradient'z, or the proximal residual where the loss has a corner."""
        if math.isfinite(self.loss.smoothness):
            return self.loss.derivative(self.y, z) + gradient
        moved = np.empty_like(z)
        proximal_points(self.loss, self.y, z - gradient, 1.0, np.zeros_like(z), moved)
        return z - moved

    def _newton(self, centre: Vector, k: float) -> Vector:
        loss, y = self.loss, self.y
        if not k > loss.smoothness:
            raise ParameterError(
                f"the penalty parameter rho (rho / M for M parties in the sharing form) must be above the smoothness "
                f"{loss.smoothness:g} of the {loss.name} loss, which is not convex; got {k!r}."
            )
        low, high = centre - loss.lipschitz / k, centre + loss.lipschitz / k
        z = centre.copy()
        for _ in range(_NEWTON):
            slope = loss.derivative(y, z) + k * (z - centre)
            low, high = np.where(slope < 0.0, z, low), np.where(slope > 0.0, z, high)
            moved = z - slope / (k + loss.curvature(y, z))
            moved = np.where((moved < low) | (moved > high), 0.5 * (low + high), moved)
            step = float(np.abs(moved - z).max(initial=0.0))
            z = moved
            if step <= 1e-14 * (1.0 + float(np.abs(z).max(initial=0.0))):
                break
        return z
