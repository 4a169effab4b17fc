"""Where each solver wins: every solver with its own rules, nothing tuned, on the same data; means over fresh seeds.

    python -m benchmarks.central.solvers [--seeds 3] [--only a9a,reuters] [--delta 1e-3] [--epsilons 0.1,1] [--quick]

The table of docs/measured/data/solvers. ``Published()`` is left out: its epsilon is not the one asked for.
"""

import time
import warnings
from functools import cache, partial

import numpy as np

import sottovoce as sv
from benchmarks.common import a9a, adult, blogfeedback, keep, make_parser, mnist_4v9, phishing, reuters, show
from sottovoce.exceptions import ParameterError
from support.solvers import by_name

CASES = {
    "a9a": (cache(a9a), sv.DPLogisticRegression),
    "phishing": (cache(phishing), sv.DPLogisticRegression),
    "mnist_4v9": (cache(mnist_4v9), sv.DPLogisticRegression),
    "reuters": (cache(reuters), sv.DPLogisticRegression),
    "adult": (cache(adult), sv.DPLinearSVC),
    "blogfeedback": (cache(partial(blogfeedback, scale_columns=True)), sv.DPRidge),
}
SOLVERS = ("scd", "Minibatch", "adassp", "sgd", "Sequential", "Primal")


def measure(load, kind, solver, epsilon, delta, seeds, splits):
    """Return mean score, standard error and median seconds; None where the solver does not fit the loss."""
    scores, seconds = [], []
    for seed in range(seeds):
        X, y, X_test, y_test, public = load(seed if splits else 0)
        start = time.perf_counter()
        try:
            model = kind(epsilon=epsilon, delta=delta, solver=by_name(solver), **public).fit(X, y)
        except ParameterError:
            return None
        seconds.append(time.perf_counter() - start)
        regression = kind is sv.DPRidge
        scores.append(np.mean((model.predict(X_test) - y_test) ** 2) if regression else model.score(X_test, y_test))
    error = np.std(scores, ddof=1) / np.sqrt(seeds) if seeds > 1 else np.nan
    return float(np.mean(scores)), float(error), float(np.median(seconds))


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=None, help="default 3; 1 with --quick")
    parser.add_argument("--only", default=None, help="default all; phishing with --quick")
    parser.add_argument("--delta", type=float, default=1e-3)
    parser.add_argument("--epsilons", default="0.1,1")
    arguments = parser.parse_args()
    seeds = arguments.seeds or (1 if arguments.quick else 3)
    names = arguments.only.split(",") if arguments.only else ["phishing"] if arguments.quick else list(CASES)
    warnings.simplefilter("ignore")
    rows, results = [], {}
    for name in names:
        load, kind = CASES[name]
        for epsilon in map(float, arguments.epsilons.split(",")):
            found = {
                solver: measure(load, kind, solver, epsilon, arguments.delta, seeds, name == "phishing")
                for solver in SOLVERS
            }
            results[f"{name} {epsilon:g}"] = found
            rows.append((name, f"{epsilon:g}", *(f"{f[0]:.4f} ({f[2]:.2g} s)" if f else "" for f in found.values())))
            print(*rows[-1], flush=True)
    title = f"test accuracy (blogfeedback: squared error) and seconds, delta = {arguments.delta:g}"
    show(f"{title}, means of {seeds} seeds", ("data", "epsilon", *SOLVERS), rows, width=170)
    keep("solvers", results)


if __name__ == "__main__":
    main()
