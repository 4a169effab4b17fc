"""Parties of which one lives here, with the labels, and the others are reached over a network.

How bytes travel is a function that is given: that of a cell of FLARE's (`sottovoce.vertical.flare.line`), in tests it
may be anything. It may fail, wait, and bring anything; whatever it does ends as a `PartyError` that names the
party, in bounded time.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from time import monotonic, sleep
from typing import Final

from sottovoce._validation import number
from sottovoce.exceptions import PartyError
from sottovoce.vertical.coordinator.checkpoint import Checkpoint
from sottovoce.vertical.coordinator.parties import Answering, Parties, handled
from sottovoce.vertical.flare.runs import Progress
from sottovoce.vertical.mechanisms import NAMES
from sottovoce.vertical.requests.general import Close
from sottovoce.vertical.wire import FRAME_BYTES, code_of

Call = Callable[[str, bytes, float], object]
"""``call(party, request, seconds)`` carries one request and returns what came back. It raises `TimeoutError` where
nothing came in that time, anything else where the line failed."""

MOST_ANSWER_BYTES: Final = 2**31
_LEAST: Final = 0.2  # seconds that a call has, however late it is
_GRACE: Final = 5.0  # seconds beyond the time limit that a call has to notice it by itself
_FAREWELL: Final = 5.0  # seconds that a party has at most to say goodbye: one that has not answered before will not now
_PAUSE: Final = 1.0  # seconds before a request is sent again after the line failed
_RESUME: Final = "then resume this run: no answer is paid for twice."


class FlareParties(Parties):
    """The label holder's party, which lives here, and those of other organisations.

    ``home``: first in the order.
    ``others``: names of the other parties, in the order of the federation.
    ``call``: see `Call`; called from several threads.
    ``timeout``, > 0: seconds that a party has for one answer, the way there and back included.
    ``checkpoint``: what is kept of the run, so that it can be resumed.
    ``progress``: is told of every request and answer.
    """

    def __init__(
        self,
        home: Answering,
        others: Sequence[str],
        call: Call,
        *,
        timeout: float = 120.0,
        checkpoint: Checkpoint | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.timeout = number("timeout", timeout, above=0.0)
        self.checkpoint = checkpoint
        self._home, self._call = home, call
        self._progress = progress or Progress(None, [home.name, *others])
        # two for each party: one that hangs in a call leaves room for the farewell
        self._pool = ThreadPoolExecutor(2 + 2 * len(others), thread_name_prefix="party")
        super().__init__([home.name, *others])
        self.here = {home.name: home}

    def __repr__(self) -> str:
        return f"FlareParties({self.names!r})"

    def _send(self, requests: Mapping[str, bytes]) -> dict[str, bytes]:
        what = ", ".join(sorted({_asked(raw) for raw in requests.values()}))
        self._progress.asked(what, {name: len(raw) for name, raw in requests.items()}, note=self.doing or None)
        # the one here works while the others do
        own = {name: self._pool.submit(self._here, name, raw) for name, raw in requests.items() if name in self.here}
        away = {name: raw for name, raw in requests.items() if name not in self.here}
        answers = self._fetch(away) if away else {}
        answers |= {name: future.result() for name, future in own.items()}
        return {name: answers[name] for name in requests}

    def _here(self, name: str, raw: bytes) -> bytes:
        answer = handled(self._home, raw)
        self._progress.heard(name, len(answer))
        return answer

    def _fetch(self, requests: Mapping[str, bytes]) -> dict[str, bytes]:
        """Ask parties at other places, all at the same time, and wait for all of them, but not for ever."""
        farewell = all(code_of(raw[FRAME_BYTES:]) == Close.code for raw in requests.values())
        until = monotonic() + (min(self.timeout, _FAREWELL) if farewell else self.timeout)
        futures = {name: self._pool.submit(self._ask_one, name, raw, until) for name, raw in requests.items()}
        wait(futures.values(), max(until + _GRACE - monotonic(), 0.0), return_when=FIRST_EXCEPTION)
        failed = (future for future in futures.values() if future.done() and future.exception() is not None)
        for future in failed:
            future.result()
        late = [name for name, future in futures.items() if not future.done()]
        if late:
            raise self._silent(late[0], requests[late[0]])
        return {name: future.result() for name, future in futures.items()}

    def _ask_one(self, name: str, raw: bytes, until: float) -> bytes:
        answer = self._carried(name, raw, until)
        if not isinstance(answer, bytes):
            raise PartyError(
                f"party {name!r} answered {_asked(raw)} with {type(answer).__name__}, not with bytes: bring the "
                "coordinator and all parties to the same version."
            )
        if len(answer) > MOST_ANSWER_BYTES:
            raise PartyError(
                f"party {name!r} answered {_asked(raw)} with {len(answer):,} bytes; at most {MOST_ANSWER_BYTES:,} are "
                "taken."
            )
        self._progress.heard(name, len(answer))
        return answer

    def _carried(self, name: str, raw: bytes, until: float) -> object:
        """Carry a request, once more where the line failed: a party answers the same bytes once."""
        for last in (False, True):
            try:
                return self._call(name, raw, max(until - monotonic(), _LEAST))
            except PartyError:
                raise
            except TimeoutError:
                raise self._silent(name, raw) from None
            except Exception as error:
                if last or monotonic() + _PAUSE > until:
                    raise PartyError(
                        f"party {name!r} could not be reached when it was asked {_asked(raw)} "
                        f"({type(error).__name__}). See that its process runs and that it reaches the coordinator, "
                        f"{_RESUME}"
                    ) from None
            sleep(_PAUSE)
        raise AssertionError  # unreachable

    def _silent(self, name: str, raw: bytes) -> PartyError:
        return PartyError(
            f"party {name!r} gave no answer to {_asked(raw)} within {self.timeout:g} s: it hangs, is cut off or needs "
            f"longer. See to it there, or give more time, {_RESUME}"
        )

    def end(self) -> None:
        """Let the threads go; one that hangs in a call ends with it."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _asked(raw: bytes) -> str:
    return NAMES.get(code_of(raw[FRAME_BYTES:]), "something")
