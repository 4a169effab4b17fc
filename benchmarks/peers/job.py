"""What every peer's script shares: read the job, tune where there is something to tune, fit, score, write JSON.

A job is a JSON file: ``data`` (one npz file for each split), ``task`` ("binary", "multiclass" or "regression"),
``metrics``, ``epsilon``, ``delta``, ``tuning`` (the npz file on whose test part the search scores), ``starts``
(settings to begin the search at), ``budget`` of the search, ``target`` (of the first metric: the cheapest setting that
reaches it is taken), ``settings`` (by metric; no search: use these), ``quick`` and ``warm`` (fit once before the clock
starts). A job with ``once``, a setting, has ``epsilons``: each split is fitted once for each, and all metrics are those
of that one model. The scripts run in environments of their own: only numpy and scipy are taken for granted here.

A model comes in variants, which cost nothing: averages of the iterates of one run. Scores are larger where better.
"""

import itertools
import json
import math
import sys
import time
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import log_softmax
from scipy.stats import rankdata

from benchmarks.peers.tuning import Setting, cheapest, search

__all__ = [
    "AVERAGES", "METRICS", "Models", "Split", "average_starts", "centred", "classification_scores", "entries", "load",
    "regression_scores", "run", "scores_of", "with_constant",
]  # fmt: skip

METRICS = {
    "binary": ("accuracy", "log loss", "AUC"), "multiclass": ("accuracy", "log loss"), "regression": ("MSE",),
}  # fmt: skip
AVERAGES = (0.0, 0.25, 0.5)  # variants of DP-SGD: the last iterate, and the shares of the run that are averaged
LEAST = 1e-15  # probability in a log loss
TUNING_SEED = 1000  # the seeds of the search; the reported fits have seeds 0, 1, 2, ...

Models = dict[Any, Any]  # by variant: weights and intercept, or a function from rows to scores


class Split(NamedTuple):
    """Training and test part; rows at most 1 long; labels -1 and 1, or 0, 1, ..., or numbers in [-1, 1]."""

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray


@lru_cache(maxsize=8)
def load(path: str) -> Split:
    with np.load(path) as file:
        rows = {}
        for part in ("train", "test"):
            if f"{part}_rows" in file:
                rows[part] = file[f"{part}_rows"]
            else:
                arrays = tuple(file[f"{part}_{name}"] for name in ("data", "indices", "indptr"))
                rows[part] = sp.csr_matrix(arrays, file[f"{part}_shape"])
        return Split(rows["train"], file["train_y"], rows["test"], file["test_y"])


@lru_cache(maxsize=8)
def with_constant(path: str, constant: float, dense: bool | None = None) -> Any:
    """Return the training rows with a constant column, the intercept of methods that have none; dense as asked."""
    X = load(path).X
    column = np.full((X.shape[0], 1), constant, np.float32)
    if not sp.issparse(X):
        X = np.hstack([X, column])
        return sp.csr_matrix(X) if dense is False else X
    X = sp.csr_matrix(sp.hstack([X, column], format="csr", dtype=np.float32))
    return X.toarray() if dense else X


def entries(X: Any) -> int:
    return int(X.nnz if sp.issparse(X) else X.size)


def average_starts(steps: int) -> np.ndarray:
    """Return the first step that counts in each average."""
    return np.array([min(steps - 1, round((1.0 - share) * steps)) for share in AVERAGES])


def centred(path: str, setting: Setting) -> np.ndarray:
    """Return the training labels; numbers less the setting's public constant."""
    return load(path).y - np.float32(setting.get("centre", 0.0))


def classification_scores(
    log_probability: np.ndarray, order: np.ndarray | None, guess: np.ndarray, y: np.ndarray
) -> dict[str, float]:
    """Return accuracy, minus the log loss, and the area under the curve of `order`; `y` counts the classes from 0."""
    own = np.take_along_axis(log_probability, y[:, None], axis=1)
    scores = {"accuracy": float(np.mean(guess == y)), "log loss": float(np.mean(np.maximum(own, math.log(LEAST))))}
    if order is not None:
        n, positive = len(y), int(np.sum(y))
        above = float(np.sum(rankdata(order)[y == 1])) - positive * (positive + 1) / 2
        scores["AUC"] = above / (positive * (n - positive))
    return scores


def regression_scores(prediction: np.ndarray, y: np.ndarray, bounds: tuple[float, float]) -> dict[str, float]:
    """Return minus the mean squared error of predictions within public bounds."""
    return {"MSE": -float(np.mean((np.clip(prediction, *bounds) - y) ** 2))}


