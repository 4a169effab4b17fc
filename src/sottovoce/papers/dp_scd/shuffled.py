"""What the forms of DP-SCD share whose dual variables are noised and visible: batches of a shuffled table."""

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce._validation import magnitude, whole_number
from sottovoce.central.data.rows import Rows
from sottovoce.central.plan import Fit, Plan, Report, Solution
from sottovoce.central.sums.clipped_sums import Ticks
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import RepeatedEvent
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.randomness import Purpose

__all__ = ["ShuffledPlan"]


@dataclass(frozen=True, kw_only=True)
class ShuffledPlan(Plan):
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
        """Size of a batch."""
        return min(self.batch_size, self.n_samples)

    @property
    def clip(self) -> float:
        """C, the bound on a step, in the unit of the labels."""
        return self.clipping_norm * (self.label_bound or 1.0)

    @abstractmethod
    def batch_mechanism(self) -> GridGaussian:
        """Return the mechanism that releases (a, v) of a batch, in ticks; it follows from public facts."""

    @abstractmethod
    def moves(self, rows: Rows, y: Vector, a: Vector, w: Vector, batch: NDArray[np.int64], tick: float) -> Ticks:
        """Return how far the duals of a batch and v go, in ticks."""

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
