r"""The same problem as private Frank-Wolfe, without noise: accelerated projected gradients (FISTA [1]_).

Stops when the Frank-Wolfe gap, on the l1 ball g.w + R max \|g_j\| for the gradient g of the mean loss, which bounds the
distance to the optimum, falls below a tolerance.

References
----------
.. [1] Beck, Teboulle (2009). A Fast Iterative Shrinkage-Thresholding Algorithm for Linear Inverse Problems. SIAM J.
   Imaging Sciences 2(1); with the restart of O'Donoghue, Candes (2015).
.. [2] Duchi, Shalev-Shwartz, Singer, Chandra (2008). Efficient Projections onto the l1-Ball for Learning in High
   Dimensions. ICML 2008.
"""

import math
from dataclasses import dataclass

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.central.data.part import Part
from sottovoce.central.data.row_memory import TARGET
from sottovoce.central.solvers.frank_wolfe import PlanInSet
from sottovoce.central.solvers.without_noise import Exact, UnprotectedPlan


@dataclass(frozen=True, kw_only=True)
class ProjectedGradientPlan(PlanInSet, UnprotectedPlan):
    """Plan of projected gradients."""

    solver = "projected gradients (no privacy)"
    words = "the weights, unprotected"
    gap, least_gap = "largest relative gap", None
    measure, unit, remedy = "Frank-Wolfe gap", "steps", "Raise max_iter or tol."

    @property
    def mechanism(self) -> str:
        return f"accelerated projected gradients on {self.set.words} without noise"

    def details(self) -> dict[str, object]:
        return {**super().details(), "tol": self.tol, "max_iter": self.max_iter}

    def exact(self, part: Part) -> Exact:
        rows, y, team = part.rows, part.memory.whole(TARGET), part.team

        def objective(m: Vector) -> float:
            return float(np.mean(self.loss.value(y, m)))

        def slopes(m: Vector) -> Vector:
            gradient: Vector = rows.weighted_sum(self.loss.derivative(y, m))
            gradient /= rows.n_samples
            return gradient

        w = ahead = self.set.project(np.zeros(self.n_weights))
        m = m_ahead = rows.margins(w, team) if w.any() else np.zeros(rows.n_samples)
        value, momentum, gap = objective(m), 1.0, math.inf
        curvature = 1e-3 * self.loss.smoothness  # doubled where it is too small for a step
        for step in range(self.max_iter):
            here = slopes(m)
            gap = (float(here @ w) + self.set.steepest(here)) / max(abs(value), 1e-300)
            part.progress(step + 1, self.max_iter)
            if gap <= self.tol:
                return Exact(w, step, gap)
            g, value_ahead = slopes(m_ahead), objective(m_ahead)
            while True:
                moved = self.set.project(ahead - g / curvature)
                m_moved = rows.margins(moved, team)
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
        return Exact(w, self.max_iter, gap)
