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
from numba import njit
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce._validation import magnitude, whole_number
from sottovoce.central.core import Asked, Release, Shuffle
from sottovoce.central.data.operation import Change, Columns, Effect, Operation
from sottovoce.central.data.part import Part
from sottovoce.central.data.row_memory import DIVISOR, DUAL, TARGET
from sottovoce.central.data.targets import BeginModel
from sottovoce.central.kernels import passes, sequential
from sottovoce.central.kernels.rows import MOST_TICKS
from sottovoce.central.plan import Plan, Solution
from sottovoce.central.sampling import sampled_steps
from sottovoce.central.solver import Solver
from sottovoce.central.sums.clipped_sums import Ticks, clipped_mechanism
from sottovoce.exceptions import ParameterError, PrivacyWarning
from sottovoce.losses import Logistic, Loss
from sottovoce.losses.base import provides_dual_step, provides_slope, slope
from sottovoce.privacy.accounting import RenyiAccountant, accountant_for
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.calibration import gaussian_mu, least_noise
from sottovoce.privacy.mechanisms.gaussian import GridGaussian

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

    in_turn: ClassVar[bool]  # whether each step of a batch sees those before it
    words: ClassVar[tuple[str, str]]  # what is released with every batch, beside the weights

    def batch_mechanism(self) -> GridGaussian:
        """Return the mechanism that releases (a, v) of a batch, in ticks; it follows from public facts."""
        return clipped_mechanism(self.sensitivity_factor * self.clip, self.clip, self.true_multiplier)

    def train(self) -> Asked[Solution]:
        """Train one model for each target as planned; the model is the last w."""
        mechanism, alpha_n, n = self.batch_mechanism(), self.alpha_scaled * self.n_samples, self.n_samples
        weights = []
        for model in range(self.n_models):
            yield BeginModel(model, fresh=((DUAL, None),))
            v = np.zeros(self.n_weights)
            for epoch in range(1, self.epochs + 1):
                order = yield Shuffle(n)
                for lo in range(0, n, self.size):
                    batch = order[lo : lo + self.size]
                    ask = BatchMoves(
                        self.loss, v / alpha_n, batch, self.size, alpha_n, self.clip, mechanism.tick, self.in_turn,
                        lo > 0,
                    )  # fmt: skip
                    done = model * self.epochs + epoch, self.epochs * self.n_models
                    noisy = yield Release(self.words, ask, mechanism, done if lo + self.size >= n else None)
                    yield MoveDuals(batch, noisy[: len(batch)])
                    v = v + noisy[len(batch) :]
            weights.append(v / alpha_n)
        return self.solution(weights, self.epochs * math.ceil(n / self.size))


@dataclass(frozen=True, eq=False)
class BatchMoves(Operation[Ticks]):
    """How far the duals of a batch and v go, in ticks."""

    loss: Loss
    w: Vector  # of shape (n_weights,); released
    batch: NDArray[np.int64]
    size: int  # L, of a batch
    alpha_n: float
    clip: float
    tick: float
    in_turn: bool  # whether each step sees those before it; else all are at the same a and w
    continues: bool = False  # it is not the first batch of an epoch, whose batches have no row in common

    def on(self, part: Part) -> Ticks:
        rows, y, a, batch = part.rows, part.memory.whole(TARGET), part.memory.whole(DUAL).copy(), self.batch
        if self.in_turn:
            moves = np.zeros(len(batch) + part.n_weights, np.int64)
            sequential.sequential_batch(
                rows.kernel, y, a, self.w, self.alpha_n, self.clip, 1.0 / self.tick, self.loss, batch,
                moves[: len(batch)], moves[len(batch) :],
            )  # fmt: skip
            return moves
        before, total = a[batch], np.zeros(part.n_weights, np.int64)
        passes.batch_pass(
            rows.kernel, y, a, rows.weights(self.w), 0.0, self.size / self.alpha_n, self.clip, 1.0 / self.tick,
            self.loss, batch, 0, len(batch), total,
        )  # fmt: skip
        gone = np.clip((a[batch] - before) / self.tick, -MOST_TICKS, MOST_TICKS).astype(np.int64)
        return np.concatenate([gone, total])

    def allows(self, answer: object, n_rows: int, columns: Columns) -> bool:
        return isinstance(answer, np.ndarray)

    def blank(self) -> Any:
        return np.zeros(len(self.batch) + 1)


@dataclass(frozen=True, eq=False)
class MoveDuals(Change):
    """Moves the duals of a batch by what was released."""

    batch: NDArray[np.int64]
    moves: Vector

    def on(self, part: Part) -> None:
        part.memory.whole(DUAL)[self.batch] += self.moves


@dataclass(frozen=True, kw_only=True)
class PublishedPlan(_ShuffledPlan):
    """Plan of Algorithm 1 as published."""

    solver = "papers.dp_scd.Published"
    mechanism = (
        "DP-SCD as published (for reproduction): visible dual variables void amplification by sampling, so each "
        "row is in one full Gaussian mechanism an epoch and the published epsilon does not hold"
    )
    in_turn = False
    words = ("the weights after every step", "the noised dual variables after every step, and with them the batches")

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

    def train(self) -> Asked[Solution]:
        # |zeta| itself is clipped, because a moves by it; a short row steps with care
        yield UnitDivisors()
        return (yield from super().train())


class UnitDivisors(Change):
    """Takes every row for one of norm 1, so that steps themselves are clipped and not what they add."""

    effect = Effect.LASTING

    def on(self, part: Part) -> None:
        part.memory.set(DIVISOR, np.ones(part.n_samples))


@dataclass(frozen=True, kw_only=True)
class SequentialPlan(_ShuffledPlan):
    """Plan of Algorithm 3 with as much noise as its releases need."""

    solver = "papers.dp_scd.Sequential"
    mechanism = (
        "sequential DP-SCD with noised, visible dual variables: each row is in one Gaussian mechanism on a grid an "
        "epoch, no amplification by sampling"
    )
    in_turn = True
    words = (
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
