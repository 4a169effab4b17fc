"""Envelopes: who says what to whom in a run, signed with the keys of the kits, whatever the engine believes.

Each request and each answer travels in an envelope: a head in JSON, the signature of the sender's ``identity`` over it,
the content, whose digest is in the head. The head names sender, receiver and run, counts, and names both processes by
random digits, so that nothing is good for another site, another run, another process, or a second time. An answer names
its request by the digest of that one's head. The first request of a run says what the run is to do, and asks for the
name of the party's process; the last one has no content, and ends it.

What is inside is another matter: a request may come again, in a new envelope, and is answered as it was.
"""

import hashlib
import json
import secrets
import struct
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from sottovoce._files import write_whole
from sottovoce.exceptions import MessageError, ParameterError, PartyError
from sottovoce.vertical.engines.engine import EngineError
from sottovoce.vertical.engines.identity import Identity
from sottovoce.vertical.engines.seat import MOST_TEXT, canonical, read_canonical

Carry = Callable[[str, bytes, float], object]

REQUEST: Final = "request of a run"
ANSWER: Final = "answer of a run"
_HEADS: Final = "ledgers.json"
_MAGIC: Final = b"SVE1"
_SIZES: Final = struct.Struct("<4sIH")  # magic, bytes of the head, of the signature


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """The head of an envelope."""

    kind: str  # ``REQUEST`` or ``ANSWER``
    sender: str
    receiver: str
    run: str
    # of a request: larger than that of any before it in this run. An answer has that of its request, and 0 where the
    # envelope of the request was refused.
    number: int
    here: str  # the processes that send and receive, by random names; ``there`` is empty until it is known
    there: str
    content: str  # SHA-256 of what is inside
    request: str  # of an answer: SHA-256 of the head that came with the request
    # hash of an entry of the party's ledger: in a request the last one that the coordinator was told of, in an answer
    # the last one that there is
    ledger: str
    strangers: int  # of an answer: requests in the coordinator's name that the party has turned away in this run
    certificate: str  # of the sender's identity, in PEM


def seal(identity: Identity, envelope: Envelope, content: bytes) -> bytes:
    head = canonical(asdict(envelope)).encode("ascii")
    signature = bytes.fromhex(identity.sign(head, envelope.kind))
    return b"".join([_SIZES.pack(_MAGIC, len(head), len(signature)), head, signature, content])


def unseal(
    identity: Identity, raw: bytes, *, kind: str, sender: str, receiver: str, run: str | None = None
) -> tuple[Envelope, bytes]:
    """Return the head and the content of an envelope that ``sender`` has signed for ``receiver``, in this run or any.

    Anything else is a `MessageError`.
    """
    if raw[:4] != _MAGIC:
        raise MessageError(
            f"it is not in an envelope of {sender!r}: all sites need the same version of sottovoce, and kits of one "
            "authority"
        )
    head, signature, content = _parts(raw)
    envelope = read_canonical(Envelope, head.decode("ascii", "replace"))
    if envelope is None:
        raise MessageError(f"its envelope cannot be read: it was changed on its way from {sender!r}, or cut short")
    try:
        identity.check(sender, envelope.certificate, None, head, signature.hex(), kind)
    except EngineError as error:
        raise MessageError(str(error).removesuffix(".")) from None
    for what, found, wanted in (
        ("kind", envelope.kind, kind), ("sender", envelope.sender, sender), ("receiver", envelope.receiver, receiver),
        ("run", envelope.run, envelope.run if run is None else run), ("content", envelope.content, _digest(content)),
    ):  # fmt: skip
        if found != wanted:
            raise MessageError(f"its envelope is signed by {sender!r} for the {what} {found[:60]!r}, not {wanted!r}")
    return envelope, content


def head_of(raw: object) -> Envelope | None:
    """Return the head of an envelope, of whoever it may be; None for anything else."""
    return read_canonical(Envelope, _head(raw).decode("ascii", "replace")) if isinstance(raw, bytes) else None


