"""Accuracy of noisy ADMM on a9a: 66 columns and the labels at party 1, 57 at party 2.

    python -m benchmarks.papers.admm.noisy [--seeds 5] [--alpha 1,14] [--quick]

Medians of test accuracy in per cent; delta = 1e-5, one person's rows at both parties replaced together. Row bounds are
public: eight and six raw attributes, one-hot encoded. ``--alpha`` is in units of 1/n. Beside them: party 1 alone, and
all columns without privacy. There is no intercept. "No message": nothing crosses but the labels, and nothing covers
what each party keeps.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.common import data_folder
from benchmarks.driver import benchmark
from benchmarks.vertical.data import Parties, a9a_parties
from sottovoce.papers.admm import noisy_admm

EPSILONS = (0.5, 1.0, 2.0, 4.0)
DELTA = 1e-5
BOUND = np.sqrt(8.0)  # of both parties' rows
NO_MESSAGE = {"max_iter": 0, "norm_bound": 10.0, "target_bound": 2.0}
RUNS: dict[str, dict[str, Any]] = {
    "secret labels": {}, "public labels": {"labels_public": True},
    "public labels, 3 messages": {"labels_public": True, "max_iter": 3}, "no message": NO_MESSAGE,
    "public labels, no message": {"labels_public": True, **NO_MESSAGE},
}  # fmt: skip


def accuracy(scores: Any, y: Any) -> float:
    """Return the share of right signs, in per cent."""
    return 100.0 * float(np.mean((scores > 0) == (y > 0)))


def without_noise(data: Parties, columns: slice, alpha: float) -> float:
    model = LogisticRegression(C=1.0 / (alpha * len(data.y)), tol=1e-8, max_iter=5000).fit(data.X[:, columns], data.y)
    return accuracy(model.decision_function(data.X_test[:, columns]), data.y_test)


def private(data: Parties, kind: str, epsilon: float, alpha: float, seed: int) -> float:
    blocks, l2 = [data.X[:, :66], data.X[:, 66:]], alpha * len(data.y)
    rng = np.random.default_rng(seed)
    run = noisy_admm(blocks, data.y, l2=l2, epsilon=epsilon, delta=DELTA, data_norm=BOUND, rng=rng, **RUNS[kind])
    return accuracy(data.X_test @ np.concatenate(run.x), data.y_test)


def rows(data: Parties, alphas: Sequence[float], seeds: int) -> Iterator[tuple[Any, ...]]:
    for times in alphas:
        alpha = times / len(data.y)
        for label, columns in (("party 1 alone", slice(0, 66)), ("all columns, not private", slice(None))):
            yield label, times, *[without_noise(data, columns, alpha)] * len(EPSILONS)
        for kind in RUNS:
            runs = [[private(data, kind, epsilon, alpha, seed) for seed in range(seeds)] for epsilon in EPSILONS]
            yield f"noisy ADMM, {kind}", times, *np.median(runs, axis=1)


@benchmark(seeds=(5, 1), alpha=("1,14", "1"))
def main(run) -> None:
    head = ("mechanism", "alpha n", *(f"epsilon {epsilon:g}|.2f" for epsilon in EPSILONS))
    found = rows(a9a_parties(data_folder()), list(map(float, run.alpha.split(","))), run.seeds)
    run.table("a9a, test accuracy in %", head, found)
