"""Real tables as scripts of one table take them, each with its public facts, and what is left out without them."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from benchmarks.driver import NO_DATA, ROOT
from sottovoce.tables import Schema, read_table
from support import data as data_files


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
    parts = []
    for name in ("adult.data", "adult.test"):
        path = next(p for p in (data_folder() / name, data_folder() / f"{name}.bz2") if p.exists())
        table = read_table(path, layout=schema.layout, names=schema.column_names)
        parts += [schema.features(table), schema.labels(table)]
    return (*parts, {"data_norm": schema.data_norm, "classes": list(schema.classes or ())})


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
