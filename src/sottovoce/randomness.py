"""Random streams: cryptographic bits, seeded by the operating system, one stream for each purpose.

Every random number of a fit comes from `Streams`: AES-128 in counter mode (`randomgen.AESCounter`), keyed with 128 bits
of the operating system. A user's ``random_state`` replaces the key by one that is derived from the seed: the run can
then be repeated, and whoever knows the seed can subtract the noise. The receipt of such a run says so.

Sampling and noise never share a stream, so that a change of the one (another batch size, say) cannot shift the other.
Two runs with one seed draw the same noise: their difference shows what differs between their tables to everybody, who
needs no seed for that. The second one in a process warns. Other processes are not known here: a ledger refuses seeds.

A `Streams` object is made inside one fit and never outlives it. A process that forks in the middle of one still shares
no stream with its child: there every stream gets a new key at once, and a copy of one is refused. Seeded streams go on
as they are, in both.
"""

import os
import secrets
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum
from typing import Final, NoReturn

import numpy as np
from randomgen import AESCounter

from sottovoce._warnings import warn_of_privacy
from sottovoce.exceptions import ParameterError

_MAX_SEED: Final = 2**63
_KEY_BITS: Final = 128


UNCOUNTED: Final[ContextVar[bool]] = ContextVar("uncounted_fits", default=False)
_SEEDS_OF_NOISE: Final[set[int]] = set()


@contextmanager
def uncounted_fits() -> Iterator[None]:
    """Count neither tables nor seeds: a search accounts for its trials together, audits and forecasts fit nobody."""
    token = UNCOUNTED.set(True)
    try:
        yield
    finally:
        UNCOUNTED.reset(token)


class Purpose(IntEnum):
    """What a stream is for; the value is part of the derived key, so it must never change."""

    NOISE = 1
    SAMPLING = 2
    SHUFFLING = 3
    PERSONS = 4
    HOLDING_OUT = 5


class _PrivateBits(AESCounter):  # type: ignore[misc]
    """Bits under a key that nobody knows, and that no two holders have."""

    def __init__(self) -> None:
        super().__init__(key=secrets.randbits(_KEY_BITS))
        _LIVE.add(self)

    def change_key(self) -> None:
        """Start again under a key of the operating system; whatever was buffered is dropped."""
        fresh = AESCounter(key=secrets.randbits(_KEY_BITS))
        self.state = {**fresh.state, "bit_generator": type(self).__name__}

    def __reduce__(self) -> NoReturn:
        raise TypeError("a private random stream cannot be copied or pickled: two holders would draw the same noise.")


_LIVE: Final[weakref.WeakSet[_PrivateBits]] = weakref.WeakSet()


def _change_keys() -> None:
    for bits in list(_LIVE):
        bits.change_key()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_change_keys)


class Streams:
    """The random streams of one fit.

    ``random_state``: None (the private choice) draws the keys from the operating system. An int in [0, 2**63) fixes
        them. A generator is asked for one such int, and so moves on.
    ``seeded``: True when the keys can be derived from something that a person may know.
    """

    def __init__(self, random_state: object = None) -> None:
        self.seeded: bool = random_state is not None
        self._seed: int | None = _seed_of(random_state) if self.seeded else None
        self._streams: dict[Purpose, np.random.Generator] = {}

    @property
    def opened(self) -> bool:
        """Whether any stream was handed out: from then on noise may have been drawn."""
        return bool(self._streams)

    def generator(self, purpose: Purpose) -> np.random.Generator:
        """Return the stream for ``purpose``; the same object at each call."""
        if purpose not in self._streams:
            if purpose is Purpose.NOISE:
                self.warn_of_second_use()
            self._streams[purpose] = np.random.Generator(self._bits(purpose))
        return self._streams[purpose]

    def warn_of_second_use(self) -> None:
        """Warn if noise was drawn from this seed before; `generator` does so where nobody has asked."""
        if self._seed is not None and not UNCOUNTED.get():
            _warn_of_second_use(self._seed)

    def _bits(self, purpose: Purpose) -> AESCounter:
        if self._seed is None:
            return _PrivateBits()
        return AESCounter(np.random.SeedSequence([self._seed, purpose.value]))


def _warn_of_second_use(seed: int) -> None:
    if seed in _SEEDS_OF_NOISE:
        warn_of_privacy(
            "noise was drawn from this random_state before in this process, and is drawn again now: the difference of "
            "both results has no noise, for everybody, so neither receipt holds. Leave random_state out, or give each "
            "run a seed of its own (clone and cross-validation copy it)."
        )
    _SEEDS_OF_NOISE.add(seed)


def _seed_of(random_state: object) -> int:
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool):
        seed = int(random_state)
        if 0 <= seed < _MAX_SEED:
            return seed
    elif isinstance(random_state, np.random.Generator):
        return int(random_state.integers(_MAX_SEED))
    elif isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(0, 2**31 - 1, dtype=np.int64))
    raise ParameterError(
        f"random_state must be None, a whole number in [0, 2**63) or a numpy generator; got {random_state!r}. "
        "Leave it None for a private run: a run that can be repeated is not private against whoever knows the seed."
    )
