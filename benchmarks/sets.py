"""The real tables on which defaults are compared, each with public bounds, and which of them rules may be chosen on.

Bounds, categories and label ranges come from the documentation of a set or from general knowledge, never from its rows.
Every split is 75:25 of the training file, drawn by its seed and stratified for classes: no official test part is used.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_svmlight_file
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from benchmarks.common import data_folder
from benchmarks.driver import ROOT
from sottovoce.tables import Schema, read_table

# Written down before a rule was tried: rules are chosen on the first half, and confirmed once on the second.
CHOSEN_ON = (
    "a9a", "phishing", "reuters", "w8a", "mushrooms", "german", "digits", "cal_housing", "blogfeedback",
)  # fmt: skip
CONFIRMED_ON = (
    "adult", "mnist_4v9", "skin", "bank", "credit", "madelon", "farm_ads", "news20", "occupation", "casp", "msd_sample",
)  # fmt: skip


class Split(NamedTuple):
    """A training and a test part, and the public facts that an estimator is given."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    public: dict[str, Any]


class Whole(NamedTuple):
    """A whole set, and its public facts."""

    X: Any
    y: Any
    public: dict[str, Any]


def split(name: str, seed: int) -> Split:
    X, y, public = whole(name)
    strata = None if is_regression(name) else y
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=strata)
    return Split(X, y, X_test, y_test, public)


def is_regression(name: str) -> bool:
    return "label_bounds" in whole(name).public


@cache
def whole(name: str) -> Whole:
    return SETS[name]()


def _libsvm(file: str, n_features: int, *, dense: bool = False) -> Whole:
    """Read a file of LIBSVM and scale its rows to norm 1."""
    X, y = load_svmlight_file(str(data_folder() / f"{file}.bz2"), n_features=n_features)
    X = normalize(X)
    X = (
        X.toarray()
        if dense
        else sp.csr_matrix((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), X.shape)
    )
    return Whole(X, y, {"data_norm": 1.0, "classes": sorted(set(y.tolist()))})


def _german() -> Whole:
    X, y = load_svmlight_file(str(data_folder() / "german.numer_scale.bz2"), n_features=24)
    return Whole(X.toarray(), y, {"data_norm": 24.0**0.5, "classes": [-1.0, 1.0]})


def _madelon() -> Whole:
    X, y = load_svmlight_file(str(data_folder() / "madelon.bz2"), n_features=500)
    return Whole(X.toarray() / 499.5 - 1.0, y, {"data_norm": 500.0**0.5, "classes": [-1.0, 1.0]})


def _numbers(file: str, target: int, bounds: tuple[float, float], *, skip: int = 0, unit: float = 1.0) -> Whole:
    D = np.loadtxt(data_folder() / f"{file}.bz2", delimiter=",", skiprows=skip)
    return Whole(np.delete(D, target, axis=1), D[:, target] / unit, {"label_bounds": bounds})


def _blogs() -> Whole:
    D = np.loadtxt(data_folder() / "blogfeedback_train.csv.bz2", delimiter=",")
    return Whole(D[:, :-1], np.clip(np.log1p(D[:, -1]), 0.0, 8.0), {"label_bounds": (0.0, 8.0)})


def _colours() -> Whole:
    D = np.loadtxt(data_folder() / "skin_nonskin.txt.bz2")
    return Whole(D[:, :3], D[:, 3], {"classes": [1.0, 2.0]})


def _payments() -> Whole:
    table = pd.read_csv(data_folder() / "credit_default.csv.bz2")
    return Whole(table[[f"X{k}" for k in range(1, 24)]].to_numpy(float), table["Y"].to_numpy(), {"classes": [0, 1]})


def _calls() -> Whole:
    table = pd.read_csv(data_folder() / "bank-full.csv.bz2", sep=";")
    numeric = ["age", "balance", "day", "duration", "campaign", "pdays", "previous"]
    return Whole(table[numeric].to_numpy(float), table["y"].to_numpy(str), {"classes": ["no", "yes"]})


def _people() -> Whole:
    path = next(p for p in (data_folder() / "adult.data", data_folder() / "adult.data.bz2") if p.exists())
    table = pd.read_csv(path, header=None, skipinitialspace=True)
    X = table[[0, 2, 4, 10, 11, 12]].to_numpy(float)
    return Whole(X, table[14].to_numpy(str), {"classes": ["<=50K", ">50K"]})


RAW: dict[str, Callable[[], Whole]] = {  # numbers as they are measured
    "cal_housing": lambda: _numbers("cal_housing.data", 8, (0.0, 5.1), unit=1e5),
    "blogfeedback": _blogs,
    "skin": _colours,
    "credit": _payments,
    "bank": _calls,
    "adult (numbers)": _people,
    "casp": lambda: _numbers("casp.csv", 0, (0.0, 21.0), skip=1),
    "msd_sample": lambda: _numbers("msd_sample.csv", 0, (1920.0, 2012.0)),
}


def logarithms(X: Any) -> Any:
    """Return log(1 + |x|) with the sign of x."""
    return np.sign(X) * np.log1p(np.abs(X))


def _skin() -> Whole:
    X, y, public = RAW["skin"]()
    return Whole(X / 127.5 - 1.0, y, {"data_norm": 3.0**0.5, **public})


def _digits() -> Whole:
    X, y = load_digits(return_X_y=True)
    return Whole(normalize(X), y, {"data_norm": 1.0, "classes": list(range(10))})


