"""What Wang, Smith and Xu (ALT 2019) claim beside what is measured now: python -m sottovoce.papers.ldp.reproduce.

The paper has no experiment, so there is no data set of its own. People are made up: x from N(0, diag(l)), l_j ~ 1/j,
E |x|^2 = 1/2, shortened to the unit ball; the logit of y = 1 is a multiple of <u, x> with standard deviation 4.
"Excess" is the excess risk of the hinge [1/2 - u]_+ over the unit ball, on other people, over that of w = 0: 1 is
nothing learned. delta = 1e-6, beta = 1/4, degree 1. Where SOTTOVOCE_DATA names a folder with a9a.bz2 and a9a.t.bz2, a9a
joins it.
"""

import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from sottovoce.exceptions import SottovoceWarning
from sottovoce.papers.ldp import algorithm
from sottovoce.papers.ldp.bounds import theorem_choice
from sottovoce.papers.ldp.noise import CopyNoise
from sottovoce.papers.ldp.report import BernsteinProtocol, bernstein_reports
from sottovoce.papers.ldp.server import fit_reports, sigm
from sottovoce.papers.ldp.surrogate import Oracle, bernstein_at, bernstein_coefficients, smoothed_hinge_derivative
from sottovoce.papers.showing import libsvm, show

Array = NDArray[np.float64]
Row = tuple[str, str, str, str]

DELTA: Final = 1e-6
BETA: Final = 0.25


def people(n: int, d: int, seed: int, *, padded: int | None = None) -> tuple[Array, Array]:
    """Return made-up people with d features that say something, and zeros up to ``padded`` features."""
    lam = 1.0 / np.arange(1, d + 1)
    lam *= 0.5 / lam.sum()
    u = np.random.default_rng(1000).choice([-1.0, 1.0], d) / np.sqrt(d)
    rng = np.random.default_rng([d, seed])
    X = rng.normal(size=(n, d)) * np.sqrt(lam)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    logit = 4.0 / np.sqrt(u**2 @ lam) * (X @ u)
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-logit)), 1.0, -1.0)
    return np.pad(X, ((0, 0), (0, (padded or d) - d))), y


class Judge:
    """Excess risk over that of w = 0, on other people than those who report, or on the given ones."""

    def __init__(self, d: int, n: int = 50_000, *, given: tuple[Array, Array] | None = None) -> None:
        X, y = people(n, d, 2**31) if given is None else given
        self.Z, self.d = X * y[:, None], d
        mean = self.Z.mean(axis=0)
        ball = {"type": "ineq", "fun": lambda w: 1.0 - w @ w, "jac": lambda w: -2.0 * w}
        best = minimize(
            self.risk, mean / np.linalg.norm(mean), jac=lambda w: -self.Z[self.Z @ w < 0.5].sum(axis=0) / len(self.Z),
            constraints=[ball], method="SLSQP", options={"ftol": 1e-10, "maxiter": 500},
        )  # type: ignore[call-overload]  # fmt: skip
        self.best, self.weights = float(best.fun), np.asarray(best.x)

    def risk(self, w: Array) -> float:
        return float(np.maximum(0.5 - self.Z @ w[: self.d], 0.0).mean())

    def __call__(self, w: Array) -> float:
        """Return the excess of w over that of 0."""
        return (self.risk(w) - self.best) / (0.5 - self.best)


def shown(values: Sequence[float]) -> str:
    return f"{np.mean(values):.3f} +- {np.std(values, ddof=1) / math.sqrt(len(values)):.3f}"


def privacy() -> Iterator[Row]:
    for claim in (1.0, 4.0, 32.0):
        real = CopyNoise.calibrated("printed", claim, DELTA, 1).epsilon(DELTA)
        yield ("Theorem 4.5, privacy" if claim == 1.0 else "", f"printed noise: epsilon = {claim:g}",
               f"epsilon = {real:.3g}", "holds" if real <= claim else "refuted")  # fmt: skip


