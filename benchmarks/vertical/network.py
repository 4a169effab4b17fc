"""Training over a federation of real processes: seconds a round beside a plain gRPC echo, memory, whole runs.

    python -m benchmarks.vertical.network [--quick] [--docs] [--only rounds,memory,runs]

All processes are on this machine and talk over loopback with mutual TLS. A round of exact ADMM carries one number a person to each party and one
back; each party has one column, so that little is computed. A round is timed at the coordinator, from the first request to the last answer. The echo
(`benchmarks.vertical.echo`) carries the same bytes before and after, while the federation is up and idle. ``rounds``: 100,000 people and
100 people, two and three parties besides the coordinator. ``memory``: resident memory of every process during 1,000 rounds. ``runs``: a9a over three
organisations, from the command to the result, beside the same training in this process; both models are compared bit by bit.
"""

import contextlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.common import DOCS, ROOT

PAGE = DOCS / "guide" / "vertical_deployment.md"
PARTS = ("rounds", "memory", "runs")
COORDINATOR = "party0"


class Table(NamedTuple):
    """What one site has: columns by name, all public facts of which are bounds or categories; labels in ``label``."""

    columns: dict[str, np.ndarray]
    facts: dict[str, str]
    target: str | None = None

    def write(self, kit: Path, ledger: str = "") -> None:
        """Put it into a kit, in place of what was there."""
        pq.write_table(pa.table(self.columns), kit / "people.parquet")
        head = 'format = "sottovoce-schema"\nversion = 1\n' + (f'target = "{self.target}"\n' if self.target else "")
        body = "".join(f"\n[columns.{name}]\n{facts}\n" for name, facts in self.facts.items())
        (kit / "people.toml").write_text(head + body, encoding="utf-8")
        settings = '[data]\ntable = "people.parquet"\nschema = "people.toml"\n[trial]\nrandom_state = 1\n'
        (kit / "site.toml").write_text(settings + ledger, encoding="utf-8")


NUMBER = 'type = "numeric"\nbounds = [0, 1]'
LABEL = 'type = "categorical"\ncategories = ["no", "yes"]'


def one_column_each(n: int, n_parties: int) -> list[Table]:
    """Return made-up tables of the same n people, the coordinator's first."""
    rng = np.random.default_rng(0)
    X = rng.random((n, n_parties + 1))
    y = np.where(X @ rng.choice([-2.0, 2.0], n_parties + 1) + rng.logistic(size=n) > 0, "yes", "no")
    tables = [Table({"value": column}, {"value": NUMBER}) for column in X.T]
    tables[0] = Table({**tables[0].columns, "label": y}, {"value": NUMBER, "label": LABEL}, "label")
    return tables


# ------------------------------------------------------------------ a federation


class Federation:
    """A coordinator and parties, each a process started by the command line, and what runs there."""

    def __init__(self, n_parties: int, folder: Path) -> None:
        self.folder = folder
        self.names = [f"party{m}" for m in range(n_parties + 1)]
        with socket.socket() as trial:
            trial.bind(("localhost", 0))
            port = trial.getsockname()[1]
        text = f'name = "bench"\n[coordinator]\nname = "{COORDINATOR}"\nhost = "localhost"\nport = {port}\n'
        text += "".join(f'[[party]]\nname = "{name}"\n' for name in self.names[1:])
        (folder / "federation.toml").write_text(text, encoding="utf-8")
        command("provision", folder / "federation.toml", "--out", folder / "kits")
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def kit(self, name: str) -> Path:
        """Return the folder of a site."""
        return self.folder / "kits" / name

    def fill(self, tables: Sequence[Table]) -> None:
        """Give each site its table; a run reads it when it starts."""
        for name, table in zip(self.names, tables, strict=True):
            table.write(self.kit(name))

    def __enter__(self) -> "Federation":
        for name in self.names:
            kind = "coordinator" if name == COORDINATOR else "party"
            with (self.folder / f"{name}.log").open("wb") as log:
                self.processes[name] = subprocess.Popen(
                    [sys.executable, "-m", "sottovoce", "vertical", kind, str(self.kit(name))],
                    cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()

    def train(self, *options: object) -> tuple[float, Path]:
        """Train, and return the seconds from the command to its end, and the folder of the run."""
        before = set(self._runs())
        tick = time.perf_counter()
        command("train", self.kit(COORDINATOR), "--model", "logistic", "--wait", 120, *options)
        seconds = time.perf_counter() - tick
        (folder,) = set(self._runs()) - before
        return seconds, folder

    def _runs(self) -> list[Path]:
        runs = self.kit(COORDINATOR) / "runs"
        return list(runs.iterdir()) if runs.exists() else []

    def memory(self) -> dict[str, float]:
        """Return the resident MB of each process below the sites, by site and what it is."""
        found: dict[str, float] = {}
        for name, process in self.processes.items():
            with contextlib.suppress(psutil.Error):
                for child in psutil.Process(process.pid).children(recursive=True):
                    with contextlib.suppress(psutil.Error):
                        kind = "run" if "runner_process" in " ".join(child.cmdline()) else "site"
                        place = f"{name}, {kind}"
                        found[place] = found.get(place, 0.0) + child.memory_info().rss / 1e6
        return found


def command(*words: object) -> str:
    """Run ``sottovoce vertical``, or leave with what it said."""
    line = [sys.executable, "-m", "sottovoce", "vertical", *map(str, words)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False, timeout=550)
    if done.returncode:
        sys.exit(f"{' '.join(line)} failed\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}")
    return done.stdout


@contextlib.contextmanager
def federation(n_parties: int) -> Iterator[Federation]:
    with tempfile.TemporaryDirectory() as folder, Federation(n_parties, Path(folder)) as found:
        yield found
