"""run_site: one site as a process: FLARE's server or client, watched, with its log, and nothing left behind."""

import ctypes
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from sottovoce._kept import PrivateFolder
from sottovoce.exceptions import ParameterError
from sottovoce.vertical.flare.hardening.closed import require_engine
from sottovoce.vertical.flare.hardening.guard import MAIN, TWICE
from sottovoce.vertical.flare.kit import Kit, org_of, temporary

_UP_LINE: Final = {"coordinator": b"Server started", "party": b"Successfully registered client"}
_GRACE_SECONDS: Final = 5.0
_FIRST_TRY_SECONDS: Final = 6.0  # FLARE's client needs about 4 to be up
_TRY_SECONDS: Final = 5.0
_CONNECT_SECONDS: Final = 5.0
_REFUSAL_SECONDS: Final = 1.0
_SIGN_SECONDS: Final = 2  # between two signs of life: two processes of one kit take the connection from each other
_LOG_BYTES: Final = 20_000_000
_KEPT_VARIABLES: Final = (
    "PATH", "HOME", "LANG", "LC_ALL", "TZ", "VIRTUAL_ENV", "SYSTEMROOT", "PGPASSFILE", "PGSERVICEFILE",
)  # fmt: skip
_KEPT_PREFIXES: Final = ("OMP_", "OPENBLAS_", "MKL_", "NUMBA_", "SOTTOVOCE_")


def run_site(kit: Kit, *, say: Callable[[str], object] = print) -> int:
    """Run a site until it is stopped by SIGTERM or SIGINT, or ends by itself.

    The log goes to ``state/log.txt``. It is not started again when it ends: leave that to the system, such as systemd.
    It is not started at all if there is something in the kit that is not its own, or the coordinator's port is taken: a
    `ParameterError`; nor while another process uses the kit: a `StorageError`. ``say`` gets a line when the site is
    started, and when it is connected (a party) or listening (the coordinator).

    Returns 0 if it was stopped by a signal, else the exit status of FLARE's process, and 1 for 0: it should have gone
    on.
    """
    with closing(PrivateFolder(kit.state, "the site")):
        check_site(kit)
        return _run(kit, say)


def check_site(kit: Kit) -> None:
    """Refuse what `run_site` would not start: foreign files, certificates that ended, a port that is taken."""
    require_engine()
    kit.check()
    kit.settle()
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


def _run(kit: Kit, say: Callable[[str], object]) -> int:
    log = kit.state / "log.txt"
    with suppress(FileNotFoundError):
        if log.stat().st_size > _LOG_BYTES:
            log.replace(log.with_name("log.old.txt"))
    stopped: list[int] = []
    log.touch(mode=0o600)
    with log.open("ab") as file:
        begin = file.tell()
        with _handled(lambda number: stopped.append(number)):
            child = subprocess.Popen(
                _command(kit), cwd=kit.folder, env=_environment(kit), stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.STDOUT, umask=0o077, start_new_session=True, preexec_fn=_end_with_parent,
            )  # fmt: skip
            try:
                say(f"{kit.name}: started, process {child.pid}; log: {log}")
                _watch(kit, child, log, begin, stopped, say)
            finally:
                _end(child)
    if stopped:
        say(f"{kit.name}: stopped")
        return 0
    say(f"{kit.name}: ended by itself, status {child.returncode}; see {log}")
    return child.returncode if child.returncode > 0 else 1


def _watch(
    kit: Kit, child: subprocess.Popen[bytes], log: Path, begin: int, stopped: list[int], say: Callable[[str], object]
) -> None:
    """Wait for the end; tell once when the site is up, and until then what keeps a party from it.

    A site that is there twice ends: its owner would go on reading that it is connected.
    """
    up, tail, told = False, b"", ""
    next_try = time.monotonic() + _FIRST_TRY_SECONDS
    with log.open("rb") as lines:
        lines.seek(begin)
        while not stopped and child.poll() is None:
            tail = tail[-len(TWICE) :] + lines.read(1 << 20)
            if TWICE.encode() in tail and kit.kind == "party":
                say(f"{kit.name}: {TWICE}. Stop all processes but one, and see where the other one runs")
                return
            if not up:
                if _UP_LINE[kit.kind] in tail:
                    up = True
                    say(_up(kit))
                elif kit.kind == "party" and time.monotonic() > next_try:
                    reason = why_not_connected(kit)
                    if reason not in ("", told):
                        told = reason
                        say(f"{kit.name}: not connected yet: {reason}; trying again")
                        with log.open("a", encoding="utf-8") as file:
                            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} - site - ERROR - {reason}\n")
                    next_try = time.monotonic() + _TRY_SECONDS
            time.sleep(0.1)


def _up(kit: Kit) -> str:
    facts = kit.federation
    if kit.kind == "coordinator":
        return f"{kit.name}: listening on {facts.listens_at}, port {facts.port}, for {', '.join(facts.parties)}"
    return f"{kit.name}: connected to {facts.coordinator} at {facts.host}, port {facts.port}"


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


def _command(kit: Kit) -> list[str]:
    module, startup = MAIN[kit.kind]
    name = [] if kit.kind == "coordinator" else [f"uid={kit.name}", f"heart_beat_interval={_SIGN_SECONDS}"]
    return [
        sys.executable, "-u", "-m", "sottovoce.vertical.flare.hardening.guard", module, "-m", str(kit.folder),
        "-s", startup, "--set", "secure_train=true", *name, f"org={org_of(kit.name)}", "config_folder=config",
    ]  # fmt: skip


def _environment(kit: Kit) -> dict[str, str]:
    """Return the environment of the site's processes.

    Only what is needed: FLARE puts variables of the environment into a job's configuration where the job names them, so
    what is not here cannot be asked for. The folder of the kit is not on Python's path, and TLS trusts the federation's
    authority alone (FLARE would add those of the system).
    """
    kept = {
        name: value for name, value in os.environ.items() if name in _KEPT_VARIABLES or name.startswith(_KEPT_PREFIXES)
    }
    return kept | {
        "PYTHONPATH": str(Path(__file__).resolve().parents[3]),
        "PYTHONSAFEPATH": "1",
        "PYTHONNOUSERSITE": "1",
        "MALLOC_ARENA_MAX": "4",
        "TMPDIR": str(temporary(kit.state)),
        "SSL_CERT_FILE": str(kit.folder / "startup" / "rootCA.pem"),
        "SSL_CERT_DIR": str(kit.state / "no-certificates"),
    }


# ------------------------------------------------------------------ processes and signals


def _end_with_parent() -> None:
    """Let the child be killed if this process is (Linux), so that no site goes on unwatched."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


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


def _end(child: subprocess.Popen[bytes]) -> None:
    """End FLARE's process and those of its jobs, which it puts in sessions of their own."""
    import psutil

    family: list[psutil.Process] = []
    with suppress(psutil.Error):
        parent = psutil.Process(child.pid)
        family = [parent, *parent.children(recursive=True)]
    for process in family:
        with suppress(psutil.Error):
            process.terminate()
    _, left = psutil.wait_procs(family, timeout=_GRACE_SECONDS)
    for process in left:
        with suppress(psutil.Error):
            process.kill()
    child.wait()
