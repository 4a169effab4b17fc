r"""ADMM sharing in every form that we tried, over the parties' blocks in one place; without noise it protects nobody.

.. math:: \min_x \; \sum_i l\Big(y_i, \sum_m (D_m x_m)_i\Big) + \sum_m R_m(x_m), \qquad z = \sum_m D_m x_m.

Three forms of the same exchange, one number a record each way and round; u = y / rho is the scaled dual variable:

* ``"printed"``: eqs. (6) to (8) of Hu et al. Each party moves as if the others stood still.
* ``"proximal"``: with (rho tau / 2) |D_m (x - x_m)|^2 added to (6), tau = M - 1, which makes room for the others.
* ``"sharing"``: the averaged form (Boyd et al. 2011, Section 7.3) with over-relaxation (1.6). Party m keeps its own
  target z_m; the coordinator sends how far the average of all targets moves. Without relaxation it is the proximal form
  with rho / M for rho.

The stopping measure is V^t of eq. (13), at (x, sum_m D_m x_m, y) in the sharing form: 0 exactly at a stationary point.
The first two begin at z^1 and y^1 with x = 0, one round ahead of a run from zeros, in whose first round no party moves.

With an L2 penalty (6) is one linear system. With any other it is solved by accelerated proximal steps with restarts
(O'Donoghue and Candes 2015), from the last solution; a free intercept is put in first, which makes the columns centred.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from sottovoce._compiling import JIT, njit
from sottovoce._validation import choice
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Loss, SmoothLoss
from sottovoce.losses._compiled import dual_step

Array = NDArray[np.float64]

FORMS: Final = ("printed", "proximal", "sharing")
_DIVERGED: Final = 1e12  # times the first V
_NEWTON: Final = 60
_STEPS: Final = 10_000
_TOLERANCE: Final = 1e-12  # of the largest coefficient, on the change of a step
_TINY: Final = float(np.finfo(np.float64).tiny)


class Penalty(NamedTuple):
    r"""``R(x) = l2/2 |x|^2 + l1 sum_g sqrt(p_g) |x_g|`` in a box, an L1 ball or an L2 ball, for the sum of losses.

    ``groups`` has the sizes p_g of runs of columns, which add up to all; empty makes each column one by itself. Groups
    and a ball (``"l1"`` or ``"l2"``) go with no bounds, and an L1 ball with no groups.
    """

    l2: float = 0.0
    l1: float = 0.0
    low: float = -np.inf
    high: float = np.inf
    groups: tuple[int, ...] = ()
    ball: str = ""
    radius: float = np.inf

    @property
    def is_quadratic(self) -> bool:
        return self == Penalty(self.l2)

    def value(self, x: Array) -> float:
        norms = self._norms(x) * np.sqrt(self.groups) if self.groups else np.abs(x)
        return float(0.5 * self.l2 * (x @ x) + self.l1 * norms.sum())

    def prox(self, v: Array, step: float = 1.0) -> Array:
        """Return ``argmin_x step R(x) + |x - v|^2 / 2``: shrink, scale, and go to the nearest point of the set.

        These one after the other are exact, because the set's own step shrinks further or scales further.
        """
        shrunk: Array
        if self.groups:
            kept = 1.0 - step * self.l1 * np.sqrt(self.groups) / np.maximum(self._norms(v), _TINY)
            shrunk = v * np.repeat(np.maximum(kept, 0.0), self.groups) / (1.0 + step * self.l2)
        else:
            shrunk = np.sign(v) * np.maximum(np.abs(v) - step * self.l1, 0.0) / (1.0 + step * self.l2)
        if self.ball == "l1" and np.abs(shrunk).sum() > self.radius:
            falling = -np.sort(-np.abs(shrunk))
            shift = (np.cumsum(falling) - self.radius) / np.arange(1, len(v) + 1)
            shrunk = np.sign(shrunk) * np.maximum(np.abs(shrunk) - shift[np.count_nonzero(falling > shift) - 1], 0.0)
        elif self.ball == "l2":
            shrunk = shrunk * min(1.0, self.radius / max(float(np.linalg.norm(shrunk)), _TINY))
        return np.clip(shrunk, self.low, self.high)

    def _norms(self, x: Array) -> Array:
        return np.asarray(np.sqrt(np.add.reduceat(x * x, np.cumsum((0, *self.groups[:-1])))))


class Block:
    """One party: its columns, a column of ones behind them where ``intercept`` is set, and its problem (6)."""

    def __init__(self, D: Array, penalty: Penalty, rho: float, *, intercept: bool = False) -> None:
        self.D = np.column_stack([D, np.ones(len(D))]) if intercept else np.asarray(D, dtype=np.float64)
        self.penalty, self.rho, self.d, self._free = penalty, rho, D.shape[1], intercept
        self.gram = self.D.T @ self.D
        self.x = np.zeros(self.D.shape[1])
        self.target, self.dual = np.zeros_like(self.x), np.zeros_like(self.x)  # of the sharing form: D'z_m and D'u
        if penalty.is_quadratic:
            ridge = np.append(np.full(self.d, penalty.l2), 0.0)[: len(self.x)]
            self._factor = cho_factor(rho * self.gram + np.diag(ridge), lower=True)
        else:
            self._means = self.gram[: self.d, -1] / len(D) if intercept else np.zeros(self.d)
            self._centred = self.gram[: self.d, : self.d] - len(D) * np.outer(self._means, self._means)
            self._step = 1.0 / (float(np.linalg.eigvalsh(self._centred)[-1]) or 1.0)

    def solve(self, b: Array) -> Array:
        """Return argmin R(x) + rho/2 |D x|^2 - rho b'x, b = D'v."""
        if self.penalty.is_quadratic:
            return np.asarray(cho_solve(self._factor, self.rho * b))
        pull = b[: self.d] - self._means * b[-1] if self._free else b
        x = z = self.x[: self.d]
        t = 1.0
        for _ in range(_STEPS):
            new = self._advance(z, pull)
            if (z - new) @ (new - x) > 0.0:  # it overshoots: without momentum
                t, new = 1.0, self._advance(x, pull)
            t_new = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
            z = new + (t - 1.0) / t_new * (new - x)
            small = np.abs(new - x).max() <= _TOLERANCE * np.abs(new).max()
            x, t = new, t_new
            if small:
                break
        return np.append(x, b[-1] / len(self.D) - self._means @ x) if self._free else x

    def _advance(self, x: Array, pull: Array) -> Array:
        return self.penalty.prox(x - self._step * (self._centred @ x - pull), self._step / self.rho)

    def residual(self, gradient: Array) -> Array:
        """Return x - prox_R(x - gradient), zero exactly where 0 is in gradient + dR(x)."""
        moved = self.x - gradient
        moved[: self.d] = self.penalty.prox(moved[: self.d])
        return np.asarray(self.x - moved)


class ScoreProblem:
    """Loss and labels, and eq. (7): argmin_z l(y_i, z) + k/2 (z - c_i)^2 of each record."""

    def __init__(self, loss: Loss | SmoothLoss, y: Array) -> None:
        self.loss, self.y = loss, np.ascontiguousarray(y, dtype=np.float64)
        self._dual = np.zeros(len(y))

    def value(self, z: Array) -> float:
        return float(self.loss.value(self.y, z).sum())

    def minimise(self, centre: Array, k: float) -> Array:
        """Return the proximal points: of a convex loss by its dual step, of another by Newton's steps in a bracket."""
        if isinstance(self.loss, Loss):
            z = np.empty_like(centre)
            _proximal_points(self.loss, self.y, centre, float(k), self._dual, z)
            return z
        if not k > self.loss.smoothness:
            raise ParameterError(
                f"the penalty parameter rho (rho / M for M parties in the sharing form) must be above the smoothness "
                f"{self.loss.smoothness:g} of the {self.loss.name} loss, which is not convex; got {k!r}."
            )
        low, high = centre - self.loss.lipschitz / k, centre + self.loss.lipschitz / k
        z = centre
        for _ in range(_NEWTON):
            slope = self.loss.derivative(self.y, z) + k * (z - centre)
            low, high = np.where(slope < 0.0, z, low), np.where(slope > 0.0, z, high)
            moved = z - slope / (k + self.loss.curvature(self.y, z))
            moved = np.where((moved < low) | (moved > high), 0.5 * (low + high), moved)
            small = np.abs(moved - z).max(initial=0.0) <= 1e-14 * (1.0 + np.abs(z).max(initial=0.0))
            z = moved
            if small:
                break
        return z

    def residual(self, z: Array, gradient: Array) -> Array:
        """Return the derivative of l(z) + gradient'z, or the proximal residual where the loss has a corner."""
        if math.isfinite(self.loss.smoothness):
            return self.loss.derivative(self.y, z) + gradient
        moved = np.empty_like(z)
        _proximal_points(self.loss, self.y, z - gradient, 1.0, np.zeros_like(z), moved)
        return z - moved


