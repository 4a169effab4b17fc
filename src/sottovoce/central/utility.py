r"""A bound on the excess risk of DP-SCD with secret dual variables, from public facts alone.

With rows \|x_i\| <= 1 and damped steps that no clip shortens, a pass over all rows is a step of (accelerated) gradient
descent on

.. math:: F(w) = \frac1n \sum_i l(y_i, x_i^\top w) + \frac\alpha2 \|w\|^2

of length 1 / (alpha + L lambda), with L >= l'', whose gradient is off by -N / n, N the noise that has come together so
far, and whose end is moved by the noise of the pass. For losses whose slopes have one sign for each label (logistic,
smoothed hinge) the clip C = d Lambda never binds: d = alpha / (alpha + L lambda) is the damping and Lambda the
Lipschitz constant. The potential functions of the two methods then give recursions for the expected excess risk, which
`excess_risk_bound` follows pass by pass.

Statements and proofs: ``docs/privacy/dp_scd_utility.md``. They are about real arithmetic: the grid of the noise is
left out.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._validation import magnitude, number, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic, Loss, SmoothedHinge
from sottovoce.privacy.adjacency import Adjacency

_TRIED: Final = 60  # numbers of passes, when none is given
_LONGEST: Final = 60.0  # of them, in units of the passes that divide the excess risk by e
_MOST: Final = 20_000  # of them, for penalties that are next to nothing
ONE_SIGN: Final = (Logistic, SmoothedHinge)  # smooth losses whose slopes have one sign for each label


@dataclass(frozen=True)
class UtilityBound:
    """A bound on the expected excess risk, and the public numbers of the run that it is proved for.

    Attributes
    ----------
    excess_risk : float
        E F(w) - min F is at most this much.
    passes : int
    momentum : float
        The same in every pass; 0 for the plain method.
    damping, clip : float
        d and C.
    noise_multiplier : float
        Standard deviation of each entry of a pass's noise over its sensitivity.
    start : float
        Bound on F(0) - min F.
    price : float
        d_w (f Lambda)^2 / (2 alpha mu^2 n^2), with d_w weights, and f = 2 for replaced rows, else 1: what the linear
        term of objective perturbation costs at the same mu. The unit in which the price of iterating is told.
    alpha : float
    """

    excess_risk: float
    passes: int
    momentum: float
    damping: float
    clip: float
    noise_multiplier: float
    start: float
    price: float
    alpha: float


@lru_cache(maxsize=256, typed=True)  # many numbers of passes are tried; losses without parameters are equal
def excess_risk_bound(
    loss: Loss,
    *,
    n_samples: int,
    n_weights: int,
    alpha: float,
    mu: float,
    passes: int | None = None,
    accelerated: bool = True,
    eigenvalue: float = 1.0,
    averaged: float = 0.0,
    adjacency: Adjacency = Adjacency.ZERO_OUT,
    most_passes: int = _MOST,
) -> UtilityBound:
    """Return the bound of Theorem 2 (accelerated) or Theorem 1 (plain).

    Parameters
    ----------
    loss : Logistic or SmoothedHinge
    n_samples : int
        Rows, each at most 1 long with the intercept's column.
    n_weights : int
        Columns, the intercept's included.
    alpha : float, > 0
        Penalty, for rows of this unit.
    mu : float, > 0
        Gaussian-DP parameter of all passes together; `sottovoce.privacy.calibration.gaussian_mu` turns (epsilon,
        delta) into it.
    passes : int or None
        None takes the number for which the bound is least, of those up to ``most_passes`` that are tried.
    accelerated : bool
        Whether passes have the momentum (1 - sqrt d) / (1 + sqrt d), or none.
    eigenvalue : float, > 0
        Known bound on the largest eigenvalue of X'X / n, which is at most 1; the damping follows from it.
    averaged : float, 0 <= averaged <= 1
        Share of the passes, the last ones, whose weights the model is the mean of; 0 for the last weights alone.
    adjacency : Adjacency
    most_passes : int

    Raises
    ------
    ParameterError
        If a number is out of its range, or a loss may have slopes of both signs for a label.
    """
    if not isinstance(loss, ONE_SIGN):
        raise ParameterError(
            f"loss must be Logistic or SmoothedHinge; got {loss!r}. The bound needs a smooth loss whose slopes have "
            "one sign for each label."
        )
    whole_number("n_samples", n_samples, at_least=1)
    whole_number("n_weights", n_weights, at_least=1)
    magnitude("alpha", alpha)
    magnitude("mu", mu)
    number("eigenvalue", eigenvalue, above=0.0)
    whole_number("most_passes", most_passes, at_least=1)
    number("averaged", averaged, at_least=0.0, at_most=1.0)
    problem = _Problem(loss, n_samples, n_weights, alpha, mu, eigenvalue, adjacency)
    follow = problem.accelerated if accelerated else problem.plain
    if passes is None:
        unit = problem.condition ** (0.5 if accelerated else 1.0)
        longest = min(_LONGEST * unit, float(most_passes))
        tried = sorted({math.ceil(each) for each in np.geomspace(1.0, longest, _TRIED)})
    else:
        tried = [whole_number("passes", passes, at_least=1)]
    # the mean of the last bounds: by convexity one for the mean of the weights
    bounds = {count: float(np.mean(follow(count)[-max(1, round(averaged * count)) :])) for count in tried}
    taken = min(bounds, key=lambda count: bounds[count])
    return UtilityBound(
        excess_risk=bounds[taken],
        passes=taken,
        momentum=problem.momentum if accelerated else 0.0,
        damping=problem.damping,
        clip=problem.clip,
        noise_multiplier=math.sqrt(taken) / mu,
        start=problem.start,
        price=problem.price,
        alpha=alpha,
    )


def accumulated_noise(passes: int, momentum: float) -> Vector:
    """Return the variance of each entry of N in the gradient of pass 0, 1, ..., in units of a pass's noise (Lemma 2).

    Parameters
    ----------
    passes : int
    momentum : float
        The same in every pass, from 0 to 1.

    Returns
    -------
    ndarray of shape (passes,)
    """
    ages = np.arange(1.0, passes)
    # a momentum that rounds to 1 belongs to a penalty that is next to nothing
    weights = (1.0 - momentum ** (ages + 1.0)) / (1.0 - momentum) if momentum < 1.0 - 1e-9 else ages + 1.0
    return np.concatenate([[0.0], np.cumsum(weights**2)])


class _Problem:
    def __init__(
        self, loss: Logistic | SmoothedHinge, n: int, width: int, alpha: float, mu: float, eigenvalue: float,
        adjacency: Adjacency,
    ) -> None:  # fmt: skip
        self.n, self.width, self.alpha, self.mu, self.factor = n, width, alpha, mu, adjacency.sum_factor
        self.bent = loss.smoothness * eigenvalue  # L lambda: the largest curvature of the mean loss
        self.condition = 1.0 + self.bent / alpha
        self.damping = 1.0 / self.condition
        root = math.sqrt(self.damping)
        self.momentum = (1.0 - root) / (1.0 + root)
        self.clip = self.damping * loss.lipschitz
        # F(0) - min F: no loss is negative, and F is alpha strongly convex
        zero, one = np.zeros(1), np.ones(1)
        value, slope = float(loss.value(one, zero)[0]), float(loss.derivative(one, zero)[0])
        self.start = min(value, slope**2 / (2.0 * alpha))
        self.price = width * (self.factor * loss.lipschitz / (mu * n)) ** 2 / (2.0 * alpha)
        # bound on the trace of the second derivative of F
        self.trace = alpha * width + loss.smoothness * min(1.0, width * eigenvalue)

    def noise(self, passes: int) -> float:
        """Variance of each entry of the noise of a pass, over (alpha n)^2: that of a weight."""
        std = math.sqrt(passes) / self.mu * self.factor * self.clip
        return (std / (self.alpha * self.n)) ** 2

    def plain(self, passes: int) -> list[float]:
        """Theorem 1: the bound after each pass."""
        noise, bounds, excess = self.noise(passes), [], self.start
        fresh = 0.5 * noise * self.trace
        for variance in accumulated_noise(passes, 0.0) * noise:
            accumulated = 0.5 * self.alpha * self.width * float(variance)
            excess = (1.0 - self.damping) * excess + self.damping * accumulated + fresh
            bounds.append(excess)
        return bounds

    def accelerated(self, passes: int) -> list[float]:
        """Theorem 2: the bound after each pass."""
        root, noise, bounds = math.sqrt(self.damping), self.noise(passes), []
        fresh = 0.5 * noise * (self.trace + (self.alpha + self.bent) * self.width)
        potential = 2.0 * self.start
        for variance in accumulated_noise(passes, self.momentum) * noise:
            pull = root * math.sqrt(0.5 * self.alpha * self.width * float(variance))
            potential = (pull + math.sqrt(pull**2 + (1.0 - root) * potential)) ** 2 + fresh
            bounds.append(potential)
        return bounds
