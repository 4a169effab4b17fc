"""One party on two neighbouring tables at once, with the same noisy answers on both.

Whatever a mechanism adds noise to is answered by the same number on both tables, and how far apart its inputs were is
held against what was charged. What a coordinator can still tell apart, nothing was charged for.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType, SimpleNamespace
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

from sottovoce.privacy.accounting import flatten
from sottovoce.privacy.events import BoundedRangeEvent, Event, GaussianEvent, NonPrivateEvent, RandomizedResponseEvent
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.privacy.mechanisms.noisy_max import ExponentialMechanism
from sottovoce.vertical import Party
from sottovoce.vertical.party.budget import PartyBudget
from sottovoce.vertical.protocol import Desk
from sottovoce.vertical.requests import alignment as alignment_party
from sottovoce.vertical.requests import secure as secure_party
from sottovoce.vertical.secure.joint_plan import JointPlan
from sottovoce.vertical.secure.worker import JointWorker
from sottovoce.vertical.wire import Message, Refused
from support.party import Line, decode

_SLACK: Final = 1.0 + 1e-9
_SKIPPED: Final = ("_thread", "threading", "_queue", "queue", "concurrent", "numpy.random", "support.")


# ------------------------------------------------------------------ noise


@dataclass(frozen=True)
class Draw:
    """What a mechanism was asked: its input in units in which the cost is plain, and what it says that it costs."""

    kind: str  # "shift": in standard deviations; "range": in nats; "other"
    value: Any
    event: Event | None


_DRAWN: Final[list[Draw]] = []


def _canned(shape: Any) -> Any:
    return np.random.default_rng(int(np.prod(shape))).standard_normal(shape)


def _release(self: GridGaussian, ticks: Any, noise: Any) -> Any:
    _DRAWN.append(Draw("shift", np.asarray(ticks, dtype=float) * (self.tick / self.noise_std), self.event))
    return np.floor(self.noise_std / self.tick * _canned(ticks.shape)) * self.tick, self.event


def _select(self: ExponentialMechanism, scores: Any, noise: Any) -> Any:
    _DRAWN.append(Draw("range", self.rate * scores, self.event))
    return 1 % scores.size, self.event


class _Generator(np.random.Generator):
    """Laplace noise that outweighs every sum: the largest is the same on both tables."""

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        _DRAWN.append(Draw("other", None, None))
        return 1e300 * _canned(size)


class _Script:
    """What is opened of a joint computation: noisy sums, all charged with its start."""

    def __init__(self, plan: JointPlan) -> None:
        self._plan = plan

    def open(self, step: int, points: Any, shares: Any) -> Any:
        if step == 0:
            _DRAWN.append(Draw("other", None, self._plan.event))
        return _canned(sum(opening.scales.size for opening in self._plan.openings(step)))


class _PsiServer:
    """Identifiers, which are the same on both tables, under a key that is not drawn."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = sorted(texts)

    def setup(self) -> bytes:
        return "".join(self._texts).encode()

    def respond(self, points: bytes) -> bytes:
        return points


@contextmanager
def coupled_noise() -> Iterator[None]:
    """Give the same noisy answers whatever the table, as long as the block lasts."""
    engine = SimpleNamespace(start=lambda: None, close=lambda: None)
    seat = SimpleNamespace(card="card", sit=lambda cards, names: engine, close=lambda: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GridGaussian, "release", _release)
        patch.setattr(ExponentialMechanism, "select", _select)
        patch.setattr(Desk, "noise", lambda self: _Generator(np.random.PCG64(0)))
        patch.setattr(JointPlan, "script", lambda self, *given: _Script(self))
        patch.setattr(secure_party.Seat, "take", lambda *given: seat)
        patch.setattr(alignment_party, "PsiServer", _PsiServer)
        patch.setattr(alignment_party, "library", lambda: None)
        yield


# ------------------------------------------------------------------ one party


class _Account(PartyBudget):
    """An account that covers all that has noise, and remembers what was charged."""

    def __init__(self) -> None:
        super().__init__((1.0, 1e-6))
        self.charged: list[Event] = []

    def shortage(self, event: Event) -> str:
        return "no budget covers it" if NonPrivateEvent() in flatten(event) else ""

    def charge(self, event: Event, *, seeded: bool = False, release: Any = None) -> str:
        if not self.shortage(event):
            self.charged.append(event)
        return self.shortage(event)


