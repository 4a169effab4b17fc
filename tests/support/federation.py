"""A federation of real processes on this machine, for tests: kits, tables, sites, runs, and an end to all of it.

Everything is done as its users do it: ``python -m sottovoce vertical ...`` in processes of its own, over TLS on
loopback. What FLARE 2.9 was seen to do, which the tests are built on:

* a run's processes have sessions of their own: killing a site's process group leaves them (see `Federation.processes`);
* from submission to the first request some 5 s, most of them for the modules of three processes;
* a party's run process that is killed is noticed at once; FLARE ends the whole job, without telling the coordinator's
  program by a failed call;
* one that hangs is noticed when the call's time is over; it stays where it is until it goes on or is killed;
* a coordinator's server that is killed leaves the parties' run processes waiting; they end a few seconds after the
  parties have reached the server that comes back.
"""

import contextlib
import io
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import sottovoce
from sottovoce.vertical.flare.processes import _end_with_parent
from support.ports import free_ports
from support.waiting import SECONDS, until

# ------------------------------------------------------------------ tables


@dataclass(frozen=True, kw_only=True)
class Helps:
    """What the site of a helper has: settings, and no table."""

    settings: str = ""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """What one site has: columns in [0, 1], and at the coordinator labels.

    Attributes
    ----------
    X : ndarray of shape (n_people, n_columns)
    y : ndarray or None
    ids : sequence of str or None
    settings : str
        More sections of its ``site.toml``.
    scoring : Columns or None
        People to be scored.
    """

    X: np.ndarray
    y: np.ndarray | None = None
    ids: Sequence[str] | None = None
    settings: str = ""
    scoring: "Columns | None" = None


def schema_text(n_columns: int, *, target: bool) -> str:
    """Return a schema of numeric columns c0, c1, ... in [0, 1], and of a label that is "no" or "yes"."""
    lines = ['format = "sottovoce-schema"', "version = 1", *(['target = "label"'] if target else []), ""]
    for j in range(n_columns):
        lines += [f"[columns.c{j}]", 'type = "numeric"', "bounds = [0, 1]", ""]
    if target:
        lines += ["[columns.label]", 'type = "categorical"', 'categories = ["no", "yes"]', ""]
    return "\n".join(lines)


def write_table(path: Path, columns: Columns) -> None:
    """Write a table as Parquet, exactly."""
    import pyarrow as pa
    from pyarrow import parquet

    table: dict[str, Any] = {} if columns.ids is None else {"person": list(columns.ids)}
    table |= {f"c{j}": np.ascontiguousarray(columns.X[:, j]) for j in range(columns.X.shape[1])}
    if columns.y is not None:
        table["label"] = np.where(columns.y > 0, "yes", "no")
    parquet.write_table(pa.table(table), path)


# ------------------------------------------------------------------ the federation


