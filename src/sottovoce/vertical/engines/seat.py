"""A party's seat in one joint computation: a port, a key for its links, its card; then an engine among its partners."""

import errno
import ipaddress
import json
import re
import shutil
import socket
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from sottovoce._files import write_whole
from sottovoce._version import __version__
from sottovoce.vertical.engines import IN_PROCESS, ComputeSite, available_engines
from sottovoce.vertical.engines.engine import Engine, EngineError
from sottovoce.vertical.engines.identity import Identity, check_session_certificate, session_certificate

MOST_TEXT: Final = 20_000  # characters of a card, or of the head of an envelope
_Read = TypeVar("_Read")
_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class SessionCard:
    """What a party says of itself in one session."""

    session: str  # in hexadecimal digits
    name: str
    host: str  # where it is reached; empty and 0 where the parties share a process
    port: int
    engine: str
    engine_version: str
    sottovoce: str
    plan: str  # digests
    programs: str
    certificate: str  # of its links in this session, self-signed, in PEM; empty without TLS
    identity: str  # by which it is known, in PEM; empty without TLS
    signature: str = ""  # by the identity's key over all the rest, in hexadecimal digits

    @property
    def text(self) -> str:
        return canonical(asdict(self))

    @property
    def signed_bytes(self) -> bytes:
        content = asdict(self)
        del content["signature"]
        return canonical(content).encode()

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @classmethod
    def from_text(cls, whose: str, text: str) -> "SessionCard":
        """Read a card; anything that is not exactly one is refused."""
        card = read_canonical(cls, text)
        if card is None:
            raise EngineError(f"what came as the card of {whose} is not a card: the parties' versions may differ.")
        return card


def read_canonical(kind: type[_Read], text: str) -> _Read | None:
    """Return the dataclass that a text is of, or None: there is one way to write it, and what is read was signed."""
    kinds = {each.name: each.type for each in fields(kind)}  # type: ignore[arg-type]
    try:
        content = json.loads(text) if len(text) <= MOST_TEXT else None
        if not isinstance(content, dict) or content.keys() != kinds.keys() or canonical(content) != text:
            return None
    except (ValueError, RecursionError):  # there may be room to read it, and none to write it
        return None
    return kind(**content) if all(type(content[name]) is each for name, each in kinds.items()) else None


