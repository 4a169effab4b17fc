"""What privacy costs in accuracy, against rows for each coordinate, N / M: the outlook of Damaskinos et al., Section 6.

    python -m benchmarks.papers.dp_scd.ratio [--quick] [--docs]

Subsamples of phishing (logistic regression) and Adult (linear SVM), epsilon = 1, protocol of Appendix E. The gap is the
test accuracy of the same loss without privacy on the same rows, less that of the private model; medians over 5 seeds.
DP-SCD as published is tuned on the validation part of the seed's split, from the paper's 13 clips and three sizes of
batches; no budget is charged for that.
"""

import math
import warnings
from typing import Any

import numpy as np

from benchmarks.driver import benchmark
from benchmarks.papers.dp_scd.appendix_e import PROBLEMS, Problem, split
from benchmarks.papers.dp_scd.tuning import POWERS, runs, scores_of

EPSILON = 1.0
SIZES = (50, 200, 1000)


def of_default(problem: Problem, epsilon: float, seed: int, data: Any) -> float:
    model = problem.model(epsilon, seed).fit(*data[:2])
    return problem.score_of(np.ravel(model.coef_), *data[4:])


def of_published(problem: Problem, seed: int, data: Any) -> float:
    """Return the test metric of Algorithm 1 at the options that do best on the validation part."""
    best = (-1.0, 0.0)
    for size in SIZES:
        if size <= len(data[1]):
            weights = runs(problem, "scd-printed", EPSILON, size, [(clip, 0.0) for clip in POWERS], seed, data)
            found = zip(*(scores_of(problem, weights, *part) for part in (data[2:4], data[4:])), strict=True)
            best = max(best, *found)
    return best[1]


SETS = ("phishing", "adult")


def rows(sets, seeds, shares):
    for name in sets:
        problem = PROBLEMS[name]
        for share in shares:
            gaps = []
            for seed in range(1, seeds + 1):
                X, y, *rest = split(name, seed)
                n = round(share * len(y))
                data = (X[:n], y[:n], *rest)
                free = of_default(problem, math.inf, seed, data)
                own, published = of_default(problem, EPSILON, seed, data), of_published(problem, seed, data)
                gaps.append([free, 100.0 * (free - own), 100.0 * (free - published)])
            yield problem.title, n, n / X.shape[1], *np.median(gaps, axis=0)


@benchmark(page="measured/dp_scd.md")
def main(run) -> None:
    warnings.simplefilter("ignore")
    sets, seeds, shares = (("phishing",), 1, (0.2,)) if run.quick else (SETS, 5, (0.03, 0.1, 0.3, 1.0))
    head = (
        "data", "N|,", "N / M|.0f", "accuracy without privacy|.3f", "gap of the default, points|.1f",
        "gap of DP-SCD as published, tuned, points|.1f",
    )  # fmt: skip
    run.table(f"epsilon = {EPSILON:g}", head, rows(sets, seeds, shares), mark="rows for each coordinate")
