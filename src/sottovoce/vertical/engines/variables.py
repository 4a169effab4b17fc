"""What every engine checks of the commands it is given, and the account of them that parties compare."""

import hashlib
import json
import math
from collections.abc import Sequence

from sottovoce.vertical.engines.engine import EngineError
from sottovoce.vertical.engines.programs import Program, digest_of

__all__ = ["Variables"]


class Variables:
    """Names and shapes of a session's secret variables, and which of them may be opened.

    Nothing here knows a value: what is checked and what `digest` tells are public at all parties.
    """

    def __init__(self, n_parties: int) -> None:
        self._n_parties = n_parties
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._opens: set[str] = set()
        self._told = hashlib.sha256(f"{n_parties} parties".encode())

    @property
    def digest(self) -> bytes:
        """Of all commands so far: what parties compare before anything runs or is opened."""
        return self._told.digest()

    def shape(self, name: str) -> tuple[int, ...]:
        if name not in self._shapes:
            raise EngineError(f"there is no secret variable {name!r}; make it with put or run")
        return self._shapes[name]

    def put(self, name: str, owner: int, shape: tuple[int, ...]) -> None:
        """Note a variable that its owner gives."""
        if not 0 <= owner < self._n_parties:
            raise EngineError(f"owner must be below the number of parties, {self._n_parties}, but is {owner}")
        if not shape or any(size < 1 for size in shape):
            raise EngineError(f"a secret variable needs at least one axis and none empty, but {name!r} has {shape}")
        self._shapes[name] = shape
        self._opens.discard(name)
        self._tell("put", name, owner, list(shape))

    def run(self, program: Program, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        kind = type(program).__name__
        try:
            shapes = program.shapes(*(self.shape(name) for name in inputs))
        except ValueError as error:
            raise EngineError(f"{kind} cannot run on these variables: {error}") from None
        if len(shapes) != len(outputs) or len(set(outputs)) != len(outputs):
            raise EngineError(f"{kind} makes {len(shapes)} variables, but outputs names {', '.join(outputs) or 'none'}")
        for name, shape in zip(outputs, shapes, strict=True):
            self._shapes[name] = shape
            (self._opens.add if program.opens else self._opens.discard)(name)
        self._tell("run", digest_of([program]), list(inputs), list(outputs))

    def reveal(self, name: str) -> tuple[int, ...]:
        """Note an opening and return the shape, or refuse it."""
        shape = self.shape(name)
        if name not in self._opens:
            raise EngineError(f"only what the program Mask or ChooseColumn has made is opened, and {name!r} is not")
        self._tell("reveal", name)
        return shape

    def drop(self, names: Sequence[str]) -> None:
        """Note that variables are forgotten."""
        for name in names:
            self.shape(name)
            del self._shapes[name]
            self._opens.discard(name)
        self._tell("drop", list(names))

    @property
    def size(self) -> int:
        """How many numbers are kept."""
        return sum(math.prod(shape) for shape in self._shapes.values())

    def _tell(self, *command: object) -> None:
        self._told.update(hashlib.sha256(json.dumps(command).encode()).digest())
