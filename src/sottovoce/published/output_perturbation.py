r"""Output perturbation: the minimiser of the penalised loss, plus Gaussian noise; for comparison.

With rows \|x_i\| <= 1, a loss of bounded slope and a penalty Lambda \|w\|^2 / 2 against the sum of the losses, a row
moves the minimiser by at most its own slope over Lambda [1]_. So the minimiser plus N(0, (s S)^2 I) with
S = f l' / Lambda is a Gaussian mechanism of noise multiplier s; f = 2 where a row is replaced, else 1. What is computed
is within tau / Lambda of the minimiser, by the norm of its gradient, and 2 tau / Lambda is added to S. SGD with a
bolt-on noise [2]_ has the same S = 2 L / (alpha n) for replaced rows, and an optimisation error besides.

Unlike the noise of objective perturbation, this one is as large where rows say much as where they say little.

Statement, proof and measurements: ``docs/papers/dp_scd_utility.md``, Theorem 3.

References
----------
.. [1] Chaudhuri, Monteleoni, Sarwate (2011). Differentially Private Empirical Risk Minimization. JMLR 12; Algorithm 1.
.. [2] Wu, Li, Kumar, Chaudhuri, Jha, Naughton (2017). Bolt-on Differential Privacy for Scalable Stochastic Gradient
   Descent-based Analytics. SIGMOD 2017; Algorithm 2.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from sottovoce._numerics import ROUNDING_SLACK, Vector
from sottovoce.central.data.rows import Rows
from sottovoce.central.newton import PerturbedObjective, gradient_rounding, minimise
from sottovoce.central.parallel import Team
from sottovoce.central.plan import Fit, Plan, Report, Solution, most_rows
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.events import Event, RepeatedEvent
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, rounding_norm, to_ticks

__all__ = ["OutputPlan"]

_TOLERANCE: Final = 1e-6
_TICKS: Final = 2.0**-20  # of the noise


@dataclass(frozen=True, kw_only=True)
class OutputPlan(Plan):
    """Plan of output perturbation; it has no options, and the penalty must be positive."""

    solver = "output"
    proof = "docs/papers/dp_scd_utility.md"
    mechanism = "output perturbation: minimiser of the penalised loss plus Gaussian noise on a grid"
    releases = ("the weights: the noisy minimiser of each model",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.loss.is_classification and math.isfinite(self.loss.lipschitz * self.loss.smoothness)):
            raise ParameterError(
                f"output perturbation needs a smooth loss of bounded slope; got the {self.loss.name} loss. Use the "
                "logistic loss or the smoothed hinge."
            )
        if self.alpha == 0.0:
            raise ParameterError("alpha must be positive for output perturbation: noise is in proportion to 1 / alpha.")
        if self.weight_bound is not None or self.neighbours.rows > 1 or self.releases_norm:
            raise ParameterError(
                "output perturbation is for rows without weights and a public data_norm, one row a person; got others. "
                "Use solver='scd'."
            )

    @property
    def total_penalty(self) -> float:
        """Lambda."""
        return self.alpha_scaled * self.n_samples

    @cached_property
    def gradient_tolerance(self) -> float:
        """Norm of the gradient at which the optimiser stops (tau); above all rounding errors, so it is reached."""
        loss, n = self.loss, most_rows(self.n_samples, self.adjacency)
        at_zero = float(loss.value(np.array(1.0), np.array(0.0)))
        # J(w) <= J(0) bounds |w|; gradient steps may go three times as far
        norm = 3.0 * math.sqrt(2.0 * n * at_zero / self.total_penalty)
        least = gradient_rounding(
            loss, n_rows=n, n_weights=self.n_weights, norm=norm, penalty=self.total_penalty, linear_norm=0.0
        )
        return max(_TOLERANCE, 4.0 * least)

    @property
    def sensitivity(self) -> float:
        """S: how far a row moves the point that is computed."""
        slope = self.adjacency.sum_factor * self.loss.lipschitz * ROUNDING_SLACK
        return (slope + 2.0 * self.gradient_tolerance) / self.total_penalty

    @property
    def noise_multiplier(self) -> float:
        """Noise over the sensitivity."""
        return math.sqrt(self.n_models) / gaussian_mu(self.epsilon, self.delta)

    @cached_property
    def output_mechanism(self) -> GridGaussian:
        """The mechanism that releases a model."""
        tick = power_of_two_below(self.noise_multiplier * self.sensitivity) * _TICKS
        reach = self.sensitivity * ROUNDING_SLACK + rounding_norm(self.n_weights, tick)
        return GridGaussian(reach, self.noise_multiplier, tick)

    @property
    def event(self) -> Event:
        """A Gaussian mechanism for each model."""
        return RepeatedEvent(self.output_mechanism.event, self.n_models)

    def check_size(self, n_rows: int) -> None:
        """Refuse a table of so many rows that rounding errors could not be bounded."""
        most = most_rows(self.n_samples, self.adjacency)
        if n_rows > most:
            raise DataError(
                f"X has {n_rows} rows, more than {most} for n_public={self.n_samples}: rounding errors could "
                "not be bounded. Raise n_public."
            )

    def minimiser(self, rows: Rows, y: Vector, team: Team) -> Vector:
        """Return a point whose gradient is at most tau long."""
        objective = PerturbedObjective(
            rows.within_reach(), y, self.loss, self.total_penalty, np.zeros(self.n_weights), team
        )
        return minimise(objective, self.gradient_tolerance)

    def released(self, point: Vector, noise: np.random.Generator) -> Vector:
        """Return a point with noise."""
        mechanism = self.output_mechanism
        return mechanism.release(to_ticks(point, mechanism.tick), noise)[0]

    def train(self, fit: Fit) -> Solution:
        """Train one model for each target as planned."""
        self.check_size(fit.rows.n_samples)
        self.settle()
        noise = fit.noise

        def train_one(y: Vector, report: Report) -> Vector:
            released = self.released(self.minimiser(fit.rows, y, fit.team), noise)
            report(1)
            return released

        return Solution(fit.each_target(1, train_one), 1, self.event, {})
