r"""Expected curvature of quadratic functions, exactly.

For f(x) = x'Qx / 2 + b'x, Definition 2 (with 2 / g^2 in front of the whole bracket) is

.. math:: C = \sup_{D \in M - M} E_T [ D_T' Q D_T ] = \sup_{D \in M - M} D' (P \circ Q) D,

P the pair probabilities. P o Q is positive semidefinite, as a mean of principal parts of Q; so the supremum is at
extreme points of M - M, which is the product of the M_i - M_i: a finite list for boxes, l1 balls and simplices. Blocks
that P o Q does not join are treated apart, so serial sampling has an exact value whatever the number of blocks.
"""

import math

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from sottovoce._validation import whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.optimize._arrays import Array, Indices
from sottovoce.optimize.domains import L2Ball, ProductDomain
from sottovoce.optimize.objectives import Objective
from sottovoce.optimize.samplings import ElementarySampling, Sampling
from sottovoce.optimize.theory.weighted import by_coordinates, top_eigenvalue, upper_hessian

__all__ = [
    "block_curvatures",
    "expected_curvature",
    "expected_set_curvature",
    "global_curvature",
    "product_curvature",
]

_CHUNK = 2**14


def expected_curvature(
    objective: Objective, domain: ProductDomain, sampling: Sampling, *, max_points: int = 2**20
) -> float:
    """Return the expected curvature of a quadratic function, exactly.

    Parameters
    ----------
    objective : LeastSquares, Quadratic, or another quadratic objective with ``upper_hessian``
    domain : ProductDomain
        Of boxes, l1 balls and simplices; l2 balls where P o Q does not join them to other blocks.
    sampling : Sampling
    max_points : int
        Most extreme points that are listed for blocks that hang together.

    Raises
    ------
    ParameterError
        If the function is not quadratic or the points are too many; `curvature_bound` is always available.
    """
    Q = upper_hessian(objective, domain, sampling, exact=True)
    return _supremum(Q, domain, sampling.pair_probabilities, whole_number("max_points", max_points, at_least=1))


def global_curvature(objective: Objective, domain: ProductDomain, *, max_points: int = 2**20) -> float:
    """Return C_f, eq. (1): the expected curvature when all blocks are taken."""
    return expected_curvature(objective, domain, ElementarySampling(domain.n_blocks), max_points=max_points)


def block_curvatures(objective: Objective, domain: ProductDomain, *, max_points: int = 2**20) -> Array:
    """Return the curvature of each block, eq. (2) (with 2 / g^2, as for C_f)."""
    Q = upper_hessian(objective, domain, None, exact=True)
    most = whole_number("max_points", max_points, at_least=1)
    return np.array([_largest(Q, domain, np.array([i]), most) for i in range(domain.n_blocks)])


def product_curvature(objective: Objective, domain: ProductDomain, *, max_points: int = 2**20) -> float:
    """Return the sum of the block curvatures (Lacoste-Julien et al. 2013)."""
    return float(block_curvatures(objective, domain, max_points=max_points).sum())


def expected_set_curvature(
    objective: Objective, domain: ProductDomain, sampling: Sampling, *, max_points: int = 2**20
) -> float:
    """Return the mean over the sets T of their own curvatures, eq. (3) (Wang et al. 2016).

    It is never below the expected curvature.

    Refused for samplings with too many sets to list.
    """
    Q = upper_hessian(objective, domain, sampling, exact=True)
    most = whole_number("max_points", max_points, at_least=1)
    total = 0.0
    for chosen, chance in sampling.support():
        inside = np.zeros(domain.n_blocks)
        inside[chosen] = 1.0
        total += chance * _supremum(Q, domain, np.outer(inside, inside), most)
    return total


def _supremum(Q: Array, domain: ProductDomain, pairs: Array, most: int) -> float:
    """Return sup D'(P o Q)D over M - M."""
    weighted = by_coordinates(pairs, domain) * Q
    joined = np.add.reduceat(np.abs(weighted), domain.offsets[:-1], axis=0)
    joined = np.add.reduceat(joined, domain.offsets[:-1], axis=1)
    n_parts, label = connected_components(csr_array(np.asarray(joined > 0.0, dtype=np.int8)), directed=False)
    total = 0.0
    for part in range(n_parts):
        blocks = np.flatnonzero(label == part)
        if joined[np.ix_(blocks, blocks)].any():
            total += _largest(weighted, domain, blocks, most)
    return total


def _largest(weighted: Array, domain: ProductDomain, blocks: Indices, most: int) -> float:
    """Return the largest D'WD over the product of the differences of these blocks."""
    coordinates = np.arange(domain.n_coordinates)[domain.coordinates(blocks)]
    W = weighted[np.ix_(coordinates, coordinates)]
    alone = domain.blocks[blocks[0]]
    if len(blocks) == 1 and isinstance(alone, L2Ball):
        return alone.diameter**2 * top_eigenvalue(W)
    counts = [domain.blocks[i].n_extreme_differences for i in blocks]
    if any(count is None for count in counts):
        raise ParameterError(
            "the exact curvature is not known where an l2 ball moves together with other blocks; use curvature_bound."
        )
    if math.prod(count for count in counts if count is not None) > 2 * most:
        raise ParameterError(
            f"{len(blocks)} blocks that hang together have too many extreme points, more than max_points={most} up to "
            "sign; raise max_points or use curvature_bound."
        )
    extremes = [domain.blocks[i].extreme_differences() for i in blocks]
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
