"""The proved bound on the excess risk of DP-SCD beside what is measured, over rows, columns, mu and alpha.

    python -m benchmarks.central.utility [--quick] [--docs]

Made-up tables: rows on the unit sphere, labels of a logistic model. The runs are the library's own passes with the
momentum and the clip of the theorems (docs/privacy/dp_scd_utility.md); beside them the solver "scd" by its own rules on
the same rows, at the same budget and penalty. Each figure is of 20 seeds of the noise on one table, 5 where runs are
long. On two real sets: what the proved run is worth for prediction, medians of 3 seeds of split and noise.
"""

import math
import warnings

import numpy as np

import sottovoce as sv
from benchmarks.common import parts_at_hand
from benchmarks.driver import benchmark
from benchmarks.sets import split
from sottovoce.central.utility import excess_risk_bound
from sottovoce.exceptions import PrivacyWarning
from sottovoce.losses import Logistic
from support.proved_passes import (
    DELTA,
    default_plan,
    logistic_table,
    minimiser,
    mu_of,
    objective,
    proved_plan,
    released_weights,
)

ROWS = tuple(round(10 ** (3 + half / 2)) for half in range(7))
LEAST = {"n_samples": 100_000, "n_weights": 5, "alpha": 0.01, "epsilon": 1.0}
WIDTHS, ALPHAS, EPSILONS = (2, 5, 20, 80), (0.1, 0.03, 0.01, 0.003, 0.001), (0.1, 0.3, 1.0, 3.0, 10.0)
MOST_WORK = 5e8  # rows times passes of a run; more is left out
REAL, PENALTIES = ("phishing", "a9a"), (1e-4, 1e-3, 1e-2, 1e-1)
SEEDS, SEEDS_OF_SHORT = 5, 20
MANY_SEEDS = 2e7  # rows times passes up to which there are many seeds


def measured(accelerated, n_samples, n_weights, alpha, epsilon, seeds, *, beside):
    """Return the bound and the excess risks, of the proved runs and (``beside``) of the default on the same rows."""
    loss = Logistic()
    bound = excess_risk_bound(
        loss, n_samples=n_samples, n_weights=n_weights, alpha=alpha, mu=mu_of(epsilon), accelerated=accelerated
    )
    out = {
        "method": "accelerated" if accelerated else "plain", "n": n_samples, "d": n_weights, "alpha": alpha,
        "epsilon": epsilon, "mu": mu_of(epsilon), "passes": bound.passes, "bound": bound.excess_risk,
        "price": bound.price,
    }  # fmt: skip
    if bound.passes * n_samples > MOST_WORK:
        return out
    if bound.passes * n_samples > MANY_SEEDS:
        seeds = min(seeds, SEEDS)
    X, y = logistic_table(n_samples, n_weights, 0)
    least = objective(loss, X, y, alpha, minimiser(loss, X, y, alpha))
    plan = proved_plan(bound, loss, n_samples=n_samples, n_weights=n_weights, epsilon=epsilon)
    runs = [objective(loss, X, y, alpha, released_weights(plan, X, y, seed)) - least for seed in range(seeds)]
    out |= {"runs": runs, "median": float(np.median(runs)), "mean": float(np.mean(runs))}
    out["standard error"] = float(np.std(runs, ddof=1) / math.sqrt(seeds)) if seeds > 1 else 0.0
    if beside:
        plan = default_plan(loss, n_samples=n_samples, n_weights=n_weights, alpha=alpha, epsilon=epsilon)
        runs = [objective(loss, X, y, alpha, released_weights(plan, X, y, seed)) - least for seed in range(seeds)]
        out["default"] = float(np.median(runs))
    return out


def exponent(lines, name, key, smallest=0.0):
    """Return the slope of log ``name`` against log ``key``."""
    points = [(line[key], line[name]) for line in lines if name in line and line[key] >= smallest]
    return float(np.polyfit(*np.log(np.array(points).T), 1)[0])


