"""A party's seat in one joint computation: a port, a key for its links, its card; then an engine among its partners."""

import errno
import ipaddress
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from sottovoce._version import __version__
from sottovoce.vertical.engines.cards import SessionCard, check_cards, on_this_machine
from sottovoce.vertical.engines.engine import Engine, EngineError
from sottovoce.vertical.engines.identity import Identity, session_certificate
from sottovoce.vertical.engines.site import ENGINES, IN_PROCESS, ComputeSite, available_engines

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
        ``engine``: "spu", "mpyc" or "in-process".
        ``plan`` and ``programs``: digests of what this party is about to compute, made by itself.
        """
        versions = available_engines()
        if engine not in (*ENGINES, IN_PROCESS):
            raise EngineError(f"engine must be one of {', '.join((*ENGINES, IN_PROCESS))}; got {engine[:40]!r}.")
        card = SessionCard(
            session=session.hex(), name=name, host="", port=0, engine=engine, engine_version=versions.get(engine, ""),
            sottovoce=__version__, plan=plan, programs=programs, certificate="", identity="",
        )  # fmt: skip
        if engine == IN_PROCESS:
            return cls(site, None, card, None, None)
        if site is None:
            raise EngineError(
                f"{name!r} computes with parties of its own process alone: its owner must give it a place in joint "
                "computations (ComputeSite)."
            )
        if engine not in site.engines:
            agreed = ", ".join(sorted(map(str, site.engines))) or "none"
            raise EngineError(f"{name!r} does not agree to engine {engine!r}; it agrees to: {agreed}.")
        if engine not in versions:
            raise EngineError(f"engine {engine!r} is not installed at {name!r}: pip install 'sottovoce[secure]'.")
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
                key, certificate = session_certificate(name)
                _write(folder / "key.pem", key)
                _write(folder / "certificate.pem", certificate)
                card = replace(card, certificate=certificate.decode("ascii"), identity=identity.certificate)
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
        from sottovoce.vertical.engines.site import TlsFiles

        assert self._site is not None
        assert self._port is not None
        tls = None
        if self._folder is not None:
            partners = "".join(each.certificate for each in checked if each.name != card.name)
            _write(self._folder / "partners.pem", partners.encode("ascii"))
            tls = TlsFiles(
                self._folder / "certificate.pem", self._folder / "key.pem", self._folder / "partners.pem"
            )  # fmt: skip
        listen = self._port.let_go()
        return EngineProcess(
            card.engine, rank, [each.address for each in checked], listen=listen, tls=tls, timeout=self._site.timeout
        )

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


def _write(path: Path, content: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
