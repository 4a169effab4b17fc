"""Solvers without privacy, for ``epsilon=inf``: what the private ones approach.

Most losses are left to stochastic dual coordinate ascent: exact coordinate steps in a fresh random order each epoch,
until the duality gap is below ``tol`` times the objective (Shalev-Shwartz, Zhang 2013, JMLR 14, procedure SDCA-Perm),
with extra visits to the rows that still move.
"""

import warnings
from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from sottovoce._numerics import Vector
from sottovoce._validation import number
from sottovoce.central.calibration import moved_for_accuracy
from sottovoce.central.core import Asked, Keep, Release, Unprotected
from sottovoce.central.data.labels import BeginModel
from sottovoce.central.data.operation import AtHome
from sottovoce.central.data.part import Part, Rows
from sottovoce.central.data.row_memory import TARGET, WEIGHT
from sottovoce.central.kernels.calls import passes
from sottovoce.central.parallel import Team
from sottovoce.central.plan import Plan, Solution, Takes
from sottovoce.randomness import Purpose

_CHECK_EVERY = 5  # epochs between two looks at the duality gap, which cost about an epoch each
# With the hinge most dual variables soon stay at 0 or 1: those that still moved are visited more often (shrinking).
_FEW = 0.7
_REVISITS = 20


class Exact(NamedTuple):
    """What a training without noise ends with."""

    weights: Vector
    n_steps: int
    gap: float = 0.0  # the bound on the distance to the optimum that was reached


@dataclass(frozen=True, kw_only=True)
class UnprotectedPlan(Plan):
    """Plan of a run without noise, until a bound on the distance to the optimum is small.

    The whole training is one question to rows in memory, and its answer is exact.
    """

    takes = Takes.PERSONS | Takes.RELEASED_NORM
    proof = "none: this run is not private"
    words: ClassVar[str] = "the exact minimiser, unprotected"
    # Name of the gap in the receipt, and the least number that it can be.
    gap: ClassVar[str] = "duality gap / objective"
    least_gap: ClassVar[float | None] = 0.0
    measure: ClassVar[str] = "duality gap"
    unit: ClassVar[str] = "iterations"
    remedy: ClassVar[str] = "Raise max_iter, alpha or tol."

    tol: float  # stop when the gap is at most this share of the objective
    max_iter: int  # cap on the number of iterations

    @abstractmethod
    def exact(self, part: Part) -> Exact:
        """Train one model on the targets of the rows."""

    def train(self) -> Asked[Solution]:
        found = []
        for model in range(1 if self.joint else self.n_models):
            yield BeginModel(model)
            one = yield Release(self.words, ExactTraining(self), Unprotected())
            if self.facts.is_for_accuracy:
                one = one._replace(weights=(yield from moved_for_accuracy(one.weights, self.facts)))
            found.append(one)
            if not one.gap <= self.tol:
                warnings.warn(
                    f"no convergence in max_iter={self.max_iter} {self.unit}: the {self.measure} is {one.gap:.2g} of "
                    f"the objective, above tol={self.tol:g}. {self.remedy}",
                    ConvergenceWarning,
                    stacklevel=2,
                )
        yield Keep(self.gap, max(one.gap for one in found), partial(number, at_least=self.least_gap), 0.0)
        return self.solution([one.weights for one in found], max(one.n_steps for one in found))


@dataclass(frozen=True)
class ExactTraining(AtHome[Exact]):
    """The training of one model."""

    plan: UnprotectedPlan

    def on(self, part: Part) -> Exact:
        return self.plan.exact(part)

    def blank(self) -> Any:
        return Exact(np.zeros(1), 0)


@dataclass(frozen=True, kw_only=True)
class NonPrivatePlan(UnprotectedPlan):
    """Plan of dual coordinate ascent; its iterations are epochs."""

    solver = "sdca (no privacy)"
    mechanism = "stochastic dual coordinate ascent without noise"
    unit = "epochs"
    takes = UnprotectedPlan.takes | Takes.WEIGHTS

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
