"""A federation of real processes on this machine, for tests: kits, tables, sites, runs, and an end to all of it.

Everything is done as its users do it: ``python -m sottovoce vertical ...`` in processes of its own, over TLS on
loopback. A party is one process, and so is the coordinator while it trains.
"""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import sottovoce
from sottovoce.ledger import Ledger
from support.ports import free_ports
from support.register import entries
from support.waiting import SECONDS, until


@dataclass(frozen=True, kw_only=True)
class Columns:
    """What one site has: columns in [0, 1], none at a helper; at the coordinator labels; people to be scored.

    ``settings`` are more sections of its ``site.toml``.
    """

    X: np.ndarray | None = None
    y: np.ndarray | None = None
    ids: Sequence[str] | None = None
    settings: str = ""
    scoring: "Columns | None" = None

    def schema(self) -> str:
        """Return the schema of numeric columns c0, c1, ..., and of a label that is "no" or "yes"."""
        assert self.X is not None
        lines = ['format = "sottovoce-schema"', "version = 1", *(['target = "label"'] if self.y is not None else [])]
        for j in range(self.X.shape[1]):
            lines += [f"[columns.c{j}]", 'type = "numeric"', "bounds = [0, 1]"]
        if self.y is not None:
            lines += ["[columns.label]", 'type = "categorical"', 'categories = ["no", "yes"]']
        return "\n".join(lines) + "\n"

    def write(self, path: Path) -> None:
        """Write the table as Parquet, exactly."""
        import pyarrow as pa
        from pyarrow import parquet

        assert self.X is not None
        table: dict[str, Any] = {} if self.ids is None else {"person": list(self.ids)}
        table |= {f"c{j}": np.ascontiguousarray(column) for j, column in enumerate(self.X.T)}
        if self.y is not None:
            table["label"] = np.where(self.y > 0, "yes", "no")
        parquet.write_table(pa.table(table), path)


