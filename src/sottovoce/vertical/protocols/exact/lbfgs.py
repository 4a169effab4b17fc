r"""L-BFGS preconditioned block by block: the optimum of the joint problem, for a smooth loss and an L2 penalty.

The gradient of party m is D_m'l'(z) + R_m x_m, from one number a record. Each party keeps its own part of the last
steps s_i and gradient differences y_i; the two loops of L-BFGS need only inner products of these, which are sums over
the parties, so the coordinator runs the loops on a small table of numbers and sends back the coefficients of the
direction (as in [1]_). The first metric of the loops is not the identity but

.. math:: H_0 = \mathrm{blockdiag}\big( (R_m + D_m'WD_m)^{-1} \big), \qquad W = \mathrm{diag}(l''(z)),

which is made again when the second derivatives have moved by half of their sum. The step is exact along the line, which
costs no message: the coordinator knows z, the change of z and the penalty along the line.

Per round each party sends one number a record and some products, and receives one number a record.

References
----------
.. [1] Chen, Wang, Zhou (2014). Large-scale L-BFGS using MapReduce. NIPS 27.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.losses import SmoothLoss
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import History, total
from sottovoce.vertical.protocols.exact.messages import LbfgsDirection, LbfgsGradient, LbfgsKeep, LbfgsStart
from sottovoce.vertical.protocols.exact.worker import LbfgsWorker
from sottovoce.vertical.wire import Done, Payload

MEMORY: Final = 30  # pairs kept
_LINE_SEARCH: Final = 50
_LEAST_CURVATURE: Final = 1e-4  # of the largest: where hardly a record is uncertain
_ROUNDING: Final = 1e-14
_DRIFT: Final = 0.5  # relative change of the second derivatives after which the preconditioner is made again


class Alone:
    """One organisation that trains on its own columns: what `lbfgs` asks is answered where it is asked."""

    uplink_bytes = downlink_bytes = 0

    worker: LbfgsWorker

    def __init__(self, table: Any) -> None:
        self._table = table

    def exchange(self, request: Any, expected: Any) -> dict[str, Any]:
        """Answer as `Parties.exchange` does, by the name of nobody."""
        if isinstance(request, LbfgsStart):
            self.worker = request.begun(self._table)
            return {"": Done()}
        return {"": request.on(self.worker)}


class ScoreProblem:
    """The coordinator's part: loss and labels of all records.

    ``loss``: convex and smooth.
    ``y``: of shape (n,).
    """

    def __init__(self, loss: SmoothLoss, y: Vector) -> None:
        self.loss = loss
        self.y = np.ascontiguousarray(y, dtype=np.float64)

    def value(self, z: Vector) -> float:
        return float(self.loss.value(self.y, z).sum())


class ProductTable:
    """The coordinator's table of inner products, summed over the parties, and the two loops on it."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._sy = np.zeros((0, 0))  # s_i . y_j
        self._yhy = np.zeros((0, 0))  # y_i . H0 y_j
        self._sg = np.zeros(0)
        self._yhg = np.zeros(0)
        self.gradient_square = math.inf

    def due(self, *, moved: bool, again: bool) -> int:
        """Return how many products a party sends in such a round."""
        k = min(len(self._sg) + moved, self._memory)
        return 2 * k + 1 + (2 * k - 1 if moved else 0) + (k * k if again else k if moved else 0)

    def read(self, products: Vector, *, moved: bool, again: bool) -> None:
        """Take in the sum over the parties of one round's products.

        In order: s_i.g; y_i.H0 g; g.g; if the parties moved, s_k.y_j for all j and s_i.y_k for i < k (k the new
        pair); if H0 is new, all y_i.H0 y_j, else, if they moved, y_i.H0 y_k for all i.
        """
        k = len(self._sg)
        if moved:
            first = 1 if k == self._memory else 0
            k = k + 1 - first
            self._sy = np.pad(self._sy[first:, first:], (0, 1))
            self._yhy = np.pad(self._yhy[first:, first:], (0, 1))
        parts = np.split(products, np.cumsum([k, k, 1]))
        self._sg, self._yhg, self.gradient_square, rest = parts[0], parts[1], float(parts[2][0]), parts[3]
        if moved:
            self._sy[-1], self._sy[:-1, -1], rest = rest[:k], rest[k : 2 * k - 1], rest[2 * k - 1 :]
        if again:
            self._yhy = rest.reshape(k, k).copy()
        elif moved:
            self._yhy[-1] = self._yhy[:, -1] = rest

    def coefficients(self) -> Vector:
        """Return the coefficients of -H g: of H0 g, then of the s_i, then of the H0 y_i; 0 for a pair of no use."""
        k = len(self._sg)
        curvature = np.diag(self._sy)
        # after a step of the size of rounding errors s'y may be 0 or below
        good = [i for i in range(k) if curvature[i] > _ROUNDING * self._yhy[i, i]]
        a, b = np.zeros(k), np.zeros(k)
        for i in reversed(good):
            a[i] = (self._sg[i] - self._sy[i, i + 1 :] @ a[i + 1 :]) / curvature[i]
        for i in good:
            product = self._yhg[i] - self._yhy[i] @ a + self._sy[:i, i] @ (a[:i] - b[:i])
            b[i] = product / curvature[i]
        return -np.concatenate([[1.0], a - b, -a])


