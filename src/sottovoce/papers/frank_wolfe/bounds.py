r"""Theorems 1 and 3 of Lou and Cheung [1]_ to compute, and what their sampling of columns costs at least.

Theorem 1 bounds the mean distance to the optimum; it holds. Theorem 3 promises of Algorithm 2 an excess risk of order

.. math:: \frac{(C_g + C_l)^{2/3} \, C^{1/3} \log(2 G \eta K \tau n)}{p^2 (n \varepsilon)^{2/3}}, \qquad
    T = \Bigl( \frac{C n \varepsilon}{C_g + C_l} \Bigr)^{2/3}, \qquad p = K \tau / d.

One C is in both. Coordinates as blocks, as the paper samples them, have that of `proposition_4_bound`, tens of
thousands; the K balls that the algorithm walks have at most that of `balls_curvature`. Table 2 of the paper, which
defines :math:`C_g` and :math:`C_l`, is read from the algorithm here: the printed noise on a choice is
:math:`C_l \sqrt T / (n \varepsilon)`, and a gradient's error from the printed noise on columns is at most
:math:`C_g \sqrt T / (n \varepsilon)` (standard deviation, entries within [-1, 1], gradients of the mean loss).

A column that is drawn with probability q has in the mean a weight of at most :math:`\eta q`, whatever n, T and the
noise are. So the risk does not go to zero with n: proof and measurements in ``docs/papers/frank_wolfe.md``.

References
----------
.. [1] Lou, Cheung (2018). Uplink Communication Efficient Differentially Private Sparse Optimization With Feature-Wise
   Distributed Data. AAAI 2018; Theorems 1 and 3, Remark 1.
"""

import math
from dataclasses import dataclass

from sottovoce._validation import number, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.papers.frank_wolfe._arrays import vector
from sottovoce.papers.frank_wolfe.product import ProductDomain
from sottovoce.papers.frank_wolfe.samplings import Sampling

__all__ = [
    "Theorem3",
    "balls_curvature",
    "inexactness",
    "serial_bound",
    "theorem_1_bound",
    "theorem_3",
    "weight_cap",
]


def inexactness(
    sampling: Sampling, domain: ProductDomain, *, gradient_error: float = 0.0, oracle_error: float = 0.0
) -> float:
    r"""Return rho = sum_i p_i (D_i rho_g + rho_l), the constant of Theorem 1 for inexact gradients and oracles.

    Parameters
    ----------
    sampling : Sampling
    domain : ProductDomain
    gradient_error : float, >= 0
        rho_g: the Euclidean error of the partial gradient of each block is at most rho_g gamma_t C / 2.
    oracle_error : float, >= 0
        rho_l: the oracle of each block is within rho_l gamma_t C / 2 of the least inner product.
    """
    of_gradient = number("gradient_error", gradient_error, at_least=0.0)
    of_oracle = number("oracle_error", oracle_error, at_least=0.0)
    return float((sampling.probabilities * (domain.diameters * of_gradient + of_oracle)).sum())


def theorem_1_bound(t: int, *, start: float, curvature: float, p_min: float, inexactness: float = 0.0) -> float:
    """Return the bound of Theorem 1 on E f(x_t) - min f: 2 (start + (1 + inexactness) C / p_min) / (p_min t + 2).

    Parameters
    ----------
    t : int, >= 0
        Steps made.
    start : float, >= 0
        f(x_0) - min f, or an upper bound such as the duality gap at x_0.
    curvature : float, >= 0
        Expected curvature for the sampling, or an upper bound.
    p_min : float, in (0, 1]
        Least probability of a block.
    inexactness : float, >= 0
        See `inexactness`.
    """
    whole_number("t", t, at_least=0)
    h0, C = number("start", start, at_least=0.0), number("curvature", curvature, at_least=0.0)
    p, rho = number("p_min", p_min, above=0.0, at_most=1.0), number("inexactness", inexactness, at_least=0.0)
    return 2.0 / (p * t + 2.0) * (h0 + C * (1.0 + rho) / p)


def serial_bound(t: int, *, start: float, curvatures: object, probabilities: object) -> float:
    r"""Return a bound on E f(x_t) - min f where one block moves a step, by balanced steps or by line search.

    :math:`2 \max(\sum_i C_i / p_i, h_0 / p_{\min}) / (t + 2 / p_{\min})`. For large t it is least at p_i in proportion
    to the square root of C_i (`ImportanceSampling.from_curvatures`).

    Parameters
    ----------
    t : int, >= 0
        Steps made.
    start : float, >= 0
        f(x_0) - min f, or an upper bound.
    curvatures : array-like of shape (n_blocks,), >= 0
        Of each block, see `block_curvatures`, or upper bounds.
    probabilities : array-like of shape (n_blocks,), > 0, of sum 1
        Of each block.
    """
    whole_number("t", t, at_least=0)
    h0 = number("start", start, at_least=0.0)
    C, p = vector("curvatures", curvatures), vector("probabilities", probabilities)
    if len(C) != len(p) or not (C >= 0.0).all() or not (p > 0.0).all():
        raise ParameterError(
            f"curvatures must be >= 0 and probabilities > 0, one of each for a block; got {len(C)} and {len(p)}."
        )
    least = float(p.min())
    return 2.0 * max(float((C / p).sum()), h0 / least) / (t + 2.0 / least)


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
        Expected curvature of the (K, tau)-distributed sampling, such as `proposition_4_bound`.
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


def balls_curvature(radius: float, *, n_parties: int) -> float:
    r"""Return the most that C_f can be on the product of K l1 balls, for entries within [-1, 1]: (2 K eta)^2.

    A difference of two points of the product has an l1 norm of at most 2 K eta, and so do its predictions.

    Parameters
    ----------
    radius : float, > 0
        eta.
    n_parties : int
        K.

    Examples
    --------
    >>> balls_curvature(1.0, n_parties=4)
    64.0
    """
    return (2.0 * whole_number("n_parties", n_parties, at_least=1) * number("radius", radius, above=0.0)) ** 2


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
