"""A site as a process: its log, its environment, and for a party the requests that it answers until it is stopped."""

import logging
import os
import signal
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from logging.handlers import RotatingFileHandler
from typing import Any, Final

from sottovoce._kept import PrivateFolder
from sottovoce.exceptions import ParameterError, StorageError
from sottovoce.vertical.flare.hardening.closed import require_engine
from sottovoce.vertical.flare.hardening.gate import Door
from sottovoce.vertical.flare.kit import Kit, temporary
from sottovoce.vertical.flare.line import CoordinatorLine, PartyLine

TWICE: Final = "another process of this site is connected to the coordinator: its kit is in use twice"
_TRY_SECONDS: Final = 5.0  # between two looks at what keeps a party from the coordinator
_CONNECT_SECONDS: Final = 5.0
_REFUSAL_SECONDS: Final = 1.0
_AWAY_SECONDS: Final = 30.0  # without the coordinator, after which a run is over: what it needs to go on is on disk
_GRACE_SECONDS: Final = 5.0  # for what is being computed, when a site is stopped
_STATUS_SECONDS: Final = 0.3
_LOG_BYTES: Final = 20_000_000
_MOST_LINES: Final = 20  # of a log in an hour, from one place in the code
_LOG: Final = logging.getLogger(__name__)


def run_site(kit: Kit, *, say: Callable[[str], object] = print) -> int:
    """Run a party's site until it is stopped by SIGTERM or SIGINT, or another process uses a copy of its kit.

    The log goes to ``state/log.txt``. It is not started if something is wrong with the kit: a `ParameterError`; nor
    while another process uses it: a `StorageError`. ``say`` gets a line when the site is started, and whenever it is
    connected, or why it is not.

    Returns 0 if it was stopped by a signal, else 1.
    """
    stopped: list[int] = []
    with site_process(kit), _handled(stopped.append):
        say(f"{kit.name}: started, process {os.getpid()}; log: {kit.state / 'log.txt'}")
        door = Door(kit)
        line = PartyLine(kit, door.answer)
        try:
            line = _serve(kit, line, door, stopped, say)
        finally:
            door.close()
            ending = threading.Thread(target=line.close, daemon=True)
            ending.start()
            ending.join(_GRACE_SECONDS)
        if stopped:
            say(f"{kit.name}: stopped")
        if ending.is_alive():  # it computes something still, which nobody waits for
            logging.shutdown()
            os._exit(0 if stopped else 1)
    return 0 if stopped else 1


def _serve(kit: Kit, line: PartyLine, door: Door, stopped: list[int], say: Callable[[str], object]) -> PartyLine:
    """Tell whether the coordinator is there, and end a run without it, until the site is stopped; return the line."""
    facts, told, away, next_try = kit.federation, "", 0.0, 0.0
    while not stopped:
        if line.is_second():
            say(f"{kit.name}: {TWICE}. Stop all processes but one, and see where the other one runs")
            _LOG.error("%s. Stop all processes but one", TWICE)
            break
        if line.is_dead:
            line = line.again()
        now, state = time.monotonic(), told
        if line.is_connected or line.is_heard:
            away, next_try = now, now + _TRY_SECONDS
        if line.is_connected:
            state = f"connected to {facts.coordinator} at {facts.host}, port {facts.port}"
        elif now > next_try:
            reason = why_not_connected(kit)
            next_try = time.monotonic() + _TRY_SECONDS
            state = f"not connected yet: {reason}; trying again" if reason else state
            if now - away > _AWAY_SECONDS:
                door.close()
        if state != told:
            told = state
            say(f"{kit.name}: {state}")
            _LOG.info("%s", state)
        time.sleep(0.1)
    return line


@contextmanager
def listening(kit: Kit) -> Iterator[CoordinatorLine]:
    """Let this process be the coordinator's site, to which parties connect, until the block ends.

    Raises as `run_site` does, and where the port is taken.
    """
    with site_process(kit), closing(CoordinatorLine(kit)) as line:
        yield line


