r"""Algorithm 1 of DP-SCD as published, as a solver; but rows are shuffled and cut, not drawn anew in each step.

A batch of L takes coordinate steps with aggregation constant L, clipped to C, and Gaussian noise of standard deviation
sqrt(2) C s is added to the batch's dual variables and to v; s is what the moments accountant asks for at rate L / n.
That claim does not hold when the dual variables are visible, as it assumes: they show which rows were in a batch, and
sampling amplifies nothing. What holds is in the receipt: each row takes part in exactly ``epochs`` Gaussian mechanisms
of sensitivity sqrt(2) C, which compose to mu = sqrt(epochs) / s. (With the printed sampling the number of visits is
random, and epsilon larger: `sottovoce.papers.dp_scd.bounds`.)
"""

import math
import warnings
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce.central.data.row_memory import DIVISOR
from sottovoce.central.data.rows import Rows
from sottovoce.central.kernels import passes
from sottovoce.central.kernels.rows import MOST_TICKS
from sottovoce.central.plan import Fit, Solution
from sottovoce.central.sampling import sampled_steps
from sottovoce.central.solver import Solver
from sottovoce.central.sums.clipped_sums import Ticks, clipped_mechanism
from sottovoce.exceptions import PrivacyWarning
from sottovoce.losses import Logistic, Loss
from sottovoce.papers.dp_scd.one_newton_step import OneNewtonStep
from sottovoce.papers.dp_scd.shuffled import ShuffledPlan
from sottovoce.privacy.accounting import RenyiAccountant, accountant_for
from sottovoce.privacy.calibration import least_noise
from sottovoce.privacy.events import Event, GaussianEvent, RepeatedEvent
from sottovoce.privacy.mechanisms.gaussian import GridGaussian

__all__ = ["Published", "PublishedPlan", "moments_noise"]


@lru_cache(maxsize=1024)
def moments_noise(rate: float, steps: int, epsilon: float, delta: float) -> float:
    """Return the noise multiplier that the moments accountant asks for, as papers of its time do."""
    accountant = RenyiAccountant(conversion="moments")
    return least_noise(lambda noise: sampled_steps((), rate, steps, noise), accountant, epsilon, delta)


@dataclass(frozen=True, kw_only=True)
class PublishedPlan(ShuffledPlan):
    """Plan of DP-SCD as published; its options are those of `ShuffledPlan`."""

    solver = "papers.dp_scd.Published"
    mechanism = (
        "DP-SCD as published (for reproduction): visible dual variables void amplification by sampling, so each "
        "row is in one full Gaussian mechanism an epoch and the published epsilon does not hold"
    )
    releases = ("the weights after every step", "the noised dual variables after every step, and with them the batches")

    @cached_property
    def noise_multiplier(self) -> float:
        """Noise over sqrt(2) C that the paper's accounting asks for."""
        rate = self.size / self.n_samples
        steps = self.epochs * math.ceil(self.n_samples / self.size) * self.n_models
        return moments_noise(rate, steps, self.epsilon, self.delta)

    @property
    def event(self) -> Event:
        """What holds: each row is in ``epochs`` Gaussian mechanisms of each model."""
        # the published noise is scaled to zeroing a row; replacing one moves the sums twice as far
        each = GaussianEvent(self.noise_multiplier / self.adjacency.sum_factor)
        return RepeatedEvent(each, self.epochs * self.n_models)

    @property
    def promised_epsilon(self) -> float:
        """Epsilon of what holds, at the given delta."""
        event = self.event
        return accountant_for(event).epsilon(event, self.delta)

    def details(self) -> dict[str, object]:
        """Return the paper's parameters and what becomes of its claim."""
        return {
            "epsilon claimed by the paper's accounting": self.epsilon,
            "epsilon that holds": self.promised_epsilon,
            "batch size": self.size,
            "clipping norm": self.clipping_norm,
            "epochs": self.epochs,
            "noise multiplier": self.noise_multiplier,
        }

    def batch_mechanism(self) -> GridGaussian:
        """Return the mechanism that releases (a, v) of a batch, in ticks; it follows from public facts."""
        # the sensitivity of (alpha, v) together is sqrt(2) C for a row that is zeroed, and twice that for another row
        factor = self.adjacency.sum_factor
        return clipped_mechanism(math.sqrt(2.0) * factor * self.clip, self.clip, self.noise_multiplier / factor)

    def train(self, fit: Fit) -> Solution:
        """Train one model for each target as published."""
        warnings.warn(
            f"solver=Published() reproduces the paper: its claim of epsilon={self.epsilon:g} does not hold, the "
            f"receipt states epsilon={self.promised_epsilon:.3g}. Use solver='scd' for a model that keeps its budget.",
            PrivacyWarning,
            stacklevel=5,
        )
        # |zeta| itself is clipped, because a moves by it; a short row steps with care
        fit.part.memory.set(DIVISOR, np.ones(fit.holder.n_samples))
        return super().train(fit)

    def moves(self, rows: Rows, y: Vector, a: Vector, w: Vector, batch: NDArray[np.int64], tick: float) -> Ticks:
        """Return how far the duals of a batch and v go, in ticks."""
        ratio, before = self.size / (self.alpha_scaled * self.n_samples), a[batch]
        total = np.zeros(self.n_weights, np.int64)
        passes.batch_pass(
            rows.kernel, y, a, rows.weights(w), 0.0, ratio, self.clip, 1.0 / tick, self.loss, batch, 0, len(batch),
            total,
        )  # fmt: skip
        moves = np.clip((a[batch] - before) / tick, -MOST_TICKS, MOST_TICKS).astype(np.int64)
        return np.concatenate([moves, total])


@dataclass(frozen=True, kw_only=True)
class Published(Solver):
    """Algorithm 1 as published, for ``solver=``; the receipt states the epsilon that holds, not the one asked for.

    Parameters
    ----------
    batch_size : int
        L; at most n_samples.
    clipping_norm : float, > 0
        C, the bound on ``|zeta|``; for squared loss in units of the label bound.
    epochs : int
        Passes over the shuffled rows.
    """

    plan = PublishedPlan

    batch_size: int = 500
    clipping_norm: float = 0.01
    epochs: int = 10

    def loss_for(self, loss: Loss) -> Loss:
        """Return the loss; the authors take one Newton step for the logistic one."""
        return OneNewtonStep() if type(loss) is Logistic else loss
