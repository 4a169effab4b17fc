"""How the coordinator talks to the parties: one interface, and its implementation within one process.

Only bytes cross it, each way, and they are messages of `sottovoce.vertical.messages`. What crosses is counted, and can
be recorded.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from sottovoce.exceptions import MessageError, ParameterError, PartyError
from sottovoce.vertical.messages import Message, Refused, decode

__all__ = ["Answering", "Crossing", "InProcessParties", "Parties"]

Reply = TypeVar("Reply", bound=Message)

_THREADS: Final = 2  # parties that work at the same time in one process; their products use threads of their own


class Answering(Protocol):
    """Who answers requests, bytes for bytes."""

    @property
    def name(self) -> str:
        """Name of the organisation."""
        ...

    def handle(self, raw: bytes) -> bytes:
        """Answer one request."""
        ...


@dataclass(frozen=True)
class Crossing:
    """One message that crossed.

    Attributes
    ----------
    party : str
        The party at the other end of the coordinator's line.
    uplink : bool
        True from the party to the coordinator.
    message : Message
        As it was rebuilt from the bytes.
    n_bytes : int
    """

    party: str
    uplink: bool
    message: Message
    n_bytes: int


class Parties(ABC):
    """The parties of one training, in a fixed order; the first holds the labels unless said otherwise.

    Attributes
    ----------
    uplink_bytes, downlink_bytes : int
        What has crossed so far, from the parties and to them.
    """

    def __init__(self, names: Sequence[str]) -> None:
        names = tuple(names)
        if not names:
            raise ParameterError("parties must hold at least one party; got none.")
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ParameterError(f"the names of the parties must differ; {', '.join(map(repr, repeated))} repeats.")
        self.names = names
        self.uplink_bytes = 0
        self.downlink_bytes = 0
        self._records: list[list[Crossing]] = []

    @abstractmethod
    def _send(self, requests: Mapping[str, bytes]) -> dict[str, bytes]:
        """Carry one request to each named party and return its answers; a party that fails is a `PartyError`."""

    def exchange(self, request: Message | Mapping[str, Message], expected: type[Reply]) -> dict[str, Reply]:
        """Send one request to all parties, or to each the one of its name, and return their replies, by name.

        Raises
        ------
        PartyError
            If a party refuses, fails, or answers with something else than ``expected``.
        """
        requests = request if isinstance(request, Mapping) else dict.fromkeys(self.names, request)
        unknown = sorted(set(requests) - set(self.names))
        if unknown:
            raise ParameterError(f"no party is named {unknown[0]!r}; there are {', '.join(map(repr, self.names))}.")
        raw = {name: requests[name].encode() for name in self.names if name in requests}
        for name, sent in raw.items():
            self.downlink_bytes += len(sent)
            for record in self._records:
                record.append(Crossing(name, False, decode(sent), len(sent)))
        answers = self._send(raw)
        self.uplink_bytes += sum(len(answers[name]) for name in raw)  # also of those behind a party that failed
        came: dict[str, Message] = {}
        for name in raw:  # the order of the parties, so that sums are the same, bit by bit, in every run
            try:
                came[name] = decode(answers[name])
            except MessageError as error:
                raise PartyError(f"party {name!r} answered with something that is no message: {error}") from error
            for record in self._records:
                record.append(Crossing(name, True, came[name], len(answers[name])))
        replies: dict[str, Reply] = {}
        for name, reply in came.items():
            if isinstance(reply, Refused):
                raise PartyError(f"party {name!r} refused {type(requests[name]).__name__}: {reply.reason}")
            if not isinstance(reply, expected):
                raise PartyError(
                    f"party {name!r} answered {type(requests[name]).__name__} with {type(reply).__name__}, not with "
                    f"{expected.__name__}."
                )
            replies[name] = reply
        return replies

    def ask(self, name: str, request: Message, expected: type[Reply]) -> Reply:
        """Send one request to one party and return its reply."""
        return self.exchange({name: request}, expected)[name]

    def inside(self, name: str) -> AbstractContextManager["Parties"]:
        """Talk to a party within its own walls, as the organisation itself: nothing is recorded, counted or charged.

        Raises
        ------
        PartyError
            If the party does not live where the coordinator runs.
        """
        raise PartyError(f"party {name!r} does not live where the coordinator runs: its own model is trained there.")

    @contextmanager
    def recorded(self) -> Iterator[list[Crossing]]:
        """Record every message that crosses inside the ``with`` block, in order."""
        record: list[Crossing] = []
        self._records.append(record)
        try:
            yield record
        finally:
            self._records.remove(record)


class InProcessParties(Parties):
    """Parties that live in this process: for one machine, for trials and for tests.

    Parameters
    ----------
    parties : sequence of Party
        Their rows are aligned: row i is the same person everywhere.

    Attributes
    ----------
    parties : dict
        By name.
    """

    def __init__(self, parties: Sequence[Answering]) -> None:
        super().__init__([party.name for party in parties])
        self.parties = {party.name: party for party in parties}

    def __repr__(self) -> str:
        return f"InProcessParties({list(self.parties.values())!r})"

    @contextmanager
    def inside(self, name: str) -> Iterator[Parties]:
        """Talk to a party of this process as its own organisation does."""
        party: Any = self.parties[name]
        with party.at_home():
            yield self.only(name)

    def only(self, *names: str) -> "InProcessParties":
        """Return some of these parties, with counters of their own."""
        return InProcessParties([self.parties[name] for name in names])

    def _send(self, requests: Mapping[str, bytes]) -> dict[str, bytes]:
        if len(requests) == 1:
            return {name: self._answer(name, raw) for name, raw in requests.items()}
        with ThreadPoolExecutor(min(_THREADS, len(requests))) as pool:
            futures = {name: pool.submit(self._answer, name, raw) for name, raw in requests.items()}
            return {name: future.result() for name, future in futures.items()}

    def _answer(self, name: str, raw: bytes) -> bytes:
        try:
            answer = self.parties[name].handle(raw)
        except Exception as error:  # its message could quote a row
            raise PartyError(f"party {name!r} failed ({type(error).__name__}).") from None
        if not isinstance(answer, bytes):
            raise PartyError(f"party {name!r} answered with {type(answer).__name__}, not with bytes.")
        return answer