def scores_of(split: Split, task: str, setting: Setting, model: Any) -> dict[str, float]:
    """Return the scores of a model on the test part; all are minus infinity where it is not finite."""
    with np.errstate(all="ignore"):
        z = model(split.X_test) if callable(model) else split.X_test @ np.asarray(model[0], np.float64) + model[1]
    if not np.all(np.isfinite(z)):
        return dict.fromkeys(METRICS[task], -math.inf)
    if task == "regression":
        return regression_scores(z + setting.get("centre", 0.0), split.y_test, (-1.0, 1.0))
    if task == "binary":
        y = (split.y_test > 0.0).astype(np.int64)
        return classification_scores(-np.logaddexp(0.0, np.column_stack([z, -z])), z, (z > 0.0).astype(np.int64), y)
    return classification_scores(log_softmax(z, axis=1), None, np.argmax(z, axis=1), split.y_test.astype(np.int64))


Train = Callable[[str, dict[str, Any], Setting, int], Models]


class _Job:
    """A job, and the fits that it takes."""

    def __init__(self, train: Train, job: dict[str, Any]):
        self.train, self.job = train, job

    def fit(self, path: str, setting: Setting, seed: int) -> tuple[dict[Any, dict[str, float]], float]:
        """Return the scores of every variant, and the seconds of processors that training took."""
        load(path)
        start = time.process_time()
        models = self.train(path, self.job, setting, seed)
        seconds = time.process_time() - start
        task = self.job["task"]
        return {name: scores_of(load(path), task, setting, model) for name, model in models.items()}, seconds

    def held_out(self, setting: Setting, seed: int) -> dict[str, dict[Any, float]]:
        """Return scores on the part held out for tuning: by metric, then by variant."""
        metrics = self.job["metrics"]
        try:
            found, _ = self.fit(self.job["tuning"], setting, TUNING_SEED + seed)
        except Exception as error:  # a peer may refuse or break on some settings: they lose
            print(f"{setting}: {error!r}", file=sys.stderr)
            return {metric: {None: -math.inf} for metric in metrics}
        return {metric: {variant: scores[metric] for variant, scores in found.items()} for metric in metrics}

    def once(self) -> list[dict[str, Any]]:
        """Return all scores of one model for each epsilon and split."""
        found = []
        for epsilon, (seed, path) in itertools.product(self.job["epsilons"], enumerate(self.job["data"])):
            self.job["epsilon"] = epsilon
            scores, seconds = self.fit(path, self.job["once"], seed)
            found.append({"epsilon": epsilon, "seed": seed, "seconds": seconds, **scores[None]})
        return found

    def reported(self, setting: Setting, metric: str) -> dict[str, Any]:
        """Return the scores of a setting on every split."""
        known = {name: value for name, value in setting.items() if name != "variant"}
        if self.job.get("warm"):
            self.fit(self.job["data"][0], known, 0)
        found = [self.fit(path, known, seed) for seed, path in enumerate(self.job["data"])]
        scores = [max(by_variant[setting.get("variant")][metric], -1e300) for by_variant, _ in found]
        return {"scores": scores, "seconds": float(np.median([seconds for _, seconds in found]))}


def run(
    train: Train,
    space: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    complete: Callable[[dict[str, Any], Setting], Setting] = lambda job, setting: setting,
) -> None:
    """Do the job named on the command line.

    Parameters
    ----------
    train : callable
        From (path of a split, job, setting, seed) to the models, by variant.
    space : callable, optional
        From the job to the keyword arguments of `tuning.search`: what may be tuned.
    complete : callable, optional
        Adds to a setting what follows from it (a noise multiplier), for the record.
    """
    warnings.simplefilter("ignore")
    given = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    job = _Job(train, given)
    if "once" in given:
        Path(sys.argv[2]).write_text(json.dumps({"fits": job.once()}), encoding="utf-8")
        return
    if given.get("settings"):
        chosen = {metric: {"setting": setting} for metric, setting in given["settings"].items()}
    elif space is not None and "target" in given:
        chosen = cheapest(job.held_out, given["metrics"][0], given["target"], **space(given))
    elif space is not None:
        extra = {"budget": given["budget"]} if "budget" in given else {}
        chosen = search(
            job.held_out, given["metrics"], **{**space(given), **extra}, starts=given.get("starts") or [],
            quick=given["quick"],
        )  # fmt: skip
    else:
        raise SystemExit("a job without settings needs a space to search")
    answer = {}
    for metric, row in chosen.items():
        answer[metric] = {**row, **job.reported(row["setting"], metric)}
        answer[metric].update({kind: complete(given, row[kind]) for kind in ("setting", "cheap") if kind in row})
    Path(sys.argv[2]).write_text(json.dumps(answer), encoding="utf-8")
