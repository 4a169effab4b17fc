r"""Curvatures, Propositions 1, 3 and 4 and Theorems 1 and 3 of Lou and Cheung, to compute; what sampling columns costs.

*Expected curvature.* For f(x) = x'Qx / 2 + b'x, Definition 2 (with 2 / g^2 in front of the whole bracket) is
sup D'(P o Q)D over D in M - M, P the pair probabilities. The supremum is at extreme points of M - M, the product of the
M_i - M_i: a finite list for boxes, l1 balls and simplices. Blocks that P o Q does not join are treated apart, so serial
sampling has an exact value whatever the number of blocks.

*Theorem 3* has one C both in T and in the bound. Coordinates as blocks, as the paper samples them, have that of
`proposition_4_bound`, tens of thousands; the K balls that the algorithm walks have at most that of `balls_curvature`.
C_g and C_l, which Table 2 of the paper defines, are read from the printed noise: on a choice it is
:math:`C_l \sqrt T / (n \varepsilon)`, and a gradient's error from the noise on columns is at most
:math:`C_g \sqrt T / (n \varepsilon)` (standard deviation, entries within [-1, 1], gradients of the mean loss). Its risk
does not go to zero with n: `weight_cap`. Proofs and measurements: ``docs/papers/frank_wolfe.md``.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from sottovoce._validation import number, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.papers.frank_wolfe._arrays import Array, Indices, vector
from sottovoce.papers.frank_wolfe.domains import Block, L2Ball, ProductDomain
from sottovoce.papers.frank_wolfe.objectives import Objective
from sottovoce.papers.frank_wolfe.samplings import DistributedSampling, ElementarySampling, Sampling

_MOST_POINTS: Final = 2**20  # extreme points that are listed for blocks that hang together, up to sign
_CHUNK: Final = 2**14


def expected_curvature(objective: Objective, domain: ProductDomain, sampling: Sampling) -> float:
    """Return the expected curvature of a quadratic function, exactly.

    The domain is one of boxes, l1 balls and simplices; l2 balls where P o Q does not join them to other blocks. Refused
    where the extreme points are too many; `curvature_bound` is always available.
    """
    Q = _upper_hessian(objective, domain, sampling, exact=True)
    return _supremum(Q, domain, sampling.pair_probabilities)


def global_curvature(objective: Objective, domain: ProductDomain) -> float:
    """Return C_f, eq. (1): the expected curvature when all blocks are taken."""
    return expected_curvature(objective, domain, ElementarySampling(domain.n_blocks))


def block_curvatures(objective: Objective, domain: ProductDomain) -> Array:
    """Return the curvature of each block, eq. (2) (with 2 / g^2, as for C_f).

    Their sum is the product curvature of Lacoste-Julien et al. (2013).
    """
    Q = _upper_hessian(objective, domain, None, exact=True)
    return np.array([_largest(Q, domain, np.array([i])) for i in range(domain.n_blocks)])


def expected_set_curvature(objective: Objective, domain: ProductDomain, sampling: Sampling) -> float:
    """Return the mean over the sets T of their own curvatures, eq. (3) (Wang et al. 2016).

    It is never below the expected curvature. Refused for samplings with too many sets to list.
    """
    Q = _upper_hessian(objective, domain, sampling, exact=True)
    total = 0.0
    for chosen, chance in sampling.support():
        inside = np.zeros(domain.n_blocks)
        inside[chosen] = 1.0
        total += chance * _supremum(Q, domain, np.outer(inside, inside))
    return total


def _upper_hessian(objective: Objective, domain: ProductDomain, sampling: Sampling | None, *, exact: bool) -> Array:
    """Return Q of Assumption 2, once the parts fit one another; ``exact`` admits quadratic functions only."""
    if exact and not objective.is_quadratic:
        raise ParameterError("the exact curvature is known for quadratic functions only; use curvature_bound.")
    domain.check_fit(objective.n_coordinates, None if sampling is None else sampling.n_blocks)
    return objective.upper_hessian()


def _top_eigenvalue(symmetric: Array) -> float:
    """Return the largest eigenvalue of a positive semidefinite matrix."""
    return max(0.0, float(np.linalg.eigvalsh(symmetric)[-1]))


def _supremum(Q: Array, domain: ProductDomain, pairs: Array) -> float:
    owner = np.repeat(np.arange(domain.n_blocks), domain.sizes)
    weighted = pairs[np.ix_(owner, owner)] * Q
    joined = np.add.reduceat(np.abs(weighted), domain.offsets[:-1], axis=0)
    joined = np.add.reduceat(joined, domain.offsets[:-1], axis=1)
    n_parts, label = connected_components(csr_array(np.asarray(joined > 0.0, dtype=np.int8)), directed=False)
    total = 0.0
    for part in range(n_parts):
        blocks = np.flatnonzero(label == part)
        if joined[np.ix_(blocks, blocks)].any():
            total += _largest(weighted, domain, blocks)
    return total


def _largest(weighted: Array, domain: ProductDomain, blocks: Indices) -> float:
    """Return the largest D'WD over the product of the differences of these blocks."""
    coordinates = domain.coordinates(blocks)
    W = weighted[np.ix_(coordinates, coordinates)]
    alone = domain.blocks[blocks[0]]
    if len(blocks) == 1 and isinstance(alone, L2Ball):
        return alone.diameter**2 * _top_eigenvalue(W)
    listed = [domain.blocks[i].extreme_differences() for i in blocks]
    extremes = [rows for rows in listed if rows is not None]
    if len(extremes) < len(listed) or math.prod(map(len, extremes)) > 2 * _MOST_POINTS:
        raise ParameterError(
            f"the exact curvature is not known here: {len(blocks)} blocks hang together, with an l2 ball among them or "
            "too many extreme points; use curvature_bound."
        )
    leading = np.array([row[np.flatnonzero(row)[0]] if row.any() else 0.0 for row in extremes[0]])
    extremes[0] = extremes[0][leading >= 0.0]  # D and -D give the same value
    ends = np.cumsum([0, *(rows.shape[1] for rows in extremes)])
    best, n_points = 0.0, math.prod(map(len, extremes))
    for start in range(0, n_points, _CHUNK):
        rest = np.arange(start, min(start + _CHUNK, n_points))
        D = np.empty((len(rest), len(coordinates)))
        for place, rows in enumerate(extremes):
            D[:, ends[place] : ends[place + 1]] = rows[rest % len(rows)]
            rest //= len(rows)
        best = max(best, float(((D @ W) * D).sum(axis=1).max()))
    return best


