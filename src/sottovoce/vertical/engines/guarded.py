"""An engine between processes behind the checks that all of them share."""

import hashlib
from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np

from sottovoce.vertical.engines.engine import Engine, EngineError, Whole
from sottovoce.vertical.engines.programs import Program
from sottovoce.vertical.engines.variables import Variables

__all__ = ["Exchanges", "Guarded"]


class Exchanges(Protocol):
    """What an engine offers besides its commands so that parties can compare them."""

    def exchange(self, message: bytes) -> list[bytes]:
        """Send public bytes to all and return what each has sent, in the order of ranks, the own ones included."""


class Guarded(Engine):
    """An engine whose commands are checked here and compared with the partners' before anything runs or is opened.

    An error ends the session: parties that have failed in different places cannot go on together.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.name, self.bound = engine.name, engine.bound  # type: ignore[misc]
        self.rank, self.n_parties = engine.rank, engine.n_parties
        self._variables = Variables(engine.n_parties)
        self._over = False

    def start(self) -> None:
        """Connect; see `sottovoce.vertical.engines.self_check` for what is checked then."""
        self._engine.start()

    def put(self, name: str, owner: int, shape: tuple[int, ...], value: Whole | None) -> None:
        """Make a secret variable of what party ``owner`` knows."""
        self._go_on()
        self._variables.put(name, owner, shape)
        if (value is not None) != (owner == self.rank):
            raise EngineError(f"the owner of {name!r}, and nobody else, gives its value")
        if value is not None and (value.dtype != np.int64 or value.shape != shape):
            raise EngineError(f"{name!r} must be of 64-bit whole numbers and of shape {shape}")
        self._engine.put(name, owner, shape, value)
        self._over = False

    def run(self, program: Program, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self._go_on()
        self._variables.run(program, inputs, outputs)
        self._compare()
        self._engine.run(program, inputs, outputs)
        self._over = False

    def reveal(self, name: str) -> Whole:
        """Open what `Mask` has made."""
        self._go_on()
        shape = self._variables.reveal(name)
        self._compare()
        opened = self._engine.reveal(name)
        if opened.shape != shape or opened.dtype != np.int64:
            raise EngineError("what was opened has another shape than the plan's; a party computes something else")
        # all have what they waited for before any of them may leave, and all the same
        self._compare_with(hashlib.sha256(opened.tobytes()).digest(), "has opened other numbers; use none of them")
        self._over = False
        return opened

    def drop(self, *names: str) -> None:
        self._go_on()
        self._variables.drop(names)
        self._engine.drop(*names)
        self._over = False

    def close(self) -> None:
        self._over = True
        self._engine.close()

    def _go_on(self) -> None:
        """Refuse commands after an error; the flag stays up unless the command ends well."""
        if self._over:
            raise EngineError("this joint computation is over; begin a new one")
        self._over = True

    def _compare(self) -> None:
        self._compare_with(self._variables.digest, "has been given other commands; nothing was computed from them")

    def _compare_with(self, own: bytes, otherwise: str) -> None:
        told = cast(Exchanges, self._engine).exchange(own)
        for rank, other in enumerate(told):
            if other != own:
                raise EngineError(f"party {rank} {otherwise}")
        if len(told) != self.n_parties:
            raise EngineError("not all parties have answered")
