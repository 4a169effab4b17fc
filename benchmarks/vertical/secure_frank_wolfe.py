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
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.driver import FIGURES, benchmark, keep
from benchmarks.vertical.frank_wolfe import DELTA, least_risk, risk, table
from sottovoce import DPLasso
from sottovoce.vertical import ComputeSite, Party, VerticalLasso

FILE = FIGURES / "secure_frank_wolfe.json"
SIZE, QUICK = (10_000, 1_000), (500, 40)
EPSILONS = (0.5, 1.0, 2.0, 4.0)
NAMES = ("a", "b", "c")
VARIANTS: dict[str, dict[str, Any]] = {
    "central": {}, "secure": {"aggregation": "secure"},
    "local, public labels": {"labels_public": True}, "local": {},
}  # fmt: skip
FEW, MANY = 2, 8


def parties(entries: Any, **more: Any) -> list[Party]:
    """Return three parties with a third of the columns each."""
    parts = np.array_split(entries, len(NAMES), axis=1)
    return [Party(part, name=name, data_bound=1.0, **more) for name, part in zip(NAMES, parts, strict=True)]


def risks(size: tuple[int, int], seeds: int) -> list[dict[str, Any]]:
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


def rows(found: list[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    for variant in VARIANTS:
        yield variant, *(np.mean(one["excess"]) for one in found if one["variant"] == variant)


@benchmark(page="measured/vertical_sparse.md", seeds=3, only="risk,costs")
def main(run) -> None:
    found = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() and not run.quick else {}
    size = QUICK if run.quick else SIZE
    if "risk" in run.only:
        if not run.docs:
            found["risk"] = risks(size, run.seeds)
        head = ("", *(f"epsilon {epsilon:g}|.4f" for epsilon in EPSILONS))
        title = f"Excess risk, n = {size[0]:,}, d = {size[1]:,}, mean of {run.seeds} seeds"
        run.table(title, head, rows(found["risk"]), mark="secure risk")
    if "costs" in run.only and not run.docs:
        found["costs"] = costs(size)
    if not run.quick and not run.docs:
        keep(FILE.stem, found, FILE.parent)
