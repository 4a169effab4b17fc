r"""The same problem as private Frank-Wolfe, without noise: accelerated projected gradients on the l1 ball (FISTA [1]_).

Stops when the Frank-Wolfe gap, g.w + R max \|g_j\| for the gradient g of the mean loss, which bounds the distance to
the optimum, falls below a tolerance.

References
----------
.. [1] Beck, Teboulle (2009). A Fast Iterative Shrinkage-Thresholding Algorithm for Linear Inverse Problems. SIAM J.
   Imaging Sciences 2(1); with the restart of O'Donoghue, Candes (2015).
.. [2] Duchi, Shalev-Shwartz, Singer, Chandra (2008). Efficient Projections onto the l1-Ball for Learning in High
   Dimensions. ICML 2008.
"""

import math
import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sottovoce._numerics import Vector
from sottovoce.central.plan import Fit
from sottovoce.central.rows import Rows
from sottovoce.central.without_noise import GapPlan

__all__ = ["ProjectedGradientPlan", "project_on_ball"]


def project_on_ball(w: Vector, radius: float) -> Vector:
    """Return the nearest point (Euclidean) with l1 norm at most ``radius`` [2]_."""
    size = np.abs(w)
    if float(size.sum()) <= radius:
        return w
    falling = np.sort(size)[::-1]
    excess = np.cumsum(falling) - radius
    kept = int(np.flatnonzero(falling * np.arange(1, len(w) + 1) > excess)[-1])
    projected: Vector = np.sign(w) * np.maximum(size - excess[kept] / (kept + 1), 0.0)
    return projected


@dataclass(frozen=True, kw_only=True)
class ProjectedGradientPlan(GapPlan):
    """Plan of projected gradients.

    Parameters
    ----------
    radius : float, > 0
        l1 norm of the ball, for rows with entries in [-1, 1].
    """

    solver = "projected gradients (no privacy)"
    mechanism = "accelerated projected gradients on the l1 ball without noise"
    gap = "largest relative gap"

    radius: float

    def details(self) -> dict[str, object]:
        """Return the ball and the tolerance."""
        return {"radius of the l1 ball (scaled)": self.radius, "tol": self.tol, "max_iter": self.max_iter}

    def approach(self, fit: Fit, y: Vector) -> tuple[Vector, int, float]:
        """Return the weights for one target, the steps done and the gap that was reached."""

        def objective(m: Vector) -> float:
            return float(np.mean(self.loss.value(y, m)))

        def slopes(m: Vector) -> Vector:
            gradient: Vector = _transposed(fit.rows, self.loss.derivative(y, m))
            gradient /= fit.rows.n_samples
            return gradient

        w = ahead = np.zeros(self.n_weights)
        m = m_ahead = np.zeros(fit.rows.n_samples)
        value, momentum, gap = objective(m), 1.0, math.inf
        curvature = 1e-3 * self.loss.smoothness  # doubled where it is too small for a step
        for step in range(self.max_iter):
            here = slopes(m)
            gap = (float(here @ w) + self.radius * float(np.abs(here).max())) / max(abs(value), 1e-300)
            fit.progress(step + 1, self.max_iter)
            if gap <= self.tol:
                return w, step, gap
            g, value_ahead = slopes(m_ahead), objective(m_ahead)
            while True:
                moved = project_on_ball(ahead - g / curvature, self.radius)
                m_moved = fit.rows.margins(moved, fit.team)
                change = moved - ahead
                model = value_ahead + float(g @ change) + 0.5 * curvature * float(change @ change)
                new = objective(m_moved)
                if new <= model + 1e-12 * abs(model) or curvature > 1e30:
                    break
                curvature *= 2.0
            if new > value + 1e-15 * abs(value) and momentum > 1.0:  # start the extrapolation afresh
                momentum, ahead, m_ahead = 1.0, w, m
                continue
            after = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
            share = (momentum - 1.0) / after
            ahead, m_ahead = moved + share * (moved - w), m_moved + share * (m_moved - m)
            w, m, value, momentum = moved, m_moved, new, after
        warnings.warn(
            f"no convergence in max_iter={self.max_iter} steps: the Frank-Wolfe gap is {gap:.2g} of the objective, "
            f"above tol={self.tol:g}. Raise max_iter or tol.",
            ConvergenceWarning,
            stacklevel=2,
        )
        return w, self.max_iter, gap


def _transposed(rows: Rows, factors: Vector) -> Vector:
    """Return X' times ``factors`` for the scaled rows, in double precision."""
    total = np.zeros(rows.n_weights)
    features = rows.raw.shape[1]
    lo = 0
    for piece in rows.scaled_pieces():
        part = factors[lo : lo + piece.shape[0]]
        total[:features] += piece.T @ part
        lo += piece.shape[0]
    if rows.constant > 0.0:
        total[-1] = rows.constant * float(factors.sum())
    return total
