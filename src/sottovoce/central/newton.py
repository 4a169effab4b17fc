r"""Minimise a smooth loss plus quadratic penalty plus linear term over the rows, to a stated norm of the gradient.

.. math:: J(w) = \sum_i l(y_i, x_i^\top w) + \frac\Lambda2 |w|^2 + b^\top w .

Newton steps with a line search [1]_: the Hessian is formed and factored for narrow tables, and only multiplied by
vectors (conjugate gradients) for wide ones. Should Newton stall, gradient steps of length 1/(Lambda + n beta) follow
until the goal is met; each shortens the gradient by a factor of 1 - Lambda/(Lambda + n beta), up to rounding,
whatever the data are. There is no cap, no error and no half-done result that could depend on the data.

The goal is met when the computed norm *plus a bound on its rounding error* is at most the tolerance: privacy proofs
build on it.

References
----------
.. [1] Nocedal, Wright (2006). Numerical Optimization. 2nd ed.; Algorithms 3.1 and 7.1.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, cg

from sottovoce._numerics import PIECE, Vector
from sottovoce.central.data.rows import Rows
from sottovoce.central.kernels.transposed import BLOCK, transposed
from sottovoce.central.parallel import Team
from sottovoce.losses import Loss

__all__ = ["PerturbedObjective", "gradient_rounding", "minimise"]

_UNIT: Final = 2.0**-53
_FACTORED: Final = 1024  # weights up to which the Hessian is formed
_NEWTON_STEPS: Final = 100
_CG_STEPS: Final = 250
_HALVINGS: Final = 40
_SLACK: Final = 2.0**-40


def gradient_rounding(
    loss: Loss, *, n_rows: float, n_weights: int, norm: float, penalty: float, linear_norm: float
) -> float:
    """Return a bound on the rounding error of the computed gradient of J at a point of norm ``norm``.

    Three parts (Higham 2002, chapter 3): a margin x.w errs by at most (n_weights + 4) u |w|, so l' by beta times this
    and a few units u more; a blocked sum of n rows of norm at most 1 errs by (BLOCK + n/BLOCK + 8) u times the sum of
    |l'|; the penalty and the linear term err by a few units, and so does the noise b itself. Twice the sum is returned.
    """
    margins = loss.smoothness * (n_weights + 4.0) * norm + 8.0
    sums = BLOCK + n_rows / BLOCK + 40.0  # 40: partial sums of as many threads
    return 2.0 * _UNIT * (n_rows * (margins + sums) + 8.0 * (penalty * norm + linear_norm))


@dataclass(frozen=True)
class PerturbedObjective:
    """J of the module docstring."""

    rows: Rows  # from `Rows.within_reach`: products with weights do not overflow
    y: Vector  # of shape (n,)
    loss: Loss  # smooth
    penalty: float  # > 0; lambda
    linear: Vector  # of shape (n_weights,); b
    team: Team

    def value(self, w: Vector, margins: Vector) -> float:
        return float(np.sum(self.loss.value(self.y, margins)) + 0.5 * self.penalty * (w @ w) + self.linear @ w)

    def gradient(self, w: Vector, margins: Vector) -> Vector:
        return self._combined(self.loss.derivative(self.y, margins)) + self.penalty * w + self.linear

    def error(self, w: Vector) -> float:
        return gradient_rounding(
            self.loss,
            n_rows=self.rows.n_samples,
            n_weights=self.rows.n_weights,
            norm=float(np.linalg.norm(w)),
            penalty=self.penalty,
            linear_norm=float(np.linalg.norm(self.linear)),
        )

    def newton_direction(self, gradient: Vector, margins: Vector) -> Vector:
        """Return minus the inverse Hessian times the gradient, for wide tables approximately."""
        curvature = self.loss.curvature(self.y, margins)
        size = len(gradient)
        if size <= _FACTORED:
            hessian = _weighted_gram(self.rows, curvature)
            hessian.flat[:: size + 1] += self.penalty
            try:
                return -np.asarray(cho_solve(cho_factor(hessian, overwrite_a=True), gradient))
            except LinAlgError:  # a penalty below the rounding errors of the Hessian: a gradient step will do
                return -gradient / (self.penalty + self.rows.n_samples * self.loss.smoothness)

        def product(v: Vector) -> Vector:
            v = np.ravel(v)
            return self._combined(curvature * self.rows.margins(v, self.team)) + self.penalty * v

        operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
        solution, _ = cg(operator, -gradient, rtol=1e-3, atol=0.0, maxiter=_CG_STEPS)
        return np.asarray(solution, dtype=np.float64)

    def _combined(self, r: Vector) -> Vector:
        """Return X'r of the scaled rows."""
        rows = self.rows
        return self.team.total(
            lambda lo, hi, part: transposed(rows.kernel, r, lo, hi, part),
            rows.n_samples, rows.work, np.zeros(rows.n_weights),
        )  # fmt: skip


