r"""Sequential DP-SCD: within a batch every coordinate step sees the steps before it; for comparison.

Each epoch cuts a random order of the rows into batches of L. A batch takes exact coordinate steps one after the other,
each clipped to |zeta| <= C, and then releases its dual variables and v together with Gaussian noise. One row changes
its own step and, through the running v, every later step of its batch, so that the pair (a, v) moves by up to

    C sqrt(4 L^2 - 2)   (zero-out),        2 C sqrt(L (L + 1))   (replace-one; the paper's Lemma 5),

against sqrt(2) C for independent steps: this is why the method is far worse, and it is here to show it.

The paper [1]_ takes the noise from the moments accountant at rate L / n. Nothing is amplified, because the batches can
be seen from the noised dual variables; and keeping these secret would not help, because here they depend on *other*
rows of their batch by more than what was released (see ``docs/privacy/comparison_solvers.md``). So the noise is larger
than published, and the budget is kept: each row is in one batch an epoch, E epochs of K models are sqrt(E K) / s
Gaussian DP, and s = sqrt(E K) / mu.

References
----------
.. [1] Damaskinos et al. (2021). Differentially Private Stochastic Coordinate Descent. AAAI 2021; Appendix C,
   Algorithm 3, Lemma 5.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce._validation import magnitude, whole_number
from sottovoce.central.kernels import sequential
from sottovoce.central.parallel import Team
from sottovoce.central.plan import Plan, Progress, Solution
from sottovoce.central.rows import Rows
from sottovoce.central.scaled_plan import clipped_mechanism
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.events import Event, GaussianEvent, RepeatedEvent
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.randomness import Purpose, Streams

__all__ = ["SequentialPlan"]


@dataclass(frozen=True, kw_only=True)
class SequentialPlan(Plan):
    """Plan of sequential DP-SCD.

    Parameters
    ----------
    batch_size : int
        L; at most n_samples.
    clipping_norm : float, > 0
        C, the bound on |zeta|; for squared loss in units of the label bound.
    epochs : int
        Passes over the shuffled rows.
    """

    batch_size: int = 10
    clipping_norm: float = 1e-3
    epochs: int = 3

    def __post_init__(self) -> None:
        whole_number("batch_size", self.batch_size, at_least=1)
        magnitude("clipping_norm", self.clipping_norm)
        whole_number("epochs", self.epochs, at_least=1)
        if self.adjacency is Adjacency.ADD_REMOVE:
            raise ParameterError(
                "adjacency must be 'zero-out' or 'replace-one' for solver='seq-scd': batches of fixed size shift when "
                "a row is added; got 'add-remove'. Use solver='scd'."
            )

    @property
    def solver(self) -> str:
        """Name of the solver as users give it."""
        return "seq-scd"

    @property
    def proof(self) -> str:
        """Page with statement and proof."""
        return "docs/privacy/comparison_solvers.md"

    @property
    def size(self) -> int:
        """Size of a batch."""
        return min(self.batch_size, self.n_samples)

    @property
    def sensitivity_factor(self) -> float:
        """How far one row can move (a, v) in a batch, over C."""
        if self.adjacency is Adjacency.REPLACE_ONE:
            return 2.0 * math.sqrt(self.size * (self.size + 1.0))
        return math.sqrt(4.0 * self.size**2 - 2.0)

    @property
    def noise_multiplier(self) -> float:
        """Noise of a batch divided by its sensitivity."""
        return math.sqrt(self.epochs * self.n_models) / gaussian_mu(self.epsilon, self.delta)

    @property
    def clip(self) -> float:
        """C, the bound on a step, in the unit of the labels."""
        return self.clipping_norm * (self.label_bound or 1.0)

    def batch_mechanism(self) -> GridGaussian:
        """Return the mechanism that releases (a, v) of a batch, in ticks; it follows from public facts."""
        return clipped_mechanism(self.sensitivity_factor * self.clip, self.clip, self.noise_multiplier)

    @property
    def event(self) -> Event:
        """Each row is in ``epochs`` Gaussian mechanisms of each model."""
        return RepeatedEvent(GaussianEvent(self.noise_multiplier), self.epochs * self.n_models)

    def details(self) -> dict[str, object]:
        """Return the method's parameters and its noise."""
        return {
            "batch size": self.size,
            "clipping norm": self.clipping_norm,
            "epochs": self.epochs,
            "sensitivity of a batch over the clipping norm": self.sensitivity_factor,
            "noise multiplier of a batch": self.noise_multiplier,
        }

    @property
    def mechanism(self) -> str:
        """The algorithm in one sentence, for the receipt."""
        return (
            "sequential DP-SCD with noised, visible dual variables: each row is in one Gaussian mechanism on a grid an "
            "epoch, no amplification by sampling"
        )

    @property
    def releases(self) -> tuple[str, ...]:
        """What the statement covers, for the receipt."""
        return (
            "the weights after every batch",
            "the noised dual variables after every batch, and with them the batches and their order",
        )

    def solve(
        self, rows: Rows, targets: list[NDArray[np.float64]], streams: Streams, team: Team, progress: Progress
    ) -> Solution:
        """Train one model for each target as planned; the model is the last w."""
        noise, shuffling = streams.generator(Purpose.NOISE), streams.generator(Purpose.SHUFFLING)
        clip, mechanism = self.clip, self.batch_mechanism()
        weights = []
        for model, y in enumerate(targets):
            a, v = np.zeros(rows.n_samples), np.zeros(self.n_weights)
            for epoch in range(self.epochs):
                order = shuffling.permutation(rows.n_samples)
                for lo in range(0, rows.n_samples, self.size):
                    v = v + self._batch(rows, y, a, v, order[lo : lo + self.size], clip, mechanism, noise)
                progress(model * self.epochs + epoch + 1, self.epochs * self.n_models)
            weights.append(v / (self.alpha_scaled * self.n_samples))
        spent = RepeatedEvent(mechanism.event, self.epochs * self.n_models)
        return Solution(np.stack(weights), self.epochs * math.ceil(rows.n_samples / self.size), spent, {})

    def _batch(
        self,
        rows: Rows,
        y: NDArray[np.float64],
        a: NDArray[np.float64],
        v: NDArray[np.float64],
        batch: NDArray[np.int64],
        clip: float,
        mechanism: GridGaussian,
        noise: np.random.Generator,
    ) -> NDArray[np.float64]:
        """Do one batch: noise the dual variables in place and return the noisy change of v."""
        alpha_n = self.alpha_scaled * self.n_samples
        moves = np.zeros(len(batch) + self.n_weights, np.int64)
        sequential.sequential_batch(
            rows.kernel, rows.scale, rows.norm, rows.constant, y, a, v / alpha_n, alpha_n, clip, 1.0 / mechanism.tick,
            self.loss, batch, moves[: len(batch)], moves[len(batch) :],
        )  # fmt: skip
        noisy, _ = mechanism.release(moves, noise)
        a[batch] += noisy[: len(batch)]
        return noisy[len(batch) :]
