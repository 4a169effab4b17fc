"""Non-interactive local learning by Bernstein reports (Wang, Smith, Xu 2019): what it learns, at which true epsilon.

    python -m benchmarks.papers.ldp.bernstein [--quick] [--seeds 10] [--docs]

Hinge at 1/2 in the unit ball, Algorithm 1, on synthetic people: x from N(0, diag(l)), l_j ~ 1/j, E |x|^2 = 1/2,
shortened to the unit ball; y = 1 with probability sigmoid(k <u, x>), u = +-1/sqrt(d), k so that the logit has standard
deviation 4. Excess risk on 100,000 other people over the best weights of the ball there, divided by that of w = 0: 1 is
nothing learned. Each seed has its own people and its own noise. delta = 1e-6, beta = 1/4.

``--quick``: two seeds, no table of 100,000 people. ``--docs`` writes the tables into docs/papers/ldp.md.
"""

import time
import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.driver import benchmark, option
from sottovoce.exceptions import SottovoceWarning
from sottovoce.papers.ldp import (
    BernsteinProtocol,
    TheoremChoice,
    bernstein_reports,
    fit_reports,
    theorem_choice,
)
from sottovoce.papers.ldp.noise import KINDS, CopyNoise
from sottovoce.papers.ldp.reproduce import Judge, people
from sottovoce.papers.ldp.surrogate import GENERAL_LOSSES

Array = NDArray[np.float64]

DELTA = 1e-6
TEST = 100_000
EPSILONS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


def protocol(d: int, epsilon: float, degree: int, noise: str) -> BernsteinProtocol:
    return BernsteinProtocol("hinge", d, epsilon, DELTA, degree=degree, noise=noise)


def excess(judge: Judge, n: int, d: int, epsilon: float, degree: int, noise: str, seeds: int) -> dict[str, Any]:
    """Return the mean and the standard error of the relative excess, the true epsilon and the server's seconds."""
    public = protocol(d, epsilon, degree, noise)
    values, seconds = [], []
    for seed in range(seeds):
        X, y = people(n, d, seed)
        reports = bernstein_reports(public, X, y, random_bytes=np.random.default_rng([seed, n]).bytes)
        start = time.perf_counter()
        model = fit_reports(public, reports, random_state=seed)
        seconds.append(time.perf_counter() - start)
        values.append(judge(model.coef_))
    return {
        "n": n, "d": d, "epsilon": epsilon, "degree": degree, "noise": noise, "seeds": seeds,
        "true epsilon": model.guarantee_.epsilon, "excess": float(np.mean(values)),
        "standard error": float(np.std(values, ddof=1) / np.sqrt(seeds)), "noise error": model.noise_error_,
        "server seconds": float(np.min(seconds)),
    }  # fmt: skip


def both_risks(population: Judge, n: int, epsilon: float, seeds: int) -> dict[str, Any]:
    """Return the relative excess on the people who reported and on others, d = 5, p = 1 (Remark 4.7 of the paper)."""
    public, found = protocol(5, epsilon, 1, "tight"), []
    for seed in range(seeds):
        X, y = people(n, 5, seed)
        reports = bernstein_reports(public, X, y, random_bytes=np.random.default_rng([seed, n]).bytes)
        w = fit_reports(public, reports, random_state=seed).coef_
        sample = Judge(5, given=(X, y))
        found.append((sample(w), population(w), population(sample.weights)))
    return {"n": n, "epsilon": epsilon, "risks": found}


Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


def privacy_table() -> Table:
    rows = []
    for degree in (1, 2, 3, 5):
        cells = []
        for claim in EPSILONS:
            real = CopyNoise.calibrated("printed", claim, DELTA, degree).epsilon(DELTA)
            cells.append(f"{real:.3f}{'' if real <= claim else ' (broken)'}")
        rows.append((f"{degree}", *cells))
    return ("p", *(f"claimed {e:g}" for e in EPSILONS)), rows


def target_table(seeds: int) -> tuple[Table, list[dict[str, Any]]]:
    judge = Judge(5, TEST)
    found = [excess(judge, 10_000, 5, e, 1, noise, seeds) for noise in ("printed", "tight") for e in EPSILONS]
    rows = [
        (noise, *(f"{r['excess']:.3f} +- {r['standard error']:.3f}" for r in found if r["noise"] == noise))
        for noise in ("printed", "tight")
    ]
    return (("noise", *(f"epsilon {e:g}" for e in EPSILONS)), rows), found


