"""Stochastic dual coordinate ascent without privacy, for ``epsilon=inf``: what the private solvers approach.

Sequential exact coordinate steps in a fresh random order each epoch, until the duality gap is below ``tol`` times the
objective (Shalev-Shwartz and Zhang 2013, JMLR 14, procedure SDCA-Perm), with extra visits to the rows that still move.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from sottovoce._validation import number
from sottovoce.central.kernels import passes
from sottovoce.central.parallel import Team
from sottovoce.central.plan import Plan, Progress, Solution
from sottovoce.central.rows import Rows
from sottovoce.privacy.events import Event, NonPrivateEvent
from sottovoce.randomness import Purpose, Streams

__all__ = ["NonPrivatePlan"]

_GAP = "duality gap / objective"  # its name in the receipt
_CHECK_EVERY = 5  # epochs between two looks at the duality gap, which cost about an epoch each
# With the hinge most dual variables soon stay at 0 or 1: those that still moved are visited more often (shrinking).
_FEW = 0.7
_REVISITS = 20


@dataclass(frozen=True, kw_only=True)
class NonPrivatePlan(Plan):
    """Plan of a run without noise.

    Parameters
    ----------
    tol : float
        Stop when duality gap <= tol * objective.
    max_iter : int
        Cap on the number of epochs.
    """

    tol: float
    max_iter: int

    @property
    def solver(self) -> str:
        """Name of the solver as users give it."""
        return "sdca (no privacy)"

    @property
    def event(self) -> Event:
        """No protection."""
        return NonPrivateEvent()

    def run(self, released: Mapping[str, object]) -> tuple[Event, dict[str, object]]:
        """Return the event and the gap that was reached; see `Plan.run`."""
        return self.event, {_GAP: number(_GAP, released.get(_GAP), at_least=0.0)}

    @property
    def mechanism(self) -> str:
        """The algorithm in one sentence, for the receipt."""
        return "stochastic dual coordinate ascent without noise"

    @property
    def releases(self) -> tuple[str, ...]:
        """What is released, for the receipt."""
        return ("the exact minimiser, unprotected",)

    @property
    def proof(self) -> str:
        """No page: there is nothing to prove."""
        return "none: this run is not private"

    def solve(
        self, rows: Rows, targets: list[NDArray[np.float64]], streams: Streams, team: Team, progress: Progress
    ) -> Solution:
        """Train one model for each target until its duality gap is small."""
        order = streams.generator(Purpose.SHUFFLING)
        results = [self._train(rows, y, order, team, progress) for y in targets]
        return Solution(
            np.stack([w for w, _, _ in results]),
            max(epochs for _, epochs, _ in results),
            self.event,
            {_GAP: max(gap for _, _, gap in results)},
        )

    def _train(
        self, rows: Rows, y: NDArray[np.float64], order: np.random.Generator, team: Team, progress: Progress
    ) -> tuple[NDArray[np.float64], int, float]:
        alpha_n = self.alpha_scaled * rows.n_samples
        a = np.zeros(rows.n_samples)
        w = np.zeros(rows.n_weights)

        def visit(places: NDArray[np.int64]) -> None:
            passes.sdca_epoch(
                rows.kernel, rows.scale, rows.norm, rows.constant, y, a, w, alpha_n, self.loss,
                order.permutation(places),
            )  # fmt: skip

        everyone = np.arange(rows.n_samples)
        gap = np.inf
        epoch = 0
        while epoch < self.max_iter:
            before = a.copy()
            visit(everyone)
            epoch += 1
            if epoch % _CHECK_EVERY == 0 or epoch == self.max_iter:
                gap = self._relative_gap(rows, y, a, w, team)
                progress(epoch, self.max_iter)
                if gap <= self.tol:
                    break
            moved = np.flatnonzero(a != before)
            if len(moved) < _FEW * rows.n_samples:
                for _ in range(_REVISITS):
                    visit(moved)
        else:
            warnings.warn(
                f"no convergence in max_iter={self.max_iter} epochs: the duality gap is {gap:.2g} of the objective, "
                f"above tol={self.tol:g}. Raise max_iter, alpha or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return w, epoch, gap

    def _relative_gap(
        self, rows: Rows, y: NDArray[np.float64], a: NDArray[np.float64], w: NDArray[np.float64], team: Team
    ) -> float:
        m = rows.margins(w, team)
        penalty = 0.5 * self.alpha_scaled * float(w @ w)
        primal = float(np.mean(self.loss.value(y, m))) + penalty
        dual = -float(np.mean(self.loss.conjugate(y, self.loss.nearest_feasible(y, a)))) - penalty
        return max(0.0, primal - dual) / max(abs(primal), 1e-300)
