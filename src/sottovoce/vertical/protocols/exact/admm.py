r"""ADMM sharing (Hu et al., Algorithm 1): each party fits its columns to what the others leave over, all in parallel.

.. math:: \min_x \; l\Big(\sum_m D_m x_m\Big) + \sum_m R_m(x_m), \qquad z = \sum_m D_m x_m,

with the scaled dual variable u = y / rho. Two forms of the same exchange, one number a record each way and round:

* ``"proximal"``: eqs. (6) to (8) with (rho tau / 2) |D_m (x - x_m)|^2 added to (6), tau = M - 1, which makes room for
  the others, who move at the same time. Party m receives c = u + sum_k D_k x_k - z.
* ``"sharing"``, the default: the averaged form [2]_ with over-relaxation (1.6). Party m keeps its own target z_m and
  the common u; the coordinator sends only how far the average of all targets moves. Without relaxation it equals the
  proximal form with rho / M in place of rho.

The stopping measure is the Lyapunov function V^t of eq. (13), of which each party computes its own term. In the sharing
form it is taken at (x, sum_m D_m x_m, y), a point of the same kind: V = 0 exactly at a stationary solution.

What the scores of a party show: they are a sum over its columns, but where all but one of its coefficients are 0, as an
L1 penalty makes them, they are a multiple of that one column.

References
----------
.. [1] Hu, Liu, Kong, Niu (2019). Learning Privately over Distributed Features: An ADMM Sharing Approach.
   arXiv:1907.07735, Algorithm 1, eqs. (5) to (8) and (13).
.. [2] Boyd, Parikh, Chu, Peleato, Eckstein (2011). Distributed Optimization and Statistical Learning via the
   Alternating Direction Method of Multipliers. Section 7.3.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from sottovoce.exceptions import ParameterError
from sottovoce.vertical.coordinator.history import History
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.replies import total as summed
from sottovoce.vertical.protocols.exact.messages import AdmmReply, AdmmStart, AdmmStep
from sottovoce.vertical.protocols.exact.scores import ScoreProblem
from sottovoce.vertical.protocols.exact.subproblem import Subproblem
from sottovoce.vertical.wire import Done

__all__ = ["FORMS", "AdmmWorker", "admm"]

FORMS: Final = ("sharing", "proximal")
_DIVERGED: Final = 1e12  # times the first stopping measure


class AdmmWorker:
    """The party's side: its coefficients, and D' of its target and of the dual variable (one number a column).

    Parameters
    ----------
    problem : Subproblem
    start : AdmmStart
    """

    def __init__(self, problem: Subproblem, start: AdmmStart) -> None:
        self.problem = problem
        self.start = start
        n_columns = problem.columns.n_columns
        self.x = np.zeros(n_columns)
        self.scores = np.zeros(problem.columns.n_rows)
        self._gram_x = np.zeros(n_columns)
        self._target = np.zeros(n_columns)  # sharing form: D'z_m
        self._dual = np.zeros(n_columns)  # sharing form: D'u

    def step(self, message: AdmmStep) -> AdmmReply:
        """Update the coefficients, eq. (6), and return D x."""
        start, problem = self.start, self.problem
        moved = problem.columns.back(message.shift)
        if start.sharing:
            self._target = start.relaxation * self._gram_x + (1.0 - start.relaxation) * self._target + moved
            self._dual = self._dual - moved
            gradient, b, rho = start.rho * self._dual, self._target - self._dual, start.rho
        else:
            gradient, b = start.rho * moved, self._gram_x - moved / (1.0 + start.proximal)
            rho = start.rho * (1.0 + start.proximal)
        residual = problem.prox_residual(self.x, gradient)
        self.x = problem.solve(b, rho, self.x)
        self.scores = problem.columns.times(self.x)
        self._gram_x = problem.gram_times(self.x, self.scores)
        return AdmmReply(self.scores, float(residual @ residual), problem.penalty_of(self.x))


def admm(
    parties: Parties,
    problem: ScoreProblem,
    *,
    rho: float,
    form: str = "sharing",
    relaxation: float = 1.6,
    max_iter: int = 200,
    tol: float = 1e-6,
    after: Callable[[int], object] = lambda n_rounds: None,
) -> History:
    """Run the coordinator's side of ADMM sharing; the coefficients stay with the parties.

    Parameters
    ----------
    parties : Parties
        Prepared: each knows its penalty.
    problem : ScoreProblem
        Loss and labels.
    rho : float, > 0
        Penalty parameter, for the sum of losses.
    form : {"sharing", "proximal"}
    relaxation : float, in (0, 2)
        Of the sharing form.
    max_iter : int
        Rounds at most.
    tol : float
        Stop when V^t <= tol^2 V^1.
    after : callable
        Called with the number of rounds after each of them.

    Returns
    -------
    History
    """
    M, n = len(parties.names), len(problem.y)
    sharing = form == "sharing"
    parties.exchange(AdmmStart(rho, 0.0 if sharing else float(M - 1), relaxation, int(sharing)), Done)
    own_rho = rho / M if sharing else rho  # of the sum of all parties' scores
    total, dual = np.zeros(n), np.zeros(n)  # sum_m D_m x_m, and y
    target = np.zeros(n)  # sharing form: mean of the z_m
    z = np.zeros(n) if sharing else problem.minimise(total, rho)
    history = History()
    for n_rounds in range(1, max_iter + 1):
        if sharing:
            mean = relaxation / M * total + (1.0 - relaxation) * target
            z = problem.minimise(M * mean + dual / own_rho, own_rho)
            target = z / M
            shift = target - mean
            dual = dual - rho * shift
            gap = problem.residual(total, -dual)
            own = float(gap @ gap)
        else:
            if n_rounds > 1:
                z = problem.minimise(total + dual / rho, rho)
            dual = dual + rho * (total - z)
            shift = dual / rho + total - z
            gap = problem.residual(z, -dual - rho * (total - z))
            own = float(gap @ gap) + float((total - z) @ (total - z))
        replies = parties.exchange(AdmmStep(shift), AdmmReply)
        total = summed({name: reply.scores for name, reply in replies.items()}, n)
        terms = {name: np.array([reply.penalty, reply.stationarity]) for name, reply in replies.items()}
        penalty, stationarity = map(float, summed(terms, 2))
        history.add(parties, problem.value(total) + penalty, own + stationarity)
        after(n_rounds)
        if not history.stationarity[-1] <= _DIVERGED * history.stationarity[0]:
            remedy = "admm_form='sharing', which converges for any" if problem.convex else "solver='lbfgs'"
            raise ParameterError(
                f"the {form} form of ADMM diverges with admm_penalty={rho:g}: after {n_rounds} rounds it is farther "
                "from a solution than at the start, by twelve digits. Give a larger admm_penalty, or "
                f"{remedy}."
            )
        if history.stationarity[-1] <= tol * tol * history.stationarity[0]:
            history.converged = True
            break
    return history
