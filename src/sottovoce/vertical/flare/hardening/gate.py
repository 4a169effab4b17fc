"""What stands between a run and a party: who may ask, how much, one run at a time, and what is written down of it.

It knows nothing of FLARE; `sottovoce.vertical.flare.processes` hands it what arrives. A run chooses nothing but its
purpose: tables, budget, ledger, caps and answers are read from the kit of the site.
"""

import logging
import threading
import traceback
from typing import Final

from sottovoce.exceptions import DataError, MessageError, SottovoceError
from sottovoce.vertical.engines.identity import Identity
from sottovoce.vertical.flare.hardening.envelope import REQUEST, Envelope, PartyEnd, head_of, unseal
from sottovoce.vertical.flare.kit import Kit, clear_leftovers
from sottovoce.vertical.flare.register import Register
from sottovoce.vertical.flare.site import Site
from sottovoce.vertical.flare.site_file import PURPOSES
from sottovoce.vertical.mechanisms import ANSWERS_TO
from sottovoce.vertical.party.budget import LedgerBudget
from sottovoce.vertical.party.journal import Journal
from sottovoce.vertical.party.party import Party
from sottovoce.vertical.wire import Frame, Refused, code_of, decode

_LOG: Final = logging.getLogger(__name__)
_KINDS: Final = {kind.code: kind.__name__ for kind in ANSWERS_TO}
_FAILED: Final = "it failed there; the party's own log says more"
_NOT_OPEN: Final = "its site could not be opened; the party's own log says why"
_BUSY: Final = "it still computes what it was asked before, and a party does one thing at a time. Wait"
_AGAIN: Final = "its process began again since this run began, and knows nothing of it. Resume the run"
_BEGUN_BEFORE: Final = "this run began there before: somebody sends again what the coordinator once sent"
_BUSY_SECONDS: Final = 10.0
_NOBODY: Final = "its owner named no people to be scored: [scoring] in its site.toml"
_FORGOTTEN: Final = (
    "its ledger lacks an entry that the coordinator was told of: it is an old copy, or another one, or the kit is in "
    "use twice. Put the right ledger in its place; if that is lost, settle what was spent, then at the coordinator: "
    "sottovoce vertical train KIT ... --accept-ledger PARTY"
)
_MOST_LOGGED: Final = 20  # refusals at the door that one process writes to its log


