"""What the paper claims beside what its own listings do: ``python -m sottovoce.papers.dp_scd.reproduce``, or make.

Without data a generator makes tables with the shapes of the paper's. With SOTTOVOCE_DATA the first two are real:
phishing.bz2, and a9a.bz2 with a9a.t.bz2 (Adult in the coding of the LIBSVM page), both from there.
"""

import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import normalize

import sottovoce as sv
from sottovoce.losses import Hinge, Squared
from sottovoce.papers.dp_scd.algorithm import SLOPES, Released, dp_scd, primal_dp_scd, seq_dp_scd
from sottovoce.papers.dp_scd.bounds import PrintedUtility, epsilon_of_fixed_visits, epsilon_of_printed_sampling, lemma_1
from sottovoce.papers.dp_scd.published import moments_noise
from sottovoce.papers.showing import libsvm, show

EPSILON, DELTA = 1.0, 1e-3
Array = NDArray[Any]
_FREE: Final = 1e12  # a clip that never binds
SHAPES: Final = (("Phishing", 6_218, 500, 10), ("Adult", 24_420, 500, 10), ("YearPredictionMSD", 347_786, 2_000, 50))


class Problem(NamedTuple):
    """A table with its loss and penalty; rows of norm 1, the last quarter for the choice of options and for scores."""

    name: str
    loss: str
    lam: float
    epochs: int
    X: Array
    y: Array

    @property
    def n(self) -> int:
        return 3 * len(self.y) // 4

    def score(self, theta: Array, half: int) -> float:
        """Return the share of right labels, or the mean squared error, on half of the held-out quarter."""
        X, y = self.X[self.n + half :: 2], self.y[self.n + half :: 2]
        return float(np.mean((X @ theta - y) ** 2 if self.loss == "squared" else (X @ theta > 0) == (y > 0)))


def problems() -> Iterator[Problem]:
    """Yield the three tables of the paper, as far as they are at hand."""
    for name, loss, lam, epochs, files, n, width in (
        ("Phishing", "logistic", 1e-4, 10, ("phishing.bz2",), 8_291, 68),
        ("Adult", "hinge", 1e-5, 10, ("a9a.bz2", "a9a.t.bz2"), 32_561, 123),
        ("YearPredictionMSD / 20", "squared", 1e-4, 50, (), 23_186, 90),
    ):
        rng = np.random.default_rng(n)
        if files and (found := libsvm(*files, width=width)):
            order, name = rng.permutation(len(found[1]))[:n], f"{name} ({', '.join(files)})"
            X, y = found[0][order], np.where(found[1][order] > 0, 1.0, -1.0)
        else:
            X = rng.standard_normal((n, width)) * 0.93 ** np.arange(width)
            signal, noise = X @ rng.standard_normal(width), rng.standard_normal(n)
            y = 3.0 * signal + 8.0 * noise if loss == "squared" else np.where(signal + noise > 0.0, 1.0, -1.0)
            name += ", made up"
        yield Problem(name, loss, lam, epochs, normalize(X / np.abs(X).max(axis=0).clip(1e-12)), y)


def dp_sgd(
    X: Array, y: Array, loss: str, lam: float, T: int, L: int, C: float, sigma: float, rate: float, rng: Any
) -> Released:
    """Run the paper's rival: clipped gradients of L examples at random, learning rate ``rate``, last weights."""
    M, N = X.shape
    theta = np.zeros(M)
    for _ in range(T):
        B = rng.choice(N, L, replace=False)
        slopes = np.clip(SLOPES[loss](y[B], X[:, B].T @ theta), -C, C)
        theta = (theta - rate / L * (X[:, B] @ slopes + rng.normal(0.0, C * sigma, M))) / (1.0 + rate * lam)
    return Released(theta, theta, theta)


