"""Stochastic dual coordinate ascent without privacy, for ``epsilon=inf``: what the private solvers approach.

Sequential exact coordinate steps in a fresh random order each epoch, until the duality gap is below ``tol`` times the
objective (Shalev-Shwartz and Zhang 2013, JMLR 14, procedure SDCA-Perm), with extra visits to the rows that still move.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce.central.data.part import Part
from sottovoce.central.data.row_memory import TARGET, WEIGHT
from sottovoce.central.data.rows import Rows
from sottovoce.central.kernels import passes
from sottovoce.central.parallel import Team
from sottovoce.central.without_noise import Exact, GapPlan
from sottovoce.randomness import Purpose

_CHECK_EVERY = 5  # epochs between two looks at the duality gap, which cost about an epoch each
# With the hinge most dual variables soon stay at 0 or 1: those that still moved are visited more often (shrinking).
_FEW = 0.7
_REVISITS = 20


@dataclass(frozen=True, kw_only=True)
class NonPrivatePlan(GapPlan):
    """Plan of dual coordinate ascent; its iterations are epochs."""

    solver = "sdca (no privacy)"
    mechanism = "stochastic dual coordinate ascent without noise"
    words = "the exact minimiser, unprotected"
    unit = "epochs"
    takes_weights = True

    def exact(self, part: Part) -> Exact:
        rows, y, order = part.rows, part.memory.whole(TARGET), part.coins.generator(Purpose.SHUFFLING)
        shares = part.memory.whole(WEIGHT) if WEIGHT in part.memory else np.empty(0)
        alpha_n = self.alpha_scaled * rows.n_samples
        a = np.zeros(rows.n_samples)
        w = np.zeros(rows.n_weights)

        def visit(places: NDArray[np.int64]) -> None:
            passes.sdca_epoch(rows.kernel, y, shares, a, w, alpha_n, self.loss, order.permutation(places))

        everyone = np.arange(rows.n_samples)
        gap = np.inf
        epoch = 0
        while epoch < self.max_iter:
            before = a.copy()
            visit(everyone)
            epoch += 1
            if epoch % _CHECK_EVERY == 0 or epoch == self.max_iter:
                gap = self._relative_gap(rows, y, shares, a, w, part.team)
                part.progress(epoch, self.max_iter)
                if gap <= self.tol:
                    break
            moved = np.flatnonzero(a != before)
            if len(moved) < _FEW * rows.n_samples:
                for _ in range(_REVISITS):
                    visit(moved)
        return Exact(w, epoch, gap)

    def _relative_gap(self, rows: Rows, y: Vector, shares: Vector, a: Vector, w: Vector, team: Team) -> float:
        m, each = rows.margins(w, team), shares if shares.size else 1.0
        if shares.size:
            a = np.divide(a, shares, out=np.zeros_like(a), where=shares > 0.0)
        penalty = 0.5 * self.alpha_scaled * float(w @ w)
        primal = float(np.mean(each * self.loss.value(y, m))) + penalty
        dual = -float(np.mean(each * self.loss.conjugate(y, self.loss.nearest_feasible(y, a)))) - penalty
        return max(0.0, primal - dual) / max(abs(primal), 1e-300)
