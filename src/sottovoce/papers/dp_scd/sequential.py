r"""Sequential DP-SCD (Algorithm 3): within a batch every coordinate step sees the steps before it.

Each epoch cuts a random order of the rows into batches of L. A batch takes exact coordinate steps, each clipped to
|zeta| <= C, and then releases its dual variables and v together with Gaussian noise. One row changes its own step and,
through the running v, every later one of its batch, so that (a, v) moves by up to C sqrt(4 L^2 - 2) (zero-out) or
2 C sqrt(L (L + 1)) (replace-one; Lemma 5), against sqrt(2) C for independent steps: hence it is far worse.

The paper's noise, from the moments accountant at rate L / n, is too small: noised dual variables show the batches, and
secret ones would not help (``docs/privacy/comparison_solvers.md``). Here the budget is kept: a row is in one batch an
epoch, E epochs of K models are sqrt(E K) / s Gaussian DP, and s = sqrt(E K) / mu.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce.central.data.rows import Rows
from sottovoce.central.kernels import sequential
from sottovoce.central.solver import Solver
from sottovoce.central.sums.clipped_sums import Ticks, clipped_mechanism
from sottovoce.papers.dp_scd.shuffled import ShuffledPlan
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.events import Event, GaussianEvent, RepeatedEvent
from sottovoce.privacy.mechanisms.gaussian import GridGaussian

__all__ = ["Sequential", "SequentialPlan"]


@dataclass(frozen=True, kw_only=True)
class SequentialPlan(ShuffledPlan):
    """Plan of sequential DP-SCD; its options are those of `ShuffledPlan`."""

    solver = "papers.dp_scd.Sequential"
    mechanism = (
        "sequential DP-SCD with noised, visible dual variables: each row is in one Gaussian mechanism on a grid an "
        "epoch, no amplification by sampling"
    )
    releases = (
        "the weights after every batch",
        "the noised dual variables after every batch, and with them the batches and their order",
    )
    proof = "docs/privacy/comparison_solvers.md"

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

    def moves(self, rows: Rows, y: Vector, a: Vector, w: Vector, batch: NDArray[np.int64], tick: float) -> Ticks:
        """Return how far the duals of a batch and v go, in ticks; each step sees those before it."""
        moves = np.zeros(len(batch) + self.n_weights, np.int64)
        sequential.sequential_batch(
            rows.kernel, y, a, w, self.alpha_scaled * self.n_samples, self.clip, 1.0 / tick, self.loss, batch,
            moves[: len(batch)], moves[len(batch) :],
        )  # fmt: skip
        return moves


@dataclass(frozen=True, kw_only=True)
class Sequential(Solver):
    """Sequential DP-SCD with as much noise as its releases need, for ``solver=``.

    Parameters
    ----------
    batch_size : int
        L; at most n_samples.
    clipping_norm : float, > 0
        C, the bound on ``|zeta|``; for squared loss in units of the label bound.
    epochs : int
        Passes over the shuffled rows.
    """

    plan = SequentialPlan

    batch_size: int = 10
    clipping_norm: float = 1e-3
    epochs: int = 3