def figure_1(problem: Problem) -> Iterator[tuple[str, str]]:
    """Yield methods and test scores at epsilon 1, each with the best options of a small grid."""
    X, y, N = np.asfortranarray(problem.X[: problem.n].T), problem.y[: problem.n], problem.n
    unit = 100.0 if problem.loss == "squared" else 1.0  # years against classes
    given, L = (X, y, problem.loss, problem.lam), 500
    T = problem.epochs * N // L
    sigma = moments_noise(L / N, T, EPSILON, DELTA)

    def best(run: Any, grid: Sequence[tuple[float, ...]]) -> str:
        found = [run(*options, np.random.default_rng(seed)).theta for seed, options in enumerate(grid)]
        sign = -1.0 if problem.loss == "squared" else 1.0
        chosen = max(found, key=lambda theta: sign * problem.score(theta, 0))
        return f"{problem.score(chosen, 1):.4g}"

    clips = [(C * unit,) for C in (1e-4, 1e-3, 1e-2, 1e-1)]
    yield "Algorithm 1 without noise", best(lambda C, rng: dp_scd(*given, T, L, C, 0.0, rng), [(_FREE,)])
    yield "Algorithm 1, printed noise", best(lambda C, rng: dp_scd(*given, T, L, C, sigma, rng), clips)
    rates = [(C * unit, rate) for C in (0.1, 1.0) for rate in (0.1, 1.0, 10.0)]
    yield "DP-SGD, printed noise", best(lambda C, rate, rng: dp_sgd(*given, T, L, C, sigma, rate, rng), rates)
    if problem.loss == "logistic":  # a Python loop: one table is enough to see it
        few, clips = 50, [(C,) for C in (1e-6, 1e-5, 1e-4)]
        steps = problem.epochs * N // few
        noise = moments_noise(few / N, steps, EPSILON, DELTA)
        yield "Algorithm 3, printed noise", best(lambda C, rng: seq_dp_scd(*given, steps, few, C, noise, rng), clips)
    if problem.loss != "hinge":  # which is not smooth
        length = np.linalg.norm(X, axis=1, keepdims=True).clip(1e-12)  # rows X[j, :] of norm 1, from everybody's data
        unit_rows = (X / length, *given[1:])
        steps = problem.epochs * 10
        noise = moments_noise(1.0, steps, EPSILON, DELTA)

        def primal(C: float, sigma: float, rng: Any) -> Released:
            found = primal_dp_scd(*unit_rows, steps, 10, C, sigma, rng)
            return found._replace(theta=found.theta / length[:, 0])

        yield "Algorithm 2 without noise", best(primal, [(_FREE, 0.0)])
        yield "Algorithm 2, printed noise", best(primal, [(C * unit, noise) for C in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)])
    labels = {"label_bounds": (-40.0, 40.0)} if problem.loss == "squared" else {"classes": [-1.0, 1.0]}
    kinds: dict[str, Any] = {"squared": sv.DPRidge, "logistic": sv.DPLogisticRegression, "hinge": sv.DPLinearSVC}
    model = kinds[problem.loss](
        epsilon=EPSILON, delta=DELTA, data_norm=1.0, alpha=problem.lam, fit_intercept=False, random_state=0, **labels
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield "this library, nothing tuned", f"{problem.score(np.ravel(model.fit(X.T, y).coef_), 1):.4g}"


def theorem_2(M: int, T: int) -> tuple[float, float, float]:
    """Return bound and measured S(alpha), and F - F* of theta, where the theorem's condition is met (ridge)."""
    N, lam, C, rng = 200, 5.0, 2.0, np.random.default_rng(M)
    X = normalize(rng.standard_normal((N, M)))
    y = np.clip(X @ rng.standard_normal(M), -1.0, 1.0)
    sigma = moments_noise(1.0, T, EPSILON, DELTA)
    bend = X @ X.T / (lam * N**2) + np.eye(N) / N  # of the dual objective
    best = np.linalg.solve(bend, y / N)
    found = [dp_scd(X.T, y, "squared", lam, T, N, C, sigma, rng) for _ in range(20)]
    away = [run.theta - X.T @ best / (lam * N) for run in found]
    theorem = PrintedUtility(n_samples=N, batch_size=N, alpha=lam, smoothness=1.0)
    bound = theorem.bound(0.5 * float(best @ bend @ best), T, 2.0 * C**2 * sigma**2)
    dual = [0.5 * (run.model - best) @ bend @ (run.model - best) for run in found]
    excess = [0.5 * (np.mean((X @ each) ** 2) + lam * each @ each) for each in away]
    return bound, float(np.mean(dual)), float(np.mean(excess))


def main() -> None:
    print("Damaskinos et al., DP-SCD (AAAI 2021): what it claims beside what is measured")
    rows: list[tuple[object, ...]] = []
    for name, N, L, epochs in SHAPES:
        sigma = moments_noise(L / N, epochs * math.ceil(N / L), EPSILON, DELTA)
        printed = epsilon_of_printed_sampling(N, L, epochs * N // L, sigma, DELTA)
        cut = epsilon_of_fixed_visits(epochs, sigma, DELTA)
        rows.append((name, L, f"{sigma:.3g}", f"{EPSILON:g}", f"{printed:.3g}", f"{cut:.3g}"))
    show("Theorem 1: epsilon of Algorithm 1 at delta = 1e-3, for an adversary who sees alpha",
         ("table", "L", "sigma", "claimed", "holds, L of N each step", "holds, shuffled and cut"), rows)  # fmt: skip

    states, rows = [(a, 1.0, m, r) for a in (-1.0, 0.0, 0.5, 1.0) for m in (-3.0, 0.0, 3.0) for r in (0.1, 1.0)], []
    for loss in (Squared(), Hinge()):
        worst = np.max([lemma_1(loss, *state, 0.01) for state in states], axis=0) / 0.01
        rows.append((loss.name, f"{math.sqrt(2.0):.3f}", f"{worst[0]:.3f}", f"{worst[1]:.3f}"))
    show("Lemma 1: how far one row moves (alpha, v), over C",
         ("loss", "claimed", "column set to zero, as in the proof", "row contributes nothing"), rows)  # fmt: skip

    rows = []
    for name, n, smoothness, lam in (("YearPredictionMSD", 347_786, 1.0, 1e-4), ("Phishing", 6_218, 0.25, 1e-4)):
        left, right = PrintedUtility(n_samples=n, batch_size=500, alpha=lam, smoothness=smoothness).condition
        rows.append((name, f"{left:.4g}", f"{right:.3g}", "met" if left > right else "not met"))
    show("Theorem 2: its condition in the paper's own experiments, L = 500",
         ("table", "left side, must exceed", "right side", "condition"), rows)  # fmt: skip
    rows = [(M, T, *(f"{value:.3g}" for value in theorem_2(M, T))) for M, T in ((2, 1), (32, 1), (2, 10), (32, 10))]
    show("Theorem 2 where the condition is met (ridge, mu lambda = 5, N = L = 200)",
         ("M", "T", "bound on S(alpha)", "S(alpha), measured", "F - F* of theta, measured"), rows)  # fmt: skip

    print("\nFigure 1 at epsilon = 1. The paper: DP-SCD ahead of DP-SGD for ridge and SVM, behind for logistic;")
    print("sequential worst. Small grids, one seed. The printed noise of DP-SCD is less private than it says.")
    for problem in problems():
        what = "mean squared error" if problem.loss == "squared" else "accuracy"
        title = f"{problem.name}: {problem.loss} loss, N = {problem.n:,}"
        show(title, ("method", what), list(figure_1(problem)))
    print("\nWhat is behind each table: docs/papers/dp_scd.md")


if __name__ == "__main__":
    main()
