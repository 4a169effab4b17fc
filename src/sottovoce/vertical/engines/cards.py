"""Cards: what each party of a joint computation signs before any of them shares data, and how partners check it.

A card says where a party is reached, by which key its links of this session are known, and what it is about to compute:
the digests of the plan and of the programs, and the versions of what runs them. The coordinator carries the cards and
cannot change them: each is signed with its party's own key.
"""

import ipaddress
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, TypeVar

from sottovoce.vertical.engines.engine import EngineError
from sottovoce.vertical.engines.identity import Identity, check_session_certificate
from sottovoce.vertical.engines.site import IN_PROCESS, ComputeSite

_MOST: Final = 20_000  # characters of a card
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
    if len(text) > _MOST:
        return None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    kinds = {each.name: each.type for each in fields(kind)}  # type: ignore[arg-type]
    if not isinstance(content, dict) or content.keys() != kinds.keys() or canonical(content) != text:
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
    if own.name not in names:
        raise EngineError(f"{own.name!r} is not among those that compute in this plan.")
    if len(set(names)) != len(names):
        raise EngineError("two parties of this plan have one name: rename one of them.")
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
