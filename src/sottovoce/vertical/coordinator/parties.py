"""How the coordinator talks to the parties: one interface, and its implementation within one process.

Only bytes cross it, each way: requests in frames, which say which session they belong to, and replies of
`sottovoce.vertical.wire`. What crosses is counted.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Lock
from types import MappingProxyType
from typing import Any, Final, NoReturn, Protocol, TypeVar

from sottovoce._shown import in_one_line
from sottovoce._validation import in_order
from sottovoce.exceptions import MessageError, ParameterError, PartyError
from sottovoce.vertical.coordinator.checkpoint import Checkpoint, Run
from sottovoce.vertical.protocol import Request
from sottovoce.vertical.requests.general import Close
from sottovoce.vertical.wire import MOST_REASON, Done, Frame, Message, Refused, decode, new_session

Reply = TypeVar("Reply", bound=Message)

_THREADS: Final = 2  # parties that work at the same time in one process; their products use threads of their own


class Answering(Protocol):
    """Who answers requests, bytes for bytes."""

    @property
    def name(self) -> str: ...

    def handle(self, raw: bytes) -> bytes: ...


class Parties(ABC):
    """The parties of one training, in a fixed order; the first holds the labels unless said otherwise.

    An object talks to each party in one session of its own; `session` opens another one, for a training that may run
    beside others. A carrier implements `_send` alone, and may send the same bytes again when it does not know whether
    they arrived: the party answers them once.

    Attributes
    ----------
    uplink_bytes, downlink_bytes : int
        What has crossed so far, from the parties and to them, in the sessions of this object too.
    session_name : bytes
        Of the session that this object talks in.
    """

    here: Mapping[str, Answering] = MappingProxyType({})
    """Parties that live where the coordinator runs, by name: all of them in one process, the label holder elsewhere."""

    checkpoint: Checkpoint | None = None
    """Where the run is kept, if it can be resumed."""

    run: Run = Run()
    """The fit that talks here."""

    doing: str = ""
    """What the next requests are part of, where that is worth a word."""

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
        self._process, self._counting = os.getpid(), Lock()
        self.session_name, self._holding = new_session(), set[str]()  # parties that hold something for the session

    def new_run(self) -> Run:
        """Return what the next fit over these parties draws; a run that is resumed draws as it did before."""
        return Run() if self.checkpoint is None else self.checkpoint.new_run()

    def __reduce__(self) -> NoReturn:
        raise TypeError("parties cannot be copied or pickled: two would go on with the same sessions.")

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise ParameterError("these parties are of another process: make them in the one that uses them.")

    @abstractmethod
    def _send(self, requests: Mapping[str, bytes]) -> dict[str, bytes]:
        """Carry one framed request to each named party and return its answers; one that fails is a `PartyError`."""

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
        # in the order of the parties, so that sums are the same, bit by bit, in every run
        requests = {name: requests[name] for name in self.names if name in requests}
        answers = self._carry(requests)
        replies: dict[str, Reply] = {}
        fault = refused = ""
        for name in requests:
            asked = type(requests[name]).__name__
            try:
                reply = decode(answers[name], (expected, Refused))
            except MessageError as error:
                fault = fault or f"party {name!r} answered {asked} with no {expected.__name__}: {error}"
                continue
            if isinstance(reply, expected):
                replies[name] = reply
            else:
                assert isinstance(reply, Refused)
                refused = refused or f"party {name!r} refused {asked}: {in_one_line(reply.reason[:MOST_REASON])}"
        if fault or refused:
            raise PartyError(fault or refused)
        return replies

    def _carry(self, requests: Mapping[str, Message]) -> dict[str, bytes]:
        """Send requests in the session, and return what came back."""
        self._check_process()
        self._holding |= {name for name, each in requests.items() if isinstance(each, Request) and each.opens}
        sent = {name: Frame(self.session_name, request.encode()).encode() for name, request in requests.items()}
        self._count(sum(map(len, sent.values())), 0)
        answers = self._send(sent)
        self._count(0, sum(map(len, answers.values())))
        return answers

    def _count(self, down: int, up: int) -> None:
        with self._counting:
            self.downlink_bytes += down
            self.uplink_bytes += up

    @contextmanager
    def session(self) -> Iterator["Parties"]:
        """Talk to the same parties in a new session, which ends with the ``with`` block.

        What crosses counts here too. Several sessions may be open at the same time, in threads of their own.
        """
        self._check_process()
        talk = _Conversation(self)
        try:
            yield talk
        finally:
            talk.close()

    def leave_out(self, names: Collection[str]) -> None:
        """Go on without some parties, which were asked for their facts alone."""
        self.names = tuple(name for name in self.names if name not in names)

    def close(self) -> None:
        """End the session at every party that holds something for it, so that it is forgotten."""
        holding, self._holding = self._holding, set()
        if holding:
            with suppress(PartyError):  # who does not answer ends it when others come
                self.exchange(dict.fromkeys(holding, Close()), Done)

    def tell(self, doing: str) -> None:
        """Say in words what the requests to come are part of, for who follows the run."""
        self.doing = doing

    def ask(self, name: str, request: Message, expected: type[Reply]) -> Reply:
        """Send one request to one party and return its reply."""
        return self.exchange({name: request}, expected)[name]

    def own(self, name: str) -> Any:
        """Return a party itself, for its own organisation: what that does within its walls is no request.

        Raises
        ------
        PartyError
            If the party does not live where the coordinator runs.
        """
        if name not in self.here:
            raise PartyError(
                f"party {name!r} does not live where the coordinator runs: its own model is trained there."
            )
        return self.here[name]


class _Conversation(Parties):
    """One more session with the parties of a carrier."""

    def __init__(self, carrier: Parties) -> None:
        self._carrier, self.here, self.checkpoint = carrier, carrier.here, carrier.checkpoint
        super().__init__(carrier.names)

    def _send(self, requests: Mapping[str, bytes]) -> dict[str, bytes]:
        return self._carrier._send(requests)

    def tell(self, doing: str) -> None:
        self._carrier.tell(doing)

    def _count(self, down: int, up: int) -> None:
        super()._count(down, up)
        self._carrier._count(down, up)


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
        super().__init__([party.name for party in in_order("parties", parties, "a list of Party objects")])
        self.here = self.parties = {party.name: party for party in parties}

    def __repr__(self) -> str:
        return f"InProcessParties({list(self.parties.values())!r})"

    def _send(self, requests: Mapping[str, bytes]) -> dict[str, bytes]:
        if len(requests) == 1:
            return {name: handled(self.parties[name], raw) for name, raw in requests.items()}
        with ThreadPoolExecutor(min(_THREADS, len(requests))) as pool:
            futures = {name: pool.submit(handled, self.parties[name], raw) for name, raw in requests.items()}
            return {name: future.result() for name, future in futures.items()}


def handled(party: Answering, raw: bytes) -> bytes:
    """Return what a party of this process answers; one that fails is a `PartyError`."""
    try:
        answer: object = party.handle(raw)
    except Exception as error:  # its message could quote a row
        raise PartyError(f"party {party.name!r} failed ({type(error).__name__}).") from None
    if not isinstance(answer, bytes):
        raise PartyError(f"party {party.name!r} answered with {type(answer).__name__}, not with bytes.")
    return answer
