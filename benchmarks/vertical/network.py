"""Training over a federation of real processes: whole runs.

    python -m benchmarks.vertical.network [--quick] [--docs]

All processes are on this machine and talk over loopback with mutual TLS: a9a over three organisations, from the command
to its end, beside the same training in this process; models are compared bit by bit.
"""

import contextlib
import json
import math
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.common import data_folder
from benchmarks.driver import ROOT, benchmark
from sottovoce.vertical import InProcessParties, Party, VerticalLogisticRegression
from sottovoce.vertical.flare.kit import Kit
from sottovoce.vertical.flare.site import Site

COORDINATOR = "party0"


class Table(NamedTuple):
    """What one site has: columns by name, all public facts of which are bounds or categories; labels in ``label``."""

    columns: dict[str, np.ndarray]
    facts: dict[str, str]
    target: str | None = None

    def write(self, kit: Path) -> None:
        """Put it into a kit, in place of what was there."""
        pq.write_table(pa.table(self.columns), kit / "people.parquet")
        head = 'format = "sottovoce-schema"\nversion = 1\n' + (f'target = "{self.target}"\n' if self.target else "")
        body = "".join(f"\n[columns.{name}]\n{facts}\n" for name, facts in self.facts.items())
        (kit / "people.toml").write_text(head + body, encoding="utf-8")
        settings = '[data]\ntable = "people.parquet"\nschema = "people.toml"\n[trial]\nrandom_state = 1\n'
        settings += '[allow]\nanswers = ["exact", "local-models"]\n'
        (kit / "site.toml").write_text(settings, encoding="utf-8")


NUMBER = 'type = "numeric"\nbounds = [0, 1]'
CLASSES = ["no", "yes"]
LABEL = f'type = "categorical"\ncategories = {json.dumps(CLASSES)}'


# ------------------------------------------------------------------ a federation


class Federation:
    """Parties, each a process started by the command line, and a coordinator that trains."""

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
        return self.folder / "kits" / name

    def fill(self, tables: Sequence[Table]) -> None:
        """Give each site its table; a run reads it when it starts."""
        for name, table in zip(self.names, tables, strict=True):
            table.write(self.kit(name))

    def __enter__(self) -> "Federation":
        for name in self.names[1:]:
            with (self.folder / f"{name}.log").open("wb") as log:
                self.processes[name] = subprocess.Popen(
                    [sys.executable, "-m", "sottovoce", "vertical", "party", str(self.kit(name))],
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

    def train(self, *options: object) -> tuple[float, dict[str, Any]]:
        """Train, and return the seconds from the command to its end, and what it says."""
        tick = time.perf_counter()
        told = command("train", self.kit(COORDINATOR), "--wait", 120, "--json", *options)
        return time.perf_counter() - tick, json.loads(told)

    def parties(self) -> list[Party]:
        """Return what each site opens for a run, in this process."""
        return [Site.read(Kit.open(self.kit(name))).open_party("train") for name in self.names]


def command(*words: object) -> str:
    """Run ``sottovoce vertical``, or leave with what it said."""
    line = [sys.executable, "-m", "sottovoce", "vertical", *map(str, words)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False, timeout=1500)
    if done.returncode:
        sys.exit(f"{' '.join(line)} failed\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}")
    return done.stdout


@contextlib.contextmanager
def federation(n_parties: int) -> Iterator[Federation]:
    with tempfile.TemporaryDirectory() as folder, Federation(n_parties, Path(folder)) as found:
        yield found


# ------------------------------------------------------------------ whole runs


def a9a_tables(n_rows: int | None) -> list[Table]:
    """Return a9a over three organisations, the first with the labels; every feature is 0 or 1."""
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(data_folder() / "a9a.bz2"), n_features=123)
    X, y = X[:n_rows].toarray(), np.where(y[:n_rows] > 0, "yes", "no")
    tables = []
    for places in np.array_split(np.arange(123), 3):
        columns = {f"f{place + 1}": X[:, place] for place in places}
        facts = dict.fromkeys(columns, NUMBER)
        tables.append(Table(columns, facts))
    tables[0] = Table({**tables[0].columns, "label": y}, {**tables[0].facts, "label": LABEL}, "label")
    return tables


def runs(n_rows: int | None) -> list[dict[str, Any]]:
    """Return seconds and bytes of whole runs, and whether the model is that of one process."""
    found = []
    with federation(2) as sites:
        sites.fill(a9a_tables(n_rows))
        for name, options, parameters in (
            ("exact", ("--epsilon", "inf"), {"epsilon": math.inf}),
            ("local-models, public labels", ("--epsilon", 1, "--delta", 1e-5, "--labels-public"),
             {"epsilon": 1.0, "delta": 1e-5, "labels_public": True}),
        ):  # fmt: skip
            took, told = sites.train("--model", "logistic", *options)
            parties = sites.parties()
            tick = time.perf_counter()
            model = VerticalLogisticRegression(**parameters, classes=CLASSES, label_holder=COORDINATOR)
            model.fit(InProcessParties(parties))
            here = time.perf_counter() - tick
            found.append({
                "mechanism": name, "people": told["people"], "rounds": told["training_rounds"], "seconds": took,
                "seconds in process": here, "bytes up": told["bytes_up"], "bytes down": told["bytes_down"],
                "same model": all(same_part(sites, each, told["model_name"], model) for each in sites.names),
            })  # fmt: skip
            print(found[-1], flush=True)
    return found


def same_part(sites: Federation, name: str, run_model: str, here: Any) -> bool:
    """Compare what a site has kept with the part of the model that was trained in this process, bit by bit."""
    path = next(path for path in (sites.kit(name) / "state" / "models").glob("*.json") if run_model in path.read_text())
    kept, part = json.loads(path.read_text()), here.parts_[name]
    return kept["coef"] == part.coef.tolist() and kept["intercept"] == part.intercept


# ------------------------------------------------------------------ all of it

RUNS = {
    "mechanism": "a9a", "people": "people|,", "rounds": "rounds", "bytes up": "bytes up|,",
    "bytes down": "bytes down|,", "seconds": "command to end, s|.1f", "seconds in process": "in one process, s|.1f",
    "same": "same bits",
}  # fmt: skip


def picked(columns: dict[str, str], found: list[dict[str, Any]]) -> tuple[Any, Any]:
    return tuple(columns.values()), [tuple(one[name] for name in columns) for one in found]


@benchmark(page="measured/vertical_deployment.md")
def main(run) -> None:
    found = runs(1_000 if run.quick else None) if data_folder() else []
    run.tables({"network runs": picked(RUNS, [{**one, "same": "yes" if one["same model"] else "no"} for one in found])})
