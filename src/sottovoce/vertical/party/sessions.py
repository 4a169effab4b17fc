"""The conversations that a party is in: what each of them has reached, one step after the other.

A release happens once. Every step of a session is answered once; the last answer is kept, so that a request that is
repeated because a line broke is answered with the same bytes. Whatever else comes out of its turn is refused. Two
coordinators, or two trainings of one, have sessions of their own and do not touch each other's state. With a journal
they outlive the process, see `sottovoce.vertical.party.journal`.
"""

import hashlib
import os
from collections import OrderedDict, deque
from typing import Any, Final

from sottovoce.randomness import StoredKey, Streams, TurningStreams
from sottovoce.vertical.party.journal import MOST_ENDED, Journal, Kept, SessionLog
from sottovoce.vertical.protocol import Training
from sottovoce.vertical.wire import Frame

MOST_OPEN: Final = 32  # sessions of one party; each may hold a copy of its table


class SessionError(Exception):
    """Why a request has no place in its session; the text may cross."""


class MachineError(Exception):
    """Why a request cannot be answered now, before anything of it was computed: its step is not used up.

    A failure of the machine, and not of the request. The text may cross.
    """


class Session:
    """One conversation.

    ``step``: the last one that was answered.
    ``history``: digest of all requests so far.
    ``log``: where it is kept.
    ``due``: steps that were answered in a process before this one, and come again.
    ``ran``: whether answering the last request could have changed the session.
    """

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.training = Training()
        self.step = 0
        self.history = hashlib.sha256(b"session" + name).digest()
        self.log: SessionLog | None = None
        self.due: deque[Kept] = deque()
        self.ran = False
        self._asked = b""
        self._answer = b""
        self._before = self._place
        self._turning: TurningStreams | None = None

    def repeated(self, frame: Frame) -> bytes | None:
        """Return the answer that was given to this very request, or None for the request that is next.

        Raises `SessionError` for anything else.
        """
        if frame.step == self.step + 1:
            return None
        if frame.step == self.step:
            if frame.digest == self._asked:
                return self._answer
            raise SessionError(f"step {frame.step} of this session was another request, which has been answered")
        if frame.step < self.step:
            raise SessionError(f"step {frame.step} of this session has been answered; the last one was {self.step}")
        raise SessionError(f"step {frame.step} of this session came where step {self.step + 1} is next")

    def after(self, frame: Frame) -> bytes:
        return hashlib.sha256(self.history + frame.step.to_bytes(8, "little") + frame.digest).digest()

    def take(self, frame: Frame, answer: bytes) -> None:
        """Count a step, with what is answered to it unless `settle` says something better."""
        self._before = self._place
        self._place = self.after(frame), frame.step, frame.digest, answer
        self.ran = False

    def give_back(self) -> None:
        """Take the last step back, of which nothing was computed."""
        self._place = self._before

    @property
    def _place(self) -> tuple[bytes, int, bytes, bytes]:
        return self.history, self.step, self._asked, self._answer

    @_place.setter
    def _place(self, place: tuple[bytes, int, bytes, bytes]) -> None:
        self.history, self.step, self._asked, self._answer = place

    def turn(self, key: StoredKey) -> None:
        """Draw from this key in this step: also what goes on with a stream that was opened before."""
        if self._turning is None:
            self._turning = TurningStreams(key)
        else:
            self._turning.turn(key)

    def streams(self) -> Streams:
        """Open streams under the key of this step, or fresh ones where there is none."""
        return Streams() if self._turning is None else self._turning.open()

    def settle(self, answer: bytes) -> None:
        self._answer = answer


class Sessions:
    """All sessions of one party; who uses it holds the party's lock.

    They never leave the process: a copy of a noise stream, or of the number of steps that are left, would be good for
    the same release twice.
    """

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal
        self._open: OrderedDict[bytes, Session] = OrderedDict()  # the one that was idle for longest first
        self._ended: OrderedDict[bytes, None] = OrderedDict()
        self._process = os.getpid()
        for name in () if journal is None else journal.ended()[-MOST_ENDED:]:
            self._ended[name] = None

    def __contains__(self, name: bytes) -> bool:
        return name in self._open and self._process == os.getpid()

    def __reduce__(self) -> "tuple[type[Sessions], tuple[()]]":
        return Sessions, ()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def last(self) -> Session:
        return next(reversed(self._open.values()))

    def find(self, frame: Frame) -> Session:
        """Return the session of a request, a new one for the first step of a new name.

        Raises `SessionError` if there is none.
        """
        if self._process != os.getpid():  # after a fork the parent goes on with them
            self.__init__()  # type: ignore[misc]
        session = self._open.get(frame.session)
        if session is None:
            session = self._begin(frame)
        self._open.move_to_end(frame.session)
        return session

    def _begin(self, frame: Frame) -> Session:
        if frame.session in self._ended:
            raise SessionError(
                f"this session has ended here: it was closed, or others came and at most {MOST_OPEN} are kept open, of "
                "which the one that was idle for longest ends. Begin again"
            )
        if frame.step != 1:
            raise SessionError(f"step {frame.step} came of a session that was never begun here. Begin again")
        while len(self._open) >= MOST_OPEN:
            # one that holds no training goes first: it was a question or two
            idle = (name for name, session in self._open.items() if session.training.worker is None)
            self.end(next(idle, next(iter(self._open))))
        if self._journal is not None and not self._journal.asked_again:
            for name in [name for name in self._journal.names if name not in self._open]:
                if len(self._journal.names) >= MOST_OPEN:
                    self.end(name)
        return self.add(Session(frame.session))

    def add(self, session: Session) -> Session:
        """Open a session, one that was taken up again perhaps."""
        self._open[session.name] = session
        return session

    def leave(self, session: Session) -> None:
        """Forget a session whose journal knows better than memory what it has reached; the next request takes it up."""
        self._open.pop(session.name, None)
        session.training.close()
        if session.log is not None:
            session.log.close()

    def workers(self) -> list[Any]:
        return [session.training.worker for session in self._open.values() if session.training.worker is not None]

    def has_ended(self, name: bytes) -> bool:
        return name in self._ended

    def end(self, name: bytes) -> None:
        """Forget a session, but not that it was."""
        session = self._open.pop(name, None)
        if session is not None:
            session.training.close()
        if session is not None and session.log is not None:
            session.log.close()
            session.log = None
        if self._journal is not None and name in self._journal.names:
            self._journal.end(name)
        self._ended[name] = None
        if len(self._ended) > MOST_ENDED:
            self._ended.popitem(last=False)

    def end_trainings(self) -> None:
        """Forget the sessions that hold a training: the rows that it was on are others now."""
        for name in [name for name, session in self._open.items() if session.training.worker is not None]:
            self.end(name)
