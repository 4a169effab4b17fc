r"""Objective perturbation: the minimiser of the regularised loss plus one random linear term.

With rows |x_i| <= 1, a smooth loss l of bounded slope and b ~ N(0, sigma^2 I), it finds

.. math:: w^* = \arg\min_w \sum_i l(y_i, x_i^\top w) + \frac\Lambda2 |w|^2 + b^\top w

up to a gradient of norm tau, and releases that point plus N(0, .) of a standard deviation that hides the difference.
One release, no passes, no clipping; the noise enters before the optimisation, so directions in which the data are
plentiful suffer little from it.

Privacy: ``docs/privacy/objective_perturbation.md``. Differences from the literature [1]_ [2]_ [3]_: the exact curve for
slopes of one sign (no factor of two, curvature helps one direction only), and a proof for the approximate minimiser on
a grid, rounding errors included.

References
----------
.. [1] Kifer, Smith, Thakurta (2012). Private Convex Empirical Risk Minimization and High-dimensional Regression.
   COLT 2012; Algorithm 1.
.. [2] Iyengar et al. (2019). Towards Practical Differentially Private Convex Optimization. IEEE S&P 2019; Algorithm 1.
.. [3] Redberg, Koskela, Wang (2023). Improving the Privacy and Practicality of Objective Perturbation for
   Differentially Private Linear Learners. NeurIPS 2023; Theorem 3.1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np

from sottovoce._numerics import ROUNDING_SLACK, Vector
from sottovoce._validation import magnitude, number
from sottovoce.central.core import Asked, Release, replay
from sottovoce.central.data.operation import Columns, Operation
from sottovoce.central.data.part import Part
from sottovoce.central.data.row_memory import TARGET
from sottovoce.central.data.targets import BeginModel
from sottovoce.central.newton import PerturbedObjective, gradient_rounding, minimise
from sottovoce.central.plan import Plan, Solution
from sottovoce.central.sums.whole_numbers import most_rows
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.losses import Loss, SmoothedHinge
from sottovoce.privacy.accounting import PLDAccountant
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.calibration import gaussian_mu, least_noise
from sottovoce.privacy.events import Event, GaussianEvent, ObjectivePerturbationEvent, RepeatedEvent, compose
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, rounding_norm, to_ticks

__all__ = ["ObjectivePlan"]

_WORDS: Final = "the weights: the noisy minimiser of each model"

_OUTPUT: Final = 32.0  # noise multiplier of the output noise over that of the linear term: a thousandth of the budget
_TOLERANCE: Final = 1e-6
_TICKS: Final = 2.0**-20  # of the output noise
_WIDTH: Final = 16.0
_CURVATURE_SHARE: Final = 0.15


@dataclass(frozen=True, kw_only=True)
class ObjectivePlan(Plan):
    """Plan of objective perturbation."""

    solver = "objective"
    proof = "docs/privacy/objective_perturbation.md"
    takes_released_norm = True

    # Lambda, the weight of |w|^2 / 2 against the *sum* of the losses of rows of norm at most 1. None follows a rule of
    # public facts, and is never below alpha n.
    penalty: float | None = None
    smoothing: float = 1.0  # > 0; width of the parabola in place of the hinge's corner (other losses do not use it)
    # tau, the norm of the gradient at which the optimiser stops; None takes 1e-6, or more where rounding asks for it.
    tolerance: float | None = None

    def check(self) -> None:
        super().check()
        self.check_given(magnitude, "penalty", "tolerance")
        magnitude("smoothing", self.smoothing)
        if not (self.loss.is_classification and math.isfinite(self.trained_loss.lipschitz)):
            raise ParameterError(
                f"solver='objective' needs a loss of bounded slope; the {self.loss.name} loss has none. Use "
                "solver='scd'."
            )
        if self.adjacency is Adjacency.REPLACE_ONE:
            raise ParameterError(
                "adjacency must be 'zero-out' or 'add-remove' for solver='objective'; got 'replace-one'. Use "
                "solver='scd' with it."
            )

    @property
    def trained_loss(self) -> Loss:
        """The loss that is minimised: smooth, so the hinge has its corner rounded."""
        return self.loss if math.isfinite(self.loss.smoothness) else SmoothedHinge(self.smoothing)

    @cached_property
    def total_penalty(self) -> float:
        """Lambda."""
        if self.penalty is not None:
            return self.penalty
        return max(self.alpha_scaled * self.n_samples, _penalty_rule(self))

    @property
    def curvature_ratio(self) -> float:
        """Bound on the curvature of one row's loss over Lambda."""
        return self.trained_loss.smoothness * ROUNDING_SLACK**2 / self.total_penalty

    @property
    def _before(self) -> tuple[Event, ...]:
        return (replay(self.facts.norm).event,)

    @property
    def noise_multiplier(self) -> float:
        """Standard deviation of the linear term over the largest gradient of one row."""
        return _calibrate(self._before, self.curvature_ratio, self.n_models, self.epsilon, self.delta)

    @property
    def linear_std(self) -> float:
        """Standard deviation of each entry of the linear term b."""
        return self.noise_multiplier * self.trained_loss.lipschitz * ROUNDING_SLACK

    @cached_property
    def gradient_tolerance(self) -> float:
        """Norm of the gradient at which the optimiser stops (tau); above all rounding errors, so it is reached."""
        loss, n = self.trained_loss, most_rows(self.n_samples, self.adjacency)
        linear_norm = self.linear_std * (math.sqrt(self.n_weights) + 9.0)  # exceeded with probability below 1e-17
        at_zero = float(loss.value(np.array(1.0), np.array(0.0)))
        # J(w) <= J(0) bounds |w|; gradient steps may go three times as far
        norm = 3.0 * (2.0 * linear_norm / self.total_penalty + math.sqrt(2.0 * n * at_zero / self.total_penalty))
        least = 4.0 * gradient_rounding(
            loss,
            n_rows=n,
            n_weights=self.n_weights,
            norm=norm,
            penalty=self.total_penalty,
            linear_norm=linear_norm,
        )
        if self.tolerance is None:
            return max(_TOLERANCE, least)
        return number("tolerance", self.tolerance, at_least=least, remedy="Less drowns in rounding errors.")

    @property
    def output_mechanism(self) -> GridGaussian:
        """The mechanism that hides the distance of the computed point from the exact minimiser, at most tau/Lambda."""
        noise_multiplier = _OUTPUT * self.noise_multiplier
        distance = 2.0 * self.gradient_tolerance / self.total_penalty
        tick = power_of_two_below(noise_multiplier * distance) * _TICKS
        return GridGaussian(distance * ROUNDING_SLACK + rounding_norm(self.n_weights, tick), noise_multiplier, tick)

    def settle(self) -> None:
        _ = self.event, self.output_mechanism

    def details(self) -> dict[str, object]:
        return {
            "loss that is minimised": self.trained_loss.name,
            "penalty Lambda (sum of losses, rows of norm 1)": self.total_penalty,
            "curvature ratio": self.curvature_ratio,
            "noise multiplier": self.noise_multiplier,
            "standard deviation of the linear term": self.linear_std,
            "tolerance of the gradient's norm": self.gradient_tolerance,
            "standard deviation of the output noise": self.output_mechanism.noise_std,
        }

    @property
    def mechanism(self) -> str:
        return (
            f"objective perturbation: minimiser of the {self.trained_loss.name} objective with penalty Lambda and a "
            "Gaussian linear term, plus Gaussian noise on a grid for the distance from the exact minimiser"
        )

    def check_size(self, n_rows: int) -> None:
        """Refuse a table of so many rows that rounding errors could not be bounded."""
        most = most_rows(self.n_samples, self.adjacency)
        if n_rows > most:
            raise DataError(
                f"X has {n_rows} rows, more than {most} for n_public={self.n_samples}: rounding errors could "
                "not be bounded. Raise n_public."
            )

    def train(self) -> Asked[Solution]:
        mechanism = LinearTerm(
            self.n_weights, self.noise_multiplier, self.curvature_ratio, self.linear_std, self.output_mechanism
        )
        ask = Minimiser(self.trained_loss, self.total_penalty, self.gradient_tolerance)
        weights = []
        for model in range(self.n_models):
            yield BeginModel(model)
            weights.append((yield Release(_WORDS, ask, mechanism, (model + 1, self.n_models))))
        return self.solution(weights, 1)


