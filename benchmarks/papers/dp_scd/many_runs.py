"""Many runs of DP-SCD or DP-SGD at once, for the full tuning grids of the paper: one pass serves all clips.

The steps are those of the solvers `Published`, `Minibatch` and `"sgd"` with all their options fixed. The noise comes
from an ordinary generator in single precision, and all runs of a call share batches and noise. That is good enough to
choose options with. It is no release: what is reported as private is fitted by the solvers.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sottovoce.central.sums.samples import poisson_sample
from sottovoce.papers.dp_scd.algorithm import SLOPES, STEPS

__all__ = ["SLOPES", "STEPS", "Iterates", "dp_scd", "dp_sgd"]

Array = NDArray[np.float32]


class Iterates(NamedTuple):
    """The last weights of each run, and their average over the second half of the steps; a column is a run."""

    last: Array
    averaged: Array


def dp_scd(
    loss: str,
    X: Array,
    y: Array,
    alpha: float,
    epochs: int,
    size: int,
    clips: NDArray[Any],
    noise: float,
    seed: int,
    *,
    visible_duals: bool = True,
) -> Iterates:
    """Run Algorithm 1 with each of the clips; the standard deviation of the noise is ``noise`` times the sensitivity.

    With visible dual variables batches are cut from shuffled rows, and dual variables and v get noise for the
    sensitivity sqrt(2) C. With secret ones batches are Poisson samples, the dual variables stay exact, and the
    sensitivity is C.
    """
    rng = np.random.default_rng(seed)
    n, d = X.shape
    clips = np.asarray(clips, np.float32)
    unit, ratio, step = np.float32(alpha * n), np.float32(size / (alpha * n)), STEPS[loss]
    deviation = np.float32(noise * (2.0**0.5 if visible_duals else 1.0)) * clips
    duals, v = np.zeros((n, len(clips)), np.float32), np.zeros((d, len(clips)), np.float32)
    batches = _shuffled(n, size, epochs, rng) if visible_duals else _sampled(n, size, epochs, rng)
    averaged = _Average(v, len(batches))
    for batch in batches:
        rows, a = X[batch], duals[batch]
        zeta = np.clip(step(a, y[batch, None], rows @ (v / unit), ratio), -clips, clips)
        a += zeta
        if visible_duals:
            a += deviation * rng.standard_normal((len(batch), 1), np.float32)
        duals[batch] = a
        v += rows.T @ zeta + deviation * rng.standard_normal((d, 1), np.float32)
        averaged.add(v)
    return Iterates(v / unit, averaged.value / unit)


def dp_sgd(
    loss: str,
    X: Array,
    y: Array,
    alpha: float,
    epochs: int,
    size: int,
    clips: NDArray[Any],
    rates: NDArray[Any],
    noise: float,
    seed: int,
) -> Iterates:
    """Run DP-SGD on Poisson samples, one run for each clip and the learning rate at the same place."""
    rng = np.random.default_rng(seed)
    n, d = X.shape
    clips, rates = np.asarray(clips, np.float32), np.asarray(rates, np.float32)
    w, slope, deviation = np.zeros((d, len(clips)), np.float32), SLOPES[loss], np.float32(noise) * clips
    shrink = 1.0 / (1.0 + rates * np.float32(alpha))
    forward = -rates / np.float32(size) * shrink
    batches = _sampled(n, size, epochs, rng)
    averaged = _Average(w, len(batches))
    for batch in batches:
        rows = X[batch]
        slopes = np.clip(slope(y[batch, None], rows @ w), -clips, clips)
        w *= shrink
        w += forward * (rows.T @ slopes + deviation * rng.standard_normal((d, 1), np.float32))
        averaged.add(w)
    return Iterates(w, averaged.value)


class _Average:
    """The average of the second half of the steps."""

    def __init__(self, like: Array, steps: int) -> None:
        self._total = np.zeros_like(like, np.float64)
        self._left, self._kept = steps // 2, steps - steps // 2

    def add(self, point: Array) -> None:
        if self._left > 0:
            self._left -= 1
        else:
            self._total += point

    @property
    def value(self) -> Array:
        return (self._total / self._kept).astype(np.float32)


class _Batches:
    """Batches that are made one after the other, and how many there are."""

    def __init__(self, number: int, make: Callable[[], Iterator[NDArray[np.int64]]]) -> None:
        self._number, self._make = number, make

    def __len__(self) -> int:
        return self._number

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        return self._make()


def _shuffled(n: int, size: int, epochs: int, rng: np.random.Generator) -> _Batches:
    """Cut a fresh order of the rows into batches, once an epoch."""

    def make() -> Iterator[NDArray[np.int64]]:
        for _ in range(epochs):
            order = rng.permutation(n)
            yield from (order[first : first + size] for first in range(0, n, size))

    return _Batches(epochs * -(-n // size), make)


def _sampled(n: int, size: int, epochs: int, rng: np.random.Generator) -> _Batches:
    """Take each row with probability size / n, on its own, in each step."""
    rate = min(1.0, size / n)
    steps = max(1, round(epochs / rate))
    return _Batches(steps, lambda: (poisson_sample(n, rate, rng) for _ in range(steps)))