def minimise(objective: PerturbedObjective, tolerance: float) -> Vector:
    """Return a w at which the norm of the exact gradient of J is at most ``tolerance``.

    ``tolerance``: should be some times `gradient_rounding` of every point on the way, or this may not end.
    """
    rows, team = objective.rows, objective.team
    w = np.zeros(rows.n_weights)
    margins = np.zeros(rows.n_samples)
    gradient = objective.gradient(w, margins)
    for _ in range(_NEWTON_STEPS):
        if np.linalg.norm(gradient) + objective.error(w) <= tolerance:
            return w
        direction = objective.newton_direction(gradient, margins)
        moved = _line_search(objective, w, margins, gradient, direction)
        if moved is None:
            break
        w, margins, gradient = moved
    step = 1.0 / (objective.penalty + 1.01 * rows.n_samples * objective.loss.smoothness)
    while not np.linalg.norm(gradient) + objective.error(w) <= tolerance:
        w = w - step * gradient
        margins = rows.margins(w, team)
        gradient = objective.gradient(w, margins)
    return w


def _line_search(
    objective: PerturbedObjective, w: Vector, margins: Vector, gradient: Vector, direction: Vector
) -> tuple[Vector, Vector, Vector] | None:
    """Return the point, its margins and its gradient after a step that helps; None when there is none."""
    before, slope = objective.value(w, margins), float(gradient @ direction)
    moves = objective.rows.margins(direction, objective.team)
    slack = _SLACK * (abs(before) + objective.rows.n_samples)  # near the end rounding hides the progress of J
    for halving in range(_HALVINGS):
        length = 0.5**halving
        point = w + length * direction
        if objective.value(point, margins + length * moves) <= before + 1e-4 * length * slope + slack:
            there = objective.rows.margins(point, objective.team)
            return point, there, objective.gradient(point, there)
    return None


def _weighted_gram(rows: Rows, weights: Vector) -> Vector:
    """Return X' diag(weights) X of the scaled rows, block by block."""
    features = rows.raw.shape[1]
    gram = np.zeros((rows.n_weights, rows.n_weights))
    used = np.flatnonzero(weights)
    for start in range(0, len(used), PIECE):
        places = used[start : start + PIECE]
        root = np.sqrt(weights[places])
        block: Any = rows.raw[places].astype(np.float64)
        factor = root * rows.scale[places]
        if isinstance(block, np.ndarray):
            block *= factor[:, None]
            gram[:features, :features] += block.T @ block
        else:
            block = sp.diags_array(factor) @ block
            gram[:features, :features] += (block.T @ block).toarray()
        if rows.constant > 0.0:
            gram[-1, :features] += rows.constant * (root @ block)
            gram[-1, -1] += rows.constant**2 * float(root @ root)
    gram[:features, features:] = gram[features:, :features].T
    return gram
