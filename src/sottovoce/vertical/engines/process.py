"""An engine in a process of its own: what it prints, aborts or leaves behind does not reach the party's process.

It is ``python -m sottovoce.vertical.engines.process``, started and commanded by `EngineProcess` over the socket that is
its standard input. It ends with the process that started it.
"""

import ctypes
import json
import os
import queue
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import numpy as np

from sottovoce.vertical.engines.engine import CHECKED, Engine, EngineError, Guarded, Whole, self_check
from sottovoce.vertical.engines.programs import COMPARES, Program, program_from, program_text

_KEPT = ("LANG", "LC_ALL", "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "PATH", "SYSTEMROOT")
Line = Connection  # for bytes alone: nothing that comes is unpickled


class EngineProcess(Engine):
    """One party's end of a joint computation whose engine runs in a child process.

    The constructor only takes note; `start` begins. The child ends at `close`, at any error, when a command takes
    longer than the timeout, when this object is no longer used, and with this process.

    ``kind``: {"spu", "shamir"}.
    ``rank``: this party's place.
    ``addresses``: by rank, as partners reach them.
    ``listen``: where this party listens, if at another address than its partners use.
    ``tls``: folder with ``certificate.pem`` and ``key.pem`` of this party in this session, and ``partners.pem``, the
    certificates of exactly the partners by rank: nobody else gets a link. Only a trial on one machine does without.
    ``timeout``: seconds that a command may take.
    """

    def __init__(
        self,
        kind: str,
        rank: int,
        addresses: Sequence[str],
        *,
        listen: str | None = None,
        tls: Path | None = None,
        timeout: float = 600.0,
    ) -> None:
        self.rank, self.n_parties = rank, len(addresses)
        self._task: dict[str, Any] = {
            "kind": kind,
            "rank": rank,
            "addresses": list(addresses),
            "listen": listen,
            "tls": None if tls is None else str(tls),
            "timeout": timeout,
        }
        self._timeout = timeout
        self._one = threading.RLock()
        self._child: _Child | None = None
        self._closed = False

    def start(self) -> None:
        """Start the child, which connects to the others and checks the session."""
        with self._one:
            if self._child is not None or self._closed:
                raise EngineError("this joint computation has been started before; begin a new one")
            self._child = _Child()
            weakref.finalize(self, self._child.leave)
            self._end_if_closed()
            self._ask(self._child, self._task)

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

    def _end_if_closed(self) -> None:
        """End a child that was begun while another thread has closed."""
        if self._closed and self._child is not None:
            self._child.end()

    def _do(self, command: Mapping[str, Any], arrays: Sequence[Whole] = ()) -> list[Whole]:
        with self._one:
            if self._child is None:
                raise EngineError("this joint computation has not been started")
            return self._ask(self._child, command, arrays)

    def _ask(self, child: "_Child", command: Mapping[str, Any], arrays: Sequence[Whole] = ()) -> list[Whole]:
        late = threading.Event()

        def end() -> None:
            late.set()
            child.end()

        watch = threading.Timer(self._timeout, end)
        watch.daemon = True
        watch.start()
        try:
            send(child.line, command, arrays)
            answer, opened = receive(child.line)
            error = answer.get("error")
        except (OSError, EOFError, ValueError):
            if late.is_set():
                error = f"the joint computation took longer than {self._timeout:g} s: a partner is late, or not reached"
            else:
                over = "this joint computation is over; begin a new one"
                error = over if self._closed else "the engine's process ended"
        except BaseException:
            # interrupted: what the child answers to this command must not be taken for the next one's answer
            self.close()
            raise
        finally:
            watch.cancel()
        if error is not None:
            self.close()
            raise EngineError(error)
        return opened


class _Child:
    """A child process and the line to it. It ends when it is told to, and when nobody is at the other end of the line.

    ``line``: to the child.
    """

    def __init__(self) -> None:
        self._owner, self._lock = os.getpid(), threading.Lock()
        self._folder = Path(tempfile.mkdtemp(prefix="sottovoce-"))
        self.line, theirs = Pipe()
        # the system ends the child, also one that is stopped, with the *thread* that has started it: this one stays
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="engine")
        try:
            with theirs:
                self._popen = self._starter.submit(self._open, theirs).result()
        except OSError:
            self.line.close()
            shutil.rmtree(self._folder, ignore_errors=True)
            raise EngineError("the engine's process cannot be started") from None

    @property
    def pid(self) -> int:
        return self._popen.pid

    def end(self) -> None:
        """Kill the child, wait until it is gone, and clear up; harmless when it is, and in a fork of this process."""
        if os.getpid() != self._owner:
            return
        with self._lock:  # who waits for it lets its number go
            if self._popen.poll() is None:
                try:
                    os.killpg(self._popen.pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    self._popen.kill()
                self._popen.wait()
            shutil.rmtree(self._folder, ignore_errors=True)

    def leave(self) -> None:
        """End the child and forget the line, at which nobody waits any more; a second thread may do the same."""
        self.end()
        with self._lock:  # what two threads close at once is closed twice, and the number may be another's by then
            self.line.close()
        self._starter.shutdown(wait=False)

    def _open(self, theirs: Line) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-m", "sottovoce.vertical.engines.process", str(os.getpid())],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._folder,
            env=self._environment(),
            start_new_session=True,
        )

    def _environment(self) -> dict[str, str]:
        """Return what the child needs and nothing else of what this process was given."""
        path = [str(Path(__file__).resolve().parents[3])]
        path += [str(Path(each).absolute()) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
        own = {"HOME": str(self._folder), "TMPDIR": str(self._folder), "PYTHONPATH": os.pathsep.join(path)}
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        # products of limbs are small: threads of BLAS only wait for each other
        return {"OPENBLAS_NUM_THREADS": "1", **kept, **own, "JAX_PLATFORMS": "cpu"}


# --- how a party and its engine's process talk: a header in JSON, then whole numbers as they lie in memory

_HEADER: Final = 1 << 24


def send(line: Line, header: Mapping[str, Any], arrays: Sequence[Whole] = ()) -> None:
    line.send_bytes(json.dumps({**header, "shapes": [array.shape for array in arrays]}).encode())
    for array in arrays:
        if array.size:
            line.send_bytes(_bytes(np.ascontiguousarray(array, np.int64)))


def receive(line: Line) -> tuple[dict[str, Any], list[Whole]]:
    header = json.loads(line.recv_bytes(_HEADER))
    arrays = [np.empty(shape, np.int64) for shape in header["shapes"]]
    for array in arrays:
        if array.size:
            line.recv_bytes_into(_bytes(array))
    return header, arrays


def _bytes(array: Whole) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


# ------------------------------------------------------------------ in the engine's process


_DIE_WITH_PARENT = 1
_LOOK = 1.0  # seconds between two looks at who started it


def main() -> None:
    """Take the task, then serve commands until the starter is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)  # even while it is stopped
    threading.Thread(target=_end_with, args=(int(sys.argv[1]),), daemon=True).start()
    # no image of the memory is left on a disk, should a library abort
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    line = Line(os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    commands: queue.SimpleQueue[tuple[dict[str, Any], list[Whole]]] = queue.SimpleQueue()
    threading.Thread(target=_take, args=(line, commands), daemon=True).start()
    task, _ = commands.get()
    engine: Engine | None = None
    while True:
        try:
            if engine is None:
                engine = _start(task)
                opened: Sequence[Whole] = ()
            else:
                command, arrays = commands.get()
                opened = _do(engine, command, arrays)
                del arrays
            answer = {}
        except EngineError as error:
            answer, opened = {"error": str(error)}, ()
        except Exception as error:
            # what an engine's library says may quote anything: its kind alone goes on
            answer, opened = {"error": _public(error)}, ()
        send(line, answer, opened)
        if "error" in answer:
            return


def _start(task: dict[str, Any]) -> Engine:
    tls = task["tls"] and Path(task["tls"])
    arguments = task["rank"], task["addresses"], task["listen"], tls, task["timeout"]
    engine: Guarded
    if task["kind"] == "spu":
        from sottovoce.vertical.engines.spu import SpuEngine

        engine, programs = SpuEngine(*arguments), CHECKED
    else:
        from sottovoce.vertical.engines.shamir import ShamirEngine

        engine = ShamirEngine(*arguments)
        programs = tuple(program for program in CHECKED if not isinstance(program, COMPARES))
    engine.start()
    # not of the addresses: parties may reach one another by different ones
    self_check(engine, len(task["addresses"]), programs)
    return engine


def _do(engine: Engine, command: dict[str, Any], arrays: list[Whole]) -> Sequence[Whole]:
    match command["do"]:
        case "put":
            value = arrays.pop() if arrays else None
            engine.put(command["name"], command["owner"], tuple(command["shape"]), value)
        case "run":
            engine.run(program_from(command["program"]), command["inputs"], command["outputs"])
        case "reveal":
            return (engine.reveal(command["name"]),)
        case "drop":
            engine.drop(*command["names"])
        case other:
            raise EngineError(f"an engine has no command {other!r}")
    return ()


def _public(error: Exception) -> str:
    if isinstance(error, ImportError):
        return f"{error.name} is not installed here; install sottovoce[secure]"
    if isinstance(error, MemoryError):
        return "the engine has not enough memory"
    return f"the engine failed ({type(error).__name__}): a partner is gone, is late, or is another one"


def _take(line: Line, commands: "queue.SimpleQueue[tuple[dict[str, Any], list[Whole]]]") -> None:
    """Read commands; when the starter is gone, end at once, whatever the engine is doing."""
    try:
        while True:
            commands.put(receive(line))
    except Exception:
        os.kill(os.getpid(), signal.SIGKILL)


def _end_with(parent: int) -> None:
    """End with the process that started this one, also where a fork of that one keeps the line open."""
    while os.getppid() == parent:
        time.sleep(_LOOK)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
    # without the clean-up of libraries, which may wait for partners that are gone
    os._exit(0)
