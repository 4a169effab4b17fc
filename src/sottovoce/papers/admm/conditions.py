r"""The conditions under which Theorem 1 of Hu et al. promises that ADMM sharing converges, checked for given parties.

For the problem l(sum_m D_m x_m) + sum_m R_m(x_m), l a *sum* of losses and R_m with lambda taken in, Assumption 1 asks:

* **1.** l' has a Lipschitz constant L; l acts on each record by itself, so L is the smoothness of one loss. Every D_m
  has full column rank.
* **2 (a)** Every subproblem (6) is strongly convex, with modulus gamma_m(rho), and so is (7), with gamma(rho).
* **2 (b)** gamma_m(rho) >= 2 sigma_max(D_m'D_m).
* **2 (c)** rho gamma(rho) > 2 L^2 and rho >= L.
* **3.** The objective is bounded below.
* **4.** R_m is convex, or smooth. Every `sottovoce.papers.admm.Penalty` is convex.

The bounds on the moduli are gamma_m(rho) = l2 + rho sigma_min(D_m'D_m), without l2 where the party carries the free
intercept, and gamma(rho) = rho for a convex loss, rho - L for another. (c) then is rho > sqrt(2) L, or rho > 2 L.

These are the published conditions, and **they do not suffice** for three or more parties. Why, and what is measured:
``docs/measured/data/vertical_solvers``.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce._validation import number
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Loss, SmoothLoss
from sottovoce.papers.admm.sharing import Penalty


@dataclass(frozen=True)
class PartyCondition:
    """What Assumption 1 says of one party: extreme eigenvalues of D'D, gamma_m(rho), least rho with 2 (b).

    The column of ones of an intercept counts; ``smallest`` is 0 where it is not above rounding errors.
    """

    smallest: float
    largest: float
    modulus: float
    least_rho: float

    @property
    def has_full_rank(self) -> bool:
        return self.smallest > 0.0

    @property
    def holds_b(self) -> bool:
        return self.modulus >= 2.0 * self.largest


@dataclass(frozen=True)
class Theorem1Report:
    """Which of the conditions of Theorem 1 hold at ``rho``.

    ``smoothness`` is L, ``modulus`` gamma(rho) of (7); ``failing`` has the conditions that do not hold, in words. All
    hold for every rho above ``least_rho`` and for none below; it is inf if there is no such rho.
    """

    rho: float
    parties: tuple[PartyCondition, ...]
    smoothness: float
    modulus: float
    failing: tuple[str, ...]
    least_rho: float

    @property
    def holds(self) -> bool:
        return not self.failing


def theorem_1_conditions(
    blocks: Sequence[NDArray[np.float64]],
    loss: Loss | SmoothLoss,
    *,
    penalty: Penalty,
    rho: float,
    intercept: int | None = None,
) -> Theorem1Report:
    """Check Assumption 1 of Hu et al. for these parties' columns.

    Parameters
    ----------
    blocks : sequence of ndarray of shape (n, d_m)
    loss : Loss or SmoothLoss
        Of one record; the objective is the sum over the records.
    penalty : Penalty
        R_m of every party, for the sum of losses (lambda R_m of the paper).
    rho : float, > 0
        Penalty parameter of the printed form, for the sum of losses.
    intercept : int or None
        Which party, from 0, carries the free intercept.

    Raises
    ------
    ParameterError
        If rho is not positive and finite, or there is no party ``intercept``.
    """
    rho = number("rho", rho, above=0.0)
    if intercept is not None and intercept not in range(len(blocks)):
        raise ParameterError(f"intercept must be one of the {len(blocks)} parties, from 0; got {intercept!r}.")
    parties = tuple(
        _party(np.column_stack([D, np.ones(len(D))]), 0.0, rho) if m == intercept else _party(D, penalty.l2, rho)
        for m, D in enumerate(blocks)
    )
    L = loss.smoothness
    convex = isinstance(loss, Loss)
    modulus = rho if convex else rho - L
    bounded = _is_bounded_below(loss) or (
        # a quadratic outgrows the slope of the loss, in every direction
        intercept is None and penalty.l2 > 0.0 and math.isfinite(loss.lipschitz)
    )
    failing = []
    if math.isinf(L):
        failing.append(f"1: the derivative of the {loss.name} loss jumps, it has no Lipschitz constant")
    for m, party in enumerate(parties, start=1):
        if not party.has_full_rank:
            failing.append(f"1: the columns of party {m} are linearly dependent")
        if not party.modulus > 0.0:
            failing.append(f"2 (a): subproblem (6) of party {m} is not strongly convex, gamma_m = 0")
        if not party.holds_b:
            failing.append(f"2 (b): gamma_m = {party.modulus:g} of party {m} is below {2 * party.largest:g}")
    if not modulus > 0.0:
        failing.append(f"2 (a): subproblem (7) is not strongly convex, rho = {rho:g} is not above L = {L:g}")
    if not rho * modulus > 2.0 * L * L:
        failing.append(f"2 (c): rho gamma = {rho * modulus:g} is not above 2 L^2 = {2 * L * L:g}")
    if not rho >= L:
        failing.append(f"2 (c): rho = {rho:g} is below L = {L:g}")
    if not bounded:
        failing.append("3: the objective may be unbounded below")
    possible = bounded and all(party.has_full_rank for party in parties)
    least = max((math.sqrt(2.0) if convex else 2.0) * L, *(party.least_rho for party in parties))
    return Theorem1Report(rho, parties, L, modulus, tuple(failing), least if possible else math.inf)


def _party(D: NDArray[np.float64], l2: float, rho: float) -> PartyCondition:
    values = np.linalg.eigvalsh(D.T @ D)
    smallest, largest = max(float(values[0]), 0.0), float(values[-1])
    if not smallest > D.shape[1] * np.finfo(np.float64).eps * largest:  # rounding errors of a 0 are as large
        smallest = 0.0
    missing = 2.0 * largest - l2
    least = 0.0 if missing <= 0.0 else missing / smallest if smallest > 0.0 else math.inf
    return PartyCondition(smallest, largest, l2 + rho * smallest, least)


def _is_bounded_below(loss: Loss | SmoothLoss) -> bool:
    """Return whether one loss is: a convex one if its conjugate is finite at 0, another if it has limits far out."""
    y = np.array([-1.0, 1.0])
    if isinstance(loss, Loss):
        return bool(np.isfinite(loss.conjugate(y, np.zeros(2))).all())
    return all(bool(np.isfinite(loss.value(y, np.full(2, end))).all()) for end in (-math.inf, math.inf))
