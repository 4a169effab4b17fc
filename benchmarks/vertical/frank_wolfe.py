"""Lasso over columns at four parties by Frank-Wolfe: excess risk against epsilon, and bytes to the coordinator.

    python -m benchmarks.vertical.frank_wolfe [--quick] [--seeds 3] [--only rows,columns] [--variants "local"]
    python -m benchmarks.vertical.frank_wolfe --docs     # table and picture of the appendix, from figures kept

Entries are -1 and +1; ten columns of weight +-0.08 are spread over the parties as 4, 3, 2 and 1, each with a decoy of
correlation 0.6 at the next party; y is their sum plus noise 0.1, cut to [-1, 1]. The ball has radius 1, delta = 1e-5,
replace-one neighbours. Excess risk is the mean of squared residuals over 2, less the least one on the ball (150
projected accelerated gradient steps). Runs of parts add their figures to docs/figures/vertical_frank_wolfe.json (not
with --quick). "central" is `DPLasso` on the joined table, labels private as always there.
"""

import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.driver import DOCS, FIGURES, benchmark, keep, keep_picture, option, write_tables
from sottovoce import DPLasso
from sottovoce.vertical import InProcessParties, Party, VerticalLasso

SIZES = ((10_000, 10_000), (100_000, 1_000))
QUICK = ((3_000, 400),)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
DELTA = 1e-5
FILE = FIGURES / "vertical_frank_wolfe.json"
NAMES = ("a", "b", "c", "d")
VARIANTS: dict[str, dict[str, Any]] = {
    "local": {"labels_public": True},
    "local, residual bound .5": {"labels_public": True, "residual_bound": 0.5},
    "local, secret labels": {},
}


def table(n: int, d: int, seed: int = 1) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    entries = (rng.integers(0, 2, (n, d), dtype=np.int8) * 2 - 1).astype(np.float32)
    width, weights = d // 4, np.zeros(d, np.float32)
    for party, count in enumerate((4, 3, 2, 1)):
        for place in range(count):
            column = party * width + place
            weights[column] = 0.08 * (-1) ** place
            flips = np.where(rng.random(n) < 0.2, -1.0, 1.0)
            entries[:, (party + 1) % 4 * width + width - 1 - place] = entries[:, column] * flips
    return entries, np.clip(entries @ weights + rng.normal(0.0, 0.1, n), -1.0, 1.0)


def risk(entries: NDArray[np.float32], y: NDArray[np.float64], weights: Any, intercept: float = 0.0) -> float:
    """Return half of the mean squared residual."""
    return 0.5 * float(np.mean((entries @ np.asarray(weights, np.float32) + intercept - y) ** 2))


def least_risk(entries: NDArray[np.float32], y: NDArray[np.float64], steps: int = 150) -> float:
    """Return the least risk on the ball of radius 1."""
    n, d = entries.shape
    labels, steepness = y.astype(np.float32), (1.0 + math.sqrt(d / n)) ** 2 * 1.7  # 1.7: the decoys
    x = moved = np.zeros(d, np.float32)
    pace = 1.0
    for _ in range(steps):
        ahead = moved - entries.T @ (entries @ moved - labels) / (n * steepness)
        following, faster = on_ball(ahead), 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * pace * pace))
        moved = (following + (pace - 1.0) / faster * (following - x)).astype(np.float32)
        x, pace = following, faster
    return risk(entries, y, x)


