"""Where each solver wins: every solver with its own rules, nothing tuned, on the same data; means over fresh seeds.

    python -m benchmarks.central.solvers [--seeds 3] [--only a9a,reuters] [--delta 1e-3] [--epsilons 0.1,1] [--quick]

The table of docs/measured/data/solvers. ``Published()`` is left out: its epsilon is not the one asked for.
"""

import warnings
from functools import cache, partial

import numpy as np

import sottovoce as sv
from benchmarks.common import a9a, adult, blogfeedback, mnist_4v9, phishing, reuters
from benchmarks.driver import benchmark, timed
from sottovoce.exceptions import ParameterError
from support.solvers import by_name

CASES = {
    "a9a": (cache(a9a), sv.DPLogisticRegression), "phishing": (cache(phishing), sv.DPLogisticRegression),
    "mnist_4v9": (cache(mnist_4v9), sv.DPLogisticRegression), "reuters": (cache(reuters), sv.DPLogisticRegression),
    "adult": (cache(adult), sv.DPLinearSVC),
    "blogfeedback": (cache(partial(blogfeedback, scale_columns=True)), sv.DPRidge),
}  # fmt: skip
SOLVERS = ("scd", "Minibatch", "adassp", "sgd", "Sequential", "Primal")


def cell(load, kind, solver, epsilon, delta, seeds, splits):
    """Return mean score and median seconds; nothing where the solver does not fit the loss."""
    scores, seconds = [], []
    for seed in range(seeds):
        X, y, X_test, y_test, public = load(seed if splits else 0)
        try:
            model = kind(epsilon=epsilon, delta=delta, solver=by_name(solver), **public)
            seconds.append(timed(lambda model=model, X=X, y=y: model.fit(X, y))[1])
        except ParameterError:
            return ""
        regression = kind is sv.DPRidge
        scores.append(np.mean((model.predict(X_test) - y_test) ** 2) if regression else model.score(X_test, y_test))
    return f"{np.mean(scores):.4f} ({np.median(seconds):.2g} s)"


@benchmark(seeds=(3, 1), only=(",".join(CASES), "phishing"), delta=1e-3, epsilons="0.1,1")
def main(run) -> None:
    warnings.simplefilter("ignore")
    rows = (
        (name, epsilon, *(cell(*CASES[name], s, epsilon, run.delta, run.seeds, name == "phishing") for s in SOLVERS))
        for name in run.only.split(",") for epsilon in map(float, run.epsilons.split(","))
    )  # fmt: skip
    title = (
        f"test accuracy (blogfeedback: squared error) and seconds, delta = {run.delta:g}, means of {run.seeds} seeds"
    )
    run.table(title, ("data", "epsilon", *SOLVERS), rows, width=170)