def sweeps(quick):
    rows = ROWS[:3] if quick else ROWS
    seeds = 2 if quick else SEEDS_OF_SHORT
    base = dict(LEAST, n_samples=rows[-1] if quick else LEAST["n_samples"])
    axes = {
        "rows, alpha 0.01": ("n_samples", rows, {}),
        "rows, alpha 0.001": ("n_samples", rows, {"alpha": 0.001}),
        "columns": ("n_weights", WIDTHS[:2] if quick else WIDTHS, {}),
        "mu": ("epsilon", EPSILONS[2:4] if quick else EPSILONS, {}),
        "alpha": ("alpha", ALPHAS[:2] if quick else ALPHAS, {}),
    }
    out = {}
    for name, (key, values, fixed) in axes.items():
        out[name] = []
        for accelerated in (True, False):
            for value in values:
                given = base | fixed | {key: value}
                out[name].append(measured(accelerated, seeds=seeds, beside=accelerated, **given))
                print(name, {k: v for k, v in out[name][-1].items() if k != "runs"}, flush=True)
    return out


KEYS = {"rows, alpha 0.01": "n", "rows, alpha 0.001": "n", "columns": "d", "mu": "mu", "alpha": "alpha"}


def predictions(quick):
    """Return accuracy and log loss on held-out rows, of ``proved=True`` and of the rules, by penalty and epsilon."""
    out = []
    for name in REAL[:1] if quick else REAL:
        for alpha in PENALTIES[:1] if quick else PENALTIES:
            for epsilon in (0.1, 1.0):
                line = {"set": name, "alpha": alpha, "epsilon": epsilon}
                for proved in (True, False):
                    found = [_held_out(name, alpha, epsilon, proved, seed) for seed in range(1 if quick else 3)]
                    line["proved" if proved else "rules"] = np.median(found, axis=0).tolist()
                out.append(line)
                print(line, flush=True)
    return out


def _held_out(name, alpha, epsilon, proved, seed):
    data = split(name, seed)
    options = {"proved": True} if proved else {"calibration_share": 0.0}
    model = sv.DPLogisticRegression(
        epsilon=epsilon, delta=DELTA, alpha=alpha, solver="scd", solver_options=options, random_state=seed,
        **data.public,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # each fit stands for one of its own
        model.fit(data.X, data.y)
    sign = np.where(data.y_test == data.public["classes"][1], 1.0, -1.0)
    scores = model.decision_function(data.X_test)
    return float(model.score(data.X_test, data.y_test)), float(np.mean(np.logaddexp(0.0, -sign * scores)))


def table_of_predictions(found):
    """Return the table of real sets."""
    head = ("data, alpha, epsilon", "accuracy, proved", "accuracy, rules", "log loss, proved", "log loss, rules")
    lines = [
        (
            f"{line['set']}, {line['alpha']:g}, {line['epsilon']:g}", f"{line['proved'][0]:.4f}",
            f"{line['rules'][0]:.4f}", f"{line['proved'][1]:.4f}", f"{line['rules'][1]:.4f}",
        )
        for line in found
    ]  # fmt: skip
    return head, lines


def tables(found):
    head = ("sweep", "passes", "bound", "measured, median", "standard error of the mean", "bound / measured",
            'by the rules of "scd"')  # fmt: skip
    long, slopes = [], []
    for name, lines in found.items():
        key = KEYS[name]
        for line in lines:
            if "median" not in line:
                continue
            long.append(
                (
                    f"{name}: {line['method']}, {key} = {line[key]:.3g}", f"{line['passes']}", f"{line['bound']:.3g}",
                    f"{line['median']:.3g}", f"{line['standard error']:.2g}", f"{line['bound'] / line['median']:.1f}",
                    f"{line['default']:.3g}" if "default" in line else "",
                )
            )  # fmt: skip
        for method in ("accelerated", "plain"):
            own = [line for line in lines if line["method"] == method and "median" in line]
            if len(own) > 1 and key == "n":
                late = [exponent(own, each, key, smallest=own[-1]["n"] / 10) for each in ("bound", "median")]
                slopes.append((f"{name}, last decade", method, *(f"{value:.2f}" for value in late)))
            if len(own) > 1:
                slopes.append((name, method, f"{exponent(own, 'bound', key):.2f}",
                               f"{exponent(own, 'median', key):.2f}"))  # fmt: skip
    return {
        "utility": (head, long),
        "exponents": (("against", "method", "exponent of the bound", "exponent measured"), slopes),
    }


@benchmark(page="privacy/dp_scd_utility.md")
def main(run) -> None:
    parts = parts_at_hand(("made up",), ("real",))
    shown = tables(sweeps(run.quick))
    if "real" in parts:
        shown["real rows"] = table_of_predictions(predictions(run.quick))
    run.tables(shown)
