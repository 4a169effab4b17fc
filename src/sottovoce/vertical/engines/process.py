"""An engine in a process of its own: what it prints, aborts or leaves behind does not reach the party's process."""

import contextlib
import json
import math
import os
import queue
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from sottovoce.vertical.engines.engine import Engine, EngineError, Whole
from sottovoce.vertical.engines.programs import Program, program_text
from sottovoce.vertical.engines.site import ENGINES, TlsFiles

_KEPT = ("LANG", "LC_ALL", "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "PATH", "SYSTEMROOT")
_PATIENCE = 10.0
_BREAK = 0.05


class EngineProcess(Engine):
    """One party's end of a joint computation whose engine runs in a child process.

    The constructor only takes note; `start` begins. The child ends at `close`, at any error, when a command takes
    longer than the timeout, when this object is no longer used, and with this process.

    ``kind``: {"spu", "shamir"}.
    ``rank``: this party's place.
    ``addresses``: by rank, as partners reach them.
    ``listen``: where this party listens, if at another address than its partners use.
    ``tls``: certificates of the session; only a trial on one machine does without.
    ``timeout``: seconds that a command may take.
    ``log``: file for what the engine prints; by default nothing of it is kept.
    """

    def __init__(
        self,
        kind: str,
        rank: int,
        addresses: Sequence[str],
        *,
        listen: str | None = None,
        tls: TlsFiles | None = None,
        timeout: float = 600.0,
        log: Path | None = None,
    ) -> None:
        if kind not in ENGINES:
            raise EngineError(f"an engine in a process of its own is one of {', '.join(ENGINES)}, not {kind!r}")
        if not 0 <= rank < len(addresses):
            raise EngineError(f"rank must be below the number of addresses, {len(addresses)}, but is {rank}")
        self.name = kind  # type: ignore[misc]
        self.rank, self.n_parties = rank, len(addresses)
        # the child tells, once it has begun
        self.bound = 0
        files = None if tls is None else [str(file) for file in (tls.certificate, tls.key, tls.partners)]
        self._task: dict[str, Any] = {
            "kind": kind,
            "rank": rank,
            "addresses": list(addresses),
            "listen": listen,
            "tls": files,
            "timeout": timeout,
        }
        self._timeout, self._log = timeout, log
        self._one = threading.RLock()
        self._child: _Child | None = None
        self._closed = False

    def start(self) -> None:
        """Start the child, which connects to the others and checks the session."""
        with self._one:
            if self._child is not None or self._closed:
                raise EngineError("this joint computation has been started before; begin a new one")
            self._child = _Child(self._log)
            weakref.finalize(self, self._child.leave)
            self._stop_if_closed()
            answer, _ = self._ask(self._task, ())
            self.bound = int(answer["bound"])

    @property
    def pid(self) -> int | None:
        """The child's process, for measurements and tests."""
        return None if self._child is None else self._child.pid

    def put(self, name: str, owner: int, shape: tuple[int, ...], value: Whole | None) -> None:
        self._do({"do": "put", "name": name, "owner": owner, "shape": shape}, () if value is None else (value,))

    def run(self, program: Program, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self._do({"do": "run", "program": program_text(program), "inputs": list(inputs), "outputs": list(outputs)})

    def reveal(self, name: str) -> Whole:
        return self._do({"do": "reveal", "name": name})[0]

    def drop(self, *names: str) -> None:
        self._do({"do": "drop", "names": list(names)})

    def close(self) -> None:
        self._closed = True
        if self._child is not None:
            self._child.end()
            # a thread that was waiting for an answer has been freed by now
            with self._one:
                self._child.leave()

    def _stop_if_closed(self) -> None:
        """End a child that was begun while another thread has closed."""
        if self._closed and self._child is not None:
            self._child.end()

    def _do(self, command: Mapping[str, Any], arrays: Sequence[Whole] = ()) -> list[Whole]:
        with self._one:
            if self._child is None:
                raise EngineError("this joint computation has not been started")
            return self._ask(command, arrays)[1]

    def _ask(self, command: Mapping[str, Any], arrays: Sequence[Whole]) -> tuple[dict[str, Any], list[Whole]]:
        assert self._child is not None
        until = time.monotonic() + self._timeout
        try:
            send(self._child.socket, command, arrays, until)
            answer, opened = receive(self._child.socket, until)
            error = answer.get("error")
        except TimeoutError:
            error = f"the joint computation took longer than {self._timeout:g} s: a partner is late, or not reached"
        except (OSError, ValueError):
            error = "this joint computation is over; begin a new one" if self._closed else "the engine's process ended"
        except BaseException:
            # interrupted: what the child answers to this command must not be taken for the next one's answer
            self.close()
            raise
        if error is not None:
            self.close()
            raise EngineError(error)
        return answer, opened


class _Child:
    """A child process, which one thread starts, waits for and cleans up after.

    The system ends the child with the *thread* that has started it: so that thread lives as long as the child does.
    """

    def __init__(self, log: Path | None) -> None:
        self._owner = os.getpid()
        self.socket, theirs = socket.socketpair()
        self._folder = Path(tempfile.mkdtemp(prefix="sottovoce-"))
        self._log, self._lock, self._gone = log, threading.Lock(), threading.Event()
        self._popen: subprocess.Popen[bytes] | None = None
        begun: queue.SimpleQueue[bool] = queue.SimpleQueue()
        # not a method of self: nothing but the thread's own arguments stays alive with it
        threading.Thread(target=self._live, args=(theirs, begun), name="engine", daemon=True).start()
        if not begun.get():
            self.socket.close()
            raise EngineError("the engine's process cannot be started")

    @property
    def pid(self) -> int | None:
        return None if self._popen is None else self._popen.pid

    def end(self) -> None:
        """Kill the child and wait until it is gone; harmless when it is, and in a fork of this process."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            if self._popen is not None and self._popen.returncode is None:
                try:
                    os.killpg(self._popen.pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    self._popen.kill()
        if threading.current_thread().name != "engine":
            self._gone.wait(_PATIENCE)
        with contextlib.suppress(OSError):
            # frees a thread that waits for an answer
            self.socket.shutdown(socket.SHUT_RDWR)

    def leave(self) -> None:
        """End the child and forget the socket, which nobody waits at any more."""
        self.end()
        self.socket.close()

    def _live(self, theirs: socket.socket, begun: "queue.SimpleQueue[bool]") -> None:
        try:
            with theirs:
                self._popen = self._open(theirs)
        except OSError:
            self._popen = None
        begun.put(self._popen is not None)
        if self._popen is not None:
            # first wait without reaping: its number stays its own until nobody can signal it any more
            if hasattr(os, "waitid"):
                os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOWAIT)
            else:
                while not self._ended():
                    time.sleep(_BREAK)
            with self._lock:
                self._popen.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._gone.set()

    def _ended(self) -> bool:
        with self._lock:
            return self._popen is None or self._popen.poll() is not None

    def _open(self, theirs: socket.socket) -> "subprocess.Popen[bytes]":
        output = (
            subprocess.DEVNULL
            if self._log is None
            else os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        )
        try:
            return subprocess.Popen(
                [sys.executable, "-m", "sottovoce.vertical.engines.child", str(os.getpid())],
                stdin=theirs.fileno(),
                stdout=output,
                stderr=output,
                cwd=self._folder,
                env=self._environment(),
                start_new_session=True,
            )
        finally:
            if self._log is not None:
                os.close(output)

    def _environment(self) -> dict[str, str]:
        """Return what the child needs and nothing else of what this process was given."""
        path = [str(Path(__file__).resolve().parents[3])]
        path += [str(Path(each).absolute()) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
        own = {"HOME": str(self._folder), "TMPDIR": str(self._folder), "PYTHONPATH": os.pathsep.join(path)}
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        # products of limbs are small: threads of BLAS only wait for each other
        return {"OPENBLAS_NUM_THREADS": "1", **kept, **own, "JAX_PLATFORMS": "cpu"}


# --- how a party and its engine's process talk: a header in JSON, then whole numbers as they lie in memory

_LENGTH: Final = struct.Struct("<I")
_HEADER: Final = 1 << 24
_PIECE: Final = 1 << 26


class EndedError(OSError):
    """The other end is gone, or has sent something else."""


def send(
    end: socket.socket, header: Mapping[str, Any], arrays: Sequence[Whole] = (), until: float | None = None
) -> None:
    """Send a frame; ``until`` is a time of `time.monotonic`, after which TimeoutError is raised."""
    text = json.dumps({**header, "shapes": [array.shape for array in arrays]}).encode()
    _limit(end, until)
    end.sendall(_LENGTH.pack(len(text)) + text)
    for array in arrays:
        _limit(end, until)
        end.sendall(_bytes(np.ascontiguousarray(array, np.int64)))  # no copy where the numbers already lie in order


def receive(end: socket.socket, until: float | None = None) -> tuple[dict[str, Any], list[Whole]]:
    prefix = bytearray(_LENGTH.size)
    _receive(end, memoryview(prefix), until)
    (length,) = _LENGTH.unpack(prefix)
    if length > _HEADER:
        raise EndedError("no frame")
    text = bytearray(length)
    _receive(end, memoryview(text), until)
    header = json.loads(bytes(text))
    arrays = []
    for shape in header["shapes"]:
        array = np.empty(shape, np.int64)
        if math.prod(shape):
            _receive(end, _bytes(array), until)
        arrays.append(array)
    return header, arrays


def _bytes(array: Whole) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _receive(end: socket.socket, into: memoryview, until: float | None) -> None:
    done = 0
    while done < len(into):
        _limit(end, until)
        count = end.recv_into(into[done : done + _PIECE])
        if not count:
            raise EndedError("the other end is gone")
        done += count


def _limit(end: socket.socket, until: float | None) -> None:
    if until is None:
        return
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    end.settimeout(left)