@dataclass
class Federation:
    """Sites in folders of their own; the first one is the coordinator."""

    folder: Path
    sites: Mapping[str, Columns]
    port: int = field(default_factory=lambda: free_ports(1)[0])

    def __post_init__(self) -> None:
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self.names = tuple(self.sites)
        self.helpers = tuple(name for name, columns in self.sites.items() if columns.X is None)

    # -------------------------------------------------- kits

    def kit(self, name: str) -> Path:
        """Return the folder of a site."""
        return self.folder / "kits" / name

    @property
    def coordinator(self) -> Path:
        """The coordinator's kit."""
        return self.kit(self.names[0])

    def provision(self) -> None:
        """Make the kits, and give each site its table, its schema and its settings."""
        lines = ['name = "trial"', "[coordinator]", f'name = "{self.names[0]}"', 'host = "localhost"']
        lines += [f"port = {self.port}"]
        for name in self.names[1:]:
            lines += ["[[party]]", f'name = "{name}"', *(["helper = true"] if name in self.helpers else [])]
        file = self.folder / "federation.toml"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.command("provision", file, "--out", self.folder / "kits")
        for name, columns in self.sites.items():
            kit, text = self.kit(name), ""
            if name not in self.helpers:
                columns.write(kit / "people.parquet")
                (kit / "people.toml").write_text(columns.schema(), encoding="utf-8")
                text = '[data]\ntable = "people.parquet"\nschema = "people.toml"\n'
                text += 'id = "person"\n' if columns.ids is not None else ""
            if columns.scoring is not None:
                columns.scoring.write(kit / "new.parquet")
                text += '[scoring]\ntable = "new.parquet"\n'
            (kit / "site.toml").write_text(text + columns.settings + "\n", encoding="utf-8")

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

    def train(self, *words: object, **more: Any) -> "subprocess.CompletedProcess[str]":
        """Train, and wait for the end."""
        return self.command("train", self.coordinator, *words, **more)

    def begin(self, *words: object) -> "Training":
        """Train, and go on here at once."""
        return Training(self, words)

    def runs(self) -> list[Path]:
        """Return the folders of all runs, the oldest first."""
        return sorted(
            (path.parent for path in self.coordinator.glob("runs/*/run.json")), key=lambda p: p.stat().st_mtime
        )

    # -------------------------------------------------- sites

    def start(self, *names: str, program: Sequence[str] | None = None, wait: bool = True) -> None:
        """Start sites, all parties without names, and wait until they go on: the coordinator comes with a run.

        ``program`` is what to start in the place of ``sottovoce vertical``: it gets "coordinator" or "party" and the
        kit.
        """
        names = names or self.names[1:]
        for name in names:
            kind = "coordinator" if name == self.names[0] else "party"
            words = [sys.executable, *(program or ["-m", "sottovoce", "vertical"]), kind, str(self.kit(name))]
            with (self.folder / f"{name}.out").open("ab") as out:
                self._started[name] = subprocess.Popen(
                    words, env=self.environment(), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out,
                    stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=_end_with_parent,
                )  # fmt: skip
        for name in names if wait else ():
            until(lambda name=name: self._is_up(name), what=f"{name} is up")

    def _is_up(self, name: str) -> bool:
        assert self._started[name].poll() is None, f"{name} ended:\n{self.output(name)}\n{self.log(name)}"
        return "not connected yet" in self.output(name).rpartition(": started, process")[2]

    def stop(self, *names: str) -> None:
        """Stop sites as a system does, and wait for their end."""
        stopped = [self._started.pop(name) for name in names or self.names if name in self._started]
        for process in stopped:
            process.terminate()
        for process in stopped:
            process.wait(30)

    def kill(self, name: str) -> None:
        """Kill a site's command, which was started last: as a crash of the machine's supervisor would."""
        process = self._started.pop(name)
        process.kill()
        process.wait()

    def processes(self, name: str) -> list[psutil.Process]:
        """Return a site's processes; the coordinator's is that of its run, and children of nobody count too."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                words = process.cmdline()
                if str(self.kit(name)) in words and {"party", "train", "predict", "coordinator"} & {*words}:
                    found.append(process)
        return found

    def engines(self, name: str) -> list[psutil.Process]:
        """Return the engines of a joint computation that are at work at a site."""
        found = []
        for run in self.processes(name):
            with contextlib.suppress(psutil.Error):
                children = run.children(recursive=True)
                found += [child for child in children if "sottovoce.vertical.engines" in " ".join(child.cmdline())]
        return found

    def process(self, name: str) -> psutil.Process:
        """Return the process of a site."""
        return until(lambda: self.processes(name), what=f"a process of {name}")[-1]

    def wait_for_silence(self) -> None:
        """Wait until no run is under way at the coordinator: a party takes the next one when it comes."""
        until(lambda: not self.processes(self.names[0]), what="the end of all runs")

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

    # -------------------------------------------------- what they say and keep

    def output(self, name: str) -> str:
        """Return what a site's command has said."""
        return _text(self.folder / f"{name}.out")

    def log(self, name: str) -> str:
        """Return the log of a site."""
        return _text(self.kit(name) / "state" / "log.txt")

    def logs(self) -> str:
        """Return the ends of all logs, for the message of a test that failed."""
        return "\n".join(f"---- {name}\n{self.output(name)[-3000:]}\n{self.log(name)[-3000:]}" for name in self.names)

    def register(self, name: str) -> list[dict[str, Any]]:
        """Return what a party was asked, one entry a request."""
        path = self.kit(name) / "state" / "register.db"
        return [vars(entry) for entry in entries(path)] if path.exists() else []

    def refusals(self, name: str) -> list[str]:
        """Return why a party refused what it refused."""
        return [entry["reason"] for entry in self.register(name) if entry["outcome"] in ("refused", "turned away")]

    def ledger(self, name: str) -> Ledger:
        """Return the account of a site, ``ledger.db`` beside its settings."""
        return Ledger(f"sqlite:///{self.kit(name) / 'ledger.db'}")

    def charges(self, name: str) -> list[Any]:
        """Return what a party's account was charged for."""
        return self.ledger(name).history("people")

    def parts(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the parts of models that a site keeps, by model."""
        found = [json.loads(path.read_text()) for path in sorted(self.kit(name).glob("state/models/*.json"))]
        return {part["model"]: part for part in found}


def _end_with_parent() -> None:
    """Let the child be killed if the tests are (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


class Training:
    """A ``train`` that runs beside the test."""

    def __init__(self, federation: Federation, words: Sequence[object]) -> None:
        self._federation, self._known = federation, set(federation.runs())
        self._out = federation.folder / f"train{len(self._known)}.out"
        with self._out.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "sottovoce", "vertical", "train", str(federation.coordinator), *map(str, words)],
                env=federation.environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return next(folder for folder in self._federation.runs() if folder not in self._known)

    def status(self) -> dict[str, Any]:
        """Return how far the run is."""
        try:
            return json.loads((self.folder / "status.json").read_text())  # type: ignore[no-any-return]
        except (OSError, ValueError, StopIteration):
            return {"phase": "waiting", "rounds": 0}

    def wait_for_note(self, words: str) -> None:
        """Wait until a joint computation is where these words say."""
        self._wait(lambda state: words in (state.get("note") or ""), words)

    def _wait(self, there: Callable[[dict[str, Any]], bool], what: str) -> None:
        def looked() -> bool:
            state = self.status()
            ended = state["phase"] in ("done", "failed", "stopped") or self.process.poll() is not None
            assert not ended, f"{state}\n{self.said()}\n{self._federation.logs()}"
            return there(state)

        until(looked, 2 * SECONDS, what)

    def said(self) -> str:
        """Return what the command has printed."""
        return _text(self._out)

    def end(self, *, fails: bool = False) -> str:
        """Wait for the end, and return what the command has printed."""
        try:
            status = self.process.wait(2 * SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = None
        assert status is not None and (status != 0) == fails, (
            f"{status}: {self.status()}\n{self.said()}\n{self._federation.logs()}"
        )
        return self.said()


@contextlib.contextmanager
def running_federation(
    sites: Mapping[str, Columns],
    *,
    start: bool = True,
    prepare: Callable[[Federation], object] | None = None,
    **more: Any,
) -> Iterator[Federation]:
    """Make a federation of these sites, the coordinator first, and start it; it ends with the block."""
    folder = Path(tempfile.mkdtemp(prefix="federation-"))
    federation = Federation(folder, sites, **more)
    try:
        federation.provision()
        if prepare is not None:
            prepare(federation)
        if start:
            federation.start()
        yield federation
    finally:
        federation.close()
        shutil.rmtree(folder, ignore_errors=True)
