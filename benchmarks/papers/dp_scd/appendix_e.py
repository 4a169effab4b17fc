"""The experimental protocol of Damaskinos et al. (AAAI 2021), Appendix E: data, splits, metrics, fixed parameters.

Every coordinate is divided by its largest absolute value and every row by its norm; a random quarter of the training
part is held out for tuning (the seed of a run decides which); no intercept; delta = 1e-3. The scaling and the tuning
look at the data, as in the paper, and no budget is charged for them: these are comparisons, not releases.

YearPredictionMSD, the paper's data for ridge regression, is taken where the data folder has it. Else BlogFeedback,
target log(1 + comments) - 1, takes its place in the figures (`figure_problems`), and the problem "msd" is a made-up
table of the size of YearPredictionMSD with the shape of a small sample of it.
"""

import bz2
import csv
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_svmlight_file
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

import sottovoce as sv
from benchmarks.common import data_folder
from benchmarks.papers_data import has_year_prediction, msd_made_up, year_prediction
from support import data as data_files

DELTA = 1e-3
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """A data set with its loss, penalty and number of epochs."""

    name: str
    loss: str
    kind: type
    alpha: float
    epochs: int
    public: dict[str, Any]
    title: str

    @property
    def lower_is_better(self) -> bool:
        return self.loss == "squared"

    @property
    def metric(self) -> str:
        """What is measured on the test part, in words."""
        return "test mean squared error" if self.lower_is_better else "test accuracy"

    def model(self, epsilon: float, seed: int, **changed: Any) -> Any:
        """Return an estimator of this library, not fitted."""
        return self.kind(
            epsilon=epsilon, delta=DELTA, data_norm=1.0, alpha=self.alpha, fit_intercept=False, random_state=seed,
            **self.public, **changed,
        )  # fmt: skip

    def score_of(self, w: Array, X: Array, y: Array) -> float:
        m = X @ w
        return float(np.mean((m - y) ** 2)) if self.lower_is_better else float(np.mean((m > 0) == (y > 0)))

    def objective(self, w: Array, X: Array, y: Array) -> float:
        m = X @ w
        losses = {
            "squared": lambda: 0.5 * (y - m) ** 2,
            "logistic": lambda: np.logaddexp(0.0, -y * m),
            "hinge": lambda: np.maximum(0.0, 1.0 - y * m),
        }
        return float(np.mean(losses[self.loss]()) + 0.5 * self.alpha * w @ w)

    def better(self, one: float, other: float) -> bool:
        return one < other if self.lower_is_better else one > other


SIGNS = {"classes": [-1.0, 1.0]}
YEAR = 1998.0  # what years are centred by: a public number near their mean
PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem("phishing", "logistic", sv.DPLogisticRegression, 1e-4, 10, SIGNS, "logistic regression (phishing)"),
        Problem("adult", "hinge", sv.DPLinearSVC, 1e-5, 10, SIGNS, "linear SVM (Adult)"),
        Problem("blogfeedback", "squared", sv.DPRidge, 1e-4, 50, {"label_bounds": (-8.0, 8.0)}, "ridge (BlogFeedback)"),
        Problem("msd", "squared", sv.DPRidge, 1e-4, 50, {"label_bounds": (-80.0, 80.0)}, "ridge (years of songs)"),
    )
}


def figure_problems() -> tuple[str, ...]:
    """Return the problems of the figures: ridge regression on the paper's own data where they are at hand."""
    folder = data_files.data_folder()
    return ("phishing", "adult", "msd" if folder is not None and has_year_prediction(folder) else "blogfeedback")


def split(name: str, seed: int) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Return rows and labels for training, validation and test."""
    X, y, X_test, y_test = LOADERS[name]()
    X, X_test = X.astype(np.float32, copy=False), X_test.astype(np.float32, copy=False)
    X, X_val, y, y_val = train_test_split(X, y, test_size=0.25, random_state=seed)
    return X, y, X_val, y_val, X_test, y_test


def _scaled(X: Array, X_test: Array) -> tuple[Array, Array]:
    largest = np.abs(X).max(axis=0)
    largest[largest == 0.0] = 1.0
    return normalize(X / largest), normalize(X_test / largest)


@cache
def phishing() -> tuple[Array, Array, Array, Array]:
    X, y = load_svmlight_file(str(data_folder() / "phishing.bz2"), n_features=68)
    X, X_test, y, y_test = train_test_split(X.toarray(), np.where(y > 0, 1.0, -1.0), test_size=0.25, random_state=42)
    X, X_test = _scaled(X, X_test)
    return X, y, X_test, y_test


@cache
def adult() -> tuple[Array, Array, Array, Array]:
    """Five numeric columns, standardised, seven categorical ones as indicators without the most frequent value."""
    numeric, categorical = (0, 4, 10, 11, 12), (1, 5, 6, 7, 8, 9, 13)
    parts = []
    for name in ("adult.data.bz2", "adult.test.bz2"):
        with bz2.open(data_folder() / name, "rt") as file:
            lines = ([cell.strip(" .") for cell in line] for line in csv.reader(file))
            parts.append([line for line in lines if len(line) == 15])
    values = [
        [value for value, _ in Counter(line[c] for part in parts for line in part if line[c] != "?").most_common()][1:]
        for c in categorical
    ]
    encoded = []
    for part in parts:
        numbers = np.array([[float(line[c]) for c in numeric] for line in part])
        columns = [(numbers - numbers.mean(axis=0)) / numbers.std(axis=0)]
        for c, names in zip(categorical, values, strict=True):
            columns.append(np.array([[line[c] == name for name in names] for line in part], dtype=float))
        encoded += [np.hstack(columns), np.where([line[14].startswith(">") for line in part], 1.0, -1.0)]
    X, X_test = _scaled(encoded[0], encoded[2])
    return X, encoded[1], X_test, encoded[3]


@cache
def blogfeedback() -> tuple[Array, Array, Array, Array]:
    """Signed log features; target log(1 + comments), centred by the public number 1."""
    paths = (data_folder() / f"blogfeedback_{part}.csv.bz2" for part in ("train", "test"))
    tables = [pd.read_csv(path, header=None).to_numpy(dtype=np.float64) for path in paths]
    X, X_test = _scaled(*(np.sign(table[:, :-1]) * np.log1p(np.abs(table[:, :-1])) for table in tables))
    y, y_test = (np.clip(np.log1p(table[:, -1]) - 1.0, -8.0, 8.0) for table in tables)
    return X, y, X_test, y_test


@cache
def msd() -> tuple[Array, Array, Array, Array]:
    """Years of songs less 1998: YearPredictionMSD, or a made-up table of its size (`msd_made_up`)."""
    true = year_prediction(data_folder())
    print("msd: " + ("YearPredictionMSD" if true else "a made-up table, not YearPredictionMSD"))
    parts = true or msd_made_up(data_folder() / "msd_sample.csv.bz2")
    X, X_test = _scaled(parts.X.astype(np.float32), parts.X_test.astype(np.float32))
    return X, np.clip(parts.y - YEAR, -80.0, 80.0), X_test, np.clip(parts.y_test - YEAR, -80.0, 80.0)


LOADERS = {"phishing": phishing, "adult": adult, "blogfeedback": blogfeedback, "msd": msd}
