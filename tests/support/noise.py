"""What a test uses to show that no mechanism drew noise, whichever mechanism it was."""

import pytest

from sottovoce.local.device import randomizer as one_bit
from sottovoce.published.bernstein import randomizer as bernstein
from sottovoce.randomness import Purpose, Streams

__all__ = ["NoiseOpenedError", "forbid_noise"]


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
