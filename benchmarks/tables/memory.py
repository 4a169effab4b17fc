"""Peak memory of the command line on tables of growing size: schema, predict and fit, CSV and Parquet.

    python -m benchmarks.tables.memory [--quick] [--docs] [--megabytes 50,200] [--before SRC] [--only predict,schema]

Writes a table of visits (text, numbers, codes, an identifier a row) as CSV and the same rows as Parquet. Each command
runs in a process of its own, which reports the peak of its resident memory. The same command on 1,000 rows says what
the interpreter and its libraries take at rest; the figures are what comes on top. ``--before`` names the ``src`` of an
older checkout, whose figures are put beside. 2 GB: ``--megabytes 2000``. Figures of former runs that are not measured
again stay in the table; ``--only ""`` measures nothing.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.driver import RESULTS, benchmark, keep, option

COMMANDS = ("schema", "predict", "fit")
FORMATS = ("csv", "parquet")
PIECE = 100_000
SMALL = 1000
# the peak of this image of the process alone: what the process that started it held is not counted
CHILD = """
import atexit, sys
from pathlib import Path
def tell():
    text = Path("/proc/self/status").read_text()
    peak.write_text(next(line.split()[1] for line in text.splitlines() if line.startswith("VmHWM:")))
peak = Path(sys.argv.pop(1))
atexit.register(tell)
from sottovoce.cli import main
main()
"""
SCHEMA = """
format = "sottovoce-schema"
version = 1
target = "again"
[columns.visit]
type = "ignore"
[columns.age]
type = "numeric"
bounds = [0, 100]
[columns.cost]
type = "numeric"
bounds = [0, 10000]
scale = "log"
[columns.reason]
type = "categorical"
categories = ["check", "injury", "pain", "vaccination"]
[columns.clinic]
type = "numeric"
bounds = [0, 49]
[columns.weight]
type = "numeric"
bounds = [30, 150]
[columns.again]
type = "categorical"
categories = ["no", "yes"]
"""


def piece(rng: np.random.Generator, first: int, n_rows: int) -> pa.Table:
    """Return some rows of the table."""
    age = rng.integers(0, 100, n_rows)
    return pa.table({
        "visit": [f"v{number:010d}" for number in range(first, first + n_rows)], "age": age,
        "cost": np.round(rng.lognormal(4, 1, n_rows), 2),
        "reason": np.array(["check", "injury", "pain", "vaccination"])[rng.integers(0, 4, n_rows)],
        "clinic": rng.integers(0, 50, n_rows), "weight": np.round(rng.normal(75, 10, n_rows), 4),
        "again": np.where(rng.random(n_rows) < age / 100, "yes", "no"),
    })  # fmt: skip


def write(folder: Path, megabytes: float | None) -> int:
    """Write the table as CSV and as Parquet, a piece at a time, and return its number of rows."""
    rng, n_rows = np.random.default_rng(0), 0
    name = "small" if megabytes is None else f"{megabytes:g}"
    rows = piece(rng, 0, SMALL if megabytes is None else PIECE)
    schema = rows.schema
    csv = folder / f"{name}.csv"
    options = pyarrow.csv.WriteOptions(quoting_style="none")
    with (
        csv.open("wb") as file,
        pyarrow.csv.CSVWriter(file, schema, write_options=options) as lines,
        pq.ParquetWriter(folder / f"{name}.parquet", schema) as groups,
    ):
        while True:
            lines.write_table(rows)
            groups.write_table(rows)
            n_rows += len(rows)
            file.flush()
            if megabytes is None or csv.stat().st_size >= 1e6 * megabytes:
                return n_rows
            rows = piece(rng, n_rows, PIECE)


def run(folder: Path, source: Path, command: str, table: Path) -> tuple[float, float]:
    """Return the peak of the resident memory in MB, and seconds, of a command on a table."""
    peak = folder / "peak"
    arguments: list[object] = {
        "schema": ["schema", table, "--target", "again", "--out", folder / "draft.toml", "--force"],
        "predict": [
            "predict", folder / "model.json", table, "--id", "visit", "--score", "--out", folder / "p.csv", "--force",
        ],
        "fit": [
            "fit", table, "--schema", folder / "schema.toml", "--model", "logistic", "--epsilon", 1, "--delta", 1e-9,
            "--out", folder / "fitted.json", "--force", "--quiet",
        ],
    }[command]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "SOTTOVOCE_NUM_THREADS": "1"}
    start = time.perf_counter()
    line = [sys.executable, "-c", CHILD, str(peak), *map(str, arguments)]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        sys.exit(f"{command} {table.name} failed\n{done.stderr}")
    return float(peak.read_text()) * 1.024e-3, seconds


def known(sizes: list[float], commands: list[str], sources: dict[str, Path]) -> list[dict[str, Any]]:
    """Return the figures of former runs that this run does not measure again."""
    path = RESULTS / "tables_memory.json"
    if not path.exists():
        return []
    return [
        one
        for one in json.loads(path.read_text(encoding="utf-8"))
        if one["CSV, MB"] not in sizes or one["command"] not in commands or one["when"] not in sources
    ]


@benchmark(
    page="measured/command_line.md",
    megabytes=option("50,200", help="sizes of the CSV file, by commas"),
    only=option(",".join(COMMANDS), help="commands, by commas"),
    before=option(type=Path, help="the src of an older checkout, to put beside"),
    folder=option(type=Path, help="where to write; not a disk in memory"),
)
def main(given) -> None:
    commands = list(filter(None, given.only.split(",")))
    sizes = [4.0] if given.quick else [float(size) for size in given.megabytes.split(",")]
    sources = {"now": Path(__file__).parents[2] / "src"}
    if given.before is not None:
        sources = {"before": given.before.resolve(), **sources}
    found: list[dict[str, Any]] = [] if given.quick else known(sizes, commands, sources)
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        (folder / "schema.toml").write_text(SCHEMA, encoding="utf-8")
        write(folder, None)
        if "predict" in commands:
            run(folder, sources["now"], "fit", folder / "small.csv")
            (folder / "fitted.json").rename(folder / "model.json")
        rest = {
            (when, command, kind): run(folder, source, command, folder / f"small.{kind}")
            for when, source in sources.items()
            for command in commands
            for kind in FORMATS
        }
        for size in sizes if commands else ():
            n_rows = write(folder, size)
            for (when, command, kind), (at_rest, start) in rest.items():
                table = folder / f"{size:g}.{kind}"
                peak, seconds = run(folder, sources[when], command, table)
                found.append({
                    "CSV, MB": size, "format": kind, "rows": n_rows, "when": when, "command": command,
                    "file, MB": table.stat().st_size / 1e6, "at rest, MB": at_rest, "above it, MB": peak - at_rest,
                    "s": seconds - start,
                })  # fmt: skip
                print(json.dumps(found[-1]), flush=True)
                if not given.quick:
                    keep("tables_memory", found)
            for kind in FORMATS:
                (folder / f"{size:g}.{kind}").unlink()
    head = (
        "command", "format", "rows|,", *(f"{name}|,.0f" for name in ("file, MB", "at rest, MB", "above it, MB", "s")),
    )  # fmt: skip
    found.sort(key=lambda one: [COMMANDS.index(one["command"]), *map(one.get, ("format", "rows", "when"))])
    rows = [
        (
            f"`{one['command']}`" + (", before" if one["when"] == "before" else ""), one["format"], one["rows"],
            *(one[name] for name in list(one)[5:]),
        )
        for one in found
    ]  # fmt: skip
    given.table("Memory of the command line", head, rows, mark="memory")
