"""Parties that share a process compute in clear: the reference for the other engines, and for trials and tests.

Nothing is secret from a process. What the engine keeps is the rest: parties meet before every command, what they are
told must agree, and only masked results come out.
"""

import threading
import weakref
from collections.abc import Sequence
from typing import ClassVar, Final

from sottovoce.vertical.engines.engine import EngineError, Guarded, Whole
from sottovoce.vertical.engines.programs import Program

_OVER: Final = "this joint computation has not been started, or is over; begin a new one"


class _Room:
    """Where the threads of one session meet, and its variables."""

    def __init__(self, n_parties: int) -> None:
        self.n_parties = n_parties
        self.values: dict[str, Whole] = {}
        self.seats: dict[int, weakref.ref[InProcessEngine]] = {}
        self._broken = ""
        self._told: dict[int, bytes] = {}  # of those who wait; another one, once all are there
        self._gate = threading.Barrier(n_parties, self._turn)

    def meet(self, rank: int, message: bytes, timeout: float) -> list[bytes]:
        """Wait until all parties are there, and return what they say, in the order of their ranks."""
        told = self._told
        told[rank] = message
        try:
            self._gate.wait(timeout)
        except threading.BrokenBarrierError:
            if told is self._told:  # else all were there, and one has left since
                late = ", ".join(str(r) for r in range(self.n_parties) if r not in told)
                self.fail(f"party {late} did not come to the joint computation within {timeout:g} s")
                raise EngineError(self._broken) from None
        return [told[place] for place in range(self.n_parties)]

    def fail(self, why: str) -> None:
        self._broken = self._broken or why
        self._gate.abort()

    def _turn(self) -> None:
        self._told = {}


_rooms: "weakref.WeakValueDictionary[bytes, _Room]" = weakref.WeakValueDictionary()
_rooms_lock = threading.Lock()


class InProcessEngine(Guarded):
    """A party whose partners are threads of the same process, found by the session's name.

    What has been compared is done by whoever it is for, before anybody's next command.

    ``session``: the same at all parties, and no other session's.
    ``rank`` and ``n_parties``: this party's place, and how many take part.
    ``timeout``: seconds that partners may take to come to a command.
    """

    meets_at_all: ClassVar[bool] = True
    bound: ClassVar[int] = 1 << 63

    def __init__(self, session: bytes, rank: int, n_parties: int, timeout: float = 600) -> None:
        super().__init__(rank, n_parties)
        self._session, self._timeout = session, timeout
        self._room: _Room | None = None

    def start(self) -> None:
        with _rooms_lock:
            if self._over:  # closed before its thread came to start it: nobody would come
                raise EngineError(_OVER)
            room = _rooms.get(self._session)
            if room is None:
                room = _rooms[self._session] = _Room(self.n_parties)
            taken = room.seats.get(self.rank)
            if room.n_parties != self.n_parties or not 0 <= self.rank < self.n_parties or (taken and taken()):
                room.fail(f"party {self.rank} of {self.n_parties} has no place in this joint computation")
            else:
                room.seats[self.rank] = weakref.ref(self)
            self._room = room
        self.exchange(b"")

    def exchange(self, message: bytes) -> list[bytes]:
        return self._entered().meet(self.rank, message, self._timeout)

    def _put(self, name: str, owner: int, shape: tuple[int, ...], value: Whole | None) -> None:
        if value is not None:
            self._entered().values[name] = value.copy()

    def _run(self, program: Program, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        values = self._entered().values
        if self.rank == 0:
            values.update(zip(outputs, program.in_clear(*(values[name] for name in inputs)), strict=True))

    def _reveal(self, name: str) -> Whole:
        self.exchange(b"")  # whoever has made it is done
        return self._entered().values[name].copy()

    def _drop(self, names: Sequence[str]) -> None:
        values = self._entered().values
        if self.rank == 0:
            for name in names:
                del values[name]

    def _end(self) -> None:
        with _rooms_lock:
            room, self._room = self._room, None
        if room is not None:
            room.fail(f"party {self.rank} has left the joint computation")

    def _entered(self) -> _Room:
        if self._room is None:
            raise EngineError(_OVER)
        return self._room
