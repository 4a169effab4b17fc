"""The line between a coordinator and its parties: a cell of FLARE's network at each end, which carries bytes.

The coordinator listens, and asks; parties connect, and answer. Both show certificates of the federation's authority,
and FLARE holds each to the name in its own. It needs the extra ``[vertical]``.
"""

import secrets
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from sottovoce.exceptions import PartyError
from sottovoce.vertical.flare.hardening.closed import (
    CHANNEL,
    close_cell,
    tell_refused_connections,
    use_our_settings,
)
from sottovoce.vertical.flare.kit import Kit

SERVER: Final = "server"  # the coordinator's cell, as FLARE has it
_ASK, _HERE = "ask", "here"  # topics: of the coordinator, and of a party that says which process it is
_SCHEME: Final = "atcp"  # by asyncio: a handshake that is not gone on with keeps nobody waiting
_TWICE: Final = b"twice"
_TWICE_SECONDS: Final = 300.0  # for which a party that was there twice takes part in no run
_MOST_PROCESSES: Final = 100  # of one party, remembered in one run
_MOST_NAME: Final = 64  # bytes of the name of a process
_BACK_SECONDS: Final = 5.0  # for a line that was cut to be there again
_LISTEN_SECONDS: Final = 20.0
_HELLO_SECONDS: Final = 5.0  # that the coordinator has to greet a party
_AGAIN_SECONDS: Final = 15.0  # between two greetings
_DEAD_SECONDS: Final = 40.0  # without one, after which a line that looks whole is not: a machine or a route is gone
_QUIET_SECONDS: Final = 20.0  # without a byte: FLARE at the other end sends some after ten
_LAST_DATA: Final = slice(52, 56)  # in Linux's tcp_info: milliseconds since data came


def _cell(kit: Kit, name: str, peers: Iterable[str], topic: str) -> Any:
    from nvflare.fuel.f3.cellnet.core_cell import CoreCell

    use_our_settings()
    tell_refused_connections()
    facts, end = kit.federation, "server" if name == SERVER else "client"
    credentials = {
        "connection_security": "mtls", "ca_cert": str(kit.authority),
        **{f"{end}_{what}": str(kit.folder / "startup" / f"{end}.{ending}")
           for what, ending in (("cert", "crt"), ("key", "key"))},
    }  # fmt: skip
    host = facts.listens_at if name == SERVER else facts.host
    cell = CoreCell(name, f"{_SCHEME}://{host}:{facts.port}", True, credentials, auth_identity_map={SERVER: facts.host})
    close_cell(cell, name, frozenset(peers), topic)
    return cell


def _message(content: bytes) -> Any:
    from nvflare.fuel.f3.message import Message

    return Message(payload=content)


def _content(message: Any) -> object:
    content = message.payload
    return bytes(content) if isinstance(content, (bytearray, memoryview)) else content


def _silence(cell: Any) -> float:
    """Return for how many seconds no byte has come over a cell's lines; infinite where the system does not tell."""
    found = [float("inf")]
    for line in list(cell.communicator.conn_manager.sfm_conns.values()):
        with suppress(AttributeError, OSError):  # another system; a socket that is closed
            info = line.conn.writer.get_extra_info("socket").getsockopt(
                socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_DATA.stop
            )
            found.append(int.from_bytes(info[_LAST_DATA], sys.byteorder) / 1000)
    return min(found)


