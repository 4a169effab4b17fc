r"""Block-coordinate Frank-Wolfe under arbitrary sampling.

Minimises a convex differentiable f over a product M_1 x ... x M_B. In step t a set T of blocks is drawn, and each of
them moves toward the minimiser of its linear function, :math:`\arg\min_{s \in M_i} \langle s, \nabla_i f(x) \rangle`,
by :math:`\gamma_t = 2 / (p_{\min} t + 2)`. This is Algorithm 1 of Lou and Cheung, after Jaggi (ICML 2013) and, for one
block a step, Lacoste-Julien, Jaggi, Schmidt and Pletscher (ICML 2013). What is proved: ``docs/papers/frank_wolfe.md``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sottovoce._validation import choice, number, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.papers.frank_wolfe._arrays import Array, vector
from sottovoce.papers.frank_wolfe.domains import ProductDomain
from sottovoce.papers.frank_wolfe.objectives import Objective, Position
from sottovoce.papers.frank_wolfe.samplings import Sampling


@dataclass(frozen=True)
class BlockFrankWolfeResult:
    """The last iterate, and how sure it is."""

    x: Array
    value: float
    gap: float  # duality gap: f(x) - min f is at most this
    n_steps: int
    n_block_updates: int  # blocks moved in all steps
    stop_reason: str  # "gap", "max_iter" or "callback"

    @property
    def converged(self) -> bool:
        """True when the gap is within the tolerance."""
        return self.stop_reason == "gap"


def minimize(
    objective: Objective,
    domain: ProductDomain,
    sampling: Sampling,
    *,
    x0: object = None,
    step: str = "universal",
    max_iter: int = 10_000,
    tol: float = 1e-6,
    gap_every: int | None = None,
    callback: Callable[[int, Position], object] | None = None,
    random_state: int | np.random.Generator | None = None,
) -> BlockFrankWolfeResult:
    r"""Minimise a convex function over a product of blocks by block-coordinate Frank-Wolfe.

    Parameters
    ----------
    objective : Objective
        `LeastSquares`, `GeneralizedLinear` or `Quadratic`.
    domain : ProductDomain
    sampling : Sampling
    x0 : array-like or None
        A point of the domain; None takes the centre of each block.
    step : {"universal", "line-search", "balanced"}
        2 / (p_min t + 2); the best step of [0, 1] along the direction; or 2 / (p_min t + 2) times p_min / p_i for block
        i, so that all blocks move alike in the mean. Theorem 1 holds for the first two; its form for unequal blocks,
        where one block moves a step, for the second and third.
    max_iter : int, >= 0
        Most steps.
    tol : float, >= 0
        Stop when the duality gap is at most this: then f(x) - min f is, too.
    gap_every : int or None
        Compute the gap every so many steps, for a full gradient each. None takes as many as move every block once on
        average.
    callback : callable or None
        ``callback(t, position)`` after every step; a true value stops. It must not change the position.
    random_state : int, numpy.random.Generator or None
        Of the sampling. Nothing here is private.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce.papers.frank_wolfe import LeastSquares, UniformSerialSampling
    >>> A, y = np.array([[1.0, 1.0], [0.0, 2.0]]), np.array([3.0, 1.0])
    >>> domain = ProductDomain.intervals(0, 1, n_blocks=2)
    >>> result = minimize(LeastSquares(A, y), domain, UniformSerialSampling(2), step="line-search", random_state=0)
    >>> result.x.round(3), result.stop_reason
    (array([1. , 0.8]), 'gap')
    """
    rule = choice("step", step, ("universal", "line-search", "balanced"))
    most = whole_number("max_iter", max_iter, at_least=0)
    tolerance = number("tol", tol, at_least=0.0)
    every = math.ceil(domain.n_blocks / sampling.expected_size) if gap_every is None else gap_every
    every = whole_number("gap_every", every, at_least=1)
    if not isinstance(random_state, np.random.Generator | None):
        random_state = whole_number("random_state", random_state, at_least=0)
    rng = np.random.default_rng(random_state)
    domain.check_fit(objective.n_coordinates, sampling.n_blocks)
    start = domain.start() if x0 is None else vector("x0", x0, size=domain.n_coordinates)
    if not domain.contains(start):
        raise ParameterError("x0 must be a point of the domain; leave it out to start from the centre.")

    position = objective.at(start)
    gap, t, updates = _gap(position, domain), 0, 0
    reason = "gap" if gap <= tolerance else "max_iter"
    while reason == "max_iter" and t < most:
        blocks = sampling.draw(rng)
        if len(blocks) > 0:
            coordinates = slice(None) if len(blocks) == domain.n_blocks else domain.coordinates(blocks)
            direction = domain.oracle(position.gradient(coordinates), blocks) - position.x[coordinates]
            if rule == "balanced":
                shares = sampling.p_min / sampling.probabilities[blocks]
                direction = direction * np.repeat(shares, domain.sizes[blocks])
            universal = 2.0 / (sampling.p_min * t + 2.0)
            position.move(coordinates, direction, None if rule == "line-search" else universal)
        t, updates = t + 1, updates + len(blocks)
        if callback is not None and callback(t, position):
            reason = "callback"
        if reason == "callback" or t % every == 0 or t == most:
            gap = _gap(position, domain)
            reason = "gap" if gap <= tolerance and reason == "max_iter" else reason
    return BlockFrankWolfeResult(position.x.copy(), position.value(), gap, t, updates, reason)


def _gap(position: Position, domain: ProductDomain) -> float:
    position.refresh()
    gap = float(domain.gaps(position.x, position.gradient(slice(None))).sum())
    return max(gap, 0.0)  # rounding may leave it a hair below
