r"""Block-coordinate Frank-Wolfe under arbitrary sampling.

Minimises a convex differentiable f over a product M_1 x ... x M_B. In step t a set T of blocks is drawn, and each of
them moves toward the minimiser of its linear function,

.. math:: x_i \leftarrow x_i + \gamma_t (s_i - x_i), \qquad
    s_i = \arg\min_{s \in M_i} \langle s, \nabla_i f(x) \rangle, \qquad \gamma_t = \frac{2}{p_{\min} t + 2}.

What is proved of it: ``docs/papers/block_frank_wolfe.md``.

References
----------
.. [1] Lou, Cheung (2018). Uplink Communication Efficient Differentially Private Sparse Optimization With Feature-Wise
   Distributed Data. AAAI 2018; Algorithm 1, Theorem 1.
.. [2] Lacoste-Julien, Jaggi, Schmidt, Pletscher (2013). Block-coordinate Frank-Wolfe optimization for structural SVMs.
   ICML 2013.
.. [3] Jaggi (2013). Revisiting Frank-Wolfe: Projection-free sparse convex optimization. ICML 2013.
"""

import math
from collections.abc import Callable

import numpy as np

from sottovoce._validation import choice, number, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.optimize._arrays import Array, Indices, vector
from sottovoce.optimize.domains import ProductDomain
from sottovoce.optimize.inexact import InexactGradient, InexactOracle
from sottovoce.optimize.objectives import Objective, Position
from sottovoce.optimize.result import BlockFrankWolfeHistory, BlockFrankWolfeResult
from sottovoce.optimize.samplings import Sampling

__all__ = ["block_frank_wolfe", "universal_step"]

StepRule = Callable[[int], float]
Callback = Callable[[int, Position], object]


def block_frank_wolfe(
    objective: Objective,
    domain: ProductDomain,
    sampling: Sampling,
    *,
    x0: object = None,
    step: str | StepRule = "universal",
    max_iter: int = 10_000,
    tol: float = 1e-6,
    gap: str = "full",
    gap_every: int | None = None,
    inexact_gradient: InexactGradient | None = None,
    inexact_oracle: InexactOracle | None = None,
    callback: Callback | None = None,
    random_state: int | np.random.Generator | None = None,
) -> BlockFrankWolfeResult:
    r"""Minimise a convex function over a product of blocks by block-coordinate Frank-Wolfe.

    Parameters
    ----------
    objective : Objective
        `LeastSquares`, `GeneralizedLinear`, `Quadratic`, `SmoothFunction`, or your own.
    domain : ProductDomain
        As many coordinates as the objective.
    sampling : Sampling
        As many blocks as the domain, each of positive probability.
    x0 : array-like or None
        A point of the domain; None takes the centre of each block.
    step : {"universal", "line-search", "balanced"} or callable
        2 / (p_min t + 2); the best step of [0, 1] along the direction; 2 / (p_min t + 2) times p_min / p_i for block i,
        so that all blocks move alike in the mean; or a function of t with values in [0, 1]. Theorem 1 holds for the
        first two; its form for unequal blocks, where one block moves a step, for the second and third.
    max_iter : int, >= 0
        Most steps.
    tol : float, >= 0
        Stop when the duality gap is at most this: then f(x) - min f is, too.
    gap : {"full", "sampled"}
        ``"full"`` computes the whole gap every ``gap_every`` steps, for a full gradient each. ``"sampled"`` does so
        only when the unbiased estimate sum_{i in T} gap_i / p_i, averaged over the last ``gap_every`` steps, is within
        ``tol``; the estimate costs nothing. Either way the stop rests on a full gap.
    gap_every : int or None
        None takes as many steps as move every block once on average.
    inexact_gradient, inexact_oracle : callable or None
        Supplied in place of exact ones; see `InexactGradient`, `InexactOracle`. Gaps are still computed with the
        objective's own gradient.
    callback : callable or None
        ``callback(t, position)`` after every step; a true value stops. It must not change the position.
    random_state : int, numpy.random.Generator or None
        Of the sampling. Nothing here is private.

    Returns
    -------
    BlockFrankWolfeResult

    Raises
    ------
    ParameterError
        If the parts do not fit one another, a block can never be drawn, x0 is outside the domain, or something supplied
        returns what it must not.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce.optimize import LeastSquares, UniformSerialSampling
    >>> A, y = np.array([[1.0, 1.0], [0.0, 2.0]]), np.array([3.0, 1.0])
    >>> domain = ProductDomain.intervals(0, 1, n_blocks=2)
    >>> result = block_frank_wolfe(
    ...     LeastSquares(A, y), domain, UniformSerialSampling(2), step="line-search", random_state=0
    ... )
    >>> result.x.round(3), result.stop_reason
    (array([1. , 0.8]), 'gap')
    """
    run = _Run(objective, domain, sampling, x0, inexact_gradient, inexact_oracle)
    rule = choice("step", step, ("universal", "line-search", "balanced")) if isinstance(step, str) else "own"
    if rule == "own" and not callable(step):
        raise ParameterError(f"step must be 'universal', 'line-search', 'balanced' or a function of t; got {step!r}.")
    own_steps = step if callable(step) else None
    most = whole_number("max_iter", max_iter, at_least=0)
    tolerance = number("tol", tol, at_least=0.0)
    sampled = choice("gap", gap, ("full", "sampled")) == "sampled"
    every = math.ceil(domain.n_blocks / sampling.expected_size) if gap_every is None else gap_every
    every = whole_number("gap_every", every, at_least=1)
    if callback is not None and not callable(callback):
        raise ParameterError(f"callback must be a function of t and a position; got {callback!r}.")
    rng = _generator(random_state)

    updates, reason, t = 0, "max_iter", 0
    if run.check(0) <= tolerance:
        reason, most = "gap", 0
    estimate, in_window = 0.0, 0
    while t < most:
        blocks = sampling.draw(rng)
        found = run.move(blocks, universal_step(t, sampling.p_min), own_steps(t) if own_steps else None, rule)
        t, updates = t + 1, updates + len(blocks)
        estimate, in_window = estimate + found, in_window + 1
        if callback is not None and callback(t, run.position):
            reason = "callback"
            break
        if in_window == every:
            likely = not sampled or estimate / every <= tolerance
            estimate, in_window = 0.0, 0
            if likely and run.check(t) <= tolerance:
                reason = "gap"
                break
    if run.record[-1][0] != t:
        reason = "gap" if run.check(t) <= tolerance and reason == "max_iter" else reason
    steps, values, gaps = zip(*run.record, strict=True)
    return BlockFrankWolfeResult(
        x=run.position.x.copy(),
        value=values[-1],
        gap=gaps[-1],
        n_steps=t,
        n_block_updates=updates,
        stop_reason=reason,
        history=BlockFrankWolfeHistory(np.array(steps, dtype=np.intp), np.array(values), np.array(gaps)),
    )