class _World:
    """A party with one of the two tables."""

    def __init__(self, table: Any, answers: Any, protocols: Any) -> None:
        ids = [f"p{i}" for i in range(len(table))]
        self.party = Party(
            table, ids, name="clinic", data_norm=1.0, data_bound=1.0, budget=(1.0, 1e-6), answers=answers,
            protocols=protocols,
        )  # fmt: skip
        self.account = _Account()
        self.party.budget = self.account
        self.lines = [Line(self.party), Line(self.party)]

    def ask(self, slot: int, message: Message, known: bool) -> tuple[bytes, list[Draw], list[Event]]:
        """Return the reply, what was drawn for it and what was charged; a request that comes again changes nothing.

        ``known``: what comes of it was looked at before.
        """
        line, charged = self.lines[slot], len(self.account.charged)
        _DRAWN.clear()
        raw = line.frame(message)
        reply = self.party.handle(raw)
        worker = self._worker(slot)
        if isinstance(worker, JointWorker):
            worker.wait(10.0)
        drawn = list(_DRAWN)
        free = drawn and len(self.account.charged) == charged and not getattr(message, "once", False)  # a fault
        if known or free or isinstance(decode(reply), Refused):
            return reply, drawn, self.account.charged[charged:]
        assert self.party.handle(raw) == reply
        assert len(_DRAWN) == len(drawn)
        return reply, drawn, self.account.charged[charged:]

    def score(self, message: Message) -> bytes:
        """Return what a party of the same owner says in a later run about people who are scored."""
        scoring = Party(np.eye(2), ["p0", "p1"], name="clinic", data_norm=1.0, answers={"score"})
        for model, part in self.party.parts.items():
            scoring.adopt(model, part)
        return scoring.handle(Line(scoring).frame(message))

    def _worker(self, slot: int) -> Any:
        session = self.party._sessions.get(self.lines[slot].name)
        return None if session is None else session.worker

    def state(self, slot: int) -> bytes:
        """Return what a session has reached; that the last request may come again changes nothing, see `ask`."""
        worker = self._worker(slot)
        return b"fresh" if worker is None else digest(worker)

    def common(self) -> bytes:
        """Return what all sessions share: models, and whose rows the table has."""
        return digest([self.party._models, self.party.alignment])


def digest(value: Any) -> bytes:
    """Return what two equal states of a party have in common, and no two others."""
    sha = hashlib.blake2b(digest_size=16)
    within: set[int] = set()

    def add(value: Any) -> None:
        if value is None or isinstance(value, (bool, int, float, str, bytes, np.generic)):
            sha.update(f"{type(value).__name__}{value!r};".encode())
        elif isinstance(value, np.ndarray):
            sha.update(f"{value.dtype}{value.shape}".encode() + value.tobytes())
        elif isinstance(value, dict):
            add(sorted(value.items(), key=lambda item: str(item[0])))
        elif isinstance(value, (set, frozenset)):
            add(sorted(value))
        elif isinstance(value, (list, tuple)):
            sha.update(f"{type(value).__name__}{len(value)}(".encode())
            for each in value:
                add(each)
        elif isinstance(value, FunctionType):
            add([value.__qualname__, [cell.cell_contents for cell in value.__closure__ or ()]])
        elif not type(value).__module__.startswith(_SKIPPED):
            sha.update(type(value).__qualname__.encode())
            if id(value) not in within:  # a plan and its training know each other
                within.add(id(value))
                add(getattr(value, "__dict__", None))
                within.remove(id(value))

    add(value)
    return sha.digest()


# ------------------------------------------------------------------ both at once


@dataclass(frozen=True)
class Told:
    """What a coordinator got for one request.

    Attributes
    ----------
    refused : bool
    fault : str
        How more was told than was charged; empty where it was not.
    """

    refused: bool
    fault: str = ""


