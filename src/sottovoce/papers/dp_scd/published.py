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
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce._validation import magnitude, whole_number
from sottovoce.central.core import Asked, Release, Shuffle
from sottovoce.central.data.labels import BeginModel
from sottovoce.central.data.operation import AtHome, Change
from sottovoce.central.data.part import Part, Rows
from sottovoce.central.data.row_memory import DUAL, TARGET
from sottovoce.central.kernels.calls import MOST_TICKS
from sottovoce.central.plan import Plan, Solution
from sottovoce.central.sums.clipped_sums import Ticks, clipped_mechanism
from sottovoce.central.sums.samples import sampled_steps
from sottovoce.exceptions import ParameterError, PrivacyWarning
from sottovoce.losses import Logistic, Loss
from sottovoce.losses.base import provides_dual_step, provides_slope, slope
from sottovoce.papers.dp_scd import kernels
from sottovoce.privacy.accounting import RenyiAccountant, accountant_for
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.calibration import gaussian_mu, least_noise
from sottovoce.privacy.mechanisms.gaussian import GridGaussian

MOST_RELEASES = 10**6  # of a training: whoever reads its receipt follows each of them
_BOX = 1e-4  # where the paper keeps the dual variable of logistic loss before its one Newton step


class MomentsAccountant(RenyiAccountant):
    """The moments accountant of Abadi et al. (2016), Theorem 2: log(1/delta) / (order - 1), for the orders 2 to 129."""

    def __init__(self, orders: tuple[float, ...] = tuple(map(float, range(2, 130)))) -> None:
        super().__init__(orders)

    def _epsilons_of(self, divergences: Vector, delta: float) -> Vector:
        return divergences - math.log(delta) / (np.array(self._orders) - 1)

    def _delta_of(self, divergences: Vector, epsilon: float) -> float:
        return math.exp(min(0.0, float(np.min((np.array(self._orders) - 1) * (divergences - epsilon)))))


@lru_cache(maxsize=1024)
def moments_noise(rate: float, steps: int, epsilon: float, delta: float) -> float:
    """Return the noise multiplier that the moments accountant asks for, as papers of its time do."""
    return least_noise(lambda noise: sampled_steps((), rate, steps, noise), MomentsAccountant(), epsilon, delta)


