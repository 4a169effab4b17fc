"""Damped steps toward the slope against exact coordinate steps in the passes of DPLogisticRegression (decision 7).

    python -m benchmarks.central.steps [--seeds 5] [--quick]

The exact steps are run as designed: clip 1 / (1 + lambda_max / alpha), alpha 1e-5, and 25 in the rule for the passes.
"""

from functools import cache
from unittest import mock

import numpy as np
from sklearn.metrics import log_loss

import sottovoce as sv
from benchmarks.common import EPSILONS, a9a, keep, make_parser, phishing, show
from sottovoce.central.solvers import accelerated


def measure(load, epsilon, seeds, alpha):
    """Return mean accuracy, mean log loss and the number of passes."""
    scores, losses, passes = [], [], 0
    for seed in range(seeds):
        X, y, X_test, y_test, public = load(seed)
        model = sv.DPLogisticRegression(epsilon=epsilon, delta=1e-3, alpha=alpha, solver="scd", **public).fit(X, y)
        scores.append(model.score(X_test, y_test))
        losses.append(log_loss(y_test, model.predict_proba(X_test)))
        passes = model.n_iter_
    return float(np.mean(scores)), float(np.mean(losses)), passes


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=None, help="default 5; 1 with --quick")
    given = parser.parse_args()
    seeds = given.seeds or (1 if given.quick else 5)
    rows, results = [], {}
    sets = (("phishing", phishing),) if given.quick else (("a9a", a9a), ("phishing", phishing))
    for name, read in sets:
        load = cache(read)
        for epsilon in EPSILONS[:1] if given.quick else EPSILONS:
            damped = measure(load, epsilon, seeds, 5e-5)
            with (
                mock.patch.object(accelerated.AcceleratedPlan, "damping", lambda plan, eigenvalue: 0.0),
                mock.patch.object(accelerated.AcceleratedPlan, "_rule", (1.0, 25.0)),
            ):
                exact = measure(load, epsilon, seeds, 1e-5)
            results[f"{name} {epsilon:g}"] = {"damped": damped, "exact": exact}
            rows.append((
                name, f"{epsilon:g}", f"{damped[0]:.4f} / {exact[0]:.4f}", f"{damped[1]:.4f} / {exact[1]:.4f}",
                f"{damped[2]} / {exact[2]}",
            ))  # fmt: skip
    show(f"damped / exact, means of {seeds} seeds", ("data", "epsilon", "accuracy", "log loss", "passes"), rows)
    keep("steps", results)


if __name__ == "__main__":
    main()