class CoordinatorLine:
    """The coordinator's end: it listens while it lives."""

    def __init__(self, kit: Kit) -> None:
        self._state, self._names = Path(kit.state), kit.federation.parties
        self._processes: dict[str, list[bytes]] = {name: [] for name in self._names}
        self._lost, self._lock = Counter[str](), threading.Lock()
        self._cell = _cell(kit, SERVER, self._names, _HERE)
        self._cell.register_request_cb(CHANNEL, _HERE, self._greet)
        self._cell.set_cell_disconnected_cb(self._lose)
        self._cell.start()
        self._wait_for_listener()

    def _wait_for_listener(self) -> None:
        """Return when it listens: FLARE that is stopped before goes on for ever."""
        connectors = self._cell.communicator.conn_manager.connectors.values()
        until = time.monotonic() + _LISTEN_SECONDS
        while not all(each.driver.server for each in connectors) and time.monotonic() < until:
            time.sleep(0.02)

    def connected(self) -> tuple[str, ...]:
        there = (name for name in self._names if self._processes[name])
        return tuple(name for name in there if self._cell.is_cell_connected(name))

    def wait_for_parties(self, seconds: float, say: Callable[[str], object], wanted: Sequence[str]) -> None:
        """Return when the parties that are wanted are connected.

        A `PartyError` names all that are not by then, or one that was there twice within the last minutes.
        """
        until, told = time.monotonic() + seconds, ""
        while True:
            for name in wanted:
                self._refuse_twice(name)
            there = self.connected()
            missing = [name for name in wanted if name not in there]
            if not missing:
                return
            names = " and ".join(map(repr, missing))
            if time.monotonic() >= until:
                who = f"party {names} is" if len(missing) == 1 else f"parties {names} are"
                raise PartyError(
                    f"{who} not connected to the coordinator, after {seconds:g} s. Start each at its own place with "
                    "sottovoce vertical party KIT, or wait longer: --wait SECONDS."
                )
            if names != told:
                say(f"waiting for {names}")
                told = names
            time.sleep(0.1)

    def call(self, name: str, raw: bytes, seconds: float) -> object:
        """Carry a request and return what came back.

        Raises `TimeoutError` where nothing came in that time, `ConnectionError` where the line is cut, and stays so for
        some seconds.
        """
        from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode

        self._refuse_twice(name)
        until = time.monotonic() + min(seconds, _BACK_SECONDS)
        while not self._cell.is_cell_connected(name) and time.monotonic() < until:
            time.sleep(0.05)
        lost = self._lost[name]
        reply = self._cell.send_request(CHANNEL, _ASK, name, _message(raw), timeout=seconds)
        code = reply.get_header(MessageHeaderKey.RETURN_CODE)
        if code == ReturnCode.OK:
            return _content(reply)
        if code == ReturnCode.TIMEOUT and self._lost[name] == lost:
            raise TimeoutError
        raise ConnectionError

    def close(self) -> None:
        self._give_up(self._names)
        self._cell.stop()

    def _greet(self, message: Any) -> Any:
        """Hear which process a party is; tell one that was there before another one, and is there again."""
        from nvflare.fuel.f3.cellnet.defs import MessagePropKey

        name, process = message.get_prop(MessagePropKey.ENDPOINT).name, _content(message)
        if not isinstance(process, bytes) or len(process) > _MOST_NAME:  # it would be kept
            return _message(b"no name of a process")
        with self._lock:
            seen = self._processes[name]
            if process in seen[:-1]:
                folder = self._state / "twice"
                folder.mkdir(mode=0o700, exist_ok=True)
                (folder / name).touch(mode=0o600)
                return _message(_TWICE)
            if process not in seen:
                seen.append(process)
                del seen[:-_MOST_PROCESSES]
        return _message(b"welcome")

    def _refuse_twice(self, name: str) -> None:
        with suppress(FileNotFoundError):
            # a clock may have been set back since
            ago = abs(time.time() - (self._state / "twice" / name).stat().st_mtime)
            if ago < _TWICE_SECONDS:
                raise PartyError(
                    f"two processes of party {name!r} were connected {ago:.0f} s ago: its kit is in use twice. See "
                    f"that all but one are stopped there, and try again in {_TWICE_SECONDS - ago:.0f} s."
                )

    def _lose(self, agent: Any) -> None:
        self._lost[agent.get_fqcn()] += 1
        self._give_up([agent.get_fqcn()])

    def _give_up(self, names: Iterable[str]) -> None:
        """Let those who wait for an answer of these parties wait no longer."""
        for waiter in list(self._cell.waiters.values()):
            if not {*waiter.targets}.isdisjoint(names):
                waiter.set()


class PartyLine:
    """A party's end: it connects, again and again, and has requests answered.

    ``answer(request, caller)`` returns bytes and never raises; it is called from several threads.
    """

    def __init__(self, kit: Kit, answer: Callable[[object, str], bytes]) -> None:
        self._process, self._fresh = secrets.token_hex(16).encode(), threading.Event()
        self._said = self._greeted = time.monotonic()
        self._kit, self._answer = kit, answer
        self._cell = _cell(kit, kit.name, [SERVER], _ASK)
        self._cell.register_request_cb(CHANNEL, _ASK, lambda asked: _message(answer(_content(asked), SERVER)))
        self._cell.set_cell_connected_cb(lambda agent: self._fresh.set())
        self._cell.start()

    @property
    def is_connected(self) -> bool:
        """Whether the coordinator is there, and knows which process this is."""
        return self._cell.is_cell_connected(SERVER) and not self._fresh.is_set()

    @property
    def is_heard(self) -> bool:
        """Whether bytes came of late: behind a long message, either way, a greeting takes its time."""
        return self._cell.is_cell_connected(SERVER) and _silence(self._cell) < _QUIET_SECONDS

    @property
    def is_dead(self) -> bool:
        """Whether FLARE believes in a line over which nothing comes."""
        late = time.monotonic() - self._greeted > _DEAD_SECONDS
        return late and self._cell.is_cell_connected(SERVER) and not self.is_heard

    def is_second(self) -> bool:
        """Say now and then, and where the line is new, which process this is; tell whether a later one is there."""
        now = time.monotonic()
        if not self._cell.is_cell_connected(SERVER):
            self._greeted = now
            return False
        if not self._fresh.is_set() and now - self._said < _AGAIN_SECONDS:
            return False
        self._fresh.clear()
        self._said = now
        said = _content(
            self._cell.send_request(CHANNEL, _HERE, SERVER, _message(self._process), timeout=_HELLO_SECONDS)
        )
        if said is None:
            self._fresh.set()
        else:
            self._greeted = time.monotonic()
        return said == _TWICE

    def again(self) -> "PartyLine":
        """Return another line in the place of this one, of the same process, where this one is dead."""
        from nvflare.fuel.f3.cellnet.core_cell import CoreCell

        CoreCell.ALL_CELLS.pop(self._kit.name, None)
        threading.Thread(target=self.close, daemon=True).start()  # it waits for what is being computed
        other = PartyLine(self._kit, self._answer)
        other._process = self._process
        return other

    def close(self) -> None:
        self._cell.stop()