@dataclass
class Federation:
    """Sites in folders of their own; the first one is the coordinator.

    Attributes
    ----------
    folder : Path
    names : tuple of str
    host : str
        Where the coordinator is reached.
    """

    folder: Path
    names: tuple[str, ...]
    host: str = "localhost"
    port: int = field(default_factory=lambda: free_ports(1)[0])
    prefix: dict[str, list[str]] = field(default_factory=dict)
    """What a site's command is started with, such as ``ip netns exec NAME``."""
    helpers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    # -------------------------------------------------- kits

    @property
    def kits(self) -> Path:
        """The folder of all kits."""
        return self.folder / "kits"

    def kit(self, name: str) -> Path:
        """Return the folder of a site."""
        return self.kits / name

    @property
    def coordinator(self) -> Path:
        """The coordinator's kit."""
        return self.kit(self.names[0])

    def provision(self, federation_name: str = "trial") -> None:
        """Make the kits."""
        lines = [f'name = "{federation_name}"', "[coordinator]", f'name = "{self.names[0]}"', f'host = "{self.host}"']
        lines += [f"port = {self.port}"]
        for name in self.names[1:]:
            lines += ["[[party]]", f'name = "{name}"', *(["helper = true"] if name in self.helpers else [])]
        file = self.folder / "federation.toml"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.command("provision", file, "--out", self.kits)

    def fill(self, name: str, columns: Columns | Helps) -> None:
        """Give a site its table, its schema and its settings."""
        kit = self.kit(name)
        if isinstance(columns, Helps):
            (kit / "site.toml").write_text(columns.settings + "\n", encoding="utf-8")
            return
        write_table(kit / "people.parquet", columns)
        schema = schema_text(columns.X.shape[1], target=columns.y is not None)
        (kit / "people.toml").write_text(schema, encoding="utf-8")
        person = '\nid = "person"' if columns.ids is not None else ""
        text = f'[data]\ntable = "people.parquet"\nschema = "people.toml"{person}\n'
        if columns.scoring is not None:
            write_table(kit / "new.parquet", columns.scoring)
            text += '[scoring]\ntable = "new.parquet"\n'
        (kit / "site.toml").write_text(text + columns.settings + "\n", encoding="utf-8")

    def make_ledger(self, name: str, *, epsilon: float, delta: float) -> None:
        """Give a site an account, ``ledger.db`` beside its settings, for the data set ``people``; it takes seeds."""
        from sottovoce.ledger import Ledger

        ledger = Ledger(f"sqlite:///{self.kit(name) / 'ledger.db'}")
        ledger.create("people", epsilon=epsilon, delta=delta, adjacency="replace-one", allow_nonprivate=True)

    # -------------------------------------------------- commands

    def environment(self) -> dict[str, str]:
        """Return the environment of commands: this checkout's package and its tests."""
        source = Path(sottovoce.__file__).parents[1]
        path = os.pathsep.join([str(source), str(Path(__file__).parents[1])])
        return {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}

    def command(
        self, *words: object, fails: bool = False, seconds: float = SECONDS
    ) -> "subprocess.CompletedProcess[str]":
        """Run ``sottovoce vertical ...`` to its end, which is success unless it ``fails``."""
        done = subprocess.run(
            [sys.executable, "-m", "sottovoce", "vertical", *map(str, words)], env=self.environment(),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, check=False,
        )  # fmt: skip
        assert (done.returncode != 0) == fails, (
            f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.logs()}"
        )
        return done

    def train(
        self, *words: object, fails: bool = False, seconds: float = SECONDS
    ) -> "subprocess.CompletedProcess[str]":
        """Train, and wait for the end."""
        return self.command("train", self.coordinator, *words, fails=fails, seconds=seconds)

    def begin(self, *words: object) -> "Training":
        """Train, and go on here at once."""
        return Training(self, words)

    def runs(self) -> list[Path]:
        """Return the folders of all runs, the oldest first."""
        return sorted(
            (path.parent for path in self.coordinator.glob("runs/*/run.json")), key=lambda p: p.stat().st_mtime
        )

    @contextlib.contextmanager
    def lead(self, timeout: float = 20.0) -> Iterator[Any]:
        """Connect with FLARE's own interface and the coordinator's key to submit jobs."""
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        from sottovoce.vertical.flare.hardening.closed import LEAD

        with contextlib.redirect_stdout(io.StringIO()):
            session = new_secure_session(LEAD, str(self.coordinator / "lead"), timeout=timeout)
        try:
            yield session
        finally:
            session.close()

    def submit(self, session: Any, files: Mapping[str, str]) -> str:
        """Submit a job of these files, and return its name."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            for name, text in files.items():
                path = Path(folder) / "job" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return str(session.submit_job(str(Path(folder) / "job")))

    # -------------------------------------------------- sites

    def start(self, *names: str, program: Sequence[str] | None = None, wait: bool = True) -> None:
        """Start sites, all of them without names, and wait until they are up.

        ``program`` is what to start in the place of ``sottovoce vertical``: it gets "coordinator" or "party" and the
        kit.
        """
        for name in names or self.names:
            kind = "coordinator" if name == self.names[0] else "party"
            words = [sys.executable, *(program or ["-m", "sottovoce", "vertical"]), kind, str(self.kit(name))]
            with (self.folder / f"{name}.out").open("ab") as out:
                self._started[name] = subprocess.Popen(
                    [*self.prefix.get(name, ()), *words], env=self.environment(), cwd=self.folder,
                    stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
                    preexec_fn=_end_with_parent,
                )  # fmt: skip
        if wait:
            self.wait_until_up(*(names or self.names))

    def wait_until_up(self, *names: str, seconds: float = SECONDS) -> None:
        """Wait until sites have said that they are connected, or listening."""
        for name in names:
            said = "listening on" if name == self.names[0] else "connected to"

            def is_up(name: str = name, said: str = said) -> bool:
                assert self._started[name].poll() is None, f"{name} ended:\n{self.output(name)}\n{self.log(name)}"
                return self.output(name).rpartition(": started, process")[2].count(said) > 0

            until(is_up, seconds, f"{name} is up")

    def stop(self, *names: str) -> None:
        """Stop sites as a system does, and wait for their end."""
        for name in names or self.names:
            if name in self._started and self._started[name].poll() is None:
                self._started[name].terminate()
        for name in names or self.names:
            if name in self._started:
                self._started.pop(name).wait(30)

    def kill(self, name: str) -> None:
        """Kill a site's command, which was started last: as a crash of the machine's supervisor would."""
        process = self._started.pop(name)
        process.kill()
        process.wait()

    def processes(self, name: str, kind: str = "") -> list[psutil.Process]:
        """Return a site's processes: "main" FLARE's own, "run" those of runs, "" both; children of nobody too."""
        marks = {"main": ("server_train", "client_train"), "run": ("runner_process", "worker_process")}
        wanted = marks.get(kind, (*marks["main"], *marks["run"]))
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                words = process.cmdline()
                mine = any(word == str(self.kit(name)) for word in words)
                if mine and any(mark in word for word in words for mark in wanted):
                    found.append(process)
        return found

    def engines(self, name: str) -> list[psutil.Process]:
        """Return the engines of a joint computation that are at work at a site."""
        found = []
        for run in self.processes(name, "run"):
            with contextlib.suppress(psutil.Error):
                found += [
                    child for child in run.children(recursive=True)
                    if any("sottovoce.vertical.engines" in word for word in child.cmdline())
                ]  # fmt: skip
        return found

    def run_process(self, name: str) -> psutil.Process:
        """Return the process of the run that is under way at a site."""
        return until(lambda: self.processes(name, "run"), what=f"a run at {name}")[-1]

    def wait_for_silence(self, seconds: float = SECONDS) -> None:
        """Wait until no run is under way anywhere."""
        until(lambda: not any(self.processes(name, "run") for name in self.names), seconds, "the end of all runs")

    def output(self, name: str) -> str:
        """Return what a site's command has said."""
        path = self.folder / f"{name}.out"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def log(self, name: str) -> str:
        """Return the log of a site."""
        path = self.kit(name) / "state" / "log.txt"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def logs(self, letters: int = 3000) -> str:
        """Return the ends of all logs, for the message of a test that failed."""
        return "\n".join(
            f"---- {name}\n{self.output(name)[-letters:]}\n{self.log(name)[-letters:]}" for name in self.names
        )

    def register(self, name: str) -> list[dict[str, Any]]:
        """Return what a party was asked, one entry a request."""
        path = self.kit(name) / "state" / "register.db"
        if not path.exists():
            return []
        with contextlib.closing(sqlite3.connect(path, timeout=10)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute("SELECT * FROM requests ORDER BY id")]

    def refusals(self, name: str) -> list[str]:
        """Return why a party refused what it refused."""
        return [entry["reason"] for entry in self.register(name) if entry["outcome"] in ("refused", "turned away")]

    def charges(self, name: str) -> list[Any]:
        """Return what a party's account was charged for."""
        from sottovoce.ledger import Ledger

        return Ledger(f"sqlite:///{self.kit(name) / 'ledger.db'}").history("people")

    def parts(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the parts of models that a site keeps, by model."""
        found = [json.loads(path.read_text()) for path in sorted(self.kit(name).glob("state/models/*.json"))]
        return {part["model"]: part for part in found}

    def close(self) -> None:
        """End everything, and see that nothing stays behind."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.stop()
        left = [process for name in self.names for process in self.processes(name)]
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGCONT)
                process.kill()
        psutil.wait_procs(left, 10)


