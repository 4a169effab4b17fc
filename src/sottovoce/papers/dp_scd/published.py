r"""Algorithms 1 and 3 of DP-SCD as solvers: dual variables are noised and visible, rows are shuffled and cut.

Each epoch cuts a random order of the rows into batches of L (the listings draw L rows anew in each step). A batch takes
coordinate steps clipped to C, and releases its dual variables and v with Gaussian noise.

*Algorithm 1*, `Published`: independent steps, with aggregation constant L; noise of standard deviation sqrt(2) C s,
where s is what the moments accountant asks for at rate L / n. That claim does not hold when the dual variables are
visible, as it assumes: they show which rows were in a batch, and sampling amplifies nothing. What holds is in the
receipt: each row takes part in exactly ``epochs`` Gaussian mechanisms, which compose to mu = sqrt(epochs) / s.

*Algorithm 3*, `Sequential`: every step of a batch sees the steps before it, so one row changes its own and every later
one of its batch, and moves (a, v) by far more than independent steps would. The paper's noise is too small here too;
here the budget is kept: E epochs of K models are sqrt(E K) / s Gaussian DP, and s = sqrt(E K) / mu
(``docs/privacy/comparison_solvers.md``).
"""

import math
import warnings
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce._validation import magnitude, whole_number
from sottovoce.central.data.row_memory import DIVISOR
from sottovoce.central.data.rows import Rows
from sottovoce.central.kernels import passes, sequential
from sottovoce.central.kernels.rows import MOST_TICKS
from sottovoce.central.plan import Fit, Plan, Report, Solution
from sottovoce.central.sampling import sampled_steps
from sottovoce.central.solver import Solver
from sottovoce.central.sums.clipped_sums import Ticks, clipped_mechanism
from sottovoce.exceptions import ParameterError, PrivacyWarning
from sottovoce.losses import Logistic, Loss
from sottovoce.losses.base import provides_dual_step, provides_slope, slope
from sottovoce.privacy.accounting import RenyiAccountant, accountant_for
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.calibration import gaussian_mu, least_noise
from sottovoce.privacy.events import Event, GaussianEvent, RepeatedEvent
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.randomness import Purpose

__all__ = ["OneNewtonStep", "Published", "PublishedPlan", "Sequential", "SequentialPlan", "moments_noise"]

_BOX = 1e-4  # where the paper keeps the dual variable of logistic loss before its one Newton step


@lru_cache(maxsize=1024)
def moments_noise(rate: float, steps: int, epsilon: float, delta: float) -> float:
    """Return the noise multiplier that the moments accountant asks for, as papers of its time do."""
    accountant = RenyiAccountant(conversion="moments")
    return least_noise(lambda noise: sampled_steps((), rate, steps, noise), accountant, epsilon, delta)


@dataclass(frozen=True, kw_only=True)
class _ShuffledPlan(Plan):
    """Plan of epochs that cut a random order of the rows into batches; each releases its duals and v with noise."""

    batch_size: int
    clipping_norm: float
    epochs: int

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("batch_size", self.batch_size, at_least=1)
        magnitude("clipping_norm", self.clipping_norm)
        whole_number("epochs", self.epochs, at_least=1, at_most=10**6)
        if self.adjacency is Adjacency.ADD_REMOVE:
            raise ParameterError(
                f"adjacency must be 'zero-out' or 'replace-one' for {self.solver}: batches of fixed size "
                "shift when a row is added; got 'add-remove'. Use solver='scd'."
            )

    @property
    def size(self) -> int:
        return min(self.batch_size, self.n_samples)

    @property
    def clip(self) -> float:
        """C, the bound on a step, in the unit of the labels."""
        return self.clipping_norm * (self.label_bound or 1.0)

    @property
    @abstractmethod
    def sensitivity_factor(self) -> float:
        """How far one row can move (a, v) in a batch, over C."""

    @property
    @abstractmethod
    def true_multiplier(self) -> float:
        """Noise of a batch over how far one row can move it."""

    @abstractmethod
    def moves(self, rows: Rows, y: Vector, a: Vector, w: Vector, batch: NDArray[np.int64], tick: float) -> Ticks:
        """Return how far the duals of a batch and v go, in ticks."""

    @property
    def event(self) -> Event:
        """What holds: each row is in ``epochs`` Gaussian mechanisms of each model."""
        return RepeatedEvent(GaussianEvent(self.true_multiplier), self.epochs * self.n_models)

    def batch_mechanism(self) -> GridGaussian:
        """Return the mechanism that releases (a, v) of a batch, in ticks; it follows from public facts."""
        return clipped_mechanism(self.sensitivity_factor * self.clip, self.clip, self.true_multiplier)

    def train(self, fit: Fit) -> Solution:
        """Train one model for each target as planned; the model is the last w."""
        rows, noise, shuffling = fit.rows, fit.noise, fit.streams.generator(Purpose.SHUFFLING)
        mechanism, alpha_n = self.batch_mechanism(), self.alpha_scaled * self.n_samples

        def train_one(y: Vector, report: Report) -> Vector:
            a, v = np.zeros(rows.n_samples), np.zeros(self.n_weights)
            for epoch in range(self.epochs):
                order = shuffling.permutation(rows.n_samples)
                for lo in range(0, rows.n_samples, self.size):
                    batch = order[lo : lo + self.size]
                    before = a[batch]
                    noisy, _ = mechanism.release(self.moves(rows, y, a, v / alpha_n, batch, mechanism.tick), noise)
                    a[batch] = before + noisy[: len(batch)]
                    v = v + noisy[len(batch) :]
                report(epoch + 1)
            return v / alpha_n

        weights = fit.each_target(self.epochs, train_one)
        event = RepeatedEvent(mechanism.event, self.epochs * self.n_models)
        return Solution(weights, self.epochs * math.ceil(rows.n_samples / self.size), event, {})


