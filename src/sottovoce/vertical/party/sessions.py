"""The conversations that a party is in: what each of them has reached, one step after the other.

A release happens once. Every step of a session is answered once; the last answer is kept, so that a request that is
repeated because a line broke is answered with the same bytes. Whatever else comes out of its turn is refused. Two
coordinators, or two trainings of one, have sessions of their own and do not touch each other's state. With a journal
they outlive the process, see `sottovoce.vertical.party.journal`.
"""

import hashlib
import io
import secrets
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from sottovoce.randomness import Streams
from sottovoce.vertical.party.journal import MOST_ENDED, Journal, Reached
from sottovoce.vertical.protocol import close
from sottovoce.vertical.wire import Frame

MOST_OPEN: Final = 32  # sessions of one party; each may hold a copy of its table


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
    ``reached``: the step that was answered last; without its state.
    ``charged``: what the last step is charged as, empty where it costs nothing.
    ``is_owed``: whether the account may not know its answer yet, which it does before that leaves.
    ``behind``: what stands behind the last answer, as it is on record: a model, of which the answer does not tell, is a
    release too. Random where it is not on record, and nobody else has it.
    ``later``: a part of a model that is kept when the last answer may leave: its name, coefficients and intercept.
    """

    def __init__(self, name: bytes, reached: Reached | None = None) -> None:
        self.name = name
        self.worker: Any = None
        start = Reached(0, hashlib.sha256(b"session" + name).digest(), b"", b"", None)
        self.reached = start if reached is None else reached
        self.is_owed = reached is not None
        self._seeded: tuple[object, Streams] | None = None
        self.behind = b"" if reached is None else reached.state or b""
        held = {} if reached is None or reached.state is None else _arrays_in(reached.state)
        self.charged = str(held["charged"]) if held else ""
        self.later: tuple[str, Any, float] | None = None
        if "later" in held:
            self.later = str(held["later"]), held["later coef"], float(held["later intercept"])
        self._before = self.reached, self.charged, self.behind

    @property
    def step(self) -> int:
        return self.reached.step

    def place(self, about: object) -> Place:
        """Return what the last step is charged as: by another name wherever requests, or the charge, are others."""
        release = hashlib.sha256(b"release" + self.reached.history + repr(about).encode()).hexdigest()[:32]
        return Place(self.name.hex(), self.step, release)

    def owe(self, charged: str) -> None:
        self.charged, self.is_owed = charged, True

    def repeated(self, frame: Frame) -> bytes | None:
        """Return the answer that was given to this very request, or None for the request that is next.

        Raises `SessionError` for anything else.
        """
        if frame.step == self.step + 1:
            return None
        if frame.step == self.step:
            if frame.digest == self.reached.asked:
                return self.reached.answer
            raise SessionError(f"step {frame.step} of this session was another request, which has been answered")
        if frame.step < self.step:
            raise SessionError(f"step {frame.step} of this session has been answered; the last one was {self.step}")
        raise SessionError(f"step {frame.step} of this session came where step {self.step + 1} is next")

    def take(self, frame: Frame, answer: bytes) -> None:
        """Count a step, with what is answered to it unless `settle` says something better."""
        history = hashlib.sha256(self.reached.history + frame.step.to_bytes(8, "little") + frame.digest).digest()
        self._before = self.reached, self.charged, self.behind
        self.reached = Reached(frame.step, history, frame.digest, answer, None)
        self.charged, self.is_owed = "", False
        self.behind, self.later = secrets.token_bytes(16), None

    def give_back(self) -> None:
        """Take the last step back, of which nothing was computed."""
        self.reached, self.charged, self.behind = self._before
        self.is_owed = True  # whether the account knows that answer nobody remembers

    def settle(self, answer: bytes) -> None:
        self.reached = replace(self.reached, answer=answer)

    def kept(self) -> Reached:
        """Return what a new process goes on from; without a state where what the session holds ends with this one."""
        if self.worker is not None:
            return replace(self.reached, state=None)
        held: dict[str, Any] = {"charged": self.charged}
        if self.later is not None:
            held |= dict(zip(("later", "later coef", "later intercept"), self.later, strict=True))
        buffer = io.BytesIO()
        np.savez(buffer, **held)
        return replace(self.reached, state=buffer.getvalue())

    def streams(self, seed: object) -> Streams:
        """Open streams: fresh ones, or those that go on from a seed of a trial."""
        if seed is None:
            return Streams()
        if self._seeded is None or self._seeded[0] is not seed:
            self._seeded = seed, Streams(seed)
        return self._seeded[1]


def _arrays_in(packed: bytes) -> dict[str, Any]:
    with np.load(io.BytesIO(packed)) as held:  # which takes no pickles
        return dict(held)


class Sessions:
    """All sessions of one party; who uses it holds the party's lock."""

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal
        self._open: OrderedDict[bytes, Session] = OrderedDict()  # the one that was idle for longest first
        self._ended: OrderedDict[bytes, None] = OrderedDict()
        self._ended.update(dict.fromkeys(() if journal is None else journal.ended()))

    def __contains__(self, name: bytes) -> bool:
        return name in self._open

    def __len__(self) -> int:
        return len(self._open)

    @property
    def last(self) -> Session:
        return next(reversed(self._open.values()))

    def find(self, frame: Frame) -> Session:
        """Return the session of a request, a new one for the first step of a new name.

        Raises `SessionError` if there is none.
        """
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
            idle = (name for name, session in self._open.items() if session.worker is None)
            self.end(next(idle, next(iter(self._open))))
        if self._journal is not None:
            kept = self._journal.names
            waiting = [name for name in kept if name not in self._open]
            for name in waiting[: max(0, len(kept) - MOST_OPEN + 1)]:  # of runs that nobody took up again
                self.end(name)
        return self.add(Session(frame.session))

    def add(self, session: Session) -> Session:
        """Open a session, one that was taken up again perhaps."""
        self._open[session.name] = session
        return session

    def leave(self, session: Session) -> None:
        """Forget a session whose journal knows better than memory what it has reached; the next request takes it up."""
        self._open.pop(session.name, None)
        close(session.worker)

    def workers(self) -> list[Any]:
        return [session.worker for session in self._open.values() if session.worker is not None]

    def has_ended(self, name: bytes) -> bool:
        return name in self._ended

    def end(self, name: bytes) -> None:
        """Forget a session, but not that it was."""
        session = self._open.pop(name, None)
        if session is not None:
            close(session.worker)
        if self._journal is not None:
            self._journal.end(name)
        self._ended[name] = None
        if len(self._ended) > MOST_ENDED:
            self._ended.popitem(last=False)

    def end_trainings(self) -> None:
        """Forget the sessions that hold a training: the rows that it was on are others now."""
        for name in [name for name, session in self._open.items() if session.worker is not None]:
            self.end(name)
