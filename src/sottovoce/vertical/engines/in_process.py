"""Parties that share a process compute in clear: the reference for the other engines, and for trials and tests.

Nothing is secret from a process. What the engine keeps is the rest: parties meet at every command, what they are told
must agree, and only masked results come out.
"""

import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from sottovoce.vertical.engines.engine import EngineError, Whole
from sottovoce.vertical.engines.guarded import Checked
from sottovoce.vertical.engines.programs import Program

_OVER: Final = "this joint computation has not been started, or is over; begin a new one"


_Act = Callable[[dict[str, Whole]], None]


class _Room:
    """Where the threads of one session meet, and its variables."""

    def __init__(self, n_parties: int) -> None:
        self.n_parties = n_parties
        self.meeting = threading.Condition()
        self.values: dict[str, Whole] = {}
        self.seats: dict[int, weakref.ref[InProcessEngine]] = {}
        self.broken: str | None = None
        self._told: dict[int, bytes] = {}
        self._acts: list[_Act] = []
        self._round = 0

    def meet(self, rank: int, told: bytes, act: _Act | None, timeout: float) -> None:
        """Wait until all parties have told the same; the last to come acts for all, or tells all that it cannot."""
        with self.meeting:
            self._stop_if_broken()
            round_ = self._round
            self._told[rank] = told
            if act is not None:
                self._acts.append(act)
            if len(self._told) == self.n_parties:
                self._all_there()
            deadline = time.monotonic() + timeout
            try:
                while self._round == round_:
                    self._stop_if_broken()
                    if not self.meeting.wait(deadline - time.monotonic()) and self._round == round_:
                        late = ", ".join(str(r) for r in range(self.n_parties) if r not in self._told)
                        self.fail(f"party {late} did not come to the joint computation within {timeout:g} s")
            except BaseException:
                self.fail(f"party {rank} was interrupted")
                raise

    def fail(self, why: str) -> None:
        with self.meeting:
            self.broken = self.broken or why
            self.values.clear()
            self.meeting.notify_all()

    def _all_there(self) -> None:
        first = self._told[0]
        odd = [rank for rank, told in self._told.items() if told != first]
        if odd:
            self.fail(f"party {', '.join(map(str, odd))} has been given other commands than party 0")
            return
        try:
            for act in self._acts:
                act(self.values)
        except Exception as error:
            self.fail(f"the program failed with {type(error).__name__}")
            return
        self._told, self._acts = {}, []
        self._round += 1
        self.meeting.notify_all()

    def _stop_if_broken(self) -> None:
        if self.broken is not None:
            raise EngineError(self.broken)


_rooms: "weakref.WeakValueDictionary[bytes, _Room]" = weakref.WeakValueDictionary()
_rooms_lock = threading.Lock()


class InProcessEngine(Checked):
    """A party whose partners are threads of the same process, found by the session's name.

    ``session``: the same at all parties, and no other session's.
    ``rank`` and ``n_parties``: this party's place, and how many take part.
    ``timeout``: seconds that partners may take to come to a command.
    """

    name = "in-process"
    bound = 1 << 63

    def __init__(self, session: bytes, rank: int, n_parties: int, timeout: float = 600) -> None:
        super().__init__(rank, n_parties)
        self._session, self._timeout = session, timeout
        self._room: _Room | None = None
        self._is_over = False

    def start(self) -> None:
        with _rooms_lock:
            if self._is_over:  # closed before its thread came to start it: nobody would come
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
        self._meet(None)

    def close(self) -> None:
        with _rooms_lock:
            room, self._room, self._is_over = self._room, None, True
        if room is not None:
            room.fail(f"party {self.rank} has left the joint computation")

    @contextmanager
    def _command(self) -> Iterator[None]:
        room = self._entered()
        try:
            yield
        except EngineError as error:  # this party cannot go on
            room.fail(f"party {self.rank} was given a command that is refused: {error}")
            raise

    def _put(self, name: str, owner: int, shape: tuple[int, ...], value: Whole | None) -> None:
        self._meet(None if value is None else lambda values: values.update({name: value.copy()}))

    def _run(self, program: Program, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        def act(values: dict[str, Whole]) -> None:
            values.update(zip(outputs, program.in_clear(*(values[name] for name in inputs)), strict=True))

        self._meet(act if self.rank == 0 else None)

    def _reveal(self, name: str, shape: tuple[int, ...]) -> Whole:
        taken: list[Whole] = []
        self._meet(lambda values: taken.append(values[name].copy()))
        return taken[0]

    def _drop(self, names: Sequence[str]) -> None:
        def act(values: dict[str, Whole]) -> None:
            for name in names:
                del values[name]

        self._meet(act if self.rank == 0 else None)

    def _entered(self) -> _Room:
        if self._room is None:
            raise EngineError(_OVER)
        return self._room

    def _meet(self, act: _Act | None) -> None:
        self._entered().meet(self.rank, self.digest, act, self._timeout)
