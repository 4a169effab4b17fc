"""Noise in tests: forbidden (a refusal comes before it), off (the optimum shows), or scaled (a wrong scale is seen)."""

from dataclasses import dataclass

import numpy as np
import pytest

from sottovoce.local.device import randomizer as one_bit
from sottovoce.papers.ldp import report as bernstein
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.randomness import Purpose, Streams

__all__ = ["NoiseOpenedError", "Recorder", "Scaled", "forbid_noise", "scale_gaussians", "switch_off_gaussians"]


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


def scale_gaussians(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """Scale the noise of every Gaussian release from here on."""
    original = GridGaussian.release
    monkeypatch.setattr(
        GridGaussian, "release", lambda self, ticks, noise: original(self, ticks, Scaled(noise, factor))
    )


@dataclass
class Recorder:
    """Keeps what the mechanisms released in one fit."""

    factor: float
    releases: list

    def install(self, monkeypatch):
        original = GridGaussian.release
        recorder = self

        def release(self, ticks, noise):
            value, event = original(self, ticks, Scaled(noise, recorder.factor))
            recorder.releases.append((value, self.noise_std, self.l2_sensitivity))
            return value, event

        monkeypatch.setattr(GridGaussian, "release", release)
