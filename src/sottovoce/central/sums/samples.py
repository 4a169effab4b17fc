"""Sums over Poisson samples of the rows, each row with the same probability on its own."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.central import sampling
from sottovoce.central.data.operation import AtHome
from sottovoce.central.data.part import Part
from sottovoce.central.data.row_memory import TARGET
from sottovoce.central.kernels import passes
from sottovoce.central.sums.clipped_sums import Ticks
from sottovoce.losses import Loss
from sottovoce.randomness import Purpose

__all__ = ["SampledGradient", "SampledSum"]


@dataclass(frozen=True, eq=False)
class SampledSum(AtHome[Ticks]):
    """The sum of the clipped terms of a Poisson sample of the rows; the holder draws it, and nobody sees it."""

    loss: Loss
    w: NDArray[Any]  # of shape (n_weights,); released
    clip: float  # bound on a row's term
    ticks_per_unit: float
    sampling_rate: float = 1.0

    @abstractmethod
    def terms(self, part: Part, w: NDArray[Any]) -> Callable[[NDArray[np.int64], int, int, Ticks], None]:
        """Return what adds the terms of the rows batch[lo:hi] at ``w`` to a total."""

    def on(self, part: Part) -> Ticks:
        batch = sampling.poisson_sample(part.n_samples, self.sampling_rate, part.coins.generator(Purpose.SAMPLING))
        add = self.terms(part, part.weights(self.w))
        return part.team.total(
            lambda lo, hi, total: add(batch, lo, hi, total),
            len(batch), part.work * self.sampling_rate, np.zeros(part.n_weights, np.int64),
        )  # fmt: skip


class SampledGradient(SampledSum):
    """The sum of the clipped gradients of a sample."""

    def terms(self, part: Part, w: NDArray[Any]) -> Callable[[NDArray[np.int64], int, int, Ticks], None]:
        rows, y = part.rows, part.memory.whole(TARGET)
        return lambda batch, lo, hi, total: passes.gradient_at(
            rows.kernel, y, w, self.clip, self.ticks_per_unit, self.loss, batch, lo, hi, total
        )
