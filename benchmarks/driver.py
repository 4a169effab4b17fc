"""The driver of all benchmarks: options, threads, the machine, and tables: printed, in JSON, in the documentation.

A benchmark is a function and a declaration of its options::

    @benchmark(page="measured/solvers.md", seeds=(5, 1), only=("a9a,phishing", "phishing"), delta=1e-3, speed=False)
    def main(run):
        run.table("accuracy", ("data", "epsilon", "accuracy|.4f"), rows(run.seeds), mark="newton")

An option is its default. A pair is the default and what ``--quick`` takes; False is a flag; `option` says more. Run as
a module, the script starts by itself, with ``--quick``, ``--threads`` and, where it has a page, ``--docs`` beside its
own options. A row is a tuple of cells: text as it is, numbers by the form that stands behind ``|`` in the head. Rows of
a generator are printed as they come. Everything that is shown ends in ``benchmarks/results/`` too.
"""

import argparse
import csv
import io
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import sottovoce as sv

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FIGURES = DOCS / "figures"
RESULTS = ROOT / "benchmarks" / "results"
NO_DATA = 77  # the exit code that test harnesses read as "skipped"
EPSILONS = (0.1, 0.5, 1.0, 2.0)
HIDDEN = argparse.SUPPRESS
os.environ.setdefault("MPLBACKEND", "Agg")  # pictures are files


class option(NamedTuple):  # noqa: N801 - reads as a word of the declaration
    """An option whose default does not say all: a type, choices, a help; ``quick`` is what ``--quick`` takes."""

    default: Any = None
    type: Any = None
    help: str | None = None
    choices: Any = None
    quick: Any = None


def make_parser(doc: str | None, *, docs: bool = False) -> argparse.ArgumentParser:
    """Return a parser of what every script takes: ``--quick``, and ``--docs`` where it writes into a page."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small and few: shows that the script runs, no more")
    if docs:
        parser.add_argument("--docs", action="store_true", help="write tables and pictures into the documentation")
    return parser


class Run:
    """One run of a benchmark: its options as attributes, and where its tables and figures go."""

    def __init__(self, module: str, page: str, given: dict[str, Any]) -> None:
        self.module, self.page = module, page
        self.quick, self.docs = given["quick"], given.get("docs", False)
        # an option that is called as a method is has an underscore behind its name
        self.__dict__.update({name + "_" * hasattr(Run, name): value for name, value in given.items()})
        self._shown: dict[str, Any] = {}

    def table(
        self,
        title: str,
        head: Sequence[str],
        rows: Iterable[Sequence[Any]],
        *,
        mark: str = "",
        page: str = "",
        width: int = 150,
    ) -> list[tuple[Any, ...]]:
        """Print a table, keep it, and write it between the marks of its name in the page; return the rows as given."""
        names, forms = zip(*(column.rsplit("|", 1) if "|" in column else (column, "") for column in head), strict=True)
        raw, texts, is_live = [], [], isinstance(rows, Iterator)
        for row in rows:
            raw.append(tuple(row))
            texts.append(tuple(text_of(cell, form) for cell, form in zip(row, forms, strict=True)))
            if is_live:
                print(*texts[-1], sep="  ", flush=True)
        show(title, names, texts, width)
        self._shown[mark or title] = {"columns": names, "rows": raw}
        if self.docs and mark:
            write_tables(DOCS / (page or self.page), {mark: (names, texts)})
        return raw

    def tables(self, made: dict[str, tuple[Sequence[str], Iterable[Sequence[Any]]]], *, width: int = 150) -> None:
        """Print and keep several tables, and write each between the marks of its name."""
        for name, (head, rows) in made.items():
            self.table(name, head, rows, mark=name, width=width)

    def keep(self, name: str, content: Any) -> None:
        """Write figures as JSON."""
        keep(name, content)

    def picture(self, draw: Callable[[], Any], name: str) -> None:
        """Draw a picture of the documentation, where that is asked for."""
        if self.docs:
            keep_picture(draw(), FIGURES / name)

    def again(self, *arguments: object) -> str:
        """Run this script in a process of its own, and return what it prints."""
        return run_again(self.module, *arguments)

    def close(self, machine: str) -> None:
        """Write what was shown."""
        if self._shown:
            name = self.module.removeprefix("benchmarks.")
            keep(name, {"machine": machine, "options": self.given(), "tables": self._shown})

    def given(self) -> dict[str, str]:
        """Return the options that were run with."""
        return {name: str(value) for name, value in vars(self).items() if name not in ("module", "page", "_shown")}


def text_of(cell: Any, form: str) -> str:
    """Return a cell as it is shown."""
    if cell is None or isinstance(cell, str):
        return cell or ""
    return format(cell, form or ("g" if isinstance(cell, float) else ""))


def benchmark(page: str = "", *, words: Sequence[str] = (), **options: Any) -> Callable[[Any], Callable[[], None]]:
    """Make a script of a function of a `Run`: the module's docstring is its help."""

    def of(function: Callable[[Run], None]) -> Callable[[], None]:
        held = function.__globals__
        module = held["__spec__"].name if held.get("__spec__") else held["__name__"]

        def main() -> None:
            run = _parsed(held["__doc__"], module, page, words, options)
            line = machine()
            if not any(getattr(run, name) is not None for name in _hidden(options)):
                print(line, flush=True)
            try:
                with threadpool_limits(run.threads):
                    function(run)
            finally:
                run.close(line)

        if held["__name__"] == "__main__":
            main()
        return main

    return of