def canonical(content: dict[str, Any]) -> str:
    """Return JSON with sorted keys and no spaces."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def on_this_machine(host: str) -> bool:
    """Whether an address is of the loopback, which no other machine reaches."""
    if host == "localhost":
        return True
    try:
        return ipaddress.IPv4Address(host).is_loopback
    except ValueError:
        return False


def check_cards(
    texts: Sequence[str], names: Sequence[str], own: SessionCard, site: ComputeSite | None, identity: Identity | None
) -> list[SessionCard]:
    """Return the cards of a session in the order of ``names``, or refuse it.

    Raises `EngineError`: it names the party and the remedy.

    ``texts``: one card for each party, as the coordinator brought them.
    ``names``: all that compute, in the order of the plan.
    ``site``: of this party.
    ``identity``: of this party.
    """
    if len(texts) != len(names):
        raise EngineError(f"{len(texts)} cards came for {len(names)} parties that compute: one of each is needed.")
    cards = [SessionCard.from_text(repr(name), text) for name, text in zip(names, texts, strict=True)]
    for name, card in zip(names, cards, strict=True):
        if card.name != name:
            raise EngineError(f"the card of {name!r} is another party's: cards must be in the order of the plan.")
        if name == own.name and card != own:
            raise EngineError(f"the card of {name!r} is not the one that it gave: it was changed on its way.")
    for card in cards:
        if card.name != own.name:
            _check_partner(card, own, site, identity)
    _check_distinct(cards)
    return cards


def _check_partner(card: SessionCard, own: SessionCard, site: ComputeSite | None, identity: Identity | None) -> None:
    whose = repr(card.name)
    if site is not None and site.partners is not None and card.name not in site.partners:
        raise EngineError(f"{own.name!r} does not compute with {whose}: its owner must name it among the partners.")
    if own.engine != IN_PROCESS:
        _check_link(card, own, site, identity)
    # after the signature: what follows is then the partner's own word
    if card.session != own.session:
        raise EngineError(f"the card of {whose} is of another session: begin again.")
    for words, theirs, ours, remedy in (
        ("another plan", card.plan, own.plan, "nothing was shared. Begin again; should it be so again, ask its owner"),
        ("other programs", card.programs, own.programs, "install the same version of sottovoce at both"),
        ("another engine", card.engine, own.engine, "nothing was shared. Begin again"),
        ("another version of the engine", card.engine_version, own.engine_version, "install the same at both"),
        ("another version of sottovoce", card.sottovoce, own.sottovoce, "install the same at both"),
    ):
        if theirs != ours:
            # digests are told in short; a version is a partner's own text, so it is quoted and cut
            raise EngineError(f"{whose} has {words}, {theirs[:60]!r} for {ours[:60]!r} at {own.name!r}: {remedy}.")


def _check_link(card: SessionCard, own: SessionCard, site: ComputeSite | None, identity: Identity | None) -> None:
    """Check who a partner is, and that its address is one."""
    whose = repr(card.name)
    if identity is not None:
        if not card.identity or not card.signature:
            raise EngineError(f"the card of {whose} is not signed: it needs an identity, as {own.name!r} has one.")
        fingerprints = (site.fingerprints if site is not None else None) or {}
        identity.check(card.name, card.identity, fingerprints.get(card.name), card.signed_bytes, card.signature)
        check_session_certificate(whose, card.certificate)
    elif card.identity or card.certificate:
        raise EngineError(f"{whose} has an identity and {own.name!r} has none: give both one, or neither for a trial.")
    if not _HOST.fullmatch(card.host) or not 1 <= card.port <= 65535:
        raise EngineError(f"the address of {whose} is none: it must be a host name or IPv4 address, and a port.")
    unnamed = site is None or site.partners is None
    if (identity is None or unnamed) and not on_this_machine(card.host):
        what = "an identity" if identity is None else "a list of its partners"
        raise EngineError(
            f"{whose} is on another machine, and {own.name!r} has not {what}: without, parties compute on one machine "
            "alone, as a trial."
        )


def _check_distinct(cards: Sequence[SessionCard]) -> None:
    if cards[0].engine == IN_PROCESS:
        return
    for what, found in (
        ("address", [card.address for card in cards]),
        ("session certificate", [card.certificate for card in cards if card.certificate]),
        ("certificate", [card.identity for card in cards if card.identity]),
    ):
        for i, value in enumerate(found):
            if value in found[:i]:
                first = cards[found.index(value)].name
                raise EngineError(f"{first!r} and {cards[i].name!r} have one {what}: each needs its own.")


_ANYWHERE: Final = "0.0.0.0"  # behind a proxy or by name; partners prove who they are

_taken: Final[set[int]] = set()  # ports of this process's seats: an engine listens a moment after its seat lets go
_taken_lock: Final = threading.Lock()


class Seat:
    """A party's seat in one session; `take` makes it.

    ``card``: for the partners.
    """

    def __init__(
        self, site: ComputeSite | None, identity: Identity | None, card: SessionCard, folder: Path | None,
        port: "_Port | None",
    ) -> None:  # fmt: skip
        self._site, self._identity, self._card, self._folder, self._port = site, identity, card, folder, port

    @classmethod
    def take(cls, site: ComputeSite | None, name: str, session: bytes, engine: str, plan: str, programs: str) -> "Seat":
        """Take a seat.

        Raises `EngineError`: in public words.

        ``site``: what this party's owner says about joint computations; None: only within this process.
        ``name``: this party.
        ``session``: the same at all parties.
        ``engine``: one that this party may use (`sottovoce.vertical.protocol.PartyFacts.engines`).
        ``plan`` and ``programs``: digests of what this party is about to compute, made by itself.
        """
        version = available_engines()[engine]
        card = SessionCard(
            session=session.hex(), name=name, host="", port=0, engine=engine, engine_version=version,
            sottovoce=__version__, plan=plan, programs=programs, certificate="", identity="",
        )  # fmt: skip
        if engine == IN_PROCESS:
            return cls(site, None, card, None, None)
        assert site is not None
        if site.identity is None and not on_this_machine(site.host):
            raise EngineError(
                f"{name!r} has no identity, so it computes on one machine alone, as a trial: give it certificates, or "
                "host='127.0.0.1'."
            )
        identity = None if site.identity is None else Identity(site.identity)
        port = _Port(site.host, site.ports, name)
        folder = None
        try:
            card = replace(card, host=site.host, port=port.number)
            if identity is not None:
                folder = Path(tempfile.mkdtemp(prefix="sottovoce-seat-"))  # for its owner alone
                key, certificate = (each.decode("ascii") for each in session_certificate(name))
                write_whole(folder / "key.pem", key, private=True)
                write_whole(folder / "certificate.pem", certificate, private=True)
                card = replace(card, certificate=certificate, identity=identity.certificate)
                card = replace(card, signature=identity.sign(card.signed_bytes))
                # one's own card must pass one's own checks: a wrong identity is told to its owner, not by partners
                identity.check(name, card.identity, None, card.signed_bytes, card.signature)
        except BaseException:
            port.release()
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        return cls(site, identity, card, folder, port)

    @property
    def card(self) -> str:
        return self._card.text

    def sit(self, cards: Sequence[str], names: Sequence[str]) -> Engine:
        """Check the cards of all, and return this party's end of the engine, not started.

        Raises `EngineError`: a card is not what it should be; the text tells whose, and the remedy.

        ``cards``: one of each party, this one's among them.
        ``names``: all that compute, in the order of the plan.
        """
        checked = check_cards(cards, names, self._card, self._site, self._identity)
        rank, card = list(names).index(self._card.name), self._card
        if card.engine == IN_PROCESS:
            from sottovoce.vertical.engines.in_process import InProcessEngine

            timeout = 600.0 if self._site is None else self._site.timeout
            return InProcessEngine(bytes.fromhex(card.session), rank, len(names), timeout)
        from sottovoce.vertical.engines.process import EngineProcess

        assert self._site is not None
        assert self._port is not None
        if self._folder is not None:
            partners = "".join(each.certificate for each in checked if each.name != card.name)
            write_whole(self._folder / "partners.pem", partners, private=True)
        addresses, listen = [each.address for each in checked], self._port.let_go()
        return EngineProcess(card.engine, rank, addresses, listen=listen, tls=self._folder, timeout=self._site.timeout)

    def close(self) -> None:
        """Give the port back and delete the session's key; never raises, and may be called again."""
        if self._port is not None:
            self._port.release()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


