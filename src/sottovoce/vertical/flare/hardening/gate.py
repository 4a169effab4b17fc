"""What stands between a line and a party: who may ask, how much, one run at a time, and what is written down of it.

It knows nothing of FLARE; `sottovoce.vertical.flare.processes` hands it what arrives. A run chooses nothing but its
purpose: tables, budget, ledger, caps and answers are read from the kit of the site.
"""

import logging
import threading
import traceback
from dataclasses import dataclass
from typing import Final

from sottovoce.exceptions import DataError, MessageError, SottovoceError
from sottovoce.vertical.engines.identity import Identity
from sottovoce.vertical.flare.hardening.envelope import REQUEST, Envelope, PartyEnd, head_of, unseal
from sottovoce.vertical.flare.kit import Kit, clear_leftovers
from sottovoce.vertical.flare.register import Register
from sottovoce.vertical.flare.site import PURPOSES, Caps, Site
from sottovoce.vertical.mechanisms import NAMES
from sottovoce.vertical.party.budget import LedgerBudget
from sottovoce.vertical.party.journal import Journal
from sottovoce.vertical.party.party import FAILED, MOST_PLACES, Party
from sottovoce.vertical.wire import Frame, Refused, code_of, refusal

_LOG: Final = logging.getLogger(__name__)
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


@dataclass
class _Run:
    """The run that is under way; before the first one that of no name, in which nothing is answered."""

    end: PartyEnd
    purpose: str = ""
    closed: str = "no run has begun there"  # why nothing is answered
    party: Party | None = None
    caps: Caps | None = None
    journal: Journal | None = None

    @property
    def budget(self) -> LedgerBudget | None:
        budget = None if self.party is None else self.party.budget
        return budget if isinstance(budget, LedgerBudget) else None

    def knows(self, entry: str) -> bool:
        """Tell whether the ledger still has an entry that the coordinator was told of; scores need none."""
        return not entry or self.purpose != "train" or (self.budget is not None and self.budget.holds(entry))

    def close(self) -> None:
        """End it here; what is needed to go on with it is on disk."""
        if self.party is not None:
            self.party.close()
        if self.journal is not None:
            self.journal.close()