def grid_table(seeds: int, quick: bool) -> tuple[Table, list[dict[str, Any]]]:
    sizes = ((10_000,) if quick else (10_000, 100_000), (5,) if quick else (5, 20))
    judges = {d: Judge(d, TEST) for d in sizes[1]}
    grid, rows = [], []
    epsilons = (4.0, 8.0, 32.0)
    for n, d, degree, noise in product(*sizes, (1, 2), KINDS):
        some = [excess(judges[d], n, d, e, degree, noise, seeds) for e in epsilons]
        grid += some
        rows.append((f"{n:,}", f"{d}", f"{degree}", noise, *(f"{r['excess']:.3f}" for r in some)))
    return (("n", "d", "p", "noise", *(f"epsilon {e:g}" for e in epsilons)), rows), grid


def risk_table(seeds: int, quick: bool) -> tuple[Table, list[dict[str, Any]]]:
    judge = Judge(5, TEST)
    cases = [(n, e) for e in (16.0, 32.0) for n in ((100, 1000) if quick else (100, 1000, 10_000))]
    risks, rows = [both_risks(judge, n, e, seeds) for n, e in cases], []
    for r in risks:
        cells = np.array(r["risks"])
        errors = cells.std(axis=0, ddof=1) / np.sqrt(len(cells))
        shown = (f"{a:.3f} +- {b:.3f}" for a, b in zip(cells.mean(axis=0), errors, strict=True))
        rows.append((f"{r['epsilon']:g}", f"{r['n']:,}", *shown))
    head = ("epsilon", "n", "empirical: people who reported", "population: others", "not private, population")
    return (head, rows), risks


def theorem_table() -> Table:
    low, high = GENERAL_LOSSES["logistic"].ends
    change = high - low
    theorems: tuple[tuple[str, str, Callable[[float, float], TheoremChoice]], ...] = (
        ("4.5", "hinge at 1/2", lambda alpha, e: theorem_choice(alpha, 5, e, DELTA)),
        ("4.12", "logistic", lambda alpha, e: theorem_choice(alpha, 5, e, DELTA, spread=change)),
        ("4.12", "any", lambda alpha, e: theorem_choice(alpha, 5, e, DELTA, spread=2.0)),
    )
    rows = []
    for theorem, loss, choose in theorems:
        for alpha in (0.5, 0.25, 0.1):
            one, eight = (choose(alpha, e) for e in (1.0, 8.0))
            needed = [f"{choice.log10_reports:,.0f}" for choice in (one, eight)]
            facts = (f"{alpha:g}", f"{one.beta:.4g}", f"{one.degree:,}", f"{one.n_copies:,}")
            rows.append((theorem, loss, *facts, *needed))
    end = ("alpha", "beta", "degree", "copies in a report", "log10 of the people, epsilon 1", "epsilon 8")
    return ("theorem", "loss", *end), rows


@benchmark(
    page="papers/ldp.md",
    seeds=(10, 2),
    only=option("printed privacy,theorem,risks,target,grid", help="some of these tables"),
)
def main(run) -> None:
    seeds, few = run.seeds, min(run.seeds, 3)
    warnings.simplefilter("ignore", SottovoceWarning)
    makers: dict[str, tuple[str, Callable[[], Any]]] = {
        "printed privacy": ("Printed noise: the epsilon that one report really costs", lambda: (privacy_table(), None)),
        "theorem": ("What Theorems 4.5 and 4.12 ask for, d = 5, tight noise", lambda: (theorem_table(), None)),
        "risks": (f"Empirical and population risk, d = 5, p = 1, {seeds} seeds", lambda: risk_table(seeds, run.quick)),
        "target": (f"Relative excess risk, d = 5, n = 10,000, p = 1, {seeds} seeds", lambda: target_table(seeds)),
        "grid": (f"Relative excess risk, {few} seeds", lambda: grid_table(few, run.quick)),
    }
    found: dict[str, Any] = {}
    for name in run.only.split(","):
        title, make = makers[name]
        table, found[name] = make()
        run.table(title, *table, mark="" if name in ("grid", "risks") else name)  # those two are told there in words
    if "grid" in found and not run.quick:
        found["server seconds"] = excess(Judge(20, TEST), 100_000, 20, 32.0, 2, "tight", 2)["server seconds"]
        print(f"server: {found['server seconds']:.2f} s for 100,000 reports, d = 20, p = 2 (fitting)")
    run.keep("local_paper", found)
