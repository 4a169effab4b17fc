"""Upper bounds of the expected curvature under Assumption 2; proofs in ``docs/papers/block_frank_wolfe.md``.

All hold for any convex function with an upper Hessian Q = A'A. `curvature_bound` takes the least of the three that fit
any sampling; Propositions 3 and 4 are never below `pairwise_bound`.
"""

import numpy as np

from sottovoce.exceptions import ParameterError
from sottovoce.optimize._arrays import Array
from sottovoce.optimize.domains import Block, Box, L2Ball, ProductDomain
from sottovoce.optimize.objectives import Objective
from sottovoce.optimize.samplings import DistributedSampling, NiceSampling, Sampling
from sottovoce.optimize.theory.weighted import by_coordinates, top_eigenvalue, upper_hessian

__all__ = [
    "curvature_bound",
    "pairwise_bound",
    "proposition_1_bound",
    "proposition_3_bound",
    "proposition_4_bound",
    "spectral_bound",
]

_LISTED = 4096  # extreme points of one block


def curvature_bound(objective: Objective, domain: ProductDomain, sampling: Sampling) -> float:
    """Return the least of `proposition_1_bound`, `pairwise_bound` and `spectral_bound`.

    Parameters
    ----------
    objective : LeastSquares, GeneralizedLinear, Quadratic, or another with ``upper_hessian``
    domain : ProductDomain
    sampling : Sampling
    """
    return min(bound(objective, domain, sampling) for bound in (proposition_1_bound, pairwise_bound, spectral_bound))


def proposition_1_bound(objective: Objective, domain: ProductDomain, sampling: Sampling) -> float:
    r"""Return sum_i p_i beta_i D_i^2, beta_i = min(s(P), s(A'A)) \|A_i\|^2, s the largest normalised eigenvalue.

    s(P) is the largest eigenvalue of P scaled to a unit diagonal, s(A'A) that of A'A scaled to unit diagonal blocks.
    """
    Q = upper_hessian(objective, domain, sampling, exact=False)
    p = sampling.probabilities
    kept = p > 0.0
    scale = 1.0 / np.sqrt(p[kept])
    of_pairs = top_eigenvalue(scale[:, None] * sampling.pair_probabilities[np.ix_(kept, kept)] * scale)
    roots = np.zeros_like(Q)
    norms = np.empty(domain.n_blocks)
    for i in range(domain.n_blocks):
        place = domain.place(i)
        values, directions = np.linalg.eigh(Q[place, place])
        norms[i] = max(0.0, float(values[-1]))
        inside = values > 1e-13 * norms[i]
        roots[place, place] = (directions[:, inside] / np.sqrt(values[inside])) @ directions[:, inside].T
    of_columns = top_eigenvalue(roots @ Q @ roots)
    return float(min(of_pairs, of_columns) * (p * norms * domain.diameters**2).sum())


def pairwise_bound(objective: Objective, domain: ProductDomain, sampling: Sampling) -> float:
    """Return sum_ij P_ij mu_ij, mu_ij the largest D_i'Q_ij D_j over the differences of blocks i and j."""
    Q = upper_hessian(objective, domain, sampling, exact=False)
    return float((sampling.pair_probabilities * _pair_suprema(Q, domain)).sum())


def spectral_bound(objective: Objective, domain: ProductDomain, sampling: Sampling) -> float:
    """Return B times the largest eigenvalue of P o Q with blocks scaled by their diameters."""
    Q = upper_hessian(objective, domain, sampling, exact=False)
    scale = np.repeat(domain.diameters, domain.sizes)
    weighted = by_coordinates(sampling.pair_probabilities, domain) * Q
    return domain.n_blocks * top_eigenvalue(scale[:, None] * weighted * scale)


def proposition_3_bound(objective: Objective, domain: ProductDomain, sampling: NiceSampling) -> float:
    """Return tau mu_1 + tau (tau - 1) mu_2 for a tau-nice sampling."""
    if not isinstance(sampling, NiceSampling):
        raise ParameterError(f"Proposition 3 is about a NiceSampling; got {sampling!r}. Use curvature_bound.")
    mu = _pair_suprema(upper_hessian(objective, domain, sampling, exact=False), domain)
    apart = ~np.eye(domain.n_blocks, dtype=bool)
    return float(sampling.tau * mu.diagonal().max() + sampling.tau * (sampling.tau - 1) * mu[apart].max(initial=0.0))


def proposition_4_bound(objective: Objective, domain: ProductDomain, sampling: DistributedSampling) -> float:
    """Return K tau mu_1 + K tau (tau - 1) mu_2 + K (K - 1) tau^2 mu_3; the groups may be of any sizes."""
    if not isinstance(sampling, DistributedSampling):
        raise ParameterError(f"Proposition 4 is about a DistributedSampling; got {sampling!r}. Use curvature_bound.")
    mu = _pair_suprema(upper_hessian(objective, domain, sampling, exact=False), domain)
    group_of = np.empty(domain.n_blocks, dtype=np.intp)
    for k, group in enumerate(sampling.groups):
        group_of[group] = k
    together = group_of[:, None] == group_of
    inside = together & ~np.eye(domain.n_blocks, dtype=bool)
    K, tau = len(sampling.groups), sampling.tau
    mu_1, mu_2, mu_3 = mu.diagonal().max(), mu[inside].max(initial=0.0), mu[~together].max(initial=0.0)
    return float(K * tau * mu_1 + K * tau * (tau - 1) * mu_2 + K * (K - 1) * tau**2 * mu_3)


def _pair_suprema(Q: Array, domain: ProductDomain) -> Array:
    """Return mu_ij = sup D_i'Q_ij D_j over i != j, and mu_ii = sup D_i'Q_ii D_i."""
    if domain.all_intervals:
        return np.abs(Q) * np.outer(domain.widths, domain.widths)
    n = domain.n_blocks
    out = np.empty((n, n))
    listed = [_listed(block) for block in domain.blocks]
    for i, first in enumerate(domain.blocks):
        out[i, i] = _square_supremum(Q[domain.place(i), domain.place(i)], first, listed[i])
        for j in range(i):
            part = Q[domain.place(i), domain.place(j)]
            out[i, j] = out[j, i] = _pair_supremum(part, first, domain.blocks[j], listed[i], listed[j])
    return out


def _listed(block: Block) -> Array | None:
    count = block.n_extreme_differences
    return block.extreme_differences() if count is not None and count <= _LISTED else None


def _square_supremum(part: Array, block: Block, listed: Array | None) -> float:
    if listed is not None:
        return float(((listed @ part) * listed).sum(axis=1).max())
    return block.diameter**2 * top_eigenvalue(part)  # attained for an l2 ball


def _pair_supremum(part: Array, first: Block, second: Block, ends: Array | None, others: Array | None) -> float:
    """Exact but for two boxes of many coordinates, or one of them beside an l2 ball."""
    if ends is not None:
        return _widest(ends @ part, second)
    if others is not None:
        return _widest(others @ part.T, first)
    bound = first.diameter * second.diameter * float(np.linalg.norm(part, 2))
    if isinstance(first, L2Ball) and isinstance(second, L2Ball):
        return bound
    if isinstance(first, Box) and isinstance(second, Box):
        bound = min(bound, float((first.high - first.low) @ np.abs(part) @ (second.high - second.low)))
    return bound


def _widest(directions: Array, block: Block) -> float:
    """Return the largest width of a block in any of these directions."""
    return float(((block.oracle(-directions) - block.oracle(directions)) * directions).sum(axis=1).max())