class _Port:
    """A port of this machine that nobody else listens on: kept from others until the engine takes it over."""

    def __init__(self, host: str, ports: tuple[int, int], name: str) -> None:
        first, last = ports
        self._here = _bindable(host)
        with _taken_lock:
            for number in range(first, last + 1):
                if number in _taken:
                    continue
                bound = _bound(self._here, number)
                if bound is not None:
                    self._socket: socket.socket | None = bound
                    self.number: int = bound.getsockname()[1]
                    _taken.add(self.number)
                    return
        raise EngineError(
            f"no port of {first} to {last} is free at {name!r}: end what listens there, or give it more ports."
        )

    def let_go(self) -> str:
        """Free it for the engine; return what that listens on."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        return f"{self._here}:{self.number}"

    def release(self) -> None:
        self.let_go()
        with _taken_lock:
            _taken.discard(self.number)


def _bindable(host: str) -> str:
    """Return the local address to listen on: the host's, where it is this machine's own."""
    if on_this_machine(host):
        return "127.0.0.1" if host == "localhost" else host
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return _ANYWHERE
    try:
        with socket.socket() as probe:
            probe.bind((host, 0))
    except OSError:
        return _ANYWHERE
    return host


def _bound(here: str, number: int) -> socket.socket | None:
    bound = socket.socket()
    try:
        bound.bind((here, number))
    except OSError as error:
        bound.close()
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            return None
        raise EngineError("this party cannot open a port at the host that its owner named.") from None
    return bound
