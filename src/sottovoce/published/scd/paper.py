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

from sottovoce._validation import magnitude, whole_number
from sottovoce.central.kernels import passes
from sottovoce.central.kernels.rows import MOST_TICKS
from sottovoce.central.parallel import Team
from sottovoce.central.plan import Plan, Progress, Solution
from sottovoce.central.rows import Rows
from sottovoce.central.sampling import moments_noise
from sottovoce.central.scaled_plan import clipped_mechanism
from sottovoce.exceptions import ParameterError, PrivacyWarning
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import Event, GaussianEvent, RepeatedEvent
from sottovoce.randomness import Purpose, Streams

__all__ = ["PaperPlan"]


@dataclass(frozen=True, kw_only=True)
class PaperPlan(Plan):
    """Plan of DP-SCD as published.

    Parameters
    ----------
    batch_size : int
        L; at most n_samples.
    clipping_norm : float, > 0
        C, the bound on |zeta|; for squared loss in units of the label bound.
    epochs : int
        Passes over the shuffled rows.
    """

    batch_size: int = 500
    clipping_norm: float = 0.01
    epochs: int = 10

    def __post_init__(self) -> None:
        whole_number("batch_size", self.batch_size, at_least=1)
        magnitude("clipping_norm", self.clipping_norm)
        whole_number("epochs", self.epochs, at_least=1)
        if self.adjacency is Adjacency.ADD_REMOVE:
            raise ParameterError(
                "adjacency must be 'zero-out' or 'replace-one' for solver='paper-scd': batches of fixed size shift "
                "when a row is added; got 'add-remove'. Use solver='scd'."
            )

    @property
    def solver(self) -> str:
        """Name of the solver as users give it."""
        return "paper-scd"

    @property
    def size(self) -> int:
        """Size of a batch."""
        return min(self.batch_size, self.n_samples)

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

    @property
    def mechanism(self) -> str:
        """The algorithm in one sentence, for the receipt."""
        return (
            "DP-SCD as published (for reproduction): visible dual variables void amplification by sampling, so each "
            "row is in one full Gaussian mechanism an epoch and the published epsilon does not hold"
        )

    @property
    def releases(self) -> tuple[str, ...]:
        """What the statement covers, for the receipt."""
        return ("the weights after every step", "the noised dual variables after every step, and with them the batches")

    def solve(
        self, rows: Rows, targets: list[NDArray[np.float64]], streams: Streams, team: Team, progress: Progress
    ) -> Solution:
        """Train one model for each target as published."""
        warnings.warn(
            f"solver='paper-scd' reproduces the paper: its claim of epsilon={self.epsilon:g} does not hold, the "
            f"receipt states epsilon={self.promised_epsilon:.3g}. Use solver='scd' for a model that keeps its budget.",
            PrivacyWarning,
            stacklevel=4,
        )
        weights = [self._train(rows, y, streams, progress, model) for model, y in enumerate(targets)]
        return Solution(np.stack(weights), self.epochs * math.ceil(rows.n_samples / self.size), self.event, {})

    def _train(
        self, rows: Rows, y: NDArray[np.float64], streams: Streams, progress: Progress, model: int
    ) -> NDArray[np.float64]:
        noise, shuffling = streams.generator(Purpose.NOISE), streams.generator(Purpose.SHUFFLING)
        alpha_n = self.alpha_scaled * self.n_samples
        clip = self.clipping_norm * (self.label_bound or 1.0)
        # the sensitivity of (alpha, v) together is sqrt(2) C for a row that is zeroed, and twice that for another row
        factor = self.adjacency.sum_factor
        mechanism = clipped_mechanism(math.sqrt(2.0) * factor * clip, clip, self.noise_multiplier / factor)
        a, v = np.zeros(rows.n_samples), np.zeros(self.n_weights)
        unit = np.ones(rows.n_samples)  # |zeta| itself is clipped, because a moves by it; a short row steps with care
        for epoch in range(self.epochs):
            order = shuffling.permutation(rows.n_samples)
            for lo in range(0, rows.n_samples, self.size):
                batch = order[lo : lo + self.size]
                before, total = a[batch], np.zeros(self.n_weights, np.int64)
                passes.batch_pass(
                    rows.kernel, rows.scale, unit, rows.constant, y, a, rows.weights(v / alpha_n), 0.0,
                    self.size / alpha_n, clip, 1.0 / mechanism.tick, self.loss, batch, 0, len(batch), total,
                )  # fmt: skip
                moves = np.clip((a[batch] - before) / mechanism.tick, -MOST_TICKS, MOST_TICKS).astype(np.int64)
                noisy, _ = mechanism.release(np.concatenate([moves, total]), noise)
                a[batch] = before + noisy[: len(batch)]
                v = v + noisy[len(batch) :]
            progress(model * self.epochs + epoch + 1, self.epochs * self.n_models)
        return v / alpha_n
