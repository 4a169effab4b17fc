"""The matrix that expected curvature is about: the pair probabilities times the (upper) Hessian, entry by entry."""

import numpy as np

from sottovoce.exceptions import ParameterError
from sottovoce.optimize._arrays import Array
from sottovoce.optimize.domains import ProductDomain
from sottovoce.optimize.objectives import HasUpperHessian, Objective
from sottovoce.optimize.samplings import Sampling

__all__ = ["by_coordinates", "top_eigenvalue", "upper_hessian"]


def upper_hessian(objective: Objective, domain: ProductDomain, sampling: Sampling | None, *, exact: bool) -> Array:
    """Return Q of Assumption 2, once the parts fit one another; ``exact`` admits quadratic functions only."""
    if not isinstance(objective, HasUpperHessian):
        raise ParameterError(
            f"the curvature of {type(objective).__name__} is not known: it needs an upper bound of the Hessian. "
            "Bound f'' by a matrix Q yourself and give Quadratic(Q)."
        )
    if exact and not objective.is_quadratic:
        raise ParameterError("the exact curvature is known for quadratic functions only; use curvature_bound.")
    Q = objective.upper_hessian()
    domain.check_fit(len(Q), None if sampling is None else sampling.n_blocks)
    return Q


def top_eigenvalue(symmetric: Array) -> float:
    """Return the largest eigenvalue of a positive semidefinite matrix, 0 for an empty one."""
    return max(0.0, float(np.linalg.eigvalsh(symmetric)[-1])) if len(symmetric) else 0.0


def by_coordinates(pairs: Array, domain: ProductDomain) -> Array:
    """Return the matrix of block pairs with every entry repeated for the coordinates of its blocks."""
    owner = np.repeat(np.arange(domain.n_blocks), domain.sizes)
    return pairs[np.ix_(owner, owner)]
