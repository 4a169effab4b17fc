"""Lasso whose columns are chosen inside secure computation: excess risk, and what a step costs at a party.

    python -m benchmarks.vertical.secure_frank_wolfe [--quick] [--docs] [--only risk,costs] [--seeds 3]

``risk``: the table of `benchmarks.vertical.frank_wolfe` with 1,000 columns at three parties, trained by the estimators;
"secure" computes in clear in one process, which opens the same places as SPU, bit for bit. ``costs``: three real SPU
processes (ABY3): CPU seconds a party of a fit with few steps, and of each step more; largest memory of an engine's
process. Figures go to docs/figures/secure_frank_wolfe.json (not with --quick), the tables to
docs/measured/data/vertical_sparse with --docs.
"""

import json
import resource
import time
from typing import Any

import numpy as np

from benchmarks.common import DOCS, keep, make_parser, show, write_tables
from benchmarks.vertical.frank_wolfe import DELTA, least_risk, risk, table
from sottovoce import DPLasso
from sottovoce.vertical import ComputeSite, Party, VerticalLasso

FIGURES = DOCS / "figures" / "secure_frank_wolfe.json"
SIZE, QUICK = (10_000, 1_000), (500, 40)
EPSILONS = (0.5, 1.0, 2.0, 4.0)
NAMES = ("a", "b", "c")
VARIANTS: dict[str, dict[str, Any]] = {
    "central": {},
    "secure": {"aggregation": "secure"},
    "local, public labels": {"aggregation": "local", "labels_public": True},
    "local": {"aggregation": "local"},
    "global": {"aggregation": "global"},
}
FEW, MANY = 2, 8


def parties(entries: Any, **more: Any) -> list[Party]:
    """Return three parties with a third of the columns each."""
    parts = np.array_split(entries, len(NAMES), axis=1)
    return [Party(part, name=name, data_bound=1.0, **more) for name, part in zip(NAMES, parts, strict=True)]


def risks(size: tuple[int, int], seeds: int) -> list[dict[str, Any]]:
    """Train every variant."""
    entries, y = table(*size)
    best, found = least_risk(entries, y), []
    given = parties(entries)
    for variant, options in VARIANTS.items():
        for epsilon in EPSILONS:
            excess = []
            for seed in range(seeds):
                common: dict[str, Any] = {
                    "epsilon": epsilon, "delta": DELTA, "radius": 1.0, "label_bounds": (-1.0, 1.0),
                    "random_state": seed,
                }  # fmt: skip
                model: Any
                if variant == "central":
                    model = DPLasso(**common, data_bound=1.0, adjacency="replace-one").fit(entries, y)
                else:
                    model = VerticalLasso(**common, **options).fit(given, y)
                    assert model.guarantee_.epsilon <= epsilon
                excess.append(risk(entries, y, model.coef_, model.intercept_) - best)
            found.append({"variant": variant, "epsilon": epsilon, "excess": [round(each, 5) for each in excess]})
            print(found[-1], flush=True)
    zero = risk(entries, y, np.zeros(size[1])) - best
    return [*found, {"variant": "the model 0", "epsilon": None, "excess": [round(zero, 5)]}]


def costs(size: tuple[int, int]) -> list[dict[str, Any]]:
    """Fit with few steps and with more, by real processes."""
    entries, y = table(*size)
    found = []
    for n_steps in (FEW, MANY):
        given = parties(entries, computing=ComputeSite(timeout=300.0, engines=("spu",)))
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        VerticalLasso(
            epsilon=1.0, delta=DELTA, radius=1.0, label_bounds=(-1.0, 1.0), random_state=0, aggregation="secure",
            n_steps=n_steps,
        ).fit(given, y)  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / len(NAMES)
        found.append({
            "steps": n_steps, "CPU s a party": round(cpu, 2), "s": round(time.perf_counter() - started, 1),
            "MiB of an engine": round(after.ru_maxrss / 1024.0),
        })  # fmt: skip
        print(found[-1], flush=True)
    return found


def tables(kept: dict[str, Any]) -> dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    """Return the tables of the appendix."""
    lines = []
    for variant in VARIANTS:
        runs = [row for row in kept["risk"] if row["variant"] == variant]
        lines.append((variant, *(f"{np.mean(row['excess']):.4f}" for row in runs)))
    return {"secure risk": (("", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)), lines)}


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__, docs=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="risk,costs")
    arguments = parser.parse_args()
    kept = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    if arguments.docs:
        write_tables(DOCS / "measured" / "vertical_sparse.md", tables(kept))
        return
    size = QUICK if arguments.quick else SIZE
    found: dict[str, Any] = {}
    if "risk" in arguments.only:
        found["risk"] = risks(size, arguments.seeds)
        head, lines = tables(found)["secure risk"]
        show(f"Excess risk, n = {size[0]:,}, d = {size[1]:,}, mean of {arguments.seeds} seeds", head, lines)
    if "costs" in arguments.only:
        found["costs"] = costs(size)
    if not arguments.quick:
        keep(FIGURES.stem, {**kept, **found}, FIGURES.parent)


if __name__ == "__main__":
    main()
