r"""Theorem 2 of ADMM sharing: how fast V^t falls, with the constant that the paper leaves out and the case it misses.

The paper [1]_ says that V^t, eq. (13), is below e after O(1/e) rounds: "there exists a constant C", and eq. (14) has
lost the 1/e. Its proof cannot be right for three or more parties, as Theorem 1 is not
(`sottovoce.vertical.theorem_1_conditions`): parties that move at the same time disturb each other, and condition 2 (b)
does not see it. What its own plan proves needs, in the place of 2 (b), that

.. math:: \gamma_m(\rho) > \rho \theta \text{ for every party}, \qquad
          \theta = \lambda_{\max}\big(D'D - \mathrm{blockdiag}(D_m'D_m)\big),

theta the coupling of the parties' columns. Then

.. math:: \sum_{s=2}^{t} V^s \le K (L^1 - \underline f), \qquad
          K = \max\Big( \max_m \frac{2 \kappa_m^2}{\gamma_m - \rho \theta},\;
                        \frac{(1 + \rho^2) (L / \rho)^2}{\gamma / 2 - L^2 / \rho} \Big),

where kappa_m is 1 plus the larger of :math:`|1 - \rho \sigma|` over both extreme eigenvalues of D_m'D_m. So the least
of V^2, ..., V^t is at most K (L^1 - f) / (t - 1). Proof and measurements: ``docs/papers/admm_sharing.md``.

References
----------
.. [1] Hu, Liu, Kong, Niu (2019). Learning Privately over Distributed Features: An ADMM Sharing Approach.
   arXiv:1907.07735, Theorem 2 and eq. (14).
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from sottovoce._numerics import Vector
from sottovoce.losses import Loss, SmoothLoss
from sottovoce.vertical.protocols.exact.conditions import Theorem1Report
from sottovoce.vertical.protocols.exact.scores import ScoreProblem

__all__ = ["coupling", "rate_constant", "start_value"]


def coupling(blocks: Sequence[NDArray[np.float64]]) -> float:
    """Return theta, 0 for one party; it takes the columns of all parties in one place, so it is for study only.

    Parameters
    ----------
    blocks : sequence of ndarray of shape (n, d_m)
        The parties' columns, the column of ones of an intercept included.

    Returns
    -------
    float
        Largest eigenvalue of D'D without its blocks on the diagonal; at most (M - 1) times the largest eigenvalue of
        any D_m'D_m, which is attained where all parties hold the same columns.
    """
    table = np.hstack(blocks)
    beside = table.T @ table - block_diag(*(block.T @ block for block in blocks))
    return float(np.linalg.eigvalsh(beside)[-1])


def rate_constant(report: Theorem1Report, theta: float) -> float:
    """Return K; inf where the plan of the proof fails.

    Parameters
    ----------
    report : Theorem1Report
        Of the parties, for the rho of the run; it need not hold. Columns may be linearly dependent.
    theta : float
        From `coupling`.

    Returns
    -------
    float
    """
    rho, L = report.rho, report.smoothness
    from_z = report.modulus / 2.0 - L * L / rho
    falls = [(party.modulus - rho * theta) / 2.0 for party in report.parties.values()]
    if not (rho >= L and from_z > 0.0 and min(falls) > 0.0):
        return math.inf
    worst = (1.0 + rho * rho) * (L / rho) ** 2 / from_z
    for party, fall in zip(report.parties.values(), falls, strict=True):
        kappa = 1.0 + max(abs(1.0 - rho * party.smallest), abs(1.0 - rho * party.largest))
        worst = max(worst, kappa * kappa / fall)
    return worst


def start_value(loss: Loss | SmoothLoss, y: Vector, rho: float) -> float:
    """Return L^1, the augmented Lagrangian (5) after z and y have moved once from x = 0.

    Parameters
    ----------
    loss : Loss or SmoothLoss
    y : ndarray of shape (n,)
        Labels.
    rho : float, > 0

    Returns
    -------
    float
    """
    problem = ScoreProblem(loss, y)
    z = problem.minimise(np.zeros(len(y)), rho)
    return problem.value(z) + 1.5 * rho * float(z @ z)  # y^1 = -rho z^1
