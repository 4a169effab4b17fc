r"""Which degree of the gradient pays, from public numbers and no report: a bound on bias plus noise.

In the ball |w| <= R a surrogate of degree k = degree + 1 is off by at most its sup error; the estimated moment of
order j adds noise of about :math:`|c_j| R^j \sqrt{j \, d \, v_j / n}`, v_j = j! / A_j^2, at the worst w.
"""

import math
from typing import Final

from sottovoce.local.cap import EDGE_OF_DEGREE_0
from sottovoce.local.fits.surrogate import AbsoluteMixture, surrogate_error

__all__ = ["DEGREES", "choose_degree", "planned_error"]

DEGREES: Final = (0, 1, 3)


def planned_error(
    degree: int, n: int, d: int, A: tuple[float, float, float, float], mixture: AbsoluteMixture
) -> tuple[float, float]:
    """Return (bias, noise) of a degree for n reports of d coordinates."""
    c = mixture.surrogate(degree + 1)
    bias = surrogate_error(mixture, c)
    noise = 0.0
    for order in range(1, degree + 2):
        if A[order - 1] == 0.0:
            return bias, math.inf
        variance = order * d * math.factorial(order) / (A[order - 1] ** 2 * n)
        noise += abs(float(c[order])) * mixture.radius**order * math.sqrt(variance)
    return bias, noise


def choose_degree(
    edge: float,
    n: int,
    d: int,
    A: tuple[float, float, float, float],
    mixture: AbsoluteMixture | None = None,
    *,
    with_reports: bool = False,
) -> int:
    """Return 0 where the second moment's noise edge is beyond .2, else 1, or 3 where its planned error is smaller.

    Parameters
    ----------
    edge : float
        See `MomentEstimate.edge`.
    n, d : int
    A : tuple of 4 floats
    mixture : AbsoluteMixture, optional
        The loss in the ball; without it there is no degree 3.
    with_reports : bool, default=False
        Whether the reports were kept, as degree 3 needs.
    """
    if not edge <= EDGE_OF_DEGREE_0:
        return 0
    if mixture is None or not with_reports:
        return 1
    return 3 if sum(planned_error(3, n, d, A, mixture)) < sum(planned_error(1, n, d, A, mixture)) else 1