class Session(NamedTuple):
    """What a session has reached, and whether it ends when the table has other rows."""

    reached: bytes
    holds_training: bool

    @classmethod
    def ended(cls) -> "Session":
        """Return what is left of any session that is over."""
        return cls(b"fresh" * 2 + b"[]", False)


class Common(NamedTuple):
    """What all sessions share: models, and the people whose rows the table has."""

    kept: bytes
    people: str


class Pair:
    """The same party on two tables, asked the same.

    Parameters
    ----------
    tables : pair of ndarray
        They differ in one row.
    answers : set of str
    protocols : sequence of Protocol
        Forms for study that the party answers beside the closed list.
    """

    def __init__(self, tables: Sequence[Any], answers: Any, protocols: Sequence[Any] = ()) -> None:
        self._worlds = [_World(table, answers, protocols) for table in tables]
        self._credit: list[Counter[Any]] = [Counter(), Counter()]  # by session: charged, not yet drawn

    def ask(self, slot: int, message: Message, *, known: bool = False) -> Told:
        """Send a request in one of two sessions; once only, where it is ``known`` what comes of it."""
        (reply, drawn, charged), (other, beside, same) = (world.ask(slot, message, known) for world in self._worlds)
        refused = isinstance(decode(reply), Refused)
        fault = "" if reply == other else f"{type(message).__name__} is answered otherwise on the other table"
        if charged != same or [draw.event for draw in drawn] != [draw.event for draw in beside]:
            fault = f"{type(message).__name__} is charged, or draws, otherwise on the other table"
        fault = fault or self._unexplained(slot, drawn, beside, charged)
        for each in (0, 1):
            if self._worlds[0]._worker(each) is None:
                self._credit[each] = Counter()
        return Told(refused, fault)

    def score(self, message: Message) -> Told:
        """Send a request to the scoring run."""
        reply, other = (world.score(message) for world in self._worlds)
        fault = "" if reply == other else f"{type(message).__name__} is answered otherwise on the other table"
        return Told(isinstance(decode(reply), Refused), fault)

    def _unexplained(self, slot: int, drawn: list[Draw], beside: list[Draw], charged: list[Event]) -> str:
        """Return how draws go beyond what was charged; empty if they do not."""
        fresh: Counter[Any] = Counter()
        for event in charged:
            fresh.update(flatten(event))
        if not drawn:
            self._credit[slot].update(fresh)
            return ""
        shifts = ranges = 0.0
        for one, two in zip(drawn, beside, strict=True):
            if not charged and one.event is not None:  # of a start, which was charged for each of its draws
                (basic,) = flatten(one.event)
                if not self._credit[slot][basic]:
                    return f"a draw of {basic!r} was not charged"
                self._credit[slot][basic] -= 1
                fresh[basic] += 1
            if one.kind == "shift":
                shifts += float(((one.value - two.value) ** 2).sum())
            elif one.kind == "range":
                moved = one.value - two.value
                ranges += float(moved.max() - moved.min())
        mu2 = sum(times / each.noise_multiplier**2 for each, times in fresh.items() if isinstance(each, GaussianEvent))
        eta = sum(times * each.epsilon for each, times in fresh.items() if isinstance(each, BoundedRangeEvent))
        if shifts > mu2 * _SLACK or ranges > eta * _SLACK:
            return f"inputs moved by {shifts:g} and {ranges:g}; charged were {mu2:g} and {eta:g}"
        if not charged and any(one.kind == "other" for one in drawn) and not any(
            isinstance(each, RandomizedResponseEvent) for each in self._credit[slot]
        ):  # fmt: skip
            return "Laplace noise was not charged"
        return ""

    def session(self, slot: int) -> Session:
        """Return what a session has reached on both tables, with what was charged and is not drawn yet."""
        one, other = (world.state(slot) for world in self._worlds)
        credit = repr(sorted((repr(event), times) for event, times in self._credit[slot].items() if times))
        return Session(one + other + credit.encode(), self._worlds[0]._worker(slot) is not None)

    def common(self) -> Common:
        """Return what all sessions share, on both tables."""
        one, other = (world.common() for world in self._worlds)
        return Common(one + other, self._worlds[0].party.alignment or "")

    def close(self) -> None:
        """End what computes in the background."""
        for world in self._worlds:
            world.party.close()
