"""Non-interactive local learning by Bernstein reports (Wang, Smith, Xu 2019): what it learns, at which true epsilon.

    python -m benchmarks.published.bernstein [--quick] [--seeds 10] [--docs]

Hinge at 1/2 in the unit ball, Algorithm 1, on synthetic people: x from N(0, diag(l)), l_j ~ 1/j, E |x|^2 = 1/2,
shortened to the unit ball; y = 1 with probability sigmoid(k <u, x>), u = +-1/sqrt(d), k so that the logit has standard
deviation 4. Excess risk on 100,000 other people over the best weights of the ball there, divided by that of w = 0: 1 is
nothing learned. Each seed has its own people and its own noise. delta = 1e-6, beta = 1/4.

``--quick``: two seeds, no table of 100,000 people. ``--docs`` writes the tables into docs/papers/noninteractive_ldp.md.
"""

import time
import warnings
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks.common import DOCS, keep, make_parser, show, write_tables
from sottovoce.exceptions import SottovoceWarning
from sottovoce.published.bernstein import BernsteinAggregator, BernsteinProtocol, BernsteinRandomizer, theorem_choice
from sottovoce.published.bernstein.noise import KINDS, CopyNoise

Array = NDArray[np.float64]

DELTA = 1e-6
TEST = 100_000
EPSILONS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


def people(n: int, d: int, seed: int) -> tuple[Array, Array]:
    lam = 1.0 / np.arange(1, d + 1)
    lam *= 0.5 / lam.sum()
    u = np.random.default_rng(1000).choice([-1.0, 1.0], d) / np.sqrt(d)
    k = 4.0 / np.sqrt(u**2 @ lam)
    rng = np.random.default_rng([d, seed])
    X = rng.normal(size=(n, d)) * np.sqrt(lam)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    return X, np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-k * (X @ u))), 1.0, -1.0)


class Judge:
    """Excess risk over that of w = 0, on people of its own."""

    def __init__(self, d: int) -> None:
        X, y = people(TEST, d, 2**31)
        self.Z = X * y[:, None]
        slope = self.Z
        ball = {"type": "ineq", "fun": lambda w: 1.0 - w @ w, "jac": lambda w: -2.0 * w}
        best = minimize(
            self.risk,
            slope.mean(axis=0) / np.linalg.norm(slope.mean(axis=0)),
            jac=lambda w: -slope[slope @ w < 0.5].sum(axis=0) / TEST,
            constraints=[ball],
            method="SLSQP",
            options={"ftol": 1e-10, "maxiter": 500},
        )
        self.best = float(best.fun)

    def risk(self, w: Array) -> float:
        """Return the mean loss."""
        return float(np.maximum(0.5 - self.Z @ w, 0.0).mean())

    def __call__(self, w: Array) -> float:
        """Return the excess risk of w over that of 0."""
        return (self.risk(w) - self.best) / (0.5 - self.best)


def protocol(d: int, epsilon: float, degree: int, noise: str) -> BernsteinProtocol:
    return BernsteinProtocol("hinge", d, epsilon, DELTA, degree=degree, noise=noise)


def excess(judge: Judge, n: int, d: int, epsilon: float, degree: int, noise: str, seeds: int) -> dict[str, Any]:
    """Return the mean and the standard error of the relative excess, the true epsilon and the server's seconds."""
    public = protocol(d, epsilon, degree, noise)
    values, seconds = [], []
    for seed in range(seeds):
        X, y = people(n, d, seed)
        server = BernsteinAggregator(public)
        reports = BernsteinRandomizer(public, random_bytes=np.random.default_rng([seed, n]).bytes).reports(X, y)
        start = time.perf_counter()
        server.add(reports)
        model = server.fit(random_state=seed)
        seconds.append(time.perf_counter() - start)
        values.append(judge(model.coef_))
    return {
        "n": n, "d": d, "epsilon": epsilon, "degree": degree, "noise": noise, "seeds": seeds,
        "true epsilon": model.guarantee_.epsilon, "excess": float(np.mean(values)),
        "standard error": float(np.std(values, ddof=1) / np.sqrt(seeds)), "noise error": model.noise_error_,
        "server seconds": float(np.min(seconds)),
    }  # fmt: skip


