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
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import scipy.sparse as sp

from sottovoce._numerics import Vector
from sottovoce._validation import whole_number
from sottovoce.central.data.rows import Rows, norm_bounds
from sottovoce.central.kernels import gradient, passes
from sottovoce.central.plan import Fit
from sottovoce.central.scaled_plan import Scales
from sottovoce.central.solver import Solver
from sottovoce.central.stepped_plan import FirstOrderPlan
from sottovoce.central.sums.clipped_sums import ClippedSum, Ticks
from sottovoce.privacy.events import Event, GaussianEvent, RepeatedEvent, compose
from sottovoce.randomness import Purpose

__all__ = ["Primal", "PrimalPlan"]

_MIN_EPOCHS: Final = 10
_MAX_EPOCHS: Final = 200
_BLOCKS: Final = 10  # by default
_SPREAD: Final = 2.0  # the default clip of a block over that of a row whose length is spread evenly over the weights


@dataclass(frozen=True, kw_only=True)
class PrimalPlan(FirstOrderPlan):
    """Plan of primal DP coordinate descent."""

    solver = "papers.dp_scd.Primal"
    mechanism = (
        "primal block coordinate descent with secret predictions: adaptive composition of Gaussian mechanisms on a "
        "grid, no subsampling"
    )
    proof = "docs/privacy/comparison_solvers.md"
    averaged = 0.5

    block_size: int | None = None
    epochs: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_given(whole_number, "block_size", "epochs", at_least=1, at_most=10**6)

    @property
    def size(self) -> int:
        """Features of a block."""
        return min(
            self.n_features, math.ceil(self.n_features / _BLOCKS) if self.block_size is None else self.block_size
        )

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return math.ceil(self.n_features / self.size)

    @cached_property
    def n_epochs(self) -> int:
        """Visits of each block."""
        if self.epochs is not None:
            return self.epochs
        return round(min(_MAX_EPOCHS, max(_MIN_EPOCHS, self.horizon / self.safe_rate)))

    @property
    def n_steps(self) -> int:
        """Number of steps of each model."""
        return self.n_epochs * self.n_blocks

    @property
    def spread(self) -> float:
        """Share of a row's length that a block may hold, where rows are spread evenly over the blocks."""
        return min(1.0, _SPREAD / math.sqrt(self.n_blocks))

    @property
    def rate(self) -> float:
        """Learning rate."""
        return min(self.safe_rate, self.horizon / self.n_epochs) if self.learning_rate is None else self.learning_rate

    @property
    def noise_multiplier(self) -> float:
        """Noise of a step divided by its sensitivity."""
        return math.sqrt(self.n_steps * self.n_models) / self.mu_steps

    @property
    def event(self) -> Event:
        """The scales of the labels and the steps."""
        return compose(
            *self.scale_events, RepeatedEvent(GaussianEvent(self.noise_multiplier), self.n_steps * self.n_models)
        )

    def details(self) -> dict[str, object]:
        """Return the blocks, the step and the noise."""
        return {
            "mu (Gaussian DP) of the whole run": self.mu,
            "mu for the labels": self.mu_scale if self.estimates_labels else 0.0,
            "blocks of features": self.n_blocks,
            "steps of each model": self.n_steps,
            "learning rate": self.rate,
            "noise multiplier of a step": self.noise_multiplier,
        }

    def steps_for(self, scales: Scales) -> int:
        """Return the number of steps."""
        return self.n_steps

    def points_for(self, scales: Scales) -> int:
        """Return the number of epochs: the weights after each may enter the average."""
        return self.n_epochs

    def multiplier_for(self, scales: Scales) -> float:
        """Return the noise of a step divided by its sensitivity."""
        return self.noise_multiplier

    def iterates(self, fit: Fit, scales: Scales, sums: ClippedSum) -> Iterator[Vector]:
        """Do the epochs for one target, each in an order of its own; yield the weights after each."""
        shuffling, blocks = fit.streams.generator(Purpose.SHUFFLING), _blocks_of(fit.rows.within_reach(), self.size)
        y, clip, per_unit = fit.current_target, sums.clip, sums.ticks_per_unit
        m, w = np.zeros(len(y)), np.zeros(self.n_weights)

        def sum_of(rows: Rows) -> Ticks:
            return fit.team.total(
                lambda lo, hi, total: gradient.gradient(rows.kernel, y, m, clip, per_unit, self.loss, lo, hi, total),
                rows.n_samples, rows.work, np.zeros(rows.n_weights, np.int64),
            )  # fmt: skip

        for _ in range(self.n_epochs):
            for place in shuffling.permutation(len(blocks)):
                where, block = blocks[place]
                noisy, _ = sums.mechanism.release(sum_of(block), fit.noise)
                after = (w[where] - (self.rate / self.n_samples) * noisy) / (1.0 + self.rate * self.alpha_scaled)
                m += block.margins(after - w[where], fit.team)
                w[where] = after
            yield w


def _blocks_of(rows: Rows, size: int) -> list[tuple[slice, Rows]]:
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
        block = replace(block, divisor=norm_bounds(rows.scale, length, constant))
        blocks.append((slice(lo, hi + (constant > 0.0)), block))
    return blocks


@dataclass(frozen=True, kw_only=True)
class Primal(Solver):
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

    plan = PrimalPlan

    learning_rate: float | None = None
    clipping_norm: float | None = None
    block_size: int | None = None
    epochs: int | None = None