@contextmanager
def site_process(kit: Kit) -> Iterator[None]:
    """Let this process be the one of a site that `check_site` finds no fault with, until the block ends.

    Its log is the kit's, its temporary files are below the kit, others cannot read what it writes, and TLS trusts the
    federation's authority alone (FLARE would add those of the system).
    """
    with closing(_held(kit)), _mask(0o077):
        check_site(kit)
        log = RotatingFileHandler(kit.state / "log.txt", maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8")
        log.setFormatter(logging.Formatter("%(asctime)s - %(name)s - %(levelname)s - %(message).5000s"))
        log.addFilter(Seldom())
        root, variables = logging.getLogger(), {
            "SSL_CERT_FILE": str(kit.authority), "SSL_CERT_DIR": str(kit.state / "no-certificates"),
        }  # fmt: skip
        before = {name: os.environ.get(name) for name in variables}, tempfile.tempdir, root.level
        os.environ |= variables
        tempfile.tempdir = str(temporary(kit.state))
        root.addHandler(log)
        root.setLevel(logging.INFO)
        try:
            yield
        finally:
            root.removeHandler(log)
            log.close()
            for name, value in before[0].items():
                os.environ.pop(name)
                os.environ |= {} if value is None else {name: value}
            _, tempfile.tempdir, level = before
            root.setLevel(level)


class Seldom(logging.Filter):
    """Takes so many lines an hour from one place in the code, and then tells how many more there were.

    So nobody who is refused again and again brings what happened before out of the log.
    """

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[tuple[str, int], tuple[int, int]] = {}  # by place: the hour, and lines in it

    def filter(self, record: logging.LogRecord) -> bool:
        place, hour = (record.pathname, record.lineno), int(record.created) // 3600
        last, count = self._counts.get(place, (hour, 0))
        left_out = max(0, count - _MOST_LINES) if hour != last else 0
        count = 1 if hour != last else count + 1
        self._counts[place] = hour, count
        if count > _MOST_LINES:
            return False
        if left_out:
            record.msg = f"({left_out:,} more like this one before it) {record.msg}"
        return True


def check_site(kit: Kit) -> None:
    """Refuse a site that cannot be: certificates that are foreign or have ended, a port that is taken."""
    require_engine()
    kit.check()
    kit.make_folders()
    if kit.kind == "coordinator":
        _check_port(kit)


def _check_port(kit: Kit) -> None:
    host, port = kit.federation.listens_at, kit.federation.port
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: connections that just ended
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ParameterError(
                f"port = {port}: cannot listen on {host}, port {port}: {error.strerror}. Stop what uses the port, or "
                "make kits of a federation with another one."
            ) from None


def why_not_connected(kit: Kit) -> str:
    """Try a connection with the coordinator, and return what is wrong with it; empty if nothing is.

    FLARE tries again for ever and says nothing.
    """
    facts = kit.federation
    place = f"{facts.host}, port {facts.port}"
    try:
        with socket.create_connection((facts.host, facts.port), timeout=_CONNECT_SECONDS) as plain:
            return _why_refused(kit, plain, place)
    except socket.gaierror as error:
        return f"the host {facts.host!r} is not known here ({error.strerror})"
    except OSError as error:
        return f"nobody answers at {place} ({error.strerror or 'time is over'})"


def _why_refused(kit: Kit, plain: socket.socket, place: str) -> str:
    facts, startup = kit.federation, kit.folder / "startup"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # the name is compared below: certificates of FLARE have it in their subject
    context.load_verify_locations(startup / "rootCA.pem")
    context.load_cert_chain(startup / "client.crt", startup / "client.key")
    try:
        with context.wrap_socket(plain) as line:
            subject = dict(pair for part in line.getpeercert()["subject"] for pair in part)  # type: ignore[index,misc]
            shown = subject.get("commonName")
            if shown != facts.host:
                return f"refused: what answers at {place} shows the certificate of {shown!r}, not the coordinator's"
            line.settimeout(_REFUSAL_SECONDS)
            try:
                ended = line.recv(1) == b""  # an accepted connection is silent until something is asked
            except TimeoutError:
                return ""
            except OSError:
                ended = True
            return f"{facts.coordinator} at {place} refuses this site's certificate" if ended else ""
    except ssl.SSLCertVerificationError as error:
        return (
            f"refused: what answers at {place} shows a certificate that the authority of federation {facts.name} has "
            f"not signed, or that has ended ({error.verify_message})"
        )
    except ssl.SSLError:
        return f"refused: what answers at {place} does not speak TLS"
    except OSError as error:
        return f"the connection with {place} was closed ({error.strerror or 'time is over'})"


def _held(kit: Kit) -> PrivateFolder:
    """Return the folder of a site's state, which no other process has; one that asks for its status has it shortly."""
    with suppress(StorageError):
        return PrivateFolder(kit.state, "the site")
    time.sleep(_STATUS_SECONDS)
    return PrivateFolder(kit.state, "the site")


@contextmanager
def _mask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def _handled(handler: Callable[[int], object]) -> Iterator[None]:
    before: dict[int, Any] = {}
    for number in map(int, (signal.SIGTERM, signal.SIGINT)):
        before[number] = signal.signal(number, lambda got, _: handler(got))
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
