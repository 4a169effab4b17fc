r"""Expected curvature of quadratic functions, exactly, and the bounds of Propositions 1, 3 and 4.

For f(x) = x'Qx / 2 + b'x, Definition 2 (with 2 / g^2 in front of the whole bracket) is

.. math:: C = \sup_{D \in M - M} E_T [ D_T' Q D_T ] = \sup_{D \in M - M} D' (P \circ Q) D,

P the pair probabilities. P o Q is positive semidefinite, as a mean of principal parts of Q; so the supremum is at
extreme points of M - M, which is the product of the M_i - M_i: a finite list for boxes, l1 balls and simplices. Blocks
that P o Q does not join are treated apart, so serial sampling has an exact value whatever the number of blocks.
"""

import math
from typing import Final

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from sottovoce.exceptions import ParameterError
from sottovoce.papers.frank_wolfe._arrays import Array, Indices
from sottovoce.papers.frank_wolfe.domains import Block, L2Ball
from sottovoce.papers.frank_wolfe.objectives import Objective
from sottovoce.papers.frank_wolfe.product import ProductDomain
from sottovoce.papers.frank_wolfe.samplings import DistributedSampling, ElementarySampling, Sampling

__all__ = [
    "block_curvatures",
    "curvature_bound",
    "expected_curvature",
    "expected_set_curvature",
    "global_curvature",
    "proposition_1_bound",
    "proposition_4_bound",
]

_MOST_POINTS: Final = 2**20  # extreme points that are listed for blocks that hang together, up to sign
_CHUNK: Final = 2**14


def expected_curvature(objective: Objective, domain: ProductDomain, sampling: Sampling) -> float:
    """Return the expected curvature of a quadratic function, exactly.

    Parameters
    ----------
    objective : LeastSquares or Quadratic
    domain : ProductDomain
        Of boxes, l1 balls and simplices; l2 balls where P o Q does not join them to other blocks.
    sampling : Sampling

    Raises
    ------
    ParameterError
        If the function is not quadratic or the points are too many; `curvature_bound` is always available.
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
    """Return sup D'(P o Q)D over M - M."""
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
    roots = np.zeros_like(Q)
    norms = np.empty(domain.n_blocks)
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
    group_of = np.empty(domain.n_blocks, dtype=np.intp)
    for k, group in enumerate(sampling.groups):
        group_of[group] = k
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
    n = domain.n_blocks
    out = np.empty((n, n))
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