def _hidden(options: dict[str, Any]) -> list[str]:
    return [name for name, each in options.items() if isinstance(each, option) and each.help == HIDDEN]


def _parsed(doc: str | None, module: str, page: str, words: Sequence[str], options: dict[str, Any]) -> Run:
    parser = make_parser(doc, docs=bool(page))
    parser.add_argument("--threads", type=int, help="of the library and of BLAS; default all")
    if words:
        parser.add_argument("words", nargs="*", help=f"of {', '.join(words)}; default all")
    full: dict[str, option] = {}
    for name, each in options.items():
        if not isinstance(each, option):
            each = option(each[0], quick=each[1]) if isinstance(each, tuple) else option(each)
        full[name] = each
        flag = f"--{name.replace('_', '-')}"
        if each.default is False:
            parser.add_argument(flag, action="store_true", help=each.help)
            continue
        words = f"default {each.default}" + (f"; {each.quick} with --quick" if each.quick is not None else "")
        kind = each.type or (type(each.default) if each.default is not None else str)
        parser.add_argument(flag, type=kind, choices=each.choices, help=each.help or words)
    given = vars(parser.parse_args())
    if given["quick"] and given.get("docs"):
        parser.error("--docs writes figures that mean something: leave --quick out")
    for name, each in full.items():
        if given[name] is None:
            given[name] = each.quick if given["quick"] and each.quick is not None else each.default
    if given["threads"]:
        os.environ["SOTTOVOCE_NUM_THREADS"] = str(given["threads"])
    return Run(module, page, given)


def machine() -> str:
    """Return what figures come from, in a line."""
    versions = f"Python {platform.python_version()}, numpy {np.__version__}, sottovoce {sv.__version__}"
    return f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {versions}"


def run_again(module: str, *arguments: object) -> str:
    """Run a script in a process of its own, where memory and threads are its own too, and return what it prints."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed\n{done.stderr}")
    return done.stdout


def best_of(task: Callable[[], object], repeats: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the least seconds of several runs, after one that compiles."""
    task()
    times = []
    for _ in range(repeats):
        start = clock()
        task()
        times.append(clock() - start)
    return min(times)


def timed(task: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> tuple[Any, float]:
    """Return what a task returns, and its seconds."""
    start = clock()
    found = task()
    return found, clock() - start


def paired(difference: Any, digits: int) -> str:
    """Return mean and standard error of paired differences."""
    error = f" ± {np.std(difference, ddof=1) / len(difference) ** 0.5:.{digits}f}" if len(difference) > 1 else ""
    return f"{np.mean(difference):+.{digits}f}{error}"


def show(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], width: int = 130) -> None:
    """Print a table."""
    table = Table(*head, title=title)
    for row in rows:
        table.add_row(*row)
    Console(width=width).print(table)


def keep(name: str, content: Any, folder: Path = RESULTS) -> None:
    """Write the figures as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(
        content, indent=2, default=lambda value: value.tolist() if hasattr(value, "tolist") else str(value)
    )
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def keep_picture(figure: Any, path: Path) -> None:
    """Write a matplotlib figure as PNG with 128 colours, a third of the size."""
    from PIL import Image

    picture = io.BytesIO()
    figure.savefig(picture, dpi=110)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.open(picture).convert("RGB").quantize(128).save(path, optimize=True)


def write_tables(page: Path, tables: dict[str, tuple[Sequence[str], Iterable[Sequence[str]]]]) -> None:
    """Put each table between the marks of its name in a page, or into its CSV file in docs/measured/data/PAGE."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    for name, (head, rows) in tables.items():
        start, end = f"<!-- table {name} -->\n", f"<!-- end of table {name} -->"
        file = DOCS / "measured" / "data" / page.stem / f"{re.sub(r'[^a-z0-9.]+', '_', name.lower())}.csv"
        if start in text and end in text:
            before, _, rest = text.partition(start)
            lines = ["| " + " | ".join(cells) + " |\n" for cells in (head, ("---",) * len(head), *rows)]
            page.write_text(text := before + start + "".join(lines) + end + rest.partition(end)[2], encoding="utf-8")
        elif file.parent.exists():
            with file.open("w", encoding="utf-8", newline="") as opened:
                csv.writer(opened, lineterminator="\n").writerows((head, *rows))
        else:
            sys.exit(f"the table {name!r} has neither marks in {page.name} nor a folder {file.parent}")