def _head(raw: bytes) -> bytes:
    """Return the head; empty where there is none, or one that would be copied for nothing."""
    n_head = _SIZES.unpack_from(raw)[1] if len(raw) >= _SIZES.size else 0
    return raw[_SIZES.size : _SIZES.size + n_head] if n_head <= MOST_TEXT else b""


def _parts(raw: bytes) -> tuple[bytes, bytes, bytes]:
    """Return head, signature and content, as far as there are any."""
    head = _head(raw)
    signature = _SIZES.size + len(head)
    content = signature + _SIZES.unpack_from(raw)[2] if head else len(raw)
    return head, raw[signature:content] if head else b"", raw[content:]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class _End:
    """One end of the line between the coordinator and a party in one run: ``name`` is here, ``other`` there."""

    def __init__(self, identity: Identity, name: str, other: str, run: str) -> None:
        self._identity, self._name, self._other, self.run = identity, name, other, run
        self._here, self._there, self._number = secrets.token_hex(16), "", 0

    def _seal(self, kind: str, number: int, content: bytes, **more: Any) -> bytes:
        envelope = Envelope(
            kind=kind, sender=self._name, receiver=self._other, run=self.run, number=number, here=self._here,
            there=self._there, content=_digest(content), certificate=self._identity.certificate,
            **{"request": "", "strangers": 0, **more},
        )  # fmt: skip
        return seal(self._identity, envelope, content)


class PartyEnd(_End):
    """The party's end; ``strangers`` counts what was not the coordinator's, and was turned away."""

    strangers = 0

    def take(self, envelope: Envelope, content: bytes) -> bool:
        """Take a request that the coordinator has signed for this run, and tell whether it begins the run.

        A `MessageError` says that it is for another process, or is not newer than the last one; nothing is changed.
        """
        begins = not envelope.there and content.isalpha()  # what the run is to do: a word, and no request is one
        if self._there not in ("", envelope.here) or not (begins or envelope.there == self._here):
            raise MessageError(
                f"its envelope is signed by {self._other!r} for other processes than these: a kit is in use twice, or "
                "a process of the run began again"
            )
        if envelope.number <= self._number:
            raise MessageError(f"it is request {envelope.number} of this run, and {self._number} came before")
        self._there, self._number = envelope.here, envelope.number
        return begins

    def answer(self, raw: object, number: int, content: bytes, ledger: str) -> bytes:
        """Return the answer to a request; number 0 where that was turned away, and whose it was is not known."""
        request = _digest(_head(raw) if isinstance(raw, bytes) else b"")
        return self._seal(
            ANSWER, number, content, request=request, ledger=ledger if number else "", strangers=self.strangers
        )


class CoordinatorEnd(_End):
    """The coordinator's end of its line with one party.

    ``known`` is the last entry of the party's ledger that the coordinator was told of; ``told`` is told of each later
    one; ``purpose`` is what the run is to do.
    """

    def __init__(
        self, identity: Identity, name: str, other: str, run: str, known: str, told: Callable[[str], object],
        purpose: str = "train",
    ) -> None:  # fmt: skip
        super().__init__(identity, name, other, run)
        self._lock = threading.Lock()
        self._known, self._told, self._purpose = known, told, purpose.encode()

    def ask(self, content: bytes | None, seconds: float, carry: Callable[[bytes], object]) -> object:
        """Carry a request and return what the party answered, one request at a time; None begins the run alone.

        A `PartyError` says that what came is not the party's answer to it, or that the party heard somebody else in the
        coordinator's name.
        """
        if not self._lock.acquire(timeout=seconds):
            raise TimeoutError
        try:
            refused = b"" if self._there else self._asked(self._purpose, carry)
            return refused if content is None or not self._there else self._asked(content, carry)
        finally:
            self._lock.release()

    def _asked(self, content: bytes, carry: Callable[[bytes], object]) -> object:
        self._number += 1
        sent = self._seal(REQUEST, self._number, content, ledger=self._known)
        raw = carry(sent)
        if not isinstance(raw, bytes):
            return raw  # whoever asked says so
        whose = f"what came as the answer of party {self._other!r} is not taken:"
        try:
            envelope, answer = unseal(
                self._identity, raw, kind=ANSWER, sender=self._other, receiver=self._name, run=self.run
            )
        except MessageError as error:
            raise PartyError(f"{whose} {error}.") from None
        if envelope.request != _digest(_head(sent)):
            raise PartyError(f"{whose} it answers another request.")
        if envelope.number == 0:
            return answer  # in words why the request was turned away
        if envelope.there != self._here or envelope.number != self._number or self._there not in ("", envelope.here):
            raise PartyError(
                f"{whose} it is signed for other processes than at the beginning of this run. Is a kit in use twice? "
                "Stop all processes of it but one, then resume this run."
            )
        if answer and not self._there:
            return answer  # in words why the run is not begun
        if envelope.strangers:
            raise PartyError(
                f"party {self._other!r} turned away {min(envelope.strangers, 10**9):,} of the requests that came to it "
                f"in the name of {self._name!r}: somebody else sent them, or sent them again. Nothing was answered or "
                "charged; its register says more. Find out who it was, then resume this run."
            )
        if envelope.ledger not in ("", self._known):
            self._told(envelope.ledger)
            self._known = envelope.ledger
        self._there = envelope.here
        return answer