def main() -> None:
    parser = make_parser(__doc__, docs=True)
    parser.add_argument("--seeds", type=int, default=10)
    args = parser.parse_args()
    seeds = 2 if args.quick else max(2, args.seeds)
    warnings.simplefilter("ignore", SottovoceWarning)

    def privacy_row(degree: int) -> tuple[str, ...]:
        cells = []
        for claim in EPSILONS:
            real = CopyNoise.calibrated("printed", claim, DELTA, degree).epsilon(DELTA)
            cells.append(f"{real:.3f}{'' if real <= claim else ' (broken)'}")
        return (f"{degree}", *cells)

    privacy_head = ("p", *(f"claimed {e:g}" for e in EPSILONS))
    privacy_rows = [privacy_row(degree) for degree in (1, 2, 3, 5)]
    show("Printed noise: the epsilon that one report really costs", privacy_head, privacy_rows)

    judge = Judge(5)
    target = [excess(judge, 10_000, 5, e, 1, noise, seeds) for noise in ("printed", "tight") for e in EPSILONS]
    target_head = ("noise", *(f"epsilon {e:g}" for e in EPSILONS))
    target_rows = [
        (noise, *(f"{r['excess']:.3f} +- {r['standard error']:.3f}" for r in target if r["noise"] == noise))
        for noise in ("printed", "tight")
    ]
    show(f"Relative excess risk, d = 5, n = 10,000, p = 1, {seeds} seeds", target_head, target_rows, width=150)

    sizes = ((10_000,) if args.quick else (10_000, 100_000), (5,) if args.quick else (5, 20))
    judges = {d: judge if d == 5 else Judge(d) for d in sizes[1]}
    grid, table_rows = [], []
    epsilons = (4.0, 8.0, 32.0)
    for n, d, degree, noise in product(*sizes, (1, 2), KINDS):
        some = [excess(judges[d], n, d, e, degree, noise, min(seeds, 3)) for e in epsilons]
        grid += some
        table_rows.append((f"{n:,}", f"{d}", f"{degree}", noise, *(f"{r['excess']:.3f}" for r in some)))
    table_head = ("n", "d", "p", "noise", *(f"epsilon {e:g}" for e in epsilons))
    show(f"Relative excess risk, {min(seeds, 3)} seeds", table_head, table_rows)

    choice_head = ("alpha", "beta", "degree", "copies in a report", "log10 of the people, epsilon 1", "epsilon 8")
    choice_rows = []
    for alpha in (0.5, 0.25, 0.1):
        one, eight = (theorem_choice(alpha, 5, e, DELTA) for e in (1.0, 8.0))
        people_needed = [f"{choice.log10_reports:,.0f}" for choice in (one, eight)]
        choice_rows.append((f"{alpha:g}", f"{one.beta:g}", f"{one.degree:,}", f"{one.n_copies:,}", *people_needed))
    show("What Theorem 4.5 asks for, d = 5, tight noise", choice_head, choice_rows)

    server = None if args.quick else excess(judges[20], 100_000, 20, 32.0, 2, "tight", 2)["server seconds"]
    if server is not None:
        print(f"server: {server:.2f} s for 100,000 reports, d = 20, p = 2 (parsing and fitting)")
    keep("local_paper", {"target": target, "grid": grid, "server seconds": server})
    if args.docs:
        write_tables(
            DOCS / "papers" / "noninteractive_ldp.md",
            {
                "printed privacy": (privacy_head, privacy_rows),
                "target": (target_head, target_rows),
                "grid": (table_head, table_rows),
                "theorem": (choice_head, choice_rows),
            },
        )


if __name__ == "__main__":
    main()
