"""What stands between a run and a party: who may ask, how much, one run at a time, and what is written down of it.

It knows nothing of FLARE; `sottovoce.vertical.flare.party` hands it what arrives. A job chooses nothing but its
purpose: tables, budget, ledger, caps and answers are read from the kit of the site.
"""

import logging
import time
import traceback
from pathlib import Path
from typing import Any, Final

from sottovoce._kept import PrivateFolder
from sottovoce.exceptions import DataError, MessageError, SottovoceError, StorageError
from sottovoce.vertical.engines.identity import Identity
from sottovoce.vertical.flare.hardening.closed import PURPOSES
from sottovoce.vertical.flare.hardening.envelope import PartyEnd
from sottovoce.vertical.flare.kit import Kit, clear_leftovers
from sottovoce.vertical.flare.register import Register
from sottovoce.vertical.flare.site import Site
from sottovoce.vertical.mechanisms import ANSWERS_TO
from sottovoce.vertical.party.budget import LedgerBudget
from sottovoce.vertical.party.journal import Journal
from sottovoce.vertical.party.party import Party
from sottovoce.vertical.wire import Frame, Refused, code_of, decode

_LOG: Final = logging.getLogger(__name__)
_KINDS: Final = {kind.code: kind.__name__ for kind in ANSWERS_TO}
_FAILED: Final = "it failed there; the party's own log says more"
_NOT_OPEN: Final = "its site could not be opened; the party's own log says why"
_BUSY: Final = "another run is under way there, and a party is in one at a time. Wait until it has ended"
_NOBODY: Final = "its owner named no people to be scored: [scoring] in its site.toml"
_FORGOTTEN: Final = (
    "its ledger lacks an entry that the coordinator was told of: it is an old copy, or another one, or the kit is in "
    "use twice. Put the right ledger in its place; if that is lost, settle what was spent, then at the coordinator: "
    "sottovoce vertical coordinator KIT --accept-ledger PARTY"
)
_MOST_LOGGED: Final = 20  # refusals at the door that one process writes to its log


class Gate:
    """What stands between a run and a party; it answers every request, and never raises."""

    def __init__(self, purpose: object = "train") -> None:
        self._purpose = purpose
        self._closed = "the run has not begun there"  # why nothing is answered
        self._site: Site | None = None
        self._party: Party | None = None
        self._line: PartyEnd | None = None
        self._register: Register | None = None
        self._journal: Journal | None = None
        self._run = self._coordinator = ""
        self._turn: PrivateFolder | None = None
        self._logged = 0

    def open(self, kit: Any, *, run: str, wait: float = 10.0) -> None:
        """Open the site for one run; whatever is wrong with it is written down, and said when asked.

        ``run`` is the name of the job. Another run may be under way for ``wait`` seconds.
        """
        self._run = str(run)
        try:
            self._open(kit, wait)
        except _ClosedError as reason:
            self._closed = str(reason)
            self._turn_away(self._closed)
        except Exception as error:  # its message could quote a row
            self._closed = _NOT_OPEN
            kit_folder = getattr(kit, "folder", kit)
            if isinstance(error, SottovoceError) and not isinstance(error, DataError):
                _LOG.error("this site cannot take part: %s", error)
            else:
                _LOG.error("this site cannot take part:\n%s%s", _places(error), type(error).__name__)
            _LOG.error("to see what is wrong: sottovoce vertical party %s --check", kit_folder)
            self._turn_away(self._closed)

    def _open(self, kit: Any, wait: float) -> None:
        if isinstance(kit, (str, Path)):
            kit = Kit.open(kit)
        state = Path(kit.state)
        self._coordinator = kit.federation.coordinator
        self._register = Register(state / "register.db")
        self._line = PartyEnd(Identity(kit.identity), kit.name, self._coordinator, self._run)
        if not isinstance(self._purpose, str) or self._purpose not in PURPOSES:
            raise _ClosedError(f"a job is to {' or to '.join(PURPOSES)}; this one is to {_quoted(self._purpose)}")
        self._take_turn(state, wait)
        clear_leftovers(state)
        site = Site.read(kit)
        if self._purpose == "score" and site.scoring_table is None:
            raise _ClosedError(_NOBODY)
        if self._purpose == "train":  # a run of scores begins again
            self._journal = Journal(state / "journal")
        self._party = site.open_party(self._purpose, journal=self._journal)
        self._site, self._closed = site, ""
        _LOG.info("open for run %s, to %s: %r", self._run, self._purpose, self._party)

    def _take_turn(self, state: Path, wait: float) -> None:
        """Hold the site until the run ends, or the process does."""
        end = time.monotonic() + wait
        while self._turn is None:
            try:
                self._turn = PrivateFolder(state / "run", "the run")
            except StorageError:
                if time.monotonic() >= end:
                    raise _ClosedError(_BUSY) from None
                time.sleep(0.1)

    def close(self) -> None:
        """End the run here; what is needed to go on with it is on disk."""
        self._closed = "the run has ended there"
        if self._party is not None:
            self._party.close()
        if self._journal is not None:
            self._journal.close()
        if self._register is not None:
            self._register.settle()
        if self._turn is not None:
            self._turn.close()

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
        return envelope.number, b"" if begins else self._answer(request, caller)

    @property
    def _budget(self) -> LedgerBudget | None:
        budget = None if self._party is None else self._party.budget
        return budget if isinstance(budget, LedgerBudget) else None

    def _answer(self, raw: bytes, caller: object) -> bytes:
        assert self._register is not None and self._party is not None and self._site is not None
        session, step, kind = _seen(raw)
        facts = {"run": self._run, "purpose": str(self._purpose), "caller": _plain(caller), "kind": kind}
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

    def _refused(self, reason: str, caller: object, raw: object) -> bytes:
        self._turn_away(reason, caller=caller, raw=raw)
        return Refused(reason).encode()

    def _turn_away(self, reason: str, *, caller: object = "", raw: object = b"") -> None:
        self._log(reason)
        if self._register is not None:
            size = len(raw) if isinstance(raw, (bytes, bytearray, memoryview)) else 0
            self._register.turn_away(
                reason, run=self._run, coordinator=self._coordinator, purpose=_plain(self._purpose),
                caller=_plain(caller), n_bytes=size,
            )  # fmt: skip

    def _log(self, reason: str) -> None:
        self._logged += 1
        if self._logged <= _MOST_LOGGED:
            _LOG.warning("refused in run %s: %s", self._run, reason)
        elif self._logged == _MOST_LOGGED + 1:
            _LOG.warning("more is refused in run %s; the register counts it", self._run)


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