class LedgerHeads:
    """The last entry of each party's ledger that the coordinator was told of, in a file of its kit's ``state``.

    A ledger is a chain: who names its last entry names all before it. A party is asked in each run whether its ledger
    still has the entry that it named last; if not, it is a copy or an old state, and charges are missing that somebody
    was told of.
    """

    def __init__(self, state: Path) -> None:
        self._path = Path(state) / _HEADS
        self._lock = threading.Lock()

    def known(self, party: str) -> str:
        return str(self._read()["last"].get(party, {}).get("entry", ""))

    def told(self, party: str, run: str, entry: str) -> None:
        with self._lock:
            content = self._read()
            content["last"][party] = {"entry": entry, "run": run}
            self._write(content)

    def forget(self, party: str) -> str:
        """Take the party's ledger as it is from now on, and keep in the file that it was so; return the last entry."""
        content = self._read()
        if party not in content["last"]:
            raise ParameterError(
                f"--accept-ledger {party}: nothing is known of a ledger of such a party; known are those of "
                f"{', '.join(content['last']) or 'nobody'}."
            )
        last = content["last"].pop(party)
        day = datetime.now(UTC).date().isoformat()
        content["accepted"].append({"party": party, **last, "day": day})
        self._write(content)
        return str(last["entry"])

    def _read(self) -> dict[str, Any]:
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            return {"last": dict(content["last"]), "accepted": list(content["accepted"])}
        except FileNotFoundError:
            return {"last": {}, "accepted": []}
        except (OSError, ValueError, KeyError, TypeError):
            raise ParameterError(
                f"{self._path}: cannot be read; it says which entries of the parties' ledgers are known here. Bring it "
                "back from a copy, or remove it: then the next run believes each party."
            ) from None

    def _write(self, content: dict[str, Any]) -> None:
        write_whole(self._path, json.dumps(content, indent=2) + "\n", private=True)


class Signed:
    """Carries requests to the parties of the coordinator's kit in envelopes, and brings what is inside.

    ``run``: a name that no execution had before.
    ``purpose``: what the run is to do.
    ``call(party, bytes, seconds)`` carries bytes.
    """

    def __init__(self, kit: Any, run: str, purpose: str, call: Carry) -> None:
        identity, heads = Identity(kit.identity), LedgerHeads(kit.state)
        self._call = call
        self._ends = {
            name: CoordinatorEnd(
                identity, kit.name, name, run, heads.known(name), partial(heads.told, name, run), purpose
            )
            for name in kit.federation.parties
        }

    def __call__(self, name: str, raw: bytes | None, seconds: float) -> object:
        return self._ends[name].ask(raw, seconds, lambda sealed: self._call(name, sealed, seconds))
