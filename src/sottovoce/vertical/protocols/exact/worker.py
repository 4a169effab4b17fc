"""The party's side of L-BFGS (`sottovoce.vertical.protocols.exact.lbfgs`): its own coefficients, pairs and metric."""

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.vertical.protocols.exact.subproblem import Subproblem


class LbfgsWorker:
    """The party's side: its coefficients, its part of the last pairs, and the preconditioner.

    ``memory``: pairs kept.
    """

    def __init__(self, problem: Subproblem, memory: int, *, precondition: bool) -> None:
        self.problem = problem
        self._memory = memory
        self._precondition = precondition
        self._curvature: float | Vector = 0.0
        n_columns = problem.columns.n_columns
        self.x = np.zeros(n_columns)
        self._direction = np.zeros(n_columns)
        self._gradient = np.zeros(n_columns)
        self._scaled_gradient = np.zeros(n_columns)
        self._steps: list[Vector] = []
        self._differences: list[Vector] = []
        self._scaled_differences: list[Vector] = []

    def gradient(self, step: float, slopes: Vector, curvature: Vector) -> Vector:
        """Move along the last direction, take the gradient there, and return the inner products that are new."""
        moved, again = step != 0.0, len(curvature) > 0
        if again:
            self._curvature = float(curvature[0]) if len(curvature) == 1 else curvature
        if moved:
            self.move(step)
        gradient = self.problem.columns.back(slopes) + self.problem.l2 * self.x
        if moved:
            difference = gradient - self._gradient
            self._steps.append(step * self._direction)
            self._differences.append(difference)
            self._scaled_differences.append(self._scaled(difference))
            if len(self._steps) > self._memory:
                del self._steps[0], self._differences[0], self._scaled_differences[0]
        if again:
            self._scaled_differences = [self._scaled(y) for y in self._differences]
        self._gradient, self._scaled_gradient = gradient, self._scaled(gradient)
        s, y, hy = self._steps, self._differences, self._scaled_differences
        products = [a @ gradient for a in s]
        products += [a @ self._scaled_gradient for a in y]
        products += [gradient @ gradient]
        if moved:
            products += [s[-1] @ b for b in y]
            products += [a @ y[-1] for a in s[:-1]]
        if again:
            products += [a @ b for a in y for b in hy]
        elif moved:
            products += [a @ hy[-1] for a in y]
        return np.array(products)

    def move(self, step: float) -> None:
        self.x = self.x + step * self._direction

    def direction(self, coefficients: Vector) -> tuple[Vector, float, float, float]:
        """Put the direction p together and return D p, and for the penalty R x'Rp, p'Rp and R(x)."""
        k = len(self._steps)
        scale, steps, differences = coefficients[0], coefficients[1 : k + 1], coefficients[k + 1 :]
        p = scale * self._scaled_gradient
        for a, s in zip(steps, self._steps, strict=True):
            p += a * s
        for a, hy in zip(differences, self._scaled_differences, strict=True):
            p += a * hy
        self._direction = p
        weighted = self.problem.l2 * p
        penalty = self.problem.penalty_of(self.x)
        return self.problem.columns.times(p), float(self.x @ weighted), float(p @ weighted), penalty

    def _scaled(self, v: Vector) -> Vector:
        return self.problem.inverse_times(v, self._curvature) if self._precondition else v
