r"""Primal DP coordinate descent over blocks of features, in a form that keeps its budget.

Algorithm 2 keeps v = X w, one number a *row*, and releases it with noise; its sensitivity needs columns of norm 1, as
only the data can tell (``docs/privacy/comparison_solvers.md``). Here v is the curator's memory: each row's prediction
m_i = x_i.w is recomputed from the released w. Step t takes a block B of features, sums the partial gradients
l'(m_i) x_iB, each clipped to norm C, and goes

    w_B <- (w_B - (eta / n) (sum of them + N(0, (s C)^2 I))) / (1 + eta alpha).

Every epoch visits all blocks once, in a public random order. E epochs of b blocks for each of K models are b E K
Gaussian mechanisms, and s = sqrt(b E K) / mu. The model is the average of the last w's.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import scipy.sparse as sp

from sottovoce._numerics import Vector
from sottovoce._validation import magnitude, whole_number
from sottovoce.central.core import Asked, Release, Shuffle, Tell
from sottovoce.central.data.operation import AtHome, Change
from sottovoce.central.data.part import Part, Rows, norm_bounds
from sottovoce.central.data.row_memory import TARGET
from sottovoce.central.kernels import passes
from sottovoce.central.plan import Plan, Solution, Takes
from sottovoce.central.solvers.sgd import safe_rate
from sottovoce.central.split import AFTER_STEPS, Scales, Split, State, one_by_one
from sottovoce.central.sums.clipped_sums import Ticks, clipped_sum
from sottovoce.losses import Loss
from sottovoce.papers.dp_scd.kernels import within_reach
from sottovoce.papers.dp_scd.published import MOST_RELEASES

_MIN_EPOCHS: Final = 10
_MAX_EPOCHS: Final = 200
_BLOCKS: Final = 10  # by default
_AVERAGED: Final = 0.5  # share of the epochs, the last ones
_HORIZON: Final = 8.0  # c, for losses with a bound on |l'|
_HORIZON_SQUARED: Final = 4.0  # c, for squared loss
_SPREAD: Final = 2.0  # the default clip of a block over that of a row whose length is spread evenly over the weights


@dataclass(frozen=True, kw_only=True)
class Primal(Plan):
    """Primal DP coordinate descent in its sound form, for ``solver=``; None follows a rule.

    Parameters
    ----------
    learning_rate : float, > 0, or None
    clipping_norm : float, > 0, or None
        Bound on the part of a row's gradient that is in a block.
    block_size : int or None
        Features of a block (all of them when larger than n_features); None makes ten blocks. Blocks are runs of
        neighbouring columns; the intercept belongs to the last one.
    epochs : int or None
        Visits of each block.
    """

    solver = "papers.dp_scd.Primal"
    mechanism = (
        "primal block coordinate descent with secret predictions: adaptive composition of Gaussian mechanisms on a "
        "grid, no subsampling"
    )
    proof = "docs/privacy/comparison_solvers.md"
    takes = Takes.RELEASED_NORM

    learning_rate: float | None = None
    clipping_norm: float | None = None
    block_size: int | None = None
    epochs: int | None = None

    def check(self) -> None:
        self.check_given(magnitude, "learning_rate", "clipping_norm")
        self.check_given(whole_number, "block_size", at_least=1, at_most=10**6)
        most = max(1, MOST_RELEASES // (self.n_models * self.n_blocks))
        self.check_given(whole_number, "epochs", at_least=1, at_most=most)

    @cached_property
    def split(self) -> Split:
        """How the budget is divided: labels have a scale where the loss has no Lipschitz bound, unless C is given."""
        return Split(facts=self.facts, labels=self.clipping_norm is None and not math.isfinite(self.loss.lipschitz))

    @cached_property
    def horizon(self) -> float:
        """Learning rate times number of steps, c mu n / sqrt(d), c measured once on public data."""
        factor = _HORIZON if math.isfinite(self.loss.lipschitz) else _HORIZON_SQUARED
        return min(factor * self.split.model * self.n_units / math.sqrt(self.n_weights), 10.0 / self.alpha_scaled)

    @property
    def safe_rate(self) -> float:
        return safe_rate(self.facts, self.spread)

    @property
    def size(self) -> int:
        return min(self.n_features, self.block_size or math.ceil(self.n_features / _BLOCKS))

    @property
    def n_blocks(self) -> int:
        return math.ceil(self.n_features / self.size)

    @cached_property
    def n_epochs(self) -> int:
        if self.epochs is not None:
            return self.epochs
        return round(min(_MAX_EPOCHS, max(_MIN_EPOCHS, self.horizon / self.safe_rate)))

    @property
    def n_steps(self) -> int:
        return self.n_epochs * self.n_blocks

    @property
    def spread(self) -> float:
        """Share of a row's length that a block may hold, where rows are spread evenly over the blocks."""
        return min(1.0, _SPREAD / math.sqrt(self.n_blocks))

    @property
    def rate(self) -> float:
        return min(self.safe_rate, self.horizon / self.n_epochs) if self.learning_rate is None else self.learning_rate

    @property
    def noise_multiplier(self) -> float:
        return math.sqrt(self.n_steps * self.n_models) / self.split.steps

    def details(self) -> dict[str, object]:
        return {
            "mu (Gaussian DP) of the whole run": self.split.whole,
            "mu for the labels": self.split.of_labels,
            "blocks of features": self.n_blocks,
            "steps of each model": self.n_steps,
            "learning rate": self.rate,
            "noise multiplier of a step": self.noise_multiplier,
        }

    def clip_for(self, scales: Scales) -> float:
        """Return C."""
        if self.clipping_norm is not None:
            return self.clipping_norm * (self.label_bound or 1.0)
        return self.spread * (self.loss.lipschitz if math.isfinite(self.loss.lipschitz) else scales.label)

    def train(self) -> Asked[Solution]:
        scales = yield from self.split.scales()
        sums = clipped_sum(self.neighbours, self.clip_for(scales), self.noise_multiplier)
        yield Tell("clipping norm", sums.clip)

        def step(number: int, state: State, done: tuple[int, int]) -> Asked[State]:
            (w,) = state
            if number == 0:
                yield BeginBlocks(self.size)
                w = np.zeros(self.n_weights)
            order = yield Shuffle(self.n_blocks)
            for visit, place in enumerate(order, start=1):
                ask = BlockGradient(int(place), self.loss, sums.clip, sums.ticks_per_unit)
                noisy = yield Release(AFTER_STEPS, ask, sums.mechanism, done if visit == len(order) else None)
                lo, last = int(place) * self.size, place == self.n_blocks - 1
                where = slice(lo, self.n_weights if last else lo + self.size)
                after = (w[where] - (self.rate / self.n_samples) * noisy) / (1.0 + self.rate * self.alpha_scaled)
                yield MoveBlock(int(place), after - w[where])
                w = w.copy()
                w[where] = after
            return (w,)

        weights = yield from one_by_one(self.split, scales, step, self.n_epochs, _AVERAGED)
        return self.solution(weights, self.n_steps, offset=scales.location)


