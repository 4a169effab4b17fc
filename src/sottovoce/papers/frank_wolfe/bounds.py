r"""Theorem 3 of Lou and Cheung [1]_ to compute, and what their sampling of columns costs at least: the two disagree.

Theorem 3 promises an excess risk of order

.. math:: \frac{(C_g + C_l)^{2/3} \, C^{1/3} \log(2 G \eta K \tau n)}{p^2 (n \varepsilon)^{2/3}}, \qquad
    T = \Bigl( \frac{C n \varepsilon}{C_g + C_l} \Bigr)^{2/3}, \qquad p = K \tau / d.

Their Table 2, which defines :math:`C_g` and :math:`C_l`, is read from the algorithm here: the printed noise on a choice
is :math:`C_l \sqrt T / (n \varepsilon)`, and a gradient's error from the printed noise on columns is at most
:math:`C_g \sqrt T / (n \varepsilon)` (standard deviation, entries within [-1, 1], gradients of the mean loss).

A column that is drawn with probability q has in the mean a weight of at most :math:`\eta q`, whatever n, T and the
noise are. So the risk does not go to zero with n: proof and measurements in ``docs/papers/vertical_frank_wolfe.md``.

References
----------
.. [1] Lou, Cheung (2018). Uplink Communication Efficient Differentially Private Sparse Optimization With Feature-Wise
   Distributed Data. AAAI 2018; Theorem 3, Remark 1.
"""

import math
from dataclasses import dataclass

from sottovoce._validation import number, whole_number

__all__ = ["Theorem3", "theorem_3", "weight_cap"]


@dataclass(frozen=True)
class Theorem3:
    """What Theorem 3 says.

    Attributes
    ----------
    n_steps : float
        T, before rounding.
    gradient_constant, oracle_constant : float
        C_g and C_l.
    sampling_rate : float
        p.
    risk : float
        The excess risk, with the constant 1 in front of the order.
    """

    n_steps: float
    gradient_constant: float
    oracle_constant: float
    sampling_rate: float
    risk: float


def theorem_3(
    *,
    n_people: int,
    n_columns: int,
    n_parties: int,
    sampled_columns: int,
    epsilon: float,
    delta: float,
    radius: float,
    curvature: float,
    slope_bound: float = 1.0,
    most_nonzeros: int | None = None,
    sketch_rows: int | None = None,
) -> Theorem3:
    r"""Return what Theorem 3 promises, the constant of its order taken as 1.

    Parameters
    ----------
    n_people, n_columns, n_parties : int
        n, d, K.
    sampled_columns : int
        tau, columns that each party draws for a step.
    epsilon, delta : float
        As claimed.
    radius : float, > 0
        eta.
    curvature : float, > 0
        Expected curvature of the (K, tau)-distributed sampling, such as
        `sottovoce.optimize.theory.proposition_4_bound`.
    slope_bound : float, > 0
        G.
    most_nonzeros : int or None
        Most entries of a column that are not zero; None for n.
    sketch_rows : int or None
        m; None for columns that are shared without a sketch. The leading singular value is :math:`\sqrt{n / m} + 1`.

    Examples
    --------
    >>> facts = {"n_columns": 200, "n_parties": 4, "sampled_columns": 50, "epsilon": 1.0, "delta": 1e-5, "radius": 1.0}
    >>> bound = theorem_3(n_people=10_000, curvature=16.0, sketch_rows=204, **facts)
    >>> round(bound.oracle_constant, 1), round(bound.gradient_constant, 1), round(bound.n_steps), round(bound.risk, 2)
    (39.5, 3.1, 241, 1.01)
    """
    n = whole_number("n_people", n_people, at_least=1)
    d = whole_number("n_columns", n_columns, at_least=1)
    K = whole_number("n_parties", n_parties, at_least=1, at_most=d)
    tau = whole_number("sampled_columns", sampled_columns, at_least=1, at_most=d // K)
    epsilon, delta = number("epsilon", epsilon, above=0.0), number("delta", delta, above=0.0, below=1.0)
    eta, C = number("radius", radius, above=0.0), number("curvature", curvature, above=0.0)
    G = number("slope_bound", slope_bound, above=0.0)
    filled = n if most_nonzeros is None else whole_number("most_nonzeros", most_nonzeros, at_least=1, at_most=n)
    leading = 1.0
    if sketch_rows is not None:
        leading = math.sqrt(n / whole_number("sketch_rows", sketch_rows, at_least=1)) + 1.0
    oracle = 8.0 * G * eta * math.sqrt(2.0 * math.log(2.0 / delta))
    shared = leading * math.sqrt(filled) * math.sqrt(2.0 * (math.log(1.0 / delta) + 0.5 * epsilon)) / n
    gradient = 2.0 * eta * K * shared
    p = K * tau / d
    both, people = gradient + oracle, n * epsilon
    risk = (both**2 * C) ** (1.0 / 3.0) * math.log(2.0 * G * eta * K * tau * n) / (p**2 * people ** (2.0 / 3.0))
    return Theorem3((C * people / both) ** (2.0 / 3.0), gradient, oracle, p, risk)


def weight_cap(radius: float, *, sampled_columns: int, n_columns_of_party: int) -> float:
    r"""Return the largest weight that a column can have in the mean: eta tau / (columns of its party).

    The model is a mean of vertices with public weights that add up to 1 (the first step has size 1), and a column has a
    part in a vertex only when it is drawn. By Jensen's inequality the mean risk is at least the least one over models
    whose weights are within this, for every n, every number of steps and every noise.

    Parameters
    ----------
    radius : float, > 0
        eta.
    sampled_columns, n_columns_of_party : int
        tau of so many are drawn.

    Examples
    --------
    >>> weight_cap(1.0, sampled_columns=5, n_columns_of_party=50)
    0.1
    """
    width = whole_number("n_columns_of_party", n_columns_of_party, at_least=1)
    tau = whole_number("sampled_columns", sampled_columns, at_least=1, at_most=width)
    return number("radius", radius, above=0.0) * tau / width