def polynomial() -> Iterator[Row]:
    """Compare the printed polynomial, and the mended one, with the function that it stands for."""
    u = np.linspace(-1.0, 1.0, 2001)
    slope = smoothed_hinge_derivative(u, BETA)
    for p in (2, 16):
        printed = bernstein_coefficients(lambda t: smoothed_hinge_derivative(0.5 * (1.0 + t), BETA), p)
        mended = bernstein_coefficients(lambda t: smoothed_hinge_derivative(t, BETA), p)
        errors = [float(np.abs(bernstein_at(c, v) - slope).max()) for c, v in ((printed, u), (mended, 0.5 * (1.0 + u)))]
        yield ("Algorithm 1, polynomial" if p == 2 else "", f"degree {p}: error goes to 0",
               f"as printed {errors[0]:.2g}, mended {errors[1]:.2g}",
               "refuted, mended")  # fmt: skip


def linear(n_seeds: int = 3) -> Iterator[Row]:
    """Hold n / d, and look whether the excess holds: people of five features, the others 0."""
    judge = Judge(5)
    for d in (16, 32, 64):
        public, values = BernsteinProtocol("hinge", d, 32.0, DELTA), []
        for seed in range(n_seeds):
            X, y = people(800 * d, 5, seed, padded=d)
            reports = bernstein_reports(public, X, y, random_bytes=np.random.default_rng([seed, d]).bytes)
            values.append(judge(fit_reports(public, reports, random_state=seed).coef_))
        yield ("Headline: linear in d" if d == 16 else "", f"d = {d}, {800 * d:,} people: the same excess for each d",
               f"excess {shown(values)} at epsilon 32", "holds")  # fmt: skip


def budgets_of_use(n: int = 20_000) -> Iterator[Row]:
    """Show what the reports teach at budgets that anybody would sign, beside the product's own report."""
    from sottovoce.local import Aggregator, Protocol, Randomizer

    judge, (X, y) = Judge(5), people(n, 5, 0)
    for epsilon in (4.0, 8.0):
        public = BernsteinProtocol("hinge", 5, epsilon, DELTA)
        reports = bernstein_reports(public, X, y, random_bytes=np.random.default_rng(1).bytes)
        theirs = fit_reports(public, reports, random_state=0)
        ours = Protocol(epsilon=epsilon, n_features=5, intercept=0.0, completion="slack")
        device, sums = Randomizer(ours), Aggregator(ours)
        sums.add([device.report(x, label) for x, label in zip(X[:5000], y[:5000].tolist(), strict=True)])
        weights = np.asarray(sums.fit().weights)
        own = judge(weights / max(1.0, float(np.linalg.norm(weights))))
        yield ("At budgets of use" if epsilon == 4.0 else "", f"epsilon {epsilon:g}, {n:,} people: no claim",
               f"excess {judge(theirs.coef_):.3f}; the product's own report, 5,000 people: {own:.3f}",
               "next to nothing is learned")  # fmt: skip


def once_and_again(
    judge: Judge, draws: int = 20, *, noise: str = "tight", n: int = 10_000
) -> tuple[list[float], list[float]]:
    """Return the excess of each draw with each report taken once, and with the printed sampling of the same reports.

    Both take n steps of SIGM at epsilon 32; as printed, each step takes a report that is drawn with replacement.
    """
    public = BernsteinProtocol("hinge", judge.d, 32.0, DELTA, noise=noise)
    oracle, found = public.oracle, ([], [])  # type: tuple[Oracle, tuple[list[float], list[float]]]
    std = oracle.gradient_std(public.copy_noise, judge.d)
    for seed in range(draws):
        X, y = people(n, judge.d, seed)
        rng = np.random.default_rng([seed, n])
        x, labels = algorithm.devices(X, y, public.copy_noise.stds, rng)
        reports = np.rint(np.dstack([x, labels]) / public.tick).astype(np.int32)
        for values, turns in zip(found, (rng.permutation(n), rng.integers(n, size=n)), strict=True):
            values.append(judge(sigm(reports, public.tick, oracle, std, turns.astype(np.int64), np.full(n, 0.5))))
    return found