def curvature_bound(objective: Objective, domain: ProductDomain, sampling: Sampling) -> float:
    """Return the lesser of `proposition_1_bound` and sum_ij P_ij mu_ij, which Propositions 3 and 4 count by kinds.

    mu_ij is the largest D_i'Q_ij D_j over the differences of blocks i and j.
    """
    Q = _upper_hessian(objective, domain, sampling, exact=False)
    by_pairs = float((sampling.pair_probabilities * _pair_suprema(Q, domain)).sum())
    return min(proposition_1_bound(objective, domain, sampling), by_pairs)


def proposition_1_bound(objective: Objective, domain: ProductDomain, sampling: Sampling) -> float:
    r"""Return sum_i p_i beta_i D_i^2, beta_i = min(s(P), s(A'A)) \|A_i\|^2, s the largest normalised eigenvalue.

    s(P) is the largest eigenvalue of P scaled to a unit diagonal, s(A'A) that of A'A scaled to unit diagonal blocks.
    """
    Q = _upper_hessian(objective, domain, sampling, exact=False)
    p = sampling.probabilities
    scale = 1.0 / np.sqrt(p)
    of_pairs = _top_eigenvalue(scale[:, None] * sampling.pair_probabilities * scale)
    roots, norms = np.zeros_like(Q), np.empty(domain.n_blocks)
    for i in range(domain.n_blocks):
        place = domain.place(i)
        values, directions = np.linalg.eigh(Q[place, place])
        norms[i] = max(0.0, float(values[-1]))
        inside = values > 1e-13 * norms[i]
        roots[place, place] = (directions[:, inside] / np.sqrt(values[inside])) @ directions[:, inside].T
    of_columns = _top_eigenvalue(roots @ Q @ roots)
    return float(min(of_pairs, of_columns) * (p * norms * domain.diameters**2).sum())


