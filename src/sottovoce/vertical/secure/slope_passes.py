r"""Newton steps with fresh slopes inside: for engines that cannot compare.

With P(u) = -l'(u) for a label of 1, a row pulls by y P(y z) = y / 2 + y (P(y z) - 1/2). The sum of y x is released once
with the second moments; each of three passes releases the rest, at most some 1/2 a row, with P replaced by the cubic
that fits it best on [-Z, Z]: y (P(y z) - 1/2) = y (c_0 + c_2 z^2) + c_1 z + c_3 z^3. Each of M parties cuts its own
margins at Z / M, so the polynomial is not asked beyond Z, and its largest value there is public.

The noisy second moments are a preconditioner, and the last two of three points are averaged. A logistic model is given
a slope and a shift at the end.

**Slope and shift** of a finished logistic model follow from what was opened anyway: they cost no budget.

A cubic in place of sigma - 1/2 is flatter at 0, so where predictions are short the weights come out up to 1.6 times too
long. A penalty and steps that have not arrived make them too short, and noise too long again. What was opened tells all
three. Let z = x.w be the predictions, taken as normal, with their mean and variance from the noisy second moments; q
the cubic; g the pull that is left at w, g_0 its entry for the constant 1, and s the standard deviation of the noise in
it, to which w answers by B^-1. The model that predicts sigma(a z + b) has the a and b that solve

.. math::

    E[(\sigma(az + b) - \tfrac12) \, (z, 1)]
    = E[q(z) \, (z, 1)] + (w \cdot g - s^2 \, \mathrm{tr} \, B^{-1}, \; g_0) / n.

Weights are shortened alone, and where a would be 1 or more the intercept, too, stays what it is: where predictions have
long tails, as rare large entries give them, a normal law says nothing of what is too short, and moves rates the wrong
way. Where the noise of the second moments hides the variance, nothing is moved.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.linalg import eigh
from scipy.special import expit

from sottovoce._numerics import Vector
from sottovoce.losses import Logistic, Loss
from sottovoce.vertical.engines.programs import AddSlopes
from sottovoce.vertical.secure.training import LEAST_ALPHA, Passes, Training
from sottovoce.vertical.secure.whole_rows import ROW, SQUARE, longest

if TYPE_CHECKING:
    from sottovoce.vertical.secure.joint_plan import JointPlan

_SHARES: Final = (0.25, 0.25, 0.5)  # of mu^2: the labels' correlations, the second moments, the passes
_PASSES: Final = 3
_RANGE_LOGISTIC: Final = 8.0  # Z
_RANGE_HINGE: Final = 3.0
_SLOPE: Final = 2**28
_MARGIN: Final = 2**4
_STEEPNESS: Final = 0.7  # c over the polynomial's slope at 0
_EDGE: Final = 2.0  # kappa: sqrt(d) times the noise of the second moments are added to their eigenvalues
_PENALTY: Final = 0.1  # times 1 / mu


class SlopePasses(Training):
    """The second moments with the labels' correlations, and three passes."""

    def __init__(self, plan: "JointPlan", loss: Loss) -> None:
        self.plan, self.loss, self.with_labels = plan, loss, True
        n_passes = _PASSES if plan.n_passes is None else plan.n_passes
        length = longest()
        for_labels, for_moments, for_passes = (plan.mu * math.sqrt(share) for share in _SHARES)
        self.labels = plan.shared(4 * length, for_labels)
        self.moments = plan.shared(2 * length**2, for_moments)
        reach = _RANGE_LOGISTIC if isinstance(loss, Logistic) else _RANGE_HINGE
        self.margin_unit, self.margin_bound = _MARGIN, math.floor(reach * _MARGIN / len(plan.blocks))
        self.coefficients, self.steepness = _cubic(loss, reach)
        self.most = _largest(self.coefficients, len(plan.blocks) * self.margin_bound)
        self.noises = (plan.shared(4 * self.most**2 * length, for_passes / math.sqrt(n_passes)),) * n_passes
        self.largest = max(length, self.most * ROW)

    def program(self, step: int) -> AddSlopes:
        return AddSlopes(self.coefficients)

    def passes(self, matrix: Vector, correlations: Vector, chosen: dict[str, object]) -> Passes:
        values, vectors = eigh(matrix)
        edge = _EDGE * math.sqrt(len(matrix)) * self.moments.total_std() / SQUARE
        lifted = (vectors * (np.maximum(values, 0.0) + edge)) @ vectors.T
        penalties = np.maximum(self.plan.penalties, self.least_penalty)
        preconditioner = self.steepness * lifted + np.diag(penalties)
        chosen[LEAST_ALPHA] = self.least_penalty / self.plan.n_samples
        pull = 0.5 * correlations[:-1] / ROW
        point, points = np.linalg.solve(preconditioner, pull), []
        for _ in self.noises:
            left = pull + (yield point) / (ROW * _SLOPE)
            step = np.linalg.solve(preconditioner, left - penalties * point)
            point = point + step
            points.append(point)
        averaged = points[len(points) // 2 :]
        weights = np.asarray(np.mean(averaged, axis=0))
        if not (isinstance(self.loss, Logistic) and self.plan.constant):
            return weights
        assert self.labels is not None
        of_labels, of_pass = 0.5 * self.labels.total_std() / ROW, self.noises[0].total_std() / (ROW * _SLOPE)
        moved = step - (point - weights)  # from where the last pass asked
        opened = Opened(
            matrix=matrix,
            matrix_noise=self.moments.total_std() / SQUARE,
            constant=self.plan.constant / ROW,
            n_samples=self.plan.n_samples,
            left=left - preconditioner @ moved + penalties * moved,
            noise=math.hypot(of_labels, of_pass / math.sqrt(len(averaged))),
            answer=np.linalg.inv(preconditioner),
        )
        return calibrated(weights, opened, self._slope)

    def _slope(self, predictions: Vector) -> Vector:
        """Return what stands for sigmoid - 1/2."""
        steps = np.clip(predictions, -_RANGE_LOGISTIC, _RANGE_LOGISTIC) * _MARGIN
        return -np.polynomial.polynomial.polyval(steps, self.coefficients) / _SLOPE

    @cached_property
    def least_penalty(self) -> float:
        """With little mu the noise asks for at least this Lambda."""
        return _PENALTY * self.plan.noise_factor / self.plan.mu

    def details(self) -> dict[str, object]:
        assert self.labels is not None
        return {
            "mu (Gaussian DP) of the labels' correlations": self.labels.mu,
            "mu of the second moments": self.moments.mu,
            "mu of the passes": self.noises[0].mu * math.sqrt(len(self.noises)),
            "passes": len(self.noises),
            "margins of a party cut at": self.margin_bound / self.margin_unit,
        }


def _cubic(loss: Loss, reach: float) -> tuple[tuple[int, int, int, int], float]:
    """Return the best cubic for P - 1/2 on [-Z, Z] in whole numbers, and c, which stands for its slope."""
    u = np.linspace(-reach, reach, 4001)
    powers = np.stack([np.ones_like(u), u, u**2, u**3], axis=1)
    wanted = -loss.derivative(np.ones_like(u), u) - 0.5
    fitted = np.linalg.lstsq(powers, wanted, rcond=None)[0]
    whole = tuple(round(float(value) * _SLOPE / _MARGIN**power) for power, value in enumerate(fitted))
    return whole, _STEEPNESS * abs(float(fitted[1]))


def _largest(coefficients: tuple[int, int, int, int], bound: int) -> int:
    """Return the largest slope in absolute value over whole margins within the bound; exact.

    A label of -1 gives at z what +1 gives at -z, with the other sign: one label is enough.
    """
    free, linear, quadratic, cubic = coefficients
    return max(abs(free + linear * z + quadratic * z**2 + cubic * z**3) for z in range(-bound, bound + 1))


# ------------------------------------------------------------------ slope and shift of a finished logistic model


_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(61)
_LAW: Final = _WEIGHTS / _WEIGHTS.sum()
_MOST_SHIFT: Final = 30.0
_CLEAR: Final = 0.2  # largest standard deviation of the variance of z, as a share of it
_HALVINGS: Final = 50
_LEAST_RATE: Final = 1e-3  # of a class


@dataclass(frozen=True)
class Opened:
    """What a training knows at its end; the constant's entry is the last of each."""

    matrix: Vector  # noisy sum of x x'
    matrix_noise: float  # standard deviation of an entry of its diagonal
    constant: float  # value of the intercept's column
    n_samples: int
    left: Vector  # g: the pull that is left at the weights
    noise: float  # standard deviation of what noise adds to g
    answer: Vector  # B^-1, of shape (n_weights, n_weights)


def calibrated(weights: Vector, opened: Opened, slope: Callable[[Vector], Vector]) -> Vector:
    """Return the weights times a, with b in the intercept; ``slope``: q, of an array of predictions."""
    n, w, constant = opened.n_samples, weights[:-1], opened.constant
    means = opened.matrix[:-1, -1] / (n * constant)
    without = float(w @ means)  # the mean of what the columns say
    variance = float(w @ opened.matrix[:-1, :-1] @ w) / n - without**2
    if not opened.matrix_noise * float(w @ w) / n <= _CLEAR * variance:
        return weights
    spread = math.sqrt(variance) * _NODES
    wanted = _LAW * slope(without + constant * weights[-1] + spread)
    at_constant = opened.left[-1] / (n * constant)
    inflated = opened.noise**2 * np.trace(opened.answer[:-1, :-1]) / n
    along = float(wanted @ spread + w @ opened.left[:-1] / n - without * at_constant - inflated)
    rate = min(max(float(wanted.sum() + at_constant), _LEAST_RATE - 0.5), 0.5 - _LEAST_RATE)

    def shift(a: float) -> float:
        return _root(lambda b: float(_LAW @ (expit(a * spread + b) - 0.5)) - rate, -_MOST_SHIFT, _MOST_SHIFT)

    def excess(a: float) -> float:
        return float((_LAW * spread) @ (expit(a * spread + shift(a)) - 0.5)) - along

    if excess(1.0) <= 0.0:
        return weights
    return np.append((a := _root(excess, 0.0, 1.0)) * w, (shift(a) - a * without) / constant)


def _root(grows: Callable[[float], float], low: float, high: float) -> float:
    """Return where a growing function is 0, or the end that is nearer."""
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if grows(middle) < 0.0 else (low, middle)
    return 0.5 * (low + high)
