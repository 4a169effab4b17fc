r"""Primal DP coordinate descent over blocks of features, in a form that keeps its budget; for comparison.

The paper's primal version [1]_ keeps v = X w, one number a *row*, and releases it with noise. That vector has an entry
which belongs to one person, and its published sensitivity needs columns of norm 1, which only the data can give (see
``docs/privacy/comparison_solvers.md``). Here v is the curator's memory: each row's prediction m_i = x_i.w is recomputed
from the released w and never leaves. Step t takes a block B of features, sums the partial gradients l'(m_i) x_iB, each
clipped to norm C, and goes

    w_B <- (w_B - (eta / n) (sum of them + N(0, (s C)^2 I))) / (1 + eta alpha).

Every epoch visits all blocks once, in a public random order; nothing is sampled among the rows. E epochs of b blocks
for each of K models are b E K Gaussian mechanisms, and s = sqrt(b E K) / mu. The model is the average of the last w's.

Differences from the paper: v secret and exact; gradient steps in place of exact ones; the sum of a block is clipped by
row, so its sensitivity is C and not 2 C sqrt(L (L + 1)).

References
----------
.. [1] Damaskinos et al. (2021). Differentially Private Stochastic Coordinate Descent. AAAI 2021; Appendix B,
   Algorithm 2, Lemma 4.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce._validation import whole_number
from sottovoce.central.clipped_sums import sum_mechanism
from sottovoce.central.first_order import FirstOrderPlan
from sottovoce.central.kernels import gradient, passes
from sottovoce.central.parallel import Team
from sottovoce.central.rows import Rows, norm_bounds
from sottovoce.central.scaled_plan import Scales
from sottovoce.central.stepped_plan import Steps
from sottovoce.privacy.events import Event, GaussianEvent, RepeatedEvent, compose
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.randomness import Purpose, Streams

__all__ = ["PrimalPlan"]

_MIN_EPOCHS: Final = 10
_MAX_EPOCHS: Final = 200
_BLOCKS: Final = 10  # by default
_SPREAD: Final = 2.0  # the default clip of a block over that of a row whose length is spread evenly over the weights


@dataclass(frozen=True, kw_only=True)
class PrimalPlan(FirstOrderPlan):
    """Plan of primal DP coordinate descent.

    Parameters
    ----------
    block_size : int or None
        Features of a block (all of them when larger than n_features); None makes ten blocks. Blocks are runs of
        neighbouring columns; the intercept belongs to the last one.
    epochs : int or None
        Visits of each block; None follows a rule.
    """

    solver = "primal-scd"
    mechanism = (
        "primal block coordinate descent with secret predictions: adaptive composition of Gaussian mechanisms on a "
        "grid, no subsampling"
    )
    proof = "docs/privacy/comparison_solvers.md"

    block_size: int | None = None
    epochs: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_given(whole_number, "block_size", "epochs", at_least=1)

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

    def steps(self, rows: Rows, scales: Scales, streams: Streams, team: Team) -> Steps:
        """Return the steps that follow from the released scales."""
        clip = self.clip_for(scales)
        return _Steps(
            rows=rows, streams=streams, team=team, n_steps=self.n_steps, n_iterates=self.n_epochs, unit=1.0, plan=self,
            blocks=_blocks_of(rows, self.size), clip=clip,
            mechanism=sum_mechanism(self.adjacency, clip, self.noise_multiplier),
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Steps(Steps):
    """Steps on one block after the other, in an order of its own in each epoch."""

    averaged = 0.5

    plan: PrimalPlan
    blocks: list[tuple[slice, Rows]]
    clip: float
    mechanism: GridGaussian

    @property
    def events(self) -> tuple[Event, ...]:
        """The steps of all models."""
        return (RepeatedEvent(self.mechanism.event, self.n_steps * self.plan.n_models),)

    def iterates(self, y: Vector) -> Iterator[Vector]:
        """Do the epochs for one target; yield the weights after each."""
        plan, shuffling = self.plan, self.streams.generator(Purpose.SHUFFLING)
        m, w = np.zeros(len(y)), np.zeros(self.rows.n_weights)
        for _ in range(self.n_iterates):
            for place in shuffling.permutation(len(self.blocks)):
                where, block = self.blocks[place]
                noisy, _ = self.mechanism.release(self._sum(block, y, m), self.noise)
                after = (w[where] - (plan.rate / plan.n_samples) * noisy) / (1.0 + plan.rate * plan.alpha_scaled)
                m += block.margins(after - w[where], self.team)
                w[where] = after
            yield w

    def _sum(self, block: Rows, y: Vector, m: Vector) -> NDArray[np.int64]:
        """Return the sum of the clipped partial gradients of one block, in ticks."""
        loss, ticks_per_unit = self.plan.loss, 1.0 / self.mechanism.tick
        return self.team.total(
            lambda lo, hi, sums: gradient.gradient(block.kernel, y, m, self.clip, ticks_per_unit, loss, lo, hi, sums),
            block.n_samples, block.work, np.zeros(block.n_weights, np.int64),
        )  # fmt: skip


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