@dataclass(frozen=True, kw_only=True)
class PublishedPlan(_ShuffledPlan):
    """Plan of Algorithm 1 as published."""

    solver = "papers.dp_scd.Published"
    mechanism = (
        "DP-SCD as published (for reproduction): visible dual variables void amplification by sampling, so each "
        "row is in one full Gaussian mechanism an epoch and the published epsilon does not hold"
    )
    releases = ("the weights after every step", "the noised dual variables after every step, and with them the batches")

    @cached_property
    def noise_multiplier(self) -> float:
        """Noise over sqrt(2) C that the paper's accounting asks for."""
        steps = self.epochs * math.ceil(self.n_samples / self.size) * self.n_models
        return moments_noise(self.size / self.n_samples, steps, self.epsilon, self.delta)

    @property
    def sensitivity_factor(self) -> float:
        return math.sqrt(2.0) * self.adjacency.sum_factor  # twice as far where a row is replaced and not zeroed

    @property
    def true_multiplier(self) -> float:
        return self.noise_multiplier / self.adjacency.sum_factor

    @property
    def promised_epsilon(self) -> float:
        return accountant_for(self.event).epsilon(self.event, self.delta)

    def details(self) -> dict[str, object]:
        return {
            "epsilon claimed by the paper's accounting": self.epsilon,
            "epsilon that holds": self.promised_epsilon,
            "batch size": self.size,
            "clipping norm": self.clipping_norm,
            "epochs": self.epochs,
            "noise multiplier": self.noise_multiplier,
        }

    def train(self, fit: Fit) -> Solution:
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
        """Return how far the duals of a batch and v go, in ticks: all steps at the same a and w."""
        ratio, before = self.size / (self.alpha_scaled * self.n_samples), a[batch]
        total = np.zeros(self.n_weights, np.int64)
        passes.batch_pass(
            rows.kernel, y, a, rows.weights(w), 0.0, ratio, self.clip, 1.0 / tick, self.loss, batch, 0, len(batch),
            total,
        )  # fmt: skip
        moves = np.clip((a[batch] - before) / tick, -MOST_TICKS, MOST_TICKS).astype(np.int64)
        return np.concatenate([moves, total])


@dataclass(frozen=True, kw_only=True)
class SequentialPlan(_ShuffledPlan):
    """Plan of Algorithm 3 with as much noise as its releases need."""

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
        if self.adjacency is Adjacency.REPLACE_ONE:
            return 2.0 * math.sqrt(self.size * (self.size + 1.0))
        return math.sqrt(4.0 * self.size**2 - 2.0)

    @property
    def true_multiplier(self) -> float:
        return math.sqrt(self.epochs * self.n_models) / gaussian_mu(self.epsilon, self.delta)

    def details(self) -> dict[str, object]:
        return {
            "batch size": self.size,
            "clipping norm": self.clipping_norm,
            "epochs": self.epochs,
            "sensitivity of a batch over the clipping norm": self.sensitivity_factor,
            "noise multiplier of a batch": self.true_multiplier,
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


@dataclass(frozen=True, kw_only=True)
class Sequential(Solver):
    """Sequential DP-SCD with as much noise as its releases need, for ``solver=``; options as those of `Published`."""

    plan = SequentialPlan

    batch_size: int = 10
    clipping_norm: float = 1e-3
    epochs: int = 3


class OneNewtonStep(Logistic):
    """Logistic loss; a single Newton step from the clipped dual variable takes the place of the exact one."""

    __slots__ = ()


@provides_dual_step(OneNewtonStep)
@njit()
def _step(loss: OneNewtonStep, a: float, y: float, m: float, r: float) -> float:
    b = min(max(a * y, _BOX), 1.0 - _BOX)
    gradient = math.log(b / (1.0 - b)) + y * m
    curvature = 1.0 / (b * (1.0 - b)) + r
    return y * (min(max(b - gradient / curvature, _BOX), 1.0 - _BOX) - b)


@provides_slope(OneNewtonStep)
@njit(inline="always")
def _slope(loss: OneNewtonStep, y: float, m: float) -> float:
    return slope(Logistic(), y, m)