class Door:
    """What a site's process answers: one run after the other, each request in a signed envelope; it never raises.

    Whatever the coordinator has not signed for this run is refused, and counted.
    """

    def __init__(self, kit: Kit) -> None:
        self._kit, self._identity = kit, Identity(kit.identity)
        self._register, self._lock = Register(kit.state / "register.db"), threading.Lock()
        self._run = _Run(self._end(""))

    def answer(self, raw: object, caller: object) -> bytes:
        head = head_of(raw)
        name = "" if head is None else head.run
        # what comes in the run that is under way is asked once more, as a line was cut, and waits for its answer
        if not self._lock.acquire(timeout=-1 if name == self._run.end.run != "" else _BUSY_SECONDS):
            return self._refused(name, raw, _BUSY)
        try:
            return self._answered(raw, caller)
        except BaseException as error:  # FLARE would send its text and traceback to the coordinator, or nothing
            _LOG.error("a request failed with %s:\n%s", type(error).__name__, _places(error))
            return self._refused(name, raw, FAILED)
        finally:
            self._lock.release()

    def close(self) -> None:
        """End the run that is under way, if any, but for what is being computed."""
        if self._lock.acquire(blocking=False):
            try:
                self._begin("")
            finally:
                self._lock.release()

    def _answered(self, raw: object, caller: object) -> bytes:
        run = self._run
        try:
            envelope, content = self._unsealed(raw)
            if envelope.run != run.end.run:
                return self._elsewhere(envelope, content, raw, caller)
            begins = run.end.take(envelope, content)
        except MessageError as error:
            run.end.strangers += 1
            came = f"the engine has it from {_quoted(caller)}"  # which may be wrong
            reason = f"it answers the coordinator alone: {error}; {came}"
            return run.end.answer(raw, 0, self._turned_away(run, reason, raw, caller), "")
        if begins and not run.closed and not run.knows(envelope.ledger):
            run.closed = _FORGOTTEN
        is_over = not begins and not content
        if run.closed:
            answer = self._turned_away(run, run.closed, raw, caller)
        else:
            answer = b"" if begins or is_over else self._asked(run, content, caller)
        sealed = run.end.answer(raw, envelope.number, answer, "" if run.budget is None else run.budget.head)
        if is_over:
            self._begin("")
        return sealed

    def _unsealed(self, raw: object) -> tuple[Envelope, bytes]:
        if not isinstance(raw, bytes):
            raise MessageError(f"a request is bytes; this is {type(raw).__name__}")
        kit = self._kit
        return unseal(self._identity, raw, kind=REQUEST, sender=kit.federation.coordinator, receiver=kit.name)

    def _elsewhere(self, envelope: Envelope, content: bytes, raw: object, caller: object) -> bytes:
        """Answer what the coordinator has signed for another run: that begins here, once and for all, or is refused."""
        why = _AGAIN if envelope.there else "" if self._register.begin(envelope.run) else _BEGUN_BEFORE
        if why:
            self._turned_away(self._run, why, raw, caller)
            return self._refused(envelope.run, raw, why)
        self._begin(envelope.run)
        self._open(self._run, content.decode("ascii", "replace"))
        return self._answered(raw, caller)

    def _asked(self, run: _Run, raw: bytes, caller: object) -> bytes:
        """Have the party answer a request, which is written down before and after, where the caps allow it."""
        assert run.party is not None and run.caps is not None
        kind, coordinator = _kind(raw), self._kit.federation.coordinator
        facts = {"run": run.end.run, "purpose": run.purpose, "caller": _plain(caller), "kind": kind}
        number, shortage = self._register.enter(run.caps, coordinator, len(raw), **facts)
        if shortage:
            return self._turned_away(run, shortage, raw, caller, kind)
        answer = run.party.handle(raw)
        reason = refusal(answer)
        self._register.answered(number, coordinator, len(answer), reason)
        if reason:
            _LOG.warning("refused in run %s: %s: %s", run.end.run, kind, reason)
        return answer

    # ------------------------------------------------------------------ runs

    def _end(self, run: str) -> PartyEnd:
        return PartyEnd(self._identity, self._kit.name, self._kit.federation.coordinator, run)

    def _begin(self, run: str) -> None:
        """Be in another run; the one before is over."""
        before, self._run = self._run, _Run(self._end(run))
        if before.end.run:
            before.close()
            self._register.settle()

    def _open(self, run: _Run, purpose: str) -> None:
        """Open the site for a run; whatever is wrong with it is said when asked."""
        run.purpose, kit = purpose, self._kit
        try:
            if purpose not in PURPOSES:
                raise _ClosedError(f"a run is to {' or to '.join(PURPOSES)}; this one is to {_quoted(purpose)}")
            clear_leftovers(kit.state)
            site = Site.read(kit)
            if purpose == "score" and site.scoring_table is None:
                raise _ClosedError(_NOBODY)
            if purpose == "train":  # a run of scores begins again
                run.journal = Journal(kit.state / "journal")
            run.party, run.caps = site.open_party(purpose, journal=run.journal), site.caps
            run.closed = ""
            _LOG.info("open for run %s, to %s: %r", run.end.run, purpose, run.party)
        except _ClosedError as reason:
            run.closed = str(reason)
        except (Exception, SystemExit) as error:  # its message could quote a row
            run.closed = _NOT_OPEN
            if isinstance(error, SottovoceError) and not isinstance(error, DataError):
                _LOG.error("this site cannot take part: %s", error)
            else:
                _LOG.error("this site cannot take part:\n%s%s", _places(error), type(error).__name__)
            _LOG.error("to see what is wrong: sottovoce vertical party %s --check", kit.folder)

    # ------------------------------------------------------------------ refusals

    def _turned_away(self, run: _Run, reason: str, raw: object, caller: object, kind: str = "") -> bytes:
        """Write down what did not reach the party, and return what is said of it."""
        _LOG.warning("refused in run %s: %s", run.end.run, reason, stacklevel=2)  # strangers silence no others
        self._register.turn_away(
            reason, run=run.end.run, coordinator=self._kit.federation.coordinator, purpose=run.purpose[:100],
            caller=_plain(caller), kind=kind, n_bytes=len(raw) if isinstance(raw, (bytes, bytearray)) else 0,
        )  # fmt: skip
        return Refused(reason).encode()

    def _refused(self, run: str, raw: object, reason: str) -> bytes:
        return self._end(run).answer(raw, 0, Refused(reason).encode(), "")


class _ClosedError(Exception):
    """Why a run is not begun here; the text may cross."""


def _kind(raw: bytes) -> str:
    """Return the kind of a request, as far as it has one; nothing of it is decoded."""
    try:
        return NAMES.get(code_of(Frame.read(raw).body), "unknown")
    except MessageError:
        return "malformed"


def _plain(value: object) -> str:
    return value[:100] if isinstance(value, str) else type(value).__name__


def _quoted(value: object) -> str:
    return repr(_plain(value))


def _places(error: BaseException) -> str:
    """Return where an error came from, without its message, which could quote a row; the innermost places of many."""
    return "".join(traceback.format_tb(error.__traceback__, -MOST_PLACES))
