"""Noise in tests: forbidden (a refusal comes before it), off (the optimum shows), scaled, or held to its law."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.stats import chi2

from sottovoce.local.device import randomizer as one_bit
from sottovoce.papers.ldp import report as bernstein
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.randomness import Purpose, Streams


class NoiseOpenedError(BaseException):
    """A stream of noise was opened; no handler of errors in the code under test takes it for one of its own."""


def forbid_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise `NoiseOpenedError` where a fit, a party or a device would open its noise."""
    generator = Streams.generator

    def without_noise(streams, purpose):
        if purpose is Purpose.NOISE:
            raise NoiseOpenedError
        return generator(streams, purpose)

    def refuse(*_):
        raise NoiseOpenedError

    monkeypatch.setattr(Streams, "generator", without_noise)
    monkeypatch.setattr(one_bit.Randomizer, "_whole", refuse)
    monkeypatch.setattr(bernstein, "standard_normals", refuse)


def stream(seed: int = 0) -> np.random.Generator:
    """Return a stream of noise that can be repeated."""
    return Streams(seed).generator(Purpose.NOISE)


def pearson(counts: np.ndarray, shares: np.ndarray) -> float:
    """Return the p-value of Pearson's test; cells that expect fewer than 8 are taken together."""
    expected = counts.sum() * shares
    rare = expected < 8.0
    seen, wanted = counts[~rare], expected[~rare]
    if expected[rare].sum() > 2.0 or counts[rare].any():
        seen, wanted = np.append(seen, counts[rare].sum()), np.append(wanted, max(expected[rare].sum(), 1e-9))
    return float(chi2.sf(((seen - wanted) ** 2 / wanted).sum(), len(seen) - 1))


class Scaled:
    """A stream of noise times a factor: what a wrong scale of the noise looks like to the rest of the code."""

    def __init__(self, noise, factor):
        self.noise, self.factor = noise, factor

    def standard_normal(self, shape):
        return self.factor * self.noise.standard_normal(shape)


def switch_off_gaussians(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every Gaussian release return its exact value from here on, with the event as planned."""
    monkeypatch.setattr(
        GridGaussian, "release", lambda self, ticks, noise: (ticks.astype(np.float64) * self.tick, self.event)
    )


class Exact(NamedTuple):
    """A Gaussian release: the value that was about to be noised, and its mechanism."""

    exact: Any
    mechanism: GridGaussian
    answer: Any


@contextmanager
def exact_releases(answers: "list[Exact] | Callable[[Any], Any] | None" = None) -> Iterator[list[Exact]]:
    """Note every Gaussian release; it is answered as on another table, by a function of its value, or exactly."""
    seen: list[Exact] = []

    def release(self, ticks, noise):
        exact = ticks.astype(np.float64) * self.tick
        answer = exact if answers is None else answers(exact) if callable(answers) else answers[len(seen)].answer
        seen.append(Exact(exact, self, answer))
        return answer, self.event

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GridGaussian, "release", release)
        yield seen