class Training:
    """A ``train`` that runs beside the test."""

    def __init__(self, federation: Federation, words: Sequence[object]) -> None:
        self._federation = federation
        known = set(federation.runs())
        self._out = federation.folder / f"train{len(known)}.out"
        with self._out.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "sottovoce", "vertical", "train", str(federation.coordinator), *map(str, words)],
                env=federation.environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self._known = known

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        fresh = [folder for folder in self._federation.runs() if folder not in self._known]
        return fresh[0]

    def status(self) -> dict[str, Any]:
        """Return how far the run is."""
        try:
            return json.loads((self.folder / "status.json").read_text())  # type: ignore[no-any-return]
        except (OSError, ValueError, IndexError):
            return {"phase": "waiting", "rounds": 0}

    def wait_for_note(self, words: str, seconds: float = SECONDS) -> None:
        """Wait until a joint computation is where these words say."""

        self._wait(lambda state: words in (state.get("note") or ""), seconds, words)

    def wait_for_rounds(self, rounds: int, seconds: float = SECONDS) -> None:
        """Wait until the run has had so many."""

        self._wait(lambda state: state["phase"] == "training" and state["rounds"] >= rounds, seconds, f"round {rounds}")

    def _wait(self, there: Callable[[dict[str, Any]], bool], seconds: float, what: str) -> None:
        def looked() -> bool:
            state = self.status()
            ended = state["phase"] in ("done", "failed", "stopped") or self.process.poll() is not None
            assert not ended, f"{state}\n{self.said()}\n{self._federation.logs()}"
            return there(state)

        until(looked, seconds, what)

    def said(self) -> str:
        """Return what the command has printed."""
        return self._out.read_text(encoding="utf-8", errors="replace")

    def end(self, *, fails: bool = False, seconds: float = SECONDS) -> str:
        """Wait for the end, and return what the command has printed."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(
                f"train did not end: {self.status()}\n{self.said()}\n{self._federation.logs()}"
            ) from None
        assert (status != 0) == fails, f"{status}: {self.said()}\n{self._federation.logs()}"
        return self.said()


@contextlib.contextmanager
def running_federation(
    sites: Mapping[str, Columns | Helps],
    *,
    start: bool = True,
    prepare: Callable[[Federation], object] | None = None,
    **more: Any,
) -> Iterator[Federation]:
    """Make a federation of these sites, the coordinator first, and start it; it ends with the block."""
    folder = Path(tempfile.mkdtemp(prefix="federation-"))
    helpers = tuple(name for name, has in sites.items() if isinstance(has, Helps))
    federation = Federation(folder, tuple(sites), helpers=helpers, **more)
    try:
        federation.provision()
        for name, columns in sites.items():
            federation.fill(name, columns)
        if prepare is not None:
            prepare(federation)
        if start:
            federation.start()
        yield federation
    finally:
        federation.close()
        shutil.rmtree(folder, ignore_errors=True)


# ------------------------------------------------------------------ bad lines


class Line:
    """A relay before a port of this machine, whose other side is slow, or gone without a word.

    Parameters
    ----------
    target : int
        The port behind it.
    delay : float
        Seconds that everything takes in each direction.
    """

    def __init__(self, target: int, *, delay: float = 0.0) -> None:
        self._target, self.delay = target, delay
        self.cut = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._sockets: list[socket.socket] = []
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                continue
            self._sockets += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if self.delay:
                    time.sleep(self.delay)
                while self.cut and not self._closed:
                    time.sleep(0.05)
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End it."""
        self._closed = True
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                each.close()