@dataclass(frozen=True, kw_only=True)
class _ShuffledPlan(Plan):
    """Plan of epochs that cut a random order of the rows into batches; each releases its duals and v with noise."""

    batch_size: int
    clipping_norm: float
    epochs: int

    def check(self) -> None:
        super().check()
        least = max(1, -(-self.n_models * self.n_samples // MOST_RELEASES))
        whole_number("batch_size", self.batch_size, at_least=least)
        magnitude("clipping_norm", self.clipping_norm)
        batches = self.n_models * math.ceil(self.n_samples / self.size)
        whole_number("epochs", self.epochs, at_least=1, at_most=max(1, MOST_RELEASES // batches),
                     remedy=f"Every epoch has {batches} batches: larger ones are fewer.")  # fmt: skip
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

    words: ClassVar[tuple[str, str]]  # what is released with every batch

    def batch_mechanism(self) -> GridGaussian:
        """Return the mechanism that releases (a, v) of a batch, in ticks; it follows from public facts."""
        return clipped_mechanism(self.sensitivity_factor * self.clip, self.clip, self.true_multiplier)

    @abstractmethod
    def moves(self, rows: Rows, y: Vector, a: Vector, w: Vector, batch: NDArray[np.int64], tick: float) -> Ticks:
        """Return how far the duals of a batch and v go, in ticks."""

    def train(self) -> Asked[Solution]:
        """Train one model for each target as planned; the model is the last w."""
        mechanism, alpha_n, n = self.batch_mechanism(), self.alpha_scaled * self.n_samples, self.n_samples
        weights = []
        for model in range(self.n_models):
            yield BeginModel(model, fresh=((DUAL, None),))
            v = np.zeros(self.n_weights)
            for epoch in range(1, self.epochs + 1):
                order, done = (yield Shuffle(n)), (model * self.epochs + epoch, self.epochs * self.n_models)
                for lo in range(0, n, self.size):
                    batch = order[lo : lo + self.size]
                    ask = BatchMoves(self, v / alpha_n, batch, mechanism.tick, lo > 0)
                    noisy = yield Release(self.words, ask, mechanism, done if lo + self.size >= n else None)
                    yield MoveDuals(batch, noisy[: len(batch)])
                    v = v + noisy[len(batch) :]
            weights.append(v / alpha_n)
        return self.solution(weights, self.epochs * math.ceil(n / self.size))


@dataclass(frozen=True, eq=False)
class BatchMoves(AtHome[Ticks]):
    """How far duals and v go; batches of an epoch have no row in common, and may have places of rows not there."""

    plan: _ShuffledPlan
    w: Vector  # of shape (n_weights,); released
    batch: NDArray[np.int64]
    tick: float
    continues: bool = False

    def on(self, part: Part) -> Ticks:
        a, there = part.memory.whole(DUAL).copy(), self.batch < part.n_samples
        moves = np.zeros(len(there) + len(self.w), np.int64)
        moves[np.append(there, np.full(len(self.w), True))] = self.plan.moves(
            part.rows, part.memory.whole(TARGET), a, self.w, self.batch[there], self.tick
        )
        return moves

    def blank(self) -> Any:
        return np.zeros(len(self.batch) + 1)


@dataclass(frozen=True, eq=False)
class MoveDuals(Change):
    """Moves the duals of a batch by what was released."""

    batch: NDArray[np.int64]
    moves: Vector

    def on(self, part: Part) -> None:
        there = self.batch < part.n_samples
        part.memory.whole(DUAL)[self.batch[there]] += self.moves[there]


@dataclass(frozen=True, kw_only=True)
class Published(_ShuffledPlan):
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

    solver = "papers.dp_scd.Published"
    mechanism = (
        "DP-SCD as published (for reproduction): visible dual variables void amplification by sampling, so each "
        "row is in one full Gaussian mechanism an epoch and the published epsilon does not hold"
    )
    words = ("the weights after every step", "the noised dual variables after every step, and with them the batches")

    batch_size: int = 500
    clipping_norm: float = 0.01
    epochs: int = 10

    def loss_for(self, loss: Loss) -> Loss:
        """Return the loss; the authors take one Newton step for the logistic one."""
        return OneNewtonStep() if type(loss) is Logistic else loss

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

    def check_size(self, n_rows: int) -> None:
        warnings.warn(
            f"solver=Published() reproduces the paper: its claim of epsilon={self.epsilon:g} does not hold, the "
            f"receipt states epsilon={self.promised_epsilon:.3g}. Use solver='scd' for a model that keeps its budget.",
            PrivacyWarning,
            stacklevel=5,
        )

    def moves(self, rows: Rows, y: Vector, a: Vector, w: Vector, batch: NDArray[np.int64], tick: float) -> Ticks:
        """Return how far the duals of a batch and v go, in ticks: all steps at the same a and w."""
        ratio, before = self.size / (self.alpha_scaled * self.n_samples), a[batch]
        total = np.zeros(self.n_weights, np.int64)
        # |zeta| itself is clipped, because a moves by it; a short row steps with care
        whole, most = rows.kernel._replace(divisor=np.ones(rows.n_samples)), np.finfo(rows.raw.dtype).max
        point = np.clip(w, -most, most).astype(rows.raw.dtype)
        kernels.batch_pass(
            whole, y, a, point, 0.0, ratio, self.clip, 1.0 / tick, self.loss, batch, 0, len(batch), total
        )
        moves = np.clip((a[batch] - before) / tick, -MOST_TICKS, MOST_TICKS).astype(np.int64)
        return np.concatenate([moves, total])


@dataclass(frozen=True, kw_only=True)
class Sequential(_ShuffledPlan):
    """Sequential DP-SCD with as much noise as its releases need, for ``solver=``; options as those of `Published`."""

    solver = "papers.dp_scd.Sequential"
    mechanism = (
        "sequential DP-SCD with noised, visible dual variables: each row is in one Gaussian mechanism on a grid an "
        "epoch, no amplification by sampling"
    )
    words = (
        "the weights after every batch",
        "the noised dual variables after every batch, and with them the batches and their order",
    )
    proof = "docs/privacy/comparison_solvers.md"

    batch_size: int = 10
    clipping_norm: float = 1e-3
    epochs: int = 3

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
        kernels.sequential_batch(
            rows.kernel, y, a, w, self.alpha_scaled * self.n_samples, self.clip, 1.0 / tick, self.loss, batch,
            moves[: len(batch)], moves[len(batch) :],
        )  # fmt: skip
        return moves


class OneNewtonStep(Logistic):
    """Logistic loss; a single Newton step from the clipped dual variable takes the place of the exact one."""

    __slots__ = ()


@provides_dual_step(OneNewtonStep, inline="never")
def _step(loss: OneNewtonStep, a: float, y: float, m: float, r: float) -> float:
    b = min(max(a * y, _BOX), 1.0 - _BOX)
    gradient = math.log(b / (1.0 - b)) + y * m
    curvature = 1.0 / (b * (1.0 - b)) + r
    return y * (min(max(b - gradient / curvature, _BOX), 1.0 - _BOX) - b)


@provides_slope(OneNewtonStep)
def _slope(loss: OneNewtonStep, y: float, m: float) -> float:
    return slope(Logistic(), y, m)