def _encoded(table: pd.DataFrame, numeric: dict[str, tuple[float, float]], listed: dict[str, list[Any]]) -> Any:
    """Return numbers moved from their public bounds to [-1, 1], and one column for each listed category."""
    columns = [
        np.clip(2.0 * (table[name] - low) / (high - low) - 1.0, -1.0, 1.0) for name, (low, high) in numeric.items()
    ]
    columns += [table[name] == value for name, values in listed.items() for value in values]
    return np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])


def _bank() -> Whole:
    table = pd.read_csv(data_folder() / "bank-full.csv.bz2", sep=";")
    numeric = {
        "age": (18, 100), "balance": (-10_000, 20_000), "day": (1, 31), "duration": (0, 1_800), "campaign": (1, 20),
        "pdays": (-1, 900), "previous": (0, 20),
    }  # fmt: skip
    yes_no = ["no", "yes"]
    months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
    listed = {
        "job": [
            "admin.", "unknown", "unemployed", "management", "housemaid", "entrepreneur", "student", "blue-collar",
            "self-employed", "retired", "technician", "services",
        ],
        "marital": ["married", "divorced", "single"], "education": ["unknown", "secondary", "primary", "tertiary"],
        "default": yes_no, "housing": yes_no, "loan": yes_no, "contact": ["unknown", "telephone", "cellular"],
        "month": months, "poutcome": ["unknown", "other", "failure", "success"],
    }  # fmt: skip
    X = _encoded(table, numeric, listed)
    return Whole(X, table["y"].to_numpy(str), {"data_norm": 16.0**0.5, "classes": yes_no})


def _credit() -> Whole:
    table = pd.read_csv(data_folder() / "credit_default.csv.bz2")
    bills, paid = [f"X{k}" for k in range(12, 18)], [f"X{k}" for k in range(18, 24)]
    table[bills + paid] = logarithms(table[bills + paid])
    numeric: dict[str, tuple[float, float]] = {
        "X1": (0, 500_000), "X5": (20, 80), **{f"X{k}": (-2, 8) for k in range(6, 12)},
        **dict.fromkeys(bills, (-14, 14)), **dict.fromkeys(paid, (0, 14)),
    }  # fmt: skip
    X = _encoded(table, numeric, {"X2": [1, 2], "X3": [1, 2, 3, 4], "X4": [1, 2, 3]})
    return Whole(X, table["Y"].to_numpy(), {"data_norm": 23.0**0.5, "classes": [0, 1]})


def _adult(target: str) -> Whole:
    schema = Schema.from_toml(ROOT / "examples" / "adult.toml")
    path = next(p for p in (data_folder() / "adult.data", data_folder() / "adult.data.bz2") if p.exists())
    table = read_table(path, layout=schema.layout, names=schema.column_names)
    if target == "income":
        public = {"data_norm": schema.data_norm, "classes": list(schema.classes or ())}
        return Whole(schema.features(table), schema.labels(table), public)
    raw = pd.read_csv(path, header=None, skipinitialspace=True)
    known = (raw[6] != "?").to_numpy()
    names = schema.feature_names
    keep = [k for k, name in enumerate(names) if not name.startswith("occupation")]
    X = schema.features(table)[:, keep]
    X = sp.csr_matrix(np.column_stack([X.toarray() if sp.issparse(X) else X, raw[14] == ">50K"])[known])
    y = raw[6][known].to_numpy(str)
    return Whole(X, y, {"data_norm": schema.data_norm, "classes": sorted(set(y.tolist()))})


def _cal_housing() -> Whole:
    X, y, public = RAW["cal_housing"]()
    X[:, 3:7] = np.log1p(X[:, 3:7])
    bounds = [(-125, -114), (32, 42), (0, 52), (3, 11), (1, 9), (1, 11), (1, 9), (0, 15)]
    X = _encoded(pd.DataFrame(X), dict(enumerate(bounds)), {})  # type: ignore[arg-type]
    return Whole(X, y, {"data_norm": 8.0**0.5, **public})


def _casp() -> Whole:
    X, y, public = RAW["casp"]()
    bounds = [
        (0, 40_000), (0, 16_000), (0, 1), (0, 400), (0, 6_000_000), (0, 600), (0, 20_000), (0, 400), (0, 60)
    ]  # fmt: skip
    X = _encoded(pd.DataFrame(X), dict(enumerate(bounds)), {})  # type: ignore[arg-type]
    return Whole(X, y, {"data_norm": 9.0**0.5, **public})


def _rows_of_norm_1(name: str) -> Whole:
    X, y, public = RAW[name]()
    return Whole(normalize(logarithms(X)), y, {"data_norm": 1.0, **public})


SETS: dict[str, Callable[[], Whole]] = {
    "a9a": lambda: _libsvm("a9a", 123), "phishing": lambda: _libsvm("phishing", 68),
    "reuters": lambda: _libsvm("reuters21578_corp", 11521), "w8a": lambda: _libsvm("w8a", 300),
    "mushrooms": lambda: _libsvm("mushrooms", 112), "german": _german, "digits": _digits, "cal_housing": _cal_housing,
    "blogfeedback": lambda: _rows_of_norm_1("blogfeedback"), "adult": lambda: _adult("income"),
    "mnist_4v9": lambda: _libsvm("mnist_4v9", 784, dense=True), "skin": _skin, "bank": _bank, "credit": _credit,
    "madelon": _madelon, "farm_ads": lambda: _libsvm("farm_ads", 54877),
    "news20": lambda: _libsvm("news20_bydate_tech", 31370), "occupation": lambda: _adult("occupation"), "casp": _casp,
    "msd_sample": lambda: _rows_of_norm_1("msd_sample"),
}  # fmt: skip