def lbfgs(
    parties: Parties | Alone,
    problem: ScoreProblem,
    *,
    l2: float,
    model: str = "",
    intercept: bool = False,
    memory: int = MEMORY,
    max_iter: int = 200,
    tol: float = 1e-6,
    after: Callable[[int], object] = lambda n_rounds: None,
) -> History:
    """Run the coordinator's side; the coefficients stay with the parties.

    ``problem``: convex smooth loss, and labels.
    ``l2``, > 0: the parties' penalty, for the sum of losses.
    ``model``: name under which the parties keep their coefficients.
    ``intercept``: whether every party has a free intercept, of which only the sum counts: columns of one-hot codes
    contain the constant, so that one at each is the fastest.
    ``memory``, >= 1: pairs kept.
    ``max_iter``: rounds at most.
    ``tol``: stop when |g|^2 / (2 l2) is at most ``tol`` times the objective. By strong convexity it bounds how far the
    objective is from its optimum. A free intercept has no l2 behind it: g_0^2 / (2 sum_i l''(z_i)) is added for it, g_0
    = sum_i l'(z_i), and the sum is an estimate, not a bound.
    ``after``: called with the number of rounds after each of them.
    """
    y, n = problem.y, len(problem.y)
    parties.exchange(LbfgsStart(l2, int(intercept), memory), Done)
    table = ProductTable(memory)
    history = History()
    z, step = np.zeros(n), 0.0
    metric = np.zeros(n)  # the second derivatives behind the preconditioner
    for n_rounds in range(1, max_iter + 1):
        now = problem.loss.curvature(y, z)
        bent = float(now.sum())
        if bent == 0.0:  # every record on a straight piece of the loss, as at the start of a smoothed hinge
            now = np.full(n, problem.loss.smoothness)
        again = float(np.abs(now - metric).sum()) > _DRIFT * float(metric.sum())
        curvature = np.zeros(0)
        if again:
            metric = np.maximum(now, _LEAST_CURVATURE * problem.loss.smoothness)
            curvature = metric if np.ptp(metric) > 0.0 else metric[:1]
        slopes = problem.loss.derivative(y, z)
        request = LbfgsGradient(step, slopes, curvature)
        moved = step != 0.0
        products = total(parties.exchange(request, Payload), table.due(moved=moved, again=again))
        table.read(products, moved=moved, again=again)
        distance = table.gradient_square / (2.0 * l2)
        if intercept:
            distance += _newton_decrement(float(slopes.sum()), bent)
        along = total(parties.exchange(LbfgsDirection(table.coefficients()), Payload), n + 3)
        change, (slope, square, penalty) = along[:n], along[n:].tolist()
        step = line_search(problem, z, change, slope, square)
        z = z + step * change
        history.add(parties, problem.value(z) + penalty + step * slope + 0.5 * step * step * square, distance)
        after(n_rounds)
        if step == 0.0 or history.stationarity[-1] <= tol * abs(history.objective[-1]):
            history.converged = True
            break
    parties.exchange(LbfgsKeep(step, model), Done)
    return history


def _newton_decrement(first: float, second: float) -> float:
    """Return how far a parabola with this slope and curvature is above its least value."""
    if first == 0.0:
        return 0.0
    return first * first / (2.0 * second) if second > 0.0 else math.inf


def line_search(problem: ScoreProblem, z: Vector, change: Vector, slope: float, square: float) -> float:
    """Return the step that minimises loss and penalty along the line: Newton, bisection where it leaves the bracket."""
    loss, y = problem.loss, problem.y
    low, high, step = 0.0, math.inf, 1.0
    if not float(loss.derivative(y, z) @ change) + slope < 0.0:
        return 0.0  # no descent left in double precision
    for _ in range(_LINE_SEARCH):
        at = z + step * change
        first = float(loss.derivative(y, at) @ change) + slope + step * square
        second = float(loss.curvature(y, at) @ (change * change)) + square
        low, high = (low, step) if first > 0.0 else (step, high)
        moved = step - first / second if second > 0.0 else math.inf
        if not low < moved < high:
            moved = 0.5 * (low + high) if math.isfinite(high) else 2.0 * step
        close = abs(moved - step) <= 1e-4 * step
        step = moved
        if close:
            break
    return step
