"""What an engine of secure computation does for a party: take its numbers, run a listed program, open what is masked.

All parties of a session give the same commands in the same order; what differs is which values they know. Numbers are
whole, modulo 2^64 or a prime: there is no fixed point and no truncation, so what is opened is, bit for bit, what the
same whole numbers are in clear (`Program.in_clear`). A wrong setting of an engine, a partner with other software, a
fault in its arithmetic: `self_check` sees all of them before any data are shared, by every kind of program on numbers
that all know, bit for bit.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.exceptions import SottovoceError
from sottovoce.vertical.engines.programs import (
    Add,
    AddScores,
    AddSlopes,
    ChooseColumn,
    CrossProduct,
    Mask,
    MoveDuals,
    Program,
    digest_of,
)

Whole = NDArray[np.int64]


class EngineError(SottovoceError):
    """A joint computation cannot go on; the text tells nothing about data, and may cross."""


class Engine(ABC):
    """One party's end of a joint computation."""

    rank: int  # this party's place among all that compute
    n_parties: int

    @abstractmethod
    def start(self) -> None:
        """Connect to the others and check, bit for bit, that the session computes what it should; no data are shared.

        As every other command it raises `EngineError` where a partner does not answer in time, is another one, or
        computes something else.
        """

    @abstractmethod
    def put(self, name: str, owner: int, shape: tuple[int, ...], value: Whole | None) -> None:
        """Make a secret variable of what party ``owner`` knows; the others give None."""

    @abstractmethod
    def run(self, program: Program, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        """Run a program on secret variables; its results are secret variables, which may replace inputs."""

    @abstractmethod
    def reveal(self, name: str) -> Whole:
        """Open what a program that opens has made (`Mask`, `ChooseColumn`), to all parties; the rest is refused."""

    @abstractmethod
    def drop(self, *names: str) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """End the session here; never raises, and may be called again."""


# ------------------------------------------------------------------ what every engine checks


class Guarded(Engine):
    """An engine that knows the names of a session's secret variables, and which of them may be opened.

    What is checked is public at all parties: they compare what they were told before anything runs or is opened. An
    error ends the session: parties that have failed in different places cannot go on together.
    """

    meets_at_all: ClassVar[bool] = False
    """Whether parties compare before every command, as those do whom it costs nothing."""

    bound: ClassVar[int]
    """Values and sums below it in absolute value are exact."""

    def __init__(self, rank: int, n_parties: int) -> None:
        self.rank, self.n_parties = rank, n_parties
        self._over = False
        self._names: dict[str, bool] = {}  # of the secret variables: whether one may be opened
        self._told = hashlib.sha256(f"{self.n_parties} parties".encode())

    def close(self) -> None:
        self._over = True
        self._end()

    # what each engine does, once it is checked

    @abstractmethod
    def exchange(self, message: bytes) -> list[bytes]:
        """Send public bytes to all and return what each has sent, in the order of ranks, the own ones included."""

    @abstractmethod
    def _put(self, name: str, owner: int, shape: tuple[int, ...], value: Whole | None) -> None: ...

    @abstractmethod
    def _run(self, program: Program, inputs: Sequence[str], outputs: Sequence[str]) -> None: ...

    @abstractmethod
    def _reveal(self, name: str) -> Whole: ...

    @abstractmethod
    def _drop(self, names: Sequence[str]) -> None: ...

    @abstractmethod
    def _end(self) -> None: ...

    # the commands

    def put(self, name: str, owner: int, shape: tuple[int, ...], value: Whole | None) -> None:
        with self._command():
            if (value is not None) != (owner == self.rank):
                raise EngineError(f"the owner of {name!r}, and nobody else, gives its value")
            if value is not None and (value.dtype != np.int64 or value.shape != shape):
                raise EngineError(f"{name!r} must be of 64-bit whole numbers and of shape {shape}")
            self._names[name] = False
            self._tell("put", name, owner, list(shape))
            self._put(name, owner, shape, value)

    def run(self, program: Program, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        with self._command():
            self._check_known(*inputs)
            self._names |= dict.fromkeys(outputs, program.opens)
            self._tell("run", digest_of([program]), list(inputs), list(outputs), compare=True)
            self._run(program, inputs, outputs)

    def reveal(self, name: str) -> Whole:
        with self._command():
            self._check_known(name)
            if not self._names[name]:
                raise EngineError(f"only what the program Mask or ChooseColumn has made is opened, and {name!r} is not")
            self._tell("reveal", name, compare=True)
            opened = self._reveal(name)
            # all have what they waited for before any of them may leave, and all the same
            self._compare(hashlib.sha256(opened.tobytes()).digest(), "has opened other numbers; use none of them")
            return opened

    def drop(self, *names: str) -> None:
        with self._command():
            self._check_known(*names)
            for name in names:
                del self._names[name]
            self._tell("drop", list(names))
            self._drop(names)

    @contextmanager
    def _command(self) -> Iterator[None]:
        if self._over:
            raise EngineError("this joint computation is over; begin a new one")
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _check_known(self, *names: str) -> None:
        for name in names:
            if name not in self._names:
                raise EngineError(f"there is no secret variable {name!r}; make it with put or run")

    def _tell(self, *command: object, compare: bool = False) -> None:
        self._told.update(hashlib.sha256(json.dumps(command).encode()).digest())
        if compare or self.meets_at_all:
            self._compare(self._told.digest(), "has been given other commands; nothing was computed from them")

    def _compare(self, own: bytes, otherwise: str) -> None:
        told = self.exchange(own)
        for rank, other in enumerate(told):
            if other != own:
                raise EngineError(f"party {rank} {otherwise}")
        if len(told) != self.n_parties:
            raise EngineError("not all parties have answered")


_ROWS, _COLUMNS = 11, 8

CHECKED: Final[tuple[Program, ...]] = (
    Add(),
    CrossProduct(),
    MoveDuals(clip=900, offset=1500, factors=(3, 2), bounds=(600, 1400)),
    MoveDuals(clip=900, offset=1500, factors=(2,), bounds=(1500,), shift=700),
    AddSlopes(coefficients=(-500, 7, 3, 2)),
    AddScores(offset=1500, factors=(3, 2), bounds=(600, 1400)),
    AddScores(offset=0, factors=(1,), bounds=(900,), shift=1),
    ChooseColumn(constant=1 << 14, n_data_parties=2),
)
"""One of each kind with constants of the same order as the numbers, so that every branch is taken."""


def self_check(engine: Guarded, seed: int, programs: Sequence[Program] = CHECKED) -> None:
    """Run programs on numbers that follow from the seed, and compare what is opened with what it is in clear.

    Raises `EngineError`: one number differs, or a partner fails.
    """
    numbers = np.random.default_rng(seed)
    for place, program in enumerate(programs):
        inputs = _inputs(program, engine, numbers)
        names = [f"check {place} {k}" for k in range(len(inputs))]
        for k, (name, value) in enumerate(zip(names, inputs, strict=True)):
            owner = k % engine.n_parties
            engine.put(name, owner, value.shape, value if owner == engine.rank else None)
        expected = program.in_clear(*inputs)
        results = [f"check {place} result {k}" for k in range(len(expected))]
        engine.run(program, names, results)
        for result, value in zip(results, expected, strict=True):
            noise = [numbers.integers(-(1 << 40), 1 << 40, value.shape) for _ in range(engine.n_parties)]
            shares = [f"check noise {rank}" for rank in range(engine.n_parties)]
            for rank, (name, share) in enumerate(zip(shares, noise, strict=True)):
                engine.put(name, rank, share.shape, share if rank == engine.rank else None)
            engine.run(Mask(), [result, *shares], ["check opened"])
            if not np.array_equal(engine.reveal("check opened"), value + np.sum(noise, axis=0)):
                raise EngineError(
                    f"the self-test failed: {type(program).__name__} gives other numbers here than in clear, so the "
                    "parties' engines do not work together; no data were shared"
                )
            engine.drop(*shares, "check opened")
        engine.drop(*sorted({*names, *results}))


def _inputs(program: Program, engine: Guarded, numbers: np.random.Generator) -> list[Whole]:
    """Return inputs of a program; of two blocks with as many columns as exceed what an engine may compute at once."""
    whole = numbers.integers
    if isinstance(program, Add):
        large = engine.bound // 4
        return [whole(-large, large, (_ROWS, 2)) for _ in range(3)]
    if isinstance(program, CrossProduct):
        shapes = ((_COLUMNS, _COLUMNS + 1), (_ROWS, _COLUMNS), (_ROWS, _COLUMNS + 1))
        return [whole(-(1 << 14), 1 << 14, shape) for shape in shapes]
    widths = (_COLUMNS, 1)
    if isinstance(program, ChooseColumn):
        large = engine.bound // 16
        scores: list[Whole] = [whole(-large, large, width) for width in widths]
        total: Whole = whole(-1000, 1000, 1)
        noise: list[Whole] = [whole(-large, large, 2 * (sum(widths) + 1)) for _ in range(3)]
        return [*scores, total, *noise]
    rows: list[Whole] = [2 * whole(0, 2, _ROWS) - 1]
    if isinstance(program, MoveDuals):
        rows.insert(0, whole(-1000, 1000, _ROWS))
    sums: list[Whole] = [whole(-1000, 1000, width) for width in (*widths, 1)]
    margins: list[Whole] = [whole(-1000, 1000, _ROWS) for _ in widths]
    tables: list[Whole] = [whole(-(1 << 14), 1 << 14, (_ROWS, width)) for width in widths]
    return [*rows, *sums, *margins, *tables]