@dataclass(frozen=True)
class Minimiser(Operation[Any]):
    """What finds the minimiser for a linear term, of rows in memory."""

    loss: Loss
    penalty: float
    tolerance: float

    def on(self, part: Part) -> Callable[[Vector], Vector]:
        rows, y = part.rows.within_reach(), part.memory.whole(TARGET)
        return lambda linear: minimise(
            PerturbedObjective(rows, y, self.loss, self.penalty, linear, part.team), self.tolerance
        )

    def allows(self, answer: object, n_rows: int, columns: Columns) -> bool:
        return callable(answer)


@dataclass(frozen=True)
class LinearTerm:
    """A random linear term before the optimisation, and noise for the distance from the exact minimiser after it."""

    n_weights: int
    noise_multiplier: float
    curvature_ratio: float
    linear_std: float
    output: GridGaussian

    @property
    def event(self) -> Event:
        return _event((), self.curvature_ratio, 1, self.noise_multiplier)

    def release(self, minimiser: Callable[[Vector], Vector], noise: np.random.Generator) -> tuple[Vector, Event]:
        point = minimiser(self.linear_std * noise.standard_normal(self.n_weights))
        return self.output.release(to_ticks(point, self.output.tick), noise)[0], self.event


def _event(before: tuple[Event, ...], curvature_ratio: float, n_models: int, noise_multiplier: float) -> Event:
    model = compose(
        ObjectivePerturbationEvent(noise_multiplier, curvature_ratio), GaussianEvent(_OUTPUT * noise_multiplier)
    )
    return compose(*before, RepeatedEvent(model, n_models))


@lru_cache(maxsize=256)
def _calibrate(before: tuple[Event, ...], curvature_ratio: float, n_models: int, epsilon: float, delta: float) -> float:
    """Find the least noise of a plan; the same plan is not calibrated twice."""
    left = epsilon - n_models * math.log1p(curvature_ratio)
    start = math.sqrt(n_models * (1.0 + _OUTPUT**-2)) / gaussian_mu(max(left, 0.1 * epsilon), delta)
    return least_noise(
        lambda noise: _event(before, curvature_ratio, n_models, noise), PLDAccountant(), epsilon, delta, start=start
    )


def _penalty_rule(plan: ObjectivePlan) -> float:
    """Return a penalty that holds the noise of wide tables down, and the price of the curvature.

    The two constants were measured once, on public data (``python -m benchmarks.central.objective --rule``).
    """
    smoothness = plan.trained_loss.smoothness
    mu_model = gaussian_mu(plan.epsilon, plan.delta) / math.sqrt(plan.n_models)
    quiet = min(1.0, smoothness) * math.sqrt(plan.n_weights) / (_WIDTH * mu_model)
    # the curvatures of all models cost log(1 + ratio) each: at most this share of epsilon
    return max(quiet, smoothness / math.expm1(min(_CURVATURE_SHARE * plan.epsilon / plan.n_models, 700.0)))
