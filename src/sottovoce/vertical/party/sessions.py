"""The conversations that a party is in: what each of them has reached, one step after the other.

A release happens once. Every step of a session is answered once; the last answer is kept, so that a request that is
repeated because a line broke is answered with the same bytes. Whatever else comes out of its turn is refused. Two
coordinators, or two trainings of one, have sessions of their own and do not touch each other's state. Sessions end with
the process; what was released in them does not, see `sottovoce.vertical.party.journal`.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

from sottovoce.randomness import Streams
from sottovoce.vertical.party.journal import Release
from sottovoce.vertical.protocol import close
from sottovoce.vertical.wire import Frame

MOST_OPEN: Final = 32  # sessions of one party; each may hold a copy of its table
MOST_ENDED: Final = 10_000  # names of sessions that are over, kept so that nothing of them is answered again


class SessionError(Exception):
    """Why a request has no place in its session; the text may cross."""


class MachineError(Exception):
    """Why a request cannot be answered now: its step is not used up.

    A failure of the machine, and not of the request. The text may cross.
    """


@dataclass(frozen=True)
class Place:
    """Where a release has its place, so that it is charged once."""

    session: str
    step: int
    release: str  # a name that no release has which was computed for other requests


class Session:
    """One conversation.

    ``worker``: what a training of several requests has reached, None outside of one.
    ``step``, ``asked``, ``answer``: of the step that was answered last; the digest of its request.
    ``owed``: its release, where the account may not know of it yet, which it does before that leaves.
    """

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.worker: Any = None
        self.step, self.asked, self.answer = 0, b"", b""
        self.owed: Release | None = None
        self._seeded: tuple[object, Streams] | None = None

    def repeated(self, frame: Frame) -> bytes | None:
        """Return the answer that was given to this very request, or None for the request that is next.

        Raises `SessionError` for anything else.
        """
        if frame.step == self.step + 1:
            return None
        if frame.step == self.step:
            if frame.digest == self.asked:
                return self.answer
            raise SessionError(f"step {frame.step} of this session was another request, which has been answered")
        if frame.step < self.step:
            raise SessionError(f"step {frame.step} of this session has been answered; the last one was {self.step}")
        raise SessionError(f"step {frame.step} of this session came where step {self.step + 1} is next")

    def take(self, frame: Frame, answer: bytes, owed: Release | None) -> None:
        """Count a step with what is answered to it."""
        self.step, self.asked, self.answer, self.owed = frame.step, frame.digest, answer, owed

    def streams(self, seed: object) -> Streams:
        """Open streams: fresh ones, or those that go on from a seed of a trial."""
        if seed is None:
            return Streams()
        if self._seeded is None or self._seeded[0] is not seed:
            self._seeded = seed, Streams(seed)
        return self._seeded[1]


class Sessions:
    """All sessions of one party; who uses it holds the party's lock."""

    def __init__(self) -> None:
        self._open: OrderedDict[bytes, Session] = OrderedDict()  # the one that was idle for longest first
        self._ended: OrderedDict[bytes, None] = OrderedDict()

    def find(self, frame: Frame) -> Session:
        """Return the session of a request, a new one for the first step of a new name.

        Raises `SessionError` if there is none.
        """
        session = self._open.get(frame.session) or self._begin(frame)
        self._open.move_to_end(frame.session)
        return session

    def _begin(self, frame: Frame) -> Session:
        if frame.session in self._ended:
            raise SessionError(
                f"this session has ended here: it was closed, or others came and at most {MOST_OPEN} are kept open, of "
                "which the one that was idle for longest ends. Begin again"
            )
        if frame.step != 1:
            raise SessionError(
                f"step {frame.step} came of a session that was never begun here, or ended with the party's process. "
                "What was charged for it stays charged. Begin again"
            )
        while len(self._open) >= MOST_OPEN:
            # one that holds no training goes first: it was a question or two
            idle = (name for name, session in self._open.items() if session.worker is None)
            self.end(next(idle, next(iter(self._open))))
        session = self._open[frame.session] = Session(frame.session)
        return session

    def workers(self) -> list[Any]:
        return [session.worker for session in self._open.values() if session.worker is not None]

    def end(self, name: bytes) -> None:
        """Forget a session, but not that it was."""
        session = self._open.pop(name, None)
        if session is not None:
            close(session.worker)
        self._ended[name] = None
        if len(self._ended) > MOST_ENDED:
            self._ended.popitem(last=False)

    def end_trainings(self) -> None:
        """Forget the sessions that hold a training: the rows that it was on are others now."""
        for name in [name for name, session in self._open.items() if session.worker is not None]:
            self.end(name)