class Gate:
    """What stands between a run and a party; it answers every request, and never raises."""

    def __init__(self, purpose: object = "train") -> None:
        self._purpose = purpose
        self._closed = "no run has begun there"  # why nothing is answered
        self._site: Site | None = None
        self._party: Party | None = None
        self._line: PartyEnd | None = None
        self._register: Register | None = None
        self._journal: Journal | None = None
        self.run = self._coordinator = ""
        self.is_over = False
        self._logged = 0

    def stand_by(self, kit: Kit, *, run: str = "") -> None:
        """Write down who asks, and refuse it."""
        self.run, self._coordinator = run, kit.federation.coordinator
        self._register = Register(kit.state / "register.db")
        self._line = PartyEnd(Identity(kit.identity), kit.name, self._coordinator, run)

    def open(self, kit: Kit, *, run: str) -> None:
        """Open the site for one run; whatever is wrong with it is written down, and said when asked."""
        try:
            self.stand_by(kit, run=run)
            self._open(kit)
        except _ClosedError as reason:
            self._closed = str(reason)
            self.turn_away(self._closed)
        except Exception as error:  # its message could quote a row
            self._closed = _NOT_OPEN
            if isinstance(error, SottovoceError) and not isinstance(error, DataError):
                _LOG.error("this site cannot take part: %s", error)
            else:
                _LOG.error("this site cannot take part:\n%s%s", _places(error), type(error).__name__)
            _LOG.error("to see what is wrong: sottovoce vertical party %s --check", kit.folder)
            self.turn_away(self._closed)

    def _open(self, kit: Kit) -> None:
        if not isinstance(self._purpose, str) or self._purpose not in PURPOSES:
            raise _ClosedError(f"a run is to {' or to '.join(PURPOSES)}; this one is to {_quoted(self._purpose)}")
        clear_leftovers(kit.state)
        site = Site.read(kit)
        if self._purpose == "score" and site.scoring_table is None:
            raise _ClosedError(_NOBODY)
        if self._purpose == "train":  # a run of scores begins again
            self._journal = Journal(kit.state / "journal")
        self._party = site.open_party(self._purpose, journal=self._journal)
        self._site, self._closed = site, ""
        _LOG.info("open for run %s, to %s: %r", self.run, self._purpose, self._party)

    def close(self) -> None:
        """End the run here; what is needed to go on with it is on disk."""
        self._closed = "the run has ended there"
        if self._party is not None:
            self._party.close()
        if self._journal is not None:
            self._journal.close()
        if self._register is not None:
            self._register.settle()
            self._register.close()
            self._register = None

    # ------------------------------------------------------------------ requests

    def answer(self, raw: object, *, caller: object) -> bytes:
        """Answer one request in a signed envelope; a refusal for whatever the coordinator has not signed."""
        number = 0
        try:
            number, answer = self._opened(raw, caller)
        except Exception as error:  # FLARE would send its text and traceback to the coordinator
            _LOG.error("a request failed with %s:\n%s", type(error).__name__, _places(error))
            answer = Refused(_FAILED).encode()
        if self._line is None:
            return answer
        return self._line.answer(raw, number, answer, self._budget.head if self._budget is not None else "")

    def _opened(self, raw: object, caller: object) -> tuple[int, bytes]:
        """Return the number of a request and its answer; 0 for one that is not the coordinator's."""
        if self._line is None:
            return 0, self._refused(self._closed, caller, raw)
        try:
            envelope, request = self._line.open(raw)
        except MessageError as error:
            came = f"the engine has it from {_quoted(caller)}"  # which may be wrong
            return 0, self._refused(f"it answers the coordinator alone: {error}; {came}", caller, raw)
        begins = not envelope.there
        known = envelope.ledger if begins and self._purpose == "train" and not self._closed else ""
        if known and (self._budget is None or not self._budget.holds(known)):
            self._closed = _FORGOTTEN
        if self._closed:
            return envelope.number, self._refused(self._closed, caller, raw)
        self.is_over = not begins and not request
        return envelope.number, b"" if begins or self.is_over else self._answer(request, caller)

    @property
    def _budget(self) -> LedgerBudget | None:
        budget = None if self._party is None else self._party.budget
        return budget if isinstance(budget, LedgerBudget) else None

    def _answer(self, raw: bytes, caller: object) -> bytes:
        assert self._register is not None and self._party is not None and self._site is not None
        session, step, kind = _seen(raw)
        facts = {"run": self.run, "purpose": str(self._purpose), "caller": _plain(caller), "kind": kind}
        number, shortage = self._register.enter(
            self._site.caps, self._coordinator, len(raw), session=session, step=step, **facts
        )
        if shortage:
            self._log(shortage)
            self._register.turn_away(shortage, coordinator=self._coordinator, n_bytes=len(raw), **facts)
            return Refused(shortage).encode()
        try:
            answer = self._party.handle(raw)
        except Exception as error:
            _LOG.error("a request failed with %s:\n%s", type(error).__name__, _places(error))
            answer = Refused(_FAILED).encode()
        reason = _reason(answer)
        self._register.answered(number, self._coordinator, len(answer), reason)
        if reason:
            self._log(f"{kind}: {reason}")
        return answer

    # ------------------------------------------------------------------ refusals

    def knows(self, run: str) -> bool:
        """Tell whether something was asked in a run before."""
        return self._register is not None and self._register.knows(run)

    def _refused(self, reason: str, caller: object, raw: object) -> bytes:
        self.turn_away(reason, caller=caller, raw=raw)
        return Refused(reason).encode()

    def turn_away(self, reason: str, *, caller: object = "", raw: object = b"") -> None:
        """Write down what did not reach the party."""
        self._log(reason)
        if self._register is not None:
            size = len(raw) if isinstance(raw, (bytes, bytearray, memoryview)) else 0
            self._register.turn_away(
                reason, run=self.run, coordinator=self._coordinator, purpose=_plain(self._purpose),
                caller=_plain(caller), n_bytes=size,
            )  # fmt: skip

    def _log(self, reason: str) -> None:
        self._logged += 1
        if self._logged <= _MOST_LOGGED:
            _LOG.warning("refused in run %s: %s", self.run, reason)
        elif self._logged == _MOST_LOGGED + 1:
            _LOG.warning("more is refused in run %s; the register counts it", self.run)