def proposition_4_bound(objective: Objective, domain: ProductDomain, sampling: DistributedSampling) -> float:
    """Return K tau mu_1 + K tau (tau - 1) mu_2 + K (K - 1) tau^2 mu_3; the groups may be of any sizes.

    One group, as `NiceSampling` has, makes it Proposition 3: tau mu_1 + tau (tau - 1) mu_2.
    """
    if not isinstance(sampling, DistributedSampling):
        raise ParameterError(f"Proposition 4 is about a DistributedSampling; got {sampling!r}. Use curvature_bound.")
    mu = _pair_suprema(_upper_hessian(objective, domain, sampling, exact=False), domain)
    group_of = np.repeat(np.arange(len(sampling.groups)), [len(group) for group in sampling.groups])
    together = group_of[:, None] == group_of
    inside = together & ~np.eye(domain.n_blocks, dtype=bool)
    K, tau = len(sampling.groups), sampling.tau
    mu_1, mu_2, mu_3 = mu.diagonal().max(), mu[inside].max(initial=0.0), mu[~together].max(initial=0.0)
    return float(K * tau * mu_1 + K * tau * (tau - 1) * mu_2 + K * (K - 1) * tau**2 * mu_3)


def _pair_suprema(Q: Array, domain: ProductDomain) -> Array:
    """Return mu_ij = sup D_i'Q_ij D_j over i != j, and mu_ii = sup D_i'Q_ii D_i.

    Where neither block is a polytope whose corners can be listed, mu_ij is bounded by norms: exact for l2 balls.
    """
    if (domain.sizes == 1).all():
        return np.abs(Q) * np.outer(domain.diameters, domain.diameters)
    out = np.empty((domain.n_blocks, domain.n_blocks))
    listed = [block.extreme_differences() for block in domain.blocks]
    for i, first in enumerate(domain.blocks):
        for j, second in enumerate(domain.blocks[: i + 1]):
            part = Q[domain.place(i), domain.place(j)]
            if i == j and (rows := listed[i]) is not None:
                out[i, i] = ((rows @ part) * rows).sum(axis=1).max()
            elif (rows := listed[i]) is not None:
                out[i, j] = out[j, i] = _widest(rows @ part, second)
            elif (rows := listed[j]) is not None:
                out[i, j] = out[j, i] = _widest(rows @ part.T, first)
            else:
                out[i, j] = out[j, i] = first.diameter * second.diameter * float(np.linalg.norm(part, 2))
    return out


def _widest(directions: Array, block: Block) -> float:
    """Return the largest width of a block in any of these directions."""
    return float(((block.oracle(-directions) - block.oracle(directions)) * directions).sum(axis=1).max())


def inexactness(
    sampling: Sampling, domain: ProductDomain, *, gradient_error: float = 0.0, oracle_error: float = 0.0
) -> float:
    r"""Return rho = sum_i p_i (D_i rho_g + rho_l), the constant of Theorem 1 for inexact gradients and oracles.

    rho_g, the ``gradient_error``: the Euclidean error of the partial gradient of each block is at most
    rho_g gamma_t C / 2. rho_l, the ``oracle_error``: each block's oracle is within rho_l gamma_t C / 2 of the least
    inner product.
    """
    of_gradient = number("gradient_error", gradient_error, at_least=0.0)
    of_oracle = number("oracle_error", oracle_error, at_least=0.0)
    return float((sampling.probabilities * (domain.diameters * of_gradient + of_oracle)).sum())