@njit(**JIT)
def _proximal_points(loss, y, centre, k, dual, out):  # type: ignore[no-untyped-def]
    # Moreau: z = centre + a / k, where a minimises l*(-a) + centre a + a^2 / (2 k), from the a of the last time
    for i in range(len(y)):
        dual[i] += dual_step(loss, dual[i], y[i], centre[i] + dual[i] / k, 1.0 / k)
        out[i] = centre[i] + dual[i] / k


@dataclass
class Run:
    """Coefficients of each party after the last round, its intercept last; objective and V^t of each round."""

    x: list[Array] = field(default_factory=list)
    objective: list[float] = field(default_factory=list)
    stationarity: list[float] = field(default_factory=list)
    converged: bool = False


def usual_rho(loss: Loss | SmoothLoss, *, n_parties: int = 1, form: str = "sharing") -> float:
    """Return a penalty parameter from the loss's largest second derivative; measured, see `docs/measured`.

    The hinge, with a corner, has none. For a loss that is not convex it meets Theorem 1's condition 2 (c): above twice
    the smoothness in (7), whose rho is rho / M in the sharing form.
    """
    if not isinstance(loss, Loss):
        return 2.1 * loss.smoothness * (n_parties if form == "sharing" else 1)
    return 0.4 * (loss.smoothness if math.isfinite(loss.smoothness) else 1.0)