def universal_step(t: int, p_min: float) -> float:
    """Return 2 / (p_min t + 2)."""
    return 2.0 / (p_min * t + 2.0)


class _Run:
    """The parts of one run, checked against one another."""

    def __init__(
        self,
        objective: Objective,
        domain: ProductDomain,
        sampling: Sampling,
        x0: object,
        inexact_gradient: InexactGradient | None,
        inexact_oracle: InexactOracle | None,
    ) -> None:
        for name, value, wanted in (("domain", domain, ProductDomain), ("sampling", sampling, Sampling)):
            if not isinstance(value, wanted):
                raise ParameterError(f"{name} must be a {wanted.__name__}; got {value!r}.")
        if not hasattr(objective, "at") or not hasattr(objective, "n_coordinates"):
            raise ParameterError(f"objective must be one such as LeastSquares or SmoothFunction; got {objective!r}.")
        domain.check_fit(objective.n_coordinates, sampling.n_blocks)
        if not sampling.is_proper:
            never = np.flatnonzero(sampling.probabilities <= 0.0).tolist()
            raise ParameterError(f"sampling never draws the blocks {never}: every block needs a positive probability.")
        for name, supplied in (("inexact_gradient", inexact_gradient), ("inexact_oracle", inexact_oracle)):
            if supplied is not None and not callable(supplied):
                raise ParameterError(f"{name} must be a function or None; got {supplied!r}.")
        start = domain.start() if x0 is None else vector("x0", x0, size=domain.n_coordinates)
        if not domain.contains(start):
            raise ParameterError("x0 must be a point of the domain; leave it out to start from the centre.")
        self.domain, self.sampling = domain, sampling
        self.position = objective.at(start)
        self.record: list[tuple[int, float, float]] = []  # step, value, gap
        self._gradient, self._oracle = inexact_gradient, inexact_oracle

    def check(self, t: int) -> float:
        """Compute value and full gap, record them, and return the gap."""
        self.position.refresh()
        gap = float(self.domain.gaps(self.position.x, self.position.gradient(slice(None))).sum())
        gap = max(gap, 0.0)  # rounding may leave it a hair below
        self.record.append((t, self.position.value(), gap))
        return gap

    def move(self, blocks: Indices, universal: float, own: float | None, rule: str) -> float:
        """Make one step; return the unbiased estimate of the gap before it."""
        if len(blocks) == 0:
            return 0.0
        domain, x = self.domain, self.position.x
        everything = len(blocks) == domain.n_blocks
        coordinates = slice(None) if everything else domain.coordinates(blocks)
        here = x[coordinates]
        if self._gradient is None:
            gradient = self.position.gradient(coordinates)
        else:
            gradient = _answer("inexact_gradient", self._gradient(self.position, blocks, coordinates, universal), here)
        if self._oracle is None:
            target = domain.oracle(gradient, blocks)
        else:
            target = _answer("inexact_oracle", self._oracle(gradient, blocks, universal), here)
            if not domain.contains(target, blocks):
                raise ParameterError("inexact_oracle must return points of the blocks; one is outside.")
        direction = target - here
        falls = -domain.sum_by_block(direction * gradient, blocks) / self.sampling.probabilities[blocks]
        if rule == "balanced":
            shares = self.sampling.p_min / self.sampling.probabilities[blocks]
            direction = direction * np.repeat(shares, domain.sizes[blocks])
        line = self.position.line(coordinates, direction)
        if rule == "line-search":
            step = line.best_step()
        else:
            step = universal if own is None else number("step(t)", own, at_least=0.0, at_most=1.0)
        self.position.move(line, step)
        return float(falls.sum())


def _answer(name: str, value: object, like: Array) -> Array:
    out = np.asarray(value, dtype=np.float64)
    if out.shape != like.shape or not np.isfinite(out).all():
        raise ParameterError(f"{name} must return {len(like)} finite numbers; got shape {out.shape}: {out!r}.")
    return out


def _generator(random_state: object) -> np.random.Generator:
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    return np.random.default_rng(whole_number("random_state", random_state, at_least=0))
