"""Training over columns at several parties without noise: objective and test log loss by rounds and by bytes.

    python -m benchmarks.papers.admm.convergence [--quick] [--only a9a,wide,rho] [--docs]

After Figures 1 and 2 of Hu et al. (arXiv:1907.07735): a9a at two parties, a wide set at three, C = 1. ADMM takes its
penalty parameter from `usual_rho`; the printed form, whose rho the paper leaves open, has the best of three, as SGD
has the best of three learning rates, by the objective at the end. A round of SGD is an epoch. The optimum is
scikit-learn's. ``--quick``: a9a, 40 rounds. ``--docs`` writes pictures and tables. Levels of noise (Figure 3):
noise_levels.py.
"""

import itertools
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from benchmarks.common import data_folder
from benchmarks.driver import FIGURES, benchmark, keep
from benchmarks.vertical.data import Parties, a9a_parties, wide_set
from sottovoce.losses import Logistic, SmoothedHinge, Squared
from sottovoce.papers.admm import Penalty, admm, usual_rho
from sottovoce.vertical import split_columns
from sottovoce.vertical.protocols.exact.lbfgs import ScoreProblem, lbfgs
from sottovoce.vertical.protocols.exact.plan import prepare

SETS = {"a9a": a9a_parties, "wide": wide_set}
ROUNDS = 100
LOSSES = {"logistic": Logistic(), "squared": Squared(), "smoothed hinge": SmoothedHinge(0.5)}
L2 = 1.0  # C = 1
RATES = (0.001, 0.01, 0.1)
BATCH = 100
PRINTED_RHO = (0.1, 0.3, 1.0)
FACTORS = (0.1, 0.2, 0.4, 0.8, 1.6)  # of the smoothness, for the scan of rho

CURVES = {  # label, colour, line
    "lbfgs": ("block-preconditioned L-BFGS (default)", "#d62728", "-"),
    "sharing": ("ADMM sharing, over-relaxed", "#1f77b4", "-"),
    "proximal": ("ADMM, proximal form", "#17becf", "--"),
    "printed": ("ADMM as printed, eqs. (6) to (8)", "#2ca02c", "--"),
    "plain": ("plain L-BFGS, memory 10", "#ff9d9a", "-."),
    "sgd": ("SGD on summed scores, batch 100", "#7f7f7f", ":"),
}


class Task:
    """One set, one loss, split among parties, with a free intercept at each of them or at the first alone."""

    def __init__(self, data: Parties, loss: Any, sizes: list[int], *, everywhere: bool = True) -> None:
        self.data, self.loss, self.sizes = data, loss, sizes
        ends = np.cumsum([0, *sizes])
        self.blocks = [data.X[:, a:b] for a, b in itertools.pairwise(ends)]
        self.test = [data.X_test[:, a:b] for a, b in itertools.pairwise(ends)]
        self.intercepts = range(len(sizes)) if everywhere else range(1)

    def log_loss(self, x: list[Any]) -> float:
        """Return the test log loss of these coefficients of the parties."""
        scores = np.zeros(len(self.data.y_test))
        for own, block in zip(x, self.test, strict=True):
            scores += block @ own[: block.shape[1]] + (own[-1] if len(own) > block.shape[1] else 0.0)
        return test_log_loss(self.data, scores)

    def admm(self, **options: Any) -> tuple[list[float], list[float], list[int]]:
        """Return objective, test log loss and bytes that parties would send, by round."""
        losses: list[float] = []
        with np.errstate(all="ignore"):
            run = admm(
                self.blocks, self.loss, self.data.y, penalty=Penalty(L2), intercepts=self.intercepts,
                after=lambda _, x: losses.append(self.log_loss(x)), **{"tol": 1e-14} | options,
            )  # fmt: skip
        sent = 8 * len(self.data.y) * len(self.sizes)
        return run.objective, losses, [sent * (t + 1) for t in range(len(losses))]

    def lbfgs(self, **options: Any) -> tuple[list[float], list[float], list[int]]:
        """Return the same of L-BFGS over parties; their coefficients are looked up, which nobody else can."""
        parties = split_columns(self.data.X, self.sizes)
        prepare(parties, L2, intercept_at=[parties.names[m] for m in self.intercepts])
        before, losses = parties.uplink_bytes, []

        def look(_: int) -> None:
            losses.append(self.log_loss([p._sessions.last.training.worker.x for p in parties.parties.values()]))

        history = lbfgs(parties, ScoreProblem(self.loss, self.data.y), l2=L2, tol=1e-14, after=look, **options)
        look(0)  # parties move at the beginning of the next round
        return history.objective, losses[1:], [size - before for size in history.uplink_bytes]


def test_log_loss(data: Parties, scores: Any) -> float:
    return float(np.logaddexp(0.0, -data.y_test * scores).mean())


def objective(data: Parties, w: Any, b: float) -> float:
    return float(np.logaddexp(0.0, -data.y * (data.X @ w + b)).sum() + 0.5 * L2 * (w @ w))


