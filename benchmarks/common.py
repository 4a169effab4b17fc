"""What the benchmark scripts share: options, real data, a table on the terminal, JSON in benchmarks/results/."""

import argparse
import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_svmlight_file
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from sottovoce.tables import Encoder, Schema, read_table
from support import data as data_files

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
RESULTS = ROOT / "benchmarks" / "results"
NO_DATA = 77  # the exit code that test harnesses read as "skipped"
EPSILONS = (0.1, 0.5, 1.0, 2.0)


def make_parser(doc: str | None, *, docs: bool = False) -> argparse.ArgumentParser:
    """Return a parser of what every script takes: ``--quick``, and ``--docs`` where it writes into a page."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small and few: shows that the script runs, no more")
    if docs:
        parser.add_argument("--docs", action="store_true", help="write tables and pictures into the documentation")
    return parser


def run_again(module: str, *arguments: object) -> str:
    """Run a script in a process of its own, where memory and threads are its own too, and return what it prints."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed\n{done.stderr}")
    return done.stdout


def data_folder() -> Path:
    """Return the folder of real data, or leave with what to do and the exit code NO_DATA."""
    folder = data_files.data_folder()
    if folder is None:
        print(
            f"set {data_files.VARIABLE} to the folder with a9a.bz2, phishing.bz2, adult.data.bz2, ...", file=sys.stderr
        )
        sys.exit(NO_DATA)
    return folder


def parts_at_hand(made_up: tuple[str, ...], real: tuple[str, ...]) -> tuple[str, ...]:
    """Return the parts of a script that can be run here: those on real data need the folder of these."""
    if data_files.data_folder() is not None:
        return made_up + real
    print(f"{data_files.why_without()}: left out {', '.join(real)}")
    return made_up


def a9a(seed: int) -> tuple[Any, ...]:
    """LIBSVM a9a with its own test part, rows scaled to norm 1; the seed changes nothing."""
    return _own_test_part("a9a", 123, dense=False)


def phishing(seed: int) -> tuple[Any, ...]:
    """LIBSVM phishing (rows of norm 1), split 75:25 by the seed."""
    X, y = load_svmlight_file(str(data_folder() / "phishing.bz2"), n_features=68)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
    return X, y, X_test, y_test, {"data_norm": 1.0, "classes": [0.0, 1.0]}


def mnist_4v9(seed: int) -> tuple[Any, ...]:
    """MNIST digits 4 and 9 with their own test part, dense, rows scaled to norm 1; the seed changes nothing."""
    return _own_test_part("mnist_4v9", 784, dense=True)


def reuters(seed: int) -> tuple[Any, ...]:
    """Reuters-21578, earn or acq against the rest, its own test part, rows of norm 1; the seed changes nothing."""
    return _own_test_part("reuters21578_corp", 11521, dense=False)


def _own_test_part(name: str, n_features: int, *, dense: bool) -> tuple[Any, ...]:
    parts: list[Any] = []
    for suffix in ("", ".t"):
        X, y = load_svmlight_file(str(data_folder() / f"{name}{suffix}.bz2"), n_features=n_features)
        X = normalize(X)
        parts += [X.toarray() if dense else X, y]
    return (*parts, {"data_norm": 1.0, "classes": [-1.0, 1.0]})


def adult(seed: int) -> tuple[Any, ...]:
    """Raw UCI Adult through examples/adult.toml, its own test part; the seed changes nothing."""
    schema = Schema.from_toml(ROOT / "examples" / "adult.toml")
    encoder = Encoder(schema)
    parts = []
    for name in ("adult.data", "adult.test"):
        path = next(p for p in (data_folder() / name, data_folder() / f"{name}.bz2") if p.exists())
        table = read_table(path, layout=schema.layout, names=schema.column_names)
        parts += [encoder.features(table), encoder.labels(table)]
    return (*parts, {"data_norm": encoder.data_norm, "classes": list(schema.classes or ())})


def blogfeedback(seed: int, *, scale_columns: bool = False) -> tuple[Any, ...]:
    """BlogFeedback: signed log features, rows of norm 1, target log(1 + comments) within [0, 8].

    With ``scale_columns`` every column is first divided by its largest absolute value in the training part, which is
    then taken as public.
    """
    parts = []
    largest = 1.0
    for name in ("blogfeedback_train.csv.bz2", "blogfeedback_test.csv.bz2"):
        table = np.loadtxt(data_folder() / name, delimiter=",")
        X, y = np.sign(table[:, :-1]) * np.log1p(np.abs(table[:, :-1])), np.log1p(table[:, -1])
        if scale_columns and not parts:
            largest = np.abs(X).max(axis=0)
            largest[largest == 0.0] = 1.0
        parts += [normalize(X / largest), np.clip(y, 0.0, 8.0)]
    return (*parts, {"data_norm": 1.0, "label_bounds": (0.0, 8.0)})


def show(title: str, head: tuple[str, ...], rows: list[tuple[str, ...]], width: int = 130) -> None:
    """Print a table."""
    table = Table(*head, title=title)
    for row in rows:
        table.add_row(*row)
    Console(width=width).print(table)


def keep(name: str, content: Any, folder: Path = RESULTS) -> None:
    """Write the figures as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def keep_picture(figure: Any, path: Path) -> None:
    """Write a matplotlib figure as PNG with 128 colours, a third of the size."""
    from PIL import Image

    picture = io.BytesIO()
    figure.savefig(picture, dpi=110)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.open(picture).convert("RGB").quantize(128).save(path, optimize=True)


def write_tables(page: Path, tables: dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]]) -> None:
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