@dataclass(frozen=True)
class BeginBlocks(Change):
    """Cuts the columns into blocks (a copy), and begins the predictions of a model at zero."""

    size: int

    def on(self, part: Part) -> None:
        part.scores = _blocks_of(within_reach(part.rows), self.size), np.zeros(part.n_samples)


@dataclass(frozen=True)
class BlockGradient(AtHome[Ticks]):
    """The sum of the gradients in a block of columns, each clipped."""

    place: int
    loss: Loss
    clip: float
    ticks_per_unit: float

    def on(self, part: Part) -> Ticks:
        blocks, m = part.scores
        rows, y = blocks[self.place], part.memory.whole(TARGET)
        return part.team.total(
            lambda lo, hi, total: passes.gradient(
                rows.kernel, y, m, self.clip, self.ticks_per_unit, self.loss, lo, hi, total
            ),
            rows.n_samples, rows.work, np.zeros(rows.n_weights, np.int64),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class MoveBlock(Change):
    """Moves the predictions by a step of a block."""

    place: int
    step: Vector

    def on(self, part: Part) -> None:
        blocks, m = part.scores
        m += blocks[self.place].margins(self.step, part.team)


def _blocks_of(rows: Rows, size: int) -> list[Rows]:
    """Cut the table into blocks of columns (a copy), each with the norms of its parts of the rows."""
    width, sparse = rows.raw.shape[1], bool(sp.issparse(rows.raw))
    blocks = []
    for lo in range(0, width, size):
        hi = min(lo + size, width)
        raw: Any = rows.raw[:, lo:hi] if sparse else np.ascontiguousarray(rows.raw[:, lo:hi])
        constant = rows.constant if hi == width else 0.0
        length = np.empty(rows.n_samples)
        block = Rows(raw, rows.scale, length, constant)  # its divisor is not known yet
        passes.norms(block.kernel.X, 0, rows.n_samples, length)
        block = block._replace(divisor=norm_bounds(rows.scale, length, constant))
        blocks.append(block)
    return blocks
