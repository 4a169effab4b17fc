"""What every peer's script shares: read the job, tune where there is something to tune, fit, score, write JSON.

A job is a JSON file: ``data`` (one npz file for each split), ``task`` ("classification" or "regression"), ``epsilon``,
``delta``, ``seeds``, ``tuning`` (the npz file on whose test part the search scores; default: the splits), ``starts``
(settings to begin the search at), ``setting`` (no search: use this one), ``quick`` and ``warm`` (fit once before the
clock starts). The scripts run in environments of their own: only numpy and scipy are
taken for granted here.
"""

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

from benchmarks.peers.tuning import Setting, search

__all__ = ["Split", "load", "run", "with_constant"]

TUNING_SEED = 1000  # the seeds of the search; the reported fits have seeds 0, 1, 2, ...


class Split(NamedTuple):
    """Training and test part; rows at most 1 long, labels -1 and 1 or centred numbers."""

    X: sp.csr_matrix
    y: np.ndarray
    X_test: sp.csr_matrix
    y_test: np.ndarray


@lru_cache(maxsize=16)
def load(path: str) -> Split:
    """Read one split."""
    with np.load(path) as file:
        names = ("data", "indices", "indptr")
        rows = {
            part: sp.csr_matrix(tuple(file[f"{part}_{name}"] for name in names), file[f"{part}_shape"])
            for part in ("train", "test")
        }
        return Split(rows["train"], file["train_y"], rows["test"], file["test_y"])


@lru_cache(maxsize=4)
def with_constant(path: str, constant: float, dense: bool) -> Any:
    """Return the training rows with a constant column: the intercept of methods that have none."""
    X = load(path).X
    X = sp.csr_matrix(sp.hstack([X, np.full((X.shape[0], 1), constant, np.float32)], format="csr", dtype=np.float32))
    return X.toarray() if dense else X


def _score(split: Split, task: str, weights: np.ndarray, intercept: float) -> float:
    """Return test accuracy, or minus the test mean squared error."""
    with np.errstate(all="ignore"):
        prediction = split.X_test @ weights.astype(np.float64) + intercept
        if task == "regression":
            score = -float(np.mean((prediction - split.y_test) ** 2))
        else:
            score = float(np.mean(np.where(prediction > 0.0, 1.0, -1.0) == split.y_test))
    return score if math.isfinite(score) else -math.inf


Train = Callable[[str, dict[str, Any], Setting, int], tuple[np.ndarray, float]]


def run(
    train: Train,
    space: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    complete: Callable[[dict[str, Any], Setting], Setting] = lambda job, setting: setting,
) -> None:
    """Do the job named on the command line.

    Parameters
    ----------
    train : callable
        From (path of a split, job, setting, seed) to (weights of the features, intercept).
    space : callable, optional
        From the job to the keyword arguments of `tuning.search`: what may be tuned.
    complete : callable, optional
        Adds to a setting what follows from it (a noise multiplier), for the record.
    """
    warnings.simplefilter("ignore")
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    task = job["task"]

    def score(setting: Setting, seed: int, path: str | None = None) -> tuple[float, float]:
        path = path or job["data"][seed % len(job["data"])]
        split = load(path)
        start = time.perf_counter()
        weights, intercept = train(path, job, setting, seed)
        seconds = time.perf_counter() - start
        return _score(split, task, weights, intercept), seconds

    def guarded(setting: Setting, seed: int) -> float:
        try:
            return score(setting, TUNING_SEED + seed, job.get("tuning"))[0]
        except Exception as error:  # a peer may refuse or break on some settings: they lose
            print(f"{setting}: {error!r}", file=sys.stderr)
            return -math.inf

    if job.get("setting") is not None:
        finalists, tried = [job["setting"]], []
    elif space is not None:
        tried = search(guarded, **space(job), starts=job.get("starts") or [], quick=job["quick"])
        finalists = [row["setting"] for row in tried[: 1 if job["quick"] or job.get("tuning") else 2]]
    else:
        raise SystemExit("a job without a setting needs a space to search")

    outcomes = []
    for setting in finalists:
        if job.get("warm"):
            score(setting, 0)
        scores, seconds = zip(*(score(setting, seed) for seed in range(job["seeds"])), strict=True)
        outcomes.append({"setting": complete(job, setting), "scores": scores, "seconds": float(np.median(seconds))})
    best = max(outcomes, key=lambda row: float(np.median(row["scores"])))
    near = [row for row in tried if row["mean"] >= tried[0]["mean"] - tried[0]["error"]]
    if near:
        best["cheap"] = complete(job, min(near, key=lambda row: row["cost"])["setting"])
        best["tried"] = len(tried)
    best["scores"] = [score if math.isfinite(score) else -1e300 for score in best["scores"]]
    Path(sys.argv[2]).write_text(json.dumps(best), encoding="utf-8")
