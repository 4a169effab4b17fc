r"""Algorithm 1 over parties that do not show each other their columns: what a coordinator does, message by message.

Each party runs `sottovoce.vertical.protocols.exact.admm.AdmmWorker`, which solves eq. (6) exactly, as if the others
stood still; the coordinator does eqs. (7) and (8). One number a record crosses each way and round: the party is sent
y / rho + sum_k D_k x_k - z, where the paper sends both parts of it.

The rounds begin at z^1 and y^1 with x = 0, one round ahead of a run in which everything is zero: there the parties'
first move, towards z^0 = 0, is no move. Under the noise of eq. (16) that first message would carry noise alone.

`sottovoce.papers.admm.algorithm` is the same in one place, in the paper's letters.
"""

from collections.abc import Callable

import numpy as np

from sottovoce.exceptions import ParameterError
from sottovoce.vertical.coordinator.history import History
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.replies import total as summed
from sottovoce.vertical.protocols.exact.messages import AdmmReply, AdmmStart, AdmmStep
from sottovoce.vertical.protocols.exact.scores import ScoreProblem
from sottovoce.vertical.wire import Done, Message

__all__ = ["printed"]

_DIVERGED = 1e12  # times the first V


def printed(
    parties: Parties,
    problem: ScoreProblem,
    *,
    rho: float,
    start: Message | None = None,
    max_iter: int = 200,
    tol: float = 1e-6,
    after: Callable[[int], object] = lambda n_rounds: None,
) -> History:
    """Run eqs. (6) to (8) as printed; the coefficients stay with the parties.

    Parameters
    ----------
    parties : Parties
        Prepared: each knows its penalty.
    problem : ScoreProblem
        Loss and labels.
    rho : float, > 0
        Penalty parameter, for the sum of losses.
    start : Message or None
        What begins the rounds at the parties; None is ADMM without noise.
    max_iter : int
        Rounds at most.
    tol : float
        Stop when V^t <= tol^2 V^1, V of eq. (13).
    after : callable
        Called with the number of rounds after each of them.

    Returns
    -------
    History

    Raises
    ------
    ParameterError
        If it diverges, as it does for many rho.
    """
    n = len(problem.y)
    parties.exchange(AdmmStart(rho, 0.0, 1.0, 0) if start is None else start, Done)
    total, dual = np.zeros(n), np.zeros(n)  # sum_m D_m x_m, and y
    z = problem.minimise(total, rho)
    history = History()
    for n_rounds in range(1, max_iter + 1):
        if n_rounds > 1:
            z = problem.minimise(total + dual / rho, rho)  # (7)
        dual = dual + rho * (total - z)  # (8)
        gap = problem.residual(z, -dual - rho * (total - z))
        own = float(gap @ gap) + float((total - z) @ (total - z))
        replies = parties.exchange(AdmmStep(dual / rho + total - z), AdmmReply)  # (6)
        total = summed({name: reply.scores for name, reply in replies.items()}, n)
        terms = {name: np.array([reply.penalty, reply.stationarity]) for name, reply in replies.items()}
        penalty, stationarity = map(float, summed(terms, 2))
        history.add(parties, problem.value(total) + penalty, own + stationarity)
        after(n_rounds)
        if not history.stationarity[-1] <= _DIVERGED * history.stationarity[0]:
            raise ParameterError(
                f"the printed form of ADMM diverges with rho={rho:g}: after {n_rounds} rounds it is farther from a "
                "solution than at the start, by twelve digits. Give a larger rho, or train with sottovoce.vertical."
            )
        if history.stationarity[-1] <= tol * tol * history.stationarity[0]:
            history.converged = True
            break
    return history
