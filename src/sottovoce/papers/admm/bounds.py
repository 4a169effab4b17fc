r"""The numbers of the paper's theorems: how fast V^t falls, and what noise the paper asks for which claim.

`lemma_1_bound`, `theorem_3_std` and `corollary_1` are the paper's, and false:
``docs/privacy/published_vertical_noise.md``. Theorem 2 says that V^t, eq. (13), is below e after O(1/e) rounds, without
a constant; its proof fails for three or more parties, as that of Theorem 1 does (`sottovoce.papers.admm.conditions`):
condition 2 (b) does not see that parties which move at the same time disturb each other. What its plan proves needs
gamma_m(rho) > rho theta in the place of 2 (b), theta the `coupling` of the parties' columns. Then the least of
V^2, ..., V^t is at most K (L^1 - f) / (t - 1), with L^1 the `start_value`, f a bound on the objective from below and

.. math:: K = \max\Big( \max_m \frac{2 \kappa_m^2}{\gamma_m - \rho \theta},\;
                        \frac{(1 + \rho^2) (L / \rho)^2}{\gamma / 2 - L^2 / \rho} \Big),

where kappa_m is 1 plus the larger of :math:`|1 - \rho \sigma|` over both extreme eigenvalues of D_m'D_m. Proof and
measurements: ``docs/papers/admm.md``.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from sottovoce._numerics import Vector
from sottovoce._validation import number, whole_number
from sottovoce.losses import Loss, SmoothLoss
from sottovoce.papers.admm.conditions import Theorem1Report
from sottovoce.papers.admm.sharing import ScoreProblem


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
    """
    rho, L = report.rho, report.smoothness
    from_z = report.modulus / 2.0 - L * L / rho
    falls = [(party.modulus - rho * theta) / 2.0 for party in report.parties]
    if not (rho >= L and from_z > 0.0 and min(falls) > 0.0):
        return math.inf
    of_z = (1.0 + rho * rho) * (L / rho) ** 2 / from_z
    kappas = [1.0 + max(abs(1.0 - rho * p.smallest), abs(1.0 - rho * p.largest)) for p in report.parties]
    return max(of_z, *(kappa * kappa / fall for kappa, fall in zip(kappas, falls, strict=True)))


def start_value(loss: Loss | SmoothLoss, y: Vector, rho: float) -> float:
    """Return L^1, the augmented Lagrangian (5) after z and y have moved once from x = 0.

    Parameters
    ----------
    loss : Loss or SmoothLoss
    y : ndarray of shape (n,)
        Labels.
    rho : float, > 0
    """
    problem = ScoreProblem(loss, y)
    z = problem.minimise(np.zeros(len(y)), rho)
    return problem.value(z) + 1.5 * rho * float(z @ z)  # y^1 = -rho z^1


def lemma_1_bound(d: int, *, penalty: float, curvature: float, rho: float, n_parties: int, norm_bound: float) -> float:
    r"""Return the paper's bound on the sensitivity of D x (Lemma 1). It is false; see `docs/privacy`.

    .. math:: C = \frac{3}{d \rho} [\lambda c_1 + (1 + M \rho) b_1].

    Parameters
    ----------
    d : int, >= 1
        Columns of the party's block, d_m.
    penalty : float, >= 0
        lambda, the factor of the regulariser beside the *sum* of the losses.
    curvature : float, >= 0
        c_1, bound on the second derivative of the regulariser; 1 for half the squared norm.
    rho : float, > 0
        The step of ADMM, by the paper's name (nothing to do with zCDP).
    n_parties : int, >= 1
        M.
    norm_bound : float, >= 0
        b_1, the assumed bound on the norms of weights, z and y.

    Examples
    --------
    >>> round(lemma_1_bound(57, penalty=1.0, curvature=1.0, rho=1.0, n_parties=2, norm_bound=1.0), 4)
    0.2105
    """
    d = whole_number("d", d, at_least=1)
    penalty = number("penalty", penalty, at_least=0.0)
    curvature = number("curvature", curvature, at_least=0.0)
    rho = number("rho", rho, above=0.0)
    n_parties = whole_number("n_parties", n_parties, at_least=1)
    norm_bound = number("norm_bound", norm_bound, at_least=0.0)
    return 3.0 / (d * rho) * (penalty * curvature + (1.0 + n_parties * rho) * norm_bound)


def theorem_3_std(bound: float, *, epsilon: float, delta: float) -> float:
    r"""Return sigma of Theorem 3, :math:`\sqrt{2 \ln(1.25/\delta)}\, C / \varepsilon`.

    Parameters
    ----------
    bound : float, >= 0
        C, from `lemma_1_bound`.
    epsilon : float, in (0, 1]
        What the paper claims for one round.
    delta : float, in (0, 1)

    Returns
    -------
    float
        In the unit of a message.
    """
    bound = number("bound", bound, at_least=0.0)
    epsilon = number("epsilon", epsilon, above=0.0, at_most=1.0, remedy="Theorem 3 is stated for epsilon up to 1.")
    delta = number("delta", delta, above=0.0, below=1.0)
    return math.sqrt(2.0 * math.log(1.25 / delta)) * bound / epsilon


def corollary_1(*, epsilon: float, delta: float, delta_prime: float, n_rounds: int) -> tuple[float, float]:
    r"""Return what the paper claims for T rounds (Corollary 1).

    .. math:: \varepsilon' = \sqrt{2 T \ln(1/\delta')}\, \varepsilon + T \varepsilon (e^\varepsilon - 1).

    Parameters
    ----------
    epsilon : float, in (0, 1]
        Claimed for one round.
    delta : float, in (0, 1)
        Claimed for one round.
    delta_prime : float, in (0, 1)
    n_rounds : int, >= 1
        T.

    Returns
    -------
    epsilon, delta : float
        epsilon' and T delta + delta'. What holds is epsilon = infinity.
    """
    epsilon = number("epsilon", epsilon, above=0.0, at_most=1.0, remedy="Theorem 3 is stated for epsilon up to 1.")
    delta = number("delta", delta, above=0.0, below=1.0)
    delta_prime = number("delta_prime", delta_prime, above=0.0, below=1.0)
    n_rounds = whole_number("n_rounds", n_rounds, at_least=1)
    claimed = math.sqrt(2.0 * n_rounds * math.log(1.0 / delta_prime)) * epsilon
    return claimed + n_rounds * epsilon * math.expm1(epsilon), n_rounds * delta + delta_prime