def on_ball(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the nearest point of the l1 ball of radius 1."""
    sizes = np.abs(x)
    if sizes.sum() <= 1.0:
        return x
    ordered = np.sort(sizes)[::-1]
    over = np.cumsum(ordered) - 1.0
    last = int(np.flatnonzero(ordered > over / np.arange(1, len(x) + 1))[-1])
    return (np.sign(x) * np.maximum(sizes - over[last] / (last + 1), 0.0)).astype(np.float32)


def add(found: list[dict[str, Any]], seeds: int) -> None:
    """Put new figures in the place of old ones of the same runs."""
    rows = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else []
    kept = {(row["rows"], row["columns"], row["variant"], row["epsilon"]): row for row in rows}
    for row in found:
        new = {name: row[name] for name in ("rows", "columns", "variant", "epsilon", "steps", "uplink bytes")}
        new |= {"mean excess": round(float(np.mean(row["excess"])), 5), "seeds": seeds}
        kept[(row["rows"], row["columns"], row["variant"], row["epsilon"])] = new
    keep(FILE.stem, list(kept.values()), FILE.parent)


def docs() -> None:
    """Write the table and the picture of the appendix."""
    from matplotlib import pyplot as plt

    rows = json.loads(FILE.read_text(encoding="utf-8"))
    lines = []
    figure, axes = plt.subplots(1, 2, figsize=(11.5, 4.4), sharey=True, layout="constrained")
    for axis, (n, d) in zip(axes, SIZES, strict=True):
        for place, variant in enumerate(["central", *VARIANTS]):
            runs = [row for row in rows if (row["rows"], row["columns"], row["variant"]) == (n, d, variant)]
            runs.sort(key=lambda row: float(row["epsilon"]))
            if not runs:
                continue
            means = [row["mean excess"] for row in runs]
            sent = [row["uplink bytes"] for row in runs if row["epsilon"] in (1.0, 8.0)]
            uplink = "" if variant == "central" else " / ".join(f"{count:,}" for count in sent)
            lines.append((f"{n:,} x {d:,}", variant, *(f"{mean:.4f}" for mean in means), uplink))
            style = "--" if "secret" in variant else ":" if "," in variant else "-"
            axis.loglog([row["epsilon"] for row in runs], np.maximum(means, 5e-5), style, marker="o", ms=4,
                        color=f"C{place}", label=variant)  # fmt: skip
        axis.axhline(0.0322, color="grey", lw=0.8)
        axis.annotate("model 0", (8.0, 0.034), fontsize=8, color="grey", ha="right")
        axis.set(
            title=f"n = {n:,}, d = {d:,}", xlabel="epsilon", xticks=EPSILONS, xticklabels=[f"{e:g}" for e in EPSILONS]
        )
        axis.minorticks_off()
    axes[0].set_ylabel("excess risk (mean of 3 seeds)")
    handles = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside right center", fontsize=8)
    keep_picture(figure, FILE.with_suffix(".png"))
    head = ("people x columns", "", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS), "uplink bytes at 1 / 8")
    write_tables(DOCS / "measured" / "vertical_sparse.md", {"risk": (head, lines)})


@benchmark(
    page="measured/vertical_sparse.md", seeds=3, only=option("", help="rows,columns of one size"),
    variants=option("", help="some of them, separated by semicolons; all by default"),
)  # fmt: skip
def main(run) -> None:
    if run.docs:
        docs()
        return
    chosen = run.variants.split(";") if run.variants else ["central", *VARIANTS]
    sizes = (tuple(map(int, run.only.split(","))),) if run.only else QUICK if run.quick else SIZES
    found: list[dict[str, Any]] = []
    for n, d in sizes:
        entries, y = table(n, d)
        best = least_risk(entries, y)
        print(f"n = {n:,}, d = {d:,}: least risk {best:.5f}, of the model 0 {risk(entries, y, np.zeros(d)):.5f}")
        rows = []
        parts = zip(NAMES, np.split(entries, 4, axis=1), strict=True)
        parties = InProcessParties([Party(part, name=name, data_bound=1.0) for name, part in parts])
        for variant in chosen:
            cells = [variant]
            for epsilon in EPSILONS:
                risks, uplink, steps = [], 0, 0
                for seed in range(run.seeds):
                    common: dict[str, Any] = {
                        "epsilon": epsilon, "delta": DELTA, "radius": 1.0, "label_bounds": (-1.0, 1.0),
                        "random_state": seed,
                    }  # fmt: skip
                    model: Any
                    if variant == "central":
                        model = DPLasso(**common, data_bound=1.0, adjacency="replace-one").fit(entries, y)
                        steps = model.n_iter_
                    else:
                        model = VerticalLasso(**common, **VARIANTS[variant]).fit(parties, y)
                        uplink, steps = model.uplink_bytes_, model.plan_.n_steps
                    assert model.guarantee_.epsilon <= epsilon
                    risks.append(risk(entries, y, model.coef_, model.intercept_) - best)
                found.append({
                    "rows": n, "columns": d, "variant": variant, "epsilon": epsilon, "excess": risks, "steps": steps,
                    "uplink bytes": uplink,
                })  # fmt: skip
                cells.append(f"{np.mean(risks):.4f}")
                print(variant, epsilon, cells[-1], f"steps {steps}", f"{uplink:,} bytes", flush=True)
            rows.append((*cells, "" if variant == "central" else f"{uplink:,}"))
        head = ("", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS), "uplink bytes at 8")
        run.table(f"Excess risk, n = {n:,}, d = {d:,}, mean of {run.seeds} seeds", head, rows)
    if not run.quick:
        add(found, run.seeds)
