"""Output perturbation beside objective perturbation and the default: test accuracy of logistic regression.

    python -m benchmarks.published.output_perturbation [--quick] [--docs]

Zero-out neighbours, delta = 1e-5, an intercept, splits 75:25; medians of 5 seeds of split and noise. The penalty of
output perturbation: a rule of public facts, alpha = (2 D^2 mu^2 n^2)^(-1/3) with D = 10, which balances what noise and
penalty cost at most for weights of length D; and, to be generous, the best of a grid in hindsight, for each cell, on
the test part itself. The others are as they come.
"""

import warnings

import numpy as np

import sottovoce as sv
from benchmarks.common import DOCS, EPSILONS, keep, make_parser, show, write_tables
from benchmarks.sets import split
from sottovoce.central.data.row_unit import RowUnit
from sottovoce.central.data.rows import make_rows
from sottovoce.central.parallel import Team
from sottovoce.exceptions import PrivacyWarning
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.published.output_perturbation import OutputPlan
from sottovoce.randomness import Purpose, Streams

PAGE = DOCS / "papers" / "dp_scd_utility.md"
SETS = ("phishing", "mushrooms", "a9a")
DELTA, LENGTH, TEAM = 1e-5, 10.0, Team(1, None)
GRID = (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)


def public_alpha(n, epsilon):
    """Return the penalty that public facts speak for."""
    return (2.0 * (LENGTH * gaussian_mu(epsilon, DELTA) * n) ** 2) ** (-1.0 / 3.0)


def output_scores(data, alpha, epsilons, seed):
    """Return the accuracy for each epsilon; the minimiser is found once."""
    y = np.where(data.y == data.public["classes"][1], 1.0, -1.0)
    n, d = data.X.shape
    found, point = [], None
    for epsilon in epsilons:
        model = sv.DPLogisticRegression(epsilon=epsilon, delta=DELTA, alpha=alpha, **data.public)
        facts = sv.plan(model, n, d).facts
        plan = OutputPlan(facts=facts)
        if point is None:  # it and its tolerance do not depend on epsilon
            unit = RowUnit(data.public["data_norm"], facts.constant)
            rows = make_rows(data.X, data_norm=unit.data_norm, constant=facts.constant, names=None, team=TEAM)
            point = plan.minimiser(rows, y, TEAM)
        weights = plan.released(point, Streams(seed).generator(Purpose.NOISE))
        coefficients, intercepts = unit.to_user(weights[None])
        right = (data.X_test @ coefficients[0] + intercepts[0] > 0.0) == (data.y_test == data.public["classes"][1])
        found.append(float(np.mean(right)))
    return found


def library_score(data, epsilon, seed, **options):
    """Return the accuracy of the estimator."""
    model = sv.DPLogisticRegression(epsilon=epsilon, delta=DELTA, random_state=seed, **data.public, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return float(model.fit(data.X, data.y).score(data.X_test, data.y_test))


def table(kept, grid):
    """Return the table of the page."""
    lines = []
    for name, scores in kept.items():
        n = len(split(name, 0).y)
        medians = {label: np.median(found, axis=0) for label, found in scores.items()}
        for place, epsilon in enumerate(EPSILONS):
            best = max((f"{alpha:g}" for alpha in grid), key=lambda label: medians[label][place])
            lines.append(
                (
                    f"{name}, epsilon {epsilon:g}", f"{public_alpha(n, epsilon):.2g}",
                    f"{medians['public'][place]:.4f}", f"{medians[best][place]:.4f} ({best})",
                    f"{medians['objective'][place]:.4f}", f"{medians['default'][place]:.4f}",
                )
            )  # fmt: skip
    head = (
        "test accuracy", "alpha by public facts", "output, that alpha", "output, best alpha in hindsight", "objective",
        "default",
    )  # fmt: skip
    return head, lines


def main() -> None:
    parser = make_parser(__doc__, docs=True)
    arguments = parser.parse_args()
    names, seeds = (SETS[:1], 1) if arguments.quick else (SETS, 5)
    grid = GRID[3:5] if arguments.quick else GRID
    kept: dict[str, dict[str, list[list[float]]]] = {}
    for name in names:
        scores = kept[name] = {}
        for seed in range(seeds):
            data = split(name, seed)
            for alpha in grid:
                scores.setdefault(f"{alpha:g}", []).append(output_scores(data, alpha, EPSILONS, seed))
            public = [output_scores(data, public_alpha(len(data.y), each), (each,), seed)[0] for each in EPSILONS]
            scores.setdefault("public", []).append(public)
            for label, options in (("objective", {"solver": "objective"}), ("default", {})):
                scores.setdefault(label, []).append(
                    [library_score(data, epsilon, seed, **options) for epsilon in EPSILONS]
                )
            print(name, seed, {label: np.round(found[-1], 4).tolist() for label, found in scores.items()}, flush=True)
        keep("output_perturbation", kept)
    head, lines = table(kept, grid)
    show("Output perturbation", head, lines)
    if arguments.docs:
        write_tables(PAGE, {"output perturbation": (head, lines)})


if __name__ == "__main__":
    main()