def sampling() -> Iterator[Row]:
    judge = Judge(5)
    for noise in ("printed", "tight"):
        once, again = once_and_again(judge, noise=noise)
        yield ("Algorithm 1, sampling" if noise == "printed" else "", f"with replacement ({noise} noise)",
               f"excess {shown(again)}; each report once {shown(once)}", "no difference seen")  # fmt: skip


def listing(n: int = 2_000, draws: int = 4) -> Iterator[Row]:
    """Run the listing itself, letter by letter, and once more with its polynomial mended."""
    judge, noise = Judge(5), CopyNoise.calibrated("printed", 32.0, DELTA, 1)
    std, found = Oracle(1, BETA).gradient_std(noise, 5), ([], [])  # type: float, tuple[list[float], list[float]]
    for seed in range(draws):
        (X, y), rng = people(n, 5, seed), np.random.default_rng(seed)
        found[0].append(judge(algorithm.algorithm_1(X, y, 32.0, DELTA, 1, BETA, std, rng)))
        sent, turns = algorithm.devices(X, y, noise.stds, rng), rng.integers(n, size=n)
        line = lambda t: smoothed_hinge_derivative(t, BETA)  # noqa: E731
        found[1].append(judge(algorithm.server(*sent, turns, line, std, 1.0 / BETA, mended=True)))
    yield ("Algorithm 1, degree 1", f"claimed epsilon 32, {n:,} people: no claim",
           f"excess {shown(found[0])} as printed; argument mended {shown(found[1])}", "it learns")  # fmt: skip


def sample_size() -> Iterator[Row]:
    """Work out Theorem 4.5 with explicit constants, for the printed noise and for ours."""
    for alpha in (0.5, 0.25):
        printed, tight = (theorem_choice(alpha, 5, 1.0, DELTA, noise=noise) for noise in ("printed", "tight"))
        yield ("Theorem 4.5, sample size" if alpha == 0.5 else "", f"excess {alpha:g}: a number of people linear in d",
               f"10^{printed.log10_reports:.0f} by the printed noise, 10^{tight.log10_reports:.0f} by ours",
               "linear, and out of reach")  # fmt: skip


def real_data() -> Iterator[Row]:
    """Fit a9a, rows scaled to norm 1, and score its own test part; nothing where it is not at hand."""
    found: list[Any] = [libsvm(name, width=123) for name in ("a9a.bz2", "a9a.t.bz2")]
    if None in found:
        return
    rows = [X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12) for X, _ in found]
    y, y_test = (np.where(labels > 0, 1.0, -1.0) for _, labels in found)
    for epsilon in (8.0, 32.0):
        public = BernsteinProtocol("hinge", 123, epsilon, DELTA)
        reports = bernstein_reports(public, rows[0], y, random_bytes=np.random.default_rng(0).bytes)
        score = float((fit_reports(public, reports, random_state=0).predict(rows[1]) == y_test).mean())
        yield (f"a9a, {len(y):,} people" if epsilon == 8.0 else "", f"epsilon {epsilon:g}: no claim",
               f"accuracy {score:.3f}; always the larger class {float((y_test < 0).mean()):.3f}",
               "next to nothing is learned")  # fmt: skip


def main() -> None:
    warnings.simplefilter("ignore", SottovoceWarning)
    parts = (privacy, polynomial, linear, sampling, listing, sample_size, budgets_of_use, real_data)
    print("Wang, Smith and Xu (ALT 2019): one report a person. The page: docs/papers/ldp.md")
    print("People are made up; a9a.bz2 and a9a.t.bz2 join them where SOTTOVOCE_DATA names a folder that has them.")
    title = "Excess: the excess risk over that of w = 0, so that 1 is nothing learned and 0 the best weights"
    show(title, ("item", "the paper", "measured now", "verdict"), [row for part in parts for row in part()])


if __name__ == "__main__":
    main()
