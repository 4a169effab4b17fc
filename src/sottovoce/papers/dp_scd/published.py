r"""DP-SCD as published (Damaskinos et al. 2021, Algorithm 1), for reproduction only.

Each epoch shuffles the rows and cuts them into batches of size L. A batch takes coordinate steps with aggregation
constant L, clipped to C, and Gaussian noise of standard deviation sqrt(2) C s is added to the batch's dual variables
and to v. The paper's claim takes s from the moments accountant for sampling at rate L / n.

That claim does not hold when the dual variables are visible, as it assumes: the noised coordinates show which rows were
in a batch, so sampling amplifies nothing; and batches of fixed size are not the Poisson samples of that accountant.
What holds is stated in the receipt: each row takes part in exactly ``epochs`` Gaussian mechanisms of sensitivity
sqrt(2) C, which compose to mu = sqrt(epochs) / s. The receipt's epsilon is therefore larger than the one asked for.

Misprints of Algorithm 1 that are mended here: step 8 divides zeta by max(1, |zeta| / C); steps 12 and 13 add to alpha
and v.

References
----------
.. [1] Damaskinos et al. (2021). Differentially Private Stochastic Coordinate Descent. AAAI 2021; Algorithm 1, Lemma 1.
"""

import math
import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce.central.data.row_memory import DIVISOR
from sottovoce.central.data.rows import Rows
from sottovoce.central.kernels import passes
from sottovoce.central.kernels.rows import MOST_TICKS
from sottovoce.central.plan import Fit, Solution
from sottovoce.central.sampling import moments_noise
from sottovoce.central.sums.clipped_sums import Ticks, clipped_mechanism
from sottovoce.exceptions import PrivacyWarning
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.events import Event, GaussianEvent, RepeatedEvent
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.published.scd.shuffled import ShuffledPlan

__all__ = ["PaperPlan"]


@dataclass(frozen=True, kw_only=True)
class PaperPlan(ShuffledPlan):
    """Plan of DP-SCD as published; its options are those of `ShuffledPlan`."""

    solver = "paper-scd"
    mechanism = (
        "DP-SCD as published (for reproduction): visible dual variables void amplification by sampling, so each "
        "row is in one full Gaussian mechanism an epoch and the published epsilon does not hold"
    )
    releases = ("the weights after every step", "the noised dual variables after every step, and with them the batches")

    batch_size: int = 500
    clipping_norm: float = 0.01
    epochs: int = 10

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
            f"solver='paper-scd' reproduces the paper: its claim of epsilon={self.epsilon:g} does not hold, the "
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