def theorem_1_bound(t: int, *, start: float, curvature: float, p_min: float, inexactness: float = 0.0) -> float:
    """Return the bound of Theorem 1 on E f(x_t) - min f: 2 (start + (1 + inexactness) C / p_min) / (p_min t + 2).

    t steps were made; ``start`` is f(x_0) - min f, or an upper bound such as the duality gap at x_0; ``curvature`` the
    expected one for the sampling, or an upper bound; ``p_min`` the least probability of a block.
    """
    whole_number("t", t, at_least=0)
    h0, C = number("start", start, at_least=0.0), number("curvature", curvature, at_least=0.0)
    p, rho = number("p_min", p_min, above=0.0, at_most=1.0), number("inexactness", inexactness, at_least=0.0)
    return 2.0 / (p * t + 2.0) * (h0 + C * (1.0 + rho) / p)


def serial_bound(t: int, *, start: float, curvatures: object, probabilities: object) -> float:
    r"""Return a bound on E f(x_t) - min f where one block moves a step, by balanced steps or by line search.

    :math:`2 \max(\sum_i C_i / p_i, h_0 / p_{\min}) / (t + 2 / p_{\min})`. For large t it is least at p_i in proportion
    to the square root of C_i (`ImportanceSampling.from_curvatures`). Upper bounds will do for h_0, the ``start``, and
    for the ``curvatures``, such as `block_curvatures`.
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
    """What Theorem 3 says."""

    n_steps: float  # T, before rounding
    gradient_constant: float  # C_g
    oracle_constant: float  # C_l
    sampling_rate: float  # p
    risk: float  # excess risk, with the constant 1 in front of the order


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
    sketch_rows: int | None = None,
) -> Theorem3:
    r"""Return what Theorem 3 promises, the constant of its order taken as 1.

    In the notation of the paper n, d, K, tau, epsilon, delta, eta, C (expected curvature of the sampling, such as
    `proposition_4_bound`), G, and m of the sketch, None for columns that are shared without one: the leading singular
    value is :math:`\sqrt{n / m} + 1`.

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
    leading = 1.0
    if sketch_rows is not None:
        leading = math.sqrt(n / whole_number("sketch_rows", sketch_rows, at_least=1)) + 1.0
    oracle = 8.0 * G * eta * math.sqrt(2.0 * math.log(2.0 / delta))
    shared = leading * math.sqrt(n) * math.sqrt(2.0 * (math.log(1.0 / delta) + 0.5 * epsilon)) / n
    gradient = 2.0 * eta * K * shared
    p = K * tau / d
    both, people = gradient + oracle, n * epsilon
    risk = (both**2 * C) ** (1.0 / 3.0) * math.log(2.0 * G * eta * K * tau * n) / (p**2 * people ** (2.0 / 3.0))
    return Theorem3((C * people / both) ** (2.0 / 3.0), gradient, oracle, p, risk)


def balls_curvature(radius: float, *, n_parties: int) -> float:
    r"""Return the most that C_f can be on the product of K l1 balls, for entries within [-1, 1]: (2 K eta)^2.

    A difference of two points of the product has an l1 norm of at most 2 K eta, and so do its predictions.
    """
    return (2.0 * whole_number("n_parties", n_parties, at_least=1) * number("radius", radius, above=0.0)) ** 2


def weight_cap(radius: float, *, sampled_columns: int, n_columns_of_party: int) -> float:
    r"""Return the largest weight that a column can have in the mean: eta tau / (columns of its party).

    The model is a mean of vertices with public weights that add up to 1 (the first step has size 1), and a column has a
    part in a vertex only when it is drawn. By Jensen's inequality the mean risk is at least the least one over models
    whose weights are within this, for every n, every number of steps and every noise.
    """
    width = whole_number("n_columns_of_party", n_columns_of_party, at_least=1)
    tau = whole_number("sampled_columns", sampled_columns, at_least=1, at_most=width)
    return number("radius", radius, above=0.0) * tau / width