def admm(
    blocks: Sequence[Any],
    loss: Loss | SmoothLoss,
    y: Array,
    *,
    penalty: Penalty | Sequence[Penalty],
    rho: float,
    form: str = "sharing",
    relaxation: float = 1.6,
    intercepts: Collection[int] = (),
    noise: Callable[[int], Array] | None = None,
    max_iter: int = 200,
    tol: float = 1e-6,
    after: Callable[[int, list[Array]], object] = lambda n_rounds, x: None,
) -> Run:
    """Run the rounds.

    Parameters
    ----------
    blocks : sequence of ndarray of shape (n, d_m)
    loss, y : Loss or SmoothLoss, ndarray of shape (n,)
    penalty : Penalty, or one a party
    rho : float, > 0
        For the sum of losses.
    form : {"printed", "proximal", "sharing"}
    relaxation : float, in (0, 2)
        Of the sharing form.
    intercepts : collection of int
        Which parties have a free intercept, of which only the sum counts. One at every party is the fastest where
        columns of one-hot codes contain the constant.
    noise : callable or None
        What is added to the coefficients of a party before it sends D x, as in eq. (16).
    max_iter, tol : int, float
        Stop when V^t <= tol^2 V^1.
    after : callable
        Called with the number of rounds and all coefficients after each of them.

    Raises
    ------
    ParameterError
        If it diverges, as the printed form does for many rho.
    """
    choice("form", form, FORMS)
    M, n, problem = len(blocks), len(y), ScoreProblem(loss, y)
    sharing, tau = form == "sharing", float(M - 1) if form == "proximal" else 0.0
    each = [penalty] * M if isinstance(penalty, Penalty) else penalty
    parties = [Block(D, each[m], rho * (1.0 + tau), intercept=m in intercepts) for m, D in enumerate(blocks)]
    total, dual, mean_target = np.zeros(n), np.zeros(n), np.zeros(n)
    z = total if sharing else problem.minimise(total, rho)
    run = Run()
    for n_rounds in range(1, max_iter + 1):
        if sharing:
            mean = relaxation / M * total + (1.0 - relaxation) * mean_target
            mean_target = problem.minimise(M * (mean + dual / rho), rho / M) / M
            shift = mean_target - mean
            dual = dual - rho * shift
            gap, apart = problem.residual(total, -dual), np.zeros(n)
        else:
            if n_rounds > 1:
                z = problem.minimise(total + dual / rho, rho)  # (7)
            dual = dual + rho * (total - z)  # (8)
            shift = dual / rho + total - z
            gap, apart = problem.residual(z, -dual - rho * (total - z)), total - z
        measure, value, total = float(gap @ gap + apart @ apart), 0.0, np.zeros(n)
        for m, party in enumerate(parties):
            moved, gram_x = party.D.T @ shift, party.gram @ party.x
            if sharing:
                party.target = relaxation * gram_x + (1.0 - relaxation) * party.target + moved
                party.dual = party.dual - moved
                gradient, b = rho * party.dual, party.target - party.dual
            else:
                gradient, b = rho * moved, gram_x - moved / (1.0 + tau)
            residual = party.residual(gradient)
            party.x = party.solve(b)  # (6)
            if noise is not None:
                party.x = party.x + noise(m)
            total += party.D @ party.x
            measure += float(residual @ residual)
            value += party.penalty.value(party.x[: party.d])
        run.x = [party.x for party in parties]
        run.objective.append(problem.value(total) + value)
        run.stationarity.append(measure)
        after(n_rounds, run.x)
        if not measure <= _DIVERGED * run.stationarity[0]:
            raise ParameterError(
                f"the {form} form of ADMM diverges with rho={rho:g}: after {n_rounds} rounds it is farther from a "
                "solution than at the start, by twelve digits. Give a larger rho, or take another form."
            )
        if measure <= tol * tol * run.stationarity[0]:
            run.converged = True
            break
    return run