def sgd(data: Parties, rate: float, epochs: int) -> tuple[list[float], list[float]]:
    """Run synchronous mini-batch SGD as in FDML: each party sends its scores of the batch and gets the slopes."""
    rng = np.random.default_rng(0)
    w, b, n = np.zeros(data.X.shape[1]), 0.0, len(data.y)
    values, losses = [], []
    for _ in range(epochs):
        for rows in np.array_split(rng.permutation(n), n // BATCH):
            X, y = data.X[rows], data.y[rows]
            slopes = -y * expit(-y * (X @ w + b)) / len(rows)
            w = w - rate * (X.T @ slopes + L2 / n * w)
            b = b - rate * float(slopes.sum())
        values.append(objective(data, w, b))
        losses.append(test_log_loss(data, data.X_test @ w + b))
    return values, losses


def curves(name: str, data: Parties, rounds: int) -> dict[str, Any]:
    start = time.perf_counter()
    best = LogisticRegression(C=1.0, tol=1e-10, max_iter=20_000).fit(data.X, data.y)
    optimum = objective(data, best.coef_[0], float(best.intercept_[0]))
    out: dict[str, Any] = {
        "optimum": optimum, "scikit-learn, s": time.perf_counter() - start,
        "test log loss at the optimum": test_log_loss(data, best.decision_function(data.X_test)), "curves": {},
    }  # fmt: skip
    sizes = [block.shape[1] for block in data.blocks()]
    task, rho = Task(data, Logistic(), sizes), usual_rho(Logistic(), data.y)
    runs: dict[str, Callable[[], tuple[list[float], list[float], list[int]]]] = {
        "lbfgs": lambda: task.lbfgs(max_iter=rounds),
        "plain": lambda: task.lbfgs(max_iter=rounds, precondition=False, memory=10),
        **{
            form: lambda form=form: task.admm(rho=rho, form=form, max_iter=rounds)  # type: ignore[misc]
            for form in ("sharing", "proximal")
        },
    }
    for curve, run in runs.items():
        busy = time.process_time()
        objectives, losses, sent = run()
        busy = time.process_time() - busy
        out["curves"][curve] = record(objectives, optimum, losses, sent) | {"processor s": busy}
        print(f"{name}, {curve}: {busy:.0f} s", flush=True)
    by_rho = {rho: task.admm(rho=rho, form="printed", max_iter=rounds) for rho in PRINTED_RHO}
    out["printed, test log loss by rho"] = {rho: losses for rho, (_, losses, _) in by_rho.items()}
    rho = min(by_rho, key=lambda rho: by_rho[rho][0][-1])
    objectives, losses, sent = by_rho[rho]
    out["curves"]["printed"] = record(objectives, optimum, losses, sent) | {"rho": rho}
    tried = {rate: sgd(data, rate, rounds) for rate in RATES}
    rate = min(RATES, key=lambda rate: tried[rate][0][-1])
    sent = [8 * len(data.y) * len(sizes) * (epoch + 1) for epoch in range(rounds)]
    values, losses = tried[rate]
    out["curves"]["sgd"] = record(values, optimum, losses, sent) | {"learning rate": rate}
    return out


def record(values: list[float], optimum: float, losses: list[float], sent: list[int]) -> dict[str, Any]:
    excess = [value / optimum - 1.0 for value in values]
    return {
        "excess": [float(f"{value:.6g}") if math.isfinite(value) else None for value in excess],
        "log loss": [float(f"{value:.6g}") if math.isfinite(value) else None for value in losses], "bytes up": sent,
        "rounds to 1e-3": reached(excess, 1e-3), "rounds to 1e-6": reached(excess, 1e-6),
    }  # fmt: skip


def reached(excess: list[float], level: float) -> int | None:
    """Return the first round at most so far from the optimum."""
    return next((t for t, value in enumerate(excess, start=1) if value <= level), None)


def optimum_of(data: Parties, loss: Any) -> float:
    """Return the smallest objective that L-BFGS finds in 500 rounds at one party."""
    return min(Task(data, loss, [data.X.shape[1]]).lbfgs(max_iter=500)[0])


def rounds_of(task: Task, optimum: float, rounds: int, factor: float | None) -> tuple[int | None, int | None]:
    if factor is None:
        objectives, _, _ = task.lbfgs(max_iter=rounds)
    else:
        objectives, _, _ = task.admm(rho=factor * task.loss.smoothness, max_iter=rounds)
    excess = [value / optimum - 1.0 for value in objectives]
    return reached(excess, 1e-3), reached(excess, 1e-6)


def scan(data: Parties, rounds: int, quick: bool) -> list[dict[str, Any]]:
    """Return rounds to 1e-3 and 1e-6 by loss, number of parties, place of the intercept and rho."""
    found = []
    d = data.X.shape[1]
    cases = [("as they are", [66, 57], True), ("intercept at party 1 only", [66, 57], False)]
    cases += [(f"{M} equal parts", [d // M] * (M - 1) + [d - (M - 1) * (d // M)], True) for M in (5, 12)]
    for name, loss in LOSSES.items():
        optimum = optimum_of(data, loss)
        for case, sizes, everywhere in cases[:2] if quick else cases:
            task = Task(data, loss, sizes, everywhere=everywhere)
            for factor in (None, 0.4) if quick else (None, *FACTORS):
                hits = rounds_of(task, optimum, rounds, factor)
                found.append({"loss": name, "split": case, "factor": factor, "1e-3": hits[0], "1e-6": hits[1]})
        print(f"scan, {name}: done", flush=True)
    return found


def draw(name: str, result: dict[str, Any]) -> Any:
    figure, axes = plt.subplots(2, 2, figsize=(10.5, 7.4))
    for curve, (label, colour, line) in CURVES.items():
        points = result["curves"][curve]
        rounds = range(1, len(points["excess"]) + 1)
        megabytes = np.array(points["bytes up"]) / 1e6
        excess = np.array([np.nan if value is None else max(value, 1e-12) for value in points["excess"]])
        losses = np.array([np.nan if value is None else value for value in points["log loss"]])
        for column, places in enumerate((rounds, megabytes)):
            axes[0, column].plot(places, excess, color=colour, linestyle=line, label=label, linewidth=1.4)
            axes[1, column].plot(places, losses, color=colour, linestyle=line, linewidth=1.4)
    level = result["test log loss at the optimum"]
    best = min(min(v for v in points["log loss"] if v is not None) for points in result["curves"].values())
    for column, what in enumerate(("rounds (epochs of SGD)", "MB sent by all parties")):
        axes[0, column].set(yscale="log", xscale="log", ylim=(1e-9, 30), ylabel="training objective / optimum - 1")
        axes[1, column].set(xscale="log", ylim=(best - 0.1 * best, 2.2 * best), xlabel=what, ylabel="test log loss")
        axes[1, column].axhline(level, color="black", linewidth=0.8)
    figure.suptitle(name)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=3, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    return figure


def curve_rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    rows = []
    for curve, (label, _, _) in CURVES.items():
        points = result["curves"][curve]
        losses = points["log loss"]
        label += f", rate {points['learning rate']:g}" if curve == "sgd" else ""
        label += f", rho {points['rho']:g}" if curve == "printed" else ""
        last = points["excess"][-1]
        rows.append(
            (
                label,
                *(str(points[f"rounds to {level}"] or f"over {len(losses)}") for level in ("1e-3", "1e-6")),
                "diverges" if last is None or last > 30 else f"{max(last, 0.0):.1e} ({len(losses)})",
                *(cell(losses[at - 1]) if at <= len(losses) else "" for at in (5, 10, 20)),
            )
        )
    return rows


def cell(value: float | None) -> str:
    return "" if value is None or value > 9 else f"{value:.4f}"


def rho_table(result: dict[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the printed form at each rho beside SGD, test log loss by rounds."""
    at = (5, 10, 20, 40)
    lines = {f"as printed, rho {rho:g}": losses for rho, losses in result["printed, test log loss by rho"].items()}
    sgd_curve = result["curves"]["sgd"]
    lines[f"SGD, rate {sgd_curve['learning rate']:g}"] = sgd_curve["log loss"]
    rows = [(name, *(cell(losses[k - 1]) if k <= len(losses) else "" for k in at)) for name, losses in lines.items()]
    return ("test log loss after", *(f"{k} rounds" for k in at)), rows


HEAD = ("", "rounds to 1e-3", "to 1e-6", "last (round)", "test log loss, 5 rounds", "10", "20")


def scan_table(found: list[dict[str, Any]], rounds: int) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    factors = list(dict.fromkeys(case["factor"] for case in found))
    head = ("loss, split", *("L-BFGS" if f is None else f"ADMM, {f:g}" for f in factors))
    rows: dict[str, list[str]] = {}
    for case in found:
        hits = " / ".join(str(case[level] or f">{rounds}") for level in ("1e-3", "1e-6"))
        rows.setdefault(f"{case['loss']}, {case['split']}", []).append(hits)
    return head, [(name, *cells) for name, cells in rows.items()]


@benchmark(page="papers/admm.md", only=(",".join((*SETS, "rho")), "a9a,rho"))
def main(run) -> None:
    names = run.only.split(",")
    results, found, rounds = {}, [], 60 if run.quick else 150
    for name in (name for name in names if name in SETS):
        results[name] = curves(name, SETS[name](data_folder()), 40 if run.quick else ROUNDS)
        run.table("the printed form by rho", *rho_table(results[name]), mark=f"rho, {name}")
        level = results[name]["test log loss at the optimum"]
        title = f"{name}, C = 1; test log loss at the optimum {level:.4f}"
        run.table(title, HEAD, curve_rows(results[name]), mark=name)
        run.picture(lambda name=name: draw(name, results[name]), f"vertical_{name}.png")
        if run.docs:
            keep(f"vertical_{name}", results[name], FIGURES)
    if "rho" in names:
        found = scan(a9a_parties(data_folder()), rounds, run.quick)
        title = "a9a: rounds to 1e-3 / 1e-6, rho over the smoothness"
        run.table(title, *scan_table(found, rounds), mark="rho", page="measured/vertical_solvers.md")
    run.keep("vertical_convergence", {"sets": results, "scan": found})