class Place:
    """A network namespace: a place of its own, whose line to this machine can be cut; as root on Linux.

    Attributes
    ----------
    outside, inside : str
        The addresses of this machine and of the place, for each other.
    """

    def __init__(self) -> None:
        number = os.getpid() % 200 + 20
        self.name, self._line = f"trial{os.getpid()}", f"tr{os.getpid()}"
        self.outside, self.inside = f"10.213.{number}.1", f"10.213.{number}.2"
        _ip("netns", "add", self.name)
        try:
            _ip("link", "add", self._line, "type", "veth", "peer", "name", "eth0", "netns", self.name)
            _ip("address", "add", f"{self.outside}/24", "dev", self._line)
            _ip("link", "set", self._line, "up")
            for words in (["address", "add", f"{self.inside}/24", "dev", "eth0"], ["link", "set", "eth0", "up"],
                          ["link", "set", "lo", "up"]):  # fmt: skip
                _ip("-n", self.name, *words)
        except BaseException:
            self.close()
            raise

    @property
    def prefix(self) -> list[str]:
        """What a command that runs there is started with."""
        return ["ip", "netns", "exec", self.name]

    def cut(self) -> None:
        """Let nothing through, without a word to either side."""
        _ip("link", "set", self._line, "down")

    def mend(self) -> None:
        """Let everything through again."""
        _ip("link", "set", self._line, "up")

    def close(self) -> None:
        """Take it down."""
        subprocess.run(["ip", "link", "delete", self._line], capture_output=True, check=False)
        subprocess.run(["ip", "netns", "delete", self.name], capture_output=True, check=False)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], capture_output=True, check=True, text=True)


@contextlib.contextmanager
def place() -> Iterator[Place]:
    """Make a place, or skip the test where that is not permitted."""
    import pytest

    try:
        made = Place()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(
            f"no network namespaces here ({getattr(error, 'stderr', '') or error}): they need root and iproute2"
        )
    try:
        yield made
    finally:
        made.close()