class Door:
    """What a site's process has answered: a gate for each run, one after the other; it never raises."""

    def __init__(self, kit: Kit) -> None:
        self._kit, self._identity = kit, Identity(kit.identity)
        self._lock, self._begun = threading.Lock(), set[str]()
        self._gate = Gate()
        self._gate.stand_by(kit)

    def answer(self, raw: object, caller: str) -> bytes:
        head = head_of(raw)
        # what comes in the run that is under way is asked once more, as a line was cut, and waits for its answer
        here = head is not None and head.run == self._gate.run != ""
        if not self._lock.acquire(timeout=-1 if here else _BUSY_SECONDS):
            return self._refused(head, raw, _BUSY)
        try:
            why = self._begin(head, raw)
            if why:
                self._gate.turn_away(why)
                return self._refused(head, raw, why)
            answer = self._gate.answer(raw, caller=caller)
            if self._gate.is_over:
                self._shut()
            return answer
        except Exception as error:
            _LOG.error("a request failed with %s:\n%s", type(error).__name__, _places(error))
            return self._refused(head, raw, _FAILED)
        finally:
            self._lock.release()

    def close(self) -> None:
        """End the run that is under way, if any, but for what is being computed."""
        if self._lock.acquire(blocking=False):
            try:
                self._shut()
            finally:
                self._lock.release()

    def _shut(self) -> None:
        if self._gate.run:
            self._gate.close()
            self._gate = Gate()
            self._gate.stand_by(self._kit)

    def _begin(self, head: Envelope | None, raw: object) -> str:
        """Open the gate of a run that the coordinator begins; return why it cannot go on with one that is not here."""
        if head is None or head.run == self._gate.run or not isinstance(raw, bytes):
            return ""
        facts = self._kit.federation
        try:
            _, purpose = unseal(
                self._identity, raw, kind=REQUEST, sender=facts.coordinator, receiver=self._kit.name, run=head.run
            )
        except MessageError:
            return ""  # the gate says why
        if head.there:
            return _AGAIN
        if head.run in self._begun or self._gate.knows(head.run):
            return _BEGUN_BEFORE
        self._gate.close()
        self._begun.add(head.run)
        self._gate = Gate(purpose.decode("ascii", "replace"))
        self._gate.open(self._kit, run=head.run)
        return ""

    def _refused(self, head: Envelope | None, raw: object, reason: str) -> bytes:
        line = PartyEnd(
            self._identity, self._kit.name, self._kit.federation.coordinator, "" if head is None else head.run
        )
        return line.answer(raw, 0, Refused(reason).encode(), "")


class _ClosedError(Exception):
    """Why a run is not begun here; the text may cross."""


def _seen(raw: bytes) -> tuple[str, int, str]:
    """Return session, step and kind of a request, as far as it has them; nothing of it is decoded."""
    try:
        frame = Frame.read(raw)
    except MessageError:
        return "", 0, "malformed"
    return frame.session.hex(), min(frame.step, 2**63 - 1), _KINDS.get(code_of(frame.body), "unknown")


def _reason(answer: bytes) -> str:
    """Return why a request was refused, empty where it was answered."""
    refused = decode(answer, (Refused,)) if code_of(answer) == Refused.code else None
    return refused.reason if isinstance(refused, Refused) else ""


def _plain(value: object) -> str:
    return value[:100] if isinstance(value, str) else type(value).__name__


def _quoted(value: object) -> str:
    return repr(_plain(value))


def _places(error: BaseException) -> str:
    """Return where an error came from, without its message, which could quote a row."""
    return "".join(traceback.format_tb(error.__traceback__))
