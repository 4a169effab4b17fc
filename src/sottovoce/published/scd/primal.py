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
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sottovoce._validation import whole_number
from sottovoce.central.first_order import FirstOrderPlan
from sottovoce.central.kernels import gradient, passes
from sottovoce.central.kernels.rows import CSR
from sottovoce.central.parallel import Team
from sottovoce.central.plan import Progress, Solution
from sottovoce.central.rows import Rows
from sottovoce.central.scaled_plan import Scales, sum_mechanism
from sottovoce.privacy.events import Event, GaussianEvent, RepeatedEvent, compose
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.randomness import Purpose, Streams

__all__ = ["PrimalPlan"]

_AVERAGED: Final = 0.5  # share of the epochs, the last ones, that the model is averaged over
_MIN_EPOCHS: Final = 10
_MAX_EPOCHS: Final = 200
_BLOCKS: Final = 10  # by default
_SPREAD: Final = 2.0  # the default clip of a block over that of a row whose length is spread evenly over the weights
_NORM_FLOOR: Final = 1e-140  # as for whole rows: a longer norm only shortens the term


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

    block_size: int | None = None
    epochs: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.block_size is not None:
            whole_number("block_size", self.block_size, at_least=1)
        if self.epochs is not None:
            whole_number("epochs", self.epochs, at_least=1)

    @property
    def solver(self) -> str:
        """Name of the solver as users give it."""
        return "primal-scd"

    @property
    def proof(self) -> str:
        """Page with statement and proof."""
        return "docs/privacy/comparison_solvers.md"

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
    def safe_rate(self) -> float:
        """Learning rate that converges where rows are spread over the blocks as evenly as the default clip supposes."""
        smoothness = self.loss.smoothness if math.isfinite(self.loss.smoothness) else 1.0
        return 1.0 / (smoothness * self._spread**2 + self.alpha_scaled)

    @property
    def _spread(self) -> float:
        """Share of a row's length that a block may hold."""
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

    def clip_for(self, scales: Scales) -> float:
        """Return C, the bound on a row's part of a block's sum."""
        whole = super().clip_for(scales)
        return whole * self._spread if self.clipping_norm is None else whole

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

    @property
    def mechanism(self) -> str:
        """The algorithm in one sentence, for the receipt."""
        return (
            "primal block coordinate descent with secret predictions: adaptive composition of Gaussian mechanisms on a "
            "grid, no subsampling"
        )

    @property
    def releases(self) -> tuple[str, ...]:
        """What the statement covers, for the receipt."""
        return (*self.scale_releases, "the weights after every step (the model is an average of them)")

    def solve(
        self, rows: Rows, targets: list[NDArray[np.float64]], streams: Streams, team: Team, progress: Progress
    ) -> Solution:
        """Train one model for each target as planned."""
        noise, shuffling = streams.generator(Purpose.NOISE), streams.generator(Purpose.SHUFFLING)
        scales = self.release_scales(rows, targets, noise)
        mechanism = sum_mechanism(self.adjacency, self.clip_for(scales), self.noise_multiplier)
        run = _Run(self, _blocks_of(rows, self.size), self.clip_for(scales), mechanism, noise, shuffling, team)
        weights = []
        for model, y in enumerate(targets):

            def report(epoch: int, done: int = model * self.n_epochs) -> None:
                progress(done + epoch, self.n_epochs * self.n_models)

            weights.append(run.train(y - scales.location, report))
        return Solution(
            np.stack(weights),
            self.n_steps,
            compose(*scales.events, RepeatedEvent(mechanism.event, self.n_steps * self.n_models)),
            self.chosen(scales),
            offset=scales.location,
        )


@dataclass(frozen=True)
class _Run:
    """The settings of the steps, the same for each model."""

    plan: PrimalPlan
    blocks: list[tuple[slice, Rows]]
    clip: float
    mechanism: GridGaussian
    noise: np.random.Generator
    shuffling: np.random.Generator
    team: Team

    def train(self, y: NDArray[np.float64], report: Callable[[int], None]) -> NDArray[np.float64]:
        """Do the epochs for one target and return the averaged weights."""
        plan = self.plan
        m, w, total = np.zeros(len(y)), np.zeros(plan.n_weights), np.zeros(plan.n_weights)
        averaged = max(1, round(_AVERAGED * plan.n_epochs))
        for epoch in range(plan.n_epochs):
            for place in self.shuffling.permutation(len(self.blocks)):
                where, rows = self.blocks[place]
                noisy = self._release(rows, y, m)
                after = (w[where] - (plan.rate / plan.n_samples) * noisy) / (1.0 + plan.rate * plan.alpha_scaled)
                m += rows.margins(after - w[where], self.team)
                w[where] = after
            if epoch >= plan.n_epochs - averaged:
                total += w
            report(epoch + 1)
        return total / averaged

    def _release(self, rows: Rows, y: NDArray[np.float64], m: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the noisy sum of the clipped partial gradients of one block."""
        ranges = self.team.split(rows.n_samples, rows.work)
        sums = np.zeros((len(ranges), rows.n_weights), np.int64)
        self.team.run(
            lambda part, lo, hi: gradient.gradient(
                rows.kernel, rows.scale, rows.norm, rows.constant, y, m, self.clip, 1.0 / self.mechanism.tick,
                self.plan.loss, lo, hi, sums[part],
            ),
            ranges,
        )  # fmt: skip
        return self.mechanism.release(sums.sum(axis=0), self.noise)[0]


def _blocks_of(rows: Rows, size: int) -> list[tuple[slice, Rows]]:
    """Cut the table into blocks of columns (a copy), each with the norms of its parts of the rows."""
    width, sparse = rows.raw.shape[1], bool(sp.issparse(rows.raw))
    blocks = []
    for lo in range(0, width, size):
        hi = min(lo + size, width)
        raw: Any = rows.raw[:, lo:hi]
        kernel = CSR(raw.data, raw.indices, raw.indptr, hi - lo) if sparse else np.ascontiguousarray(raw)
        length = np.empty(rows.n_samples)
        passes.norms(kernel, 0, rows.n_samples, length)
        constant = rows.constant if hi == width else 0.0
        with np.errstate(invalid="ignore"):
            scaled = np.where(np.isfinite(length), rows.scale * length, 1.0)
        norm = np.clip(np.sqrt(scaled**2 + constant**2), _NORM_FLOOR, 1.0)
        blocks.append((slice(lo, hi + (constant > 0.0)), Rows(raw, kernel, rows.scale, norm, constant)))
    return blocks
