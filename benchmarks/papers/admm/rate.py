"""Theorem 2 of Hu et al.: the Lyapunov function V^t of eq. (13) against the rounds, beside the bound C / t.

    python -m benchmarks.papers.admm.rate [--quick] [--docs]

The printed form, eqs. (6) to (8), on small made-up tables for up to 100,000 rounds: convex and non-convex losses, two
and three parties, with and without a least objective that is attained. The bound has the constant of
`sottovoce.papers.admm.bounds`. The last case meets every published condition, not the coupling of
that module, and diverges. At the end it looks for such a case among random tables of two parties. ``--docs`` writes
table and picture into docs/measured/data/vertical_solvers. ``--quick``: 200 rounds.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from matplotlib import pyplot as plt
from numpy.typing import NDArray

from benchmarks.driver import FIGURES, RESULTS, benchmark, keep
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic, SigmoidLoss, Squared
from sottovoce.papers.admm.bounds import coupling, rate_constant, start_value
from sottovoce.papers.admm.conditions import theorem_1_conditions
from sottovoce.papers.admm.sharing import Penalty, admm

ROUNDS, QUICK = 100_000, 200
AT = (10, 1000, 100_000)
ROUNDING = 1e-26  # of the first V: there a run stops

Array = NDArray[np.float64]


class SlowTail(NamedTuple):
    """A smooth count of errors, 1/2 (1 + y m)^-p on the right side: bounded, not convex, with a tail as slow as p says.

    No model should be trained with it: its slope falls so slowly that the rate of Theorem 2 is nearly reached.
    """

    p: float = 0.1

    @property
    def name(self) -> str:
        return "slow tail"

    @property
    def lipschitz(self) -> float:
        return 0.5 * self.p

    @property
    def smoothness(self) -> float:
        return 0.5 * self.p * (self.p + 1.0)

    @property
    def is_classification(self) -> bool:
        return True

    def value(self, y: Array, m: Array) -> Array:
        tail = 0.5 * (1.0 + np.abs(m)) ** -self.p
        return np.where(y * m >= 0.0, tail, 1.0 - tail)

    def derivative(self, y: Array, m: Array) -> Array:
        return -0.5 * self.p * y * (1.0 + np.abs(m)) ** (-self.p - 1.0)

    def curvature(self, y: Array, m: Array) -> Array:
        return 0.5 * self.p * (self.p + 1.0) * np.sign(y * m) * (1.0 + np.abs(m)) ** (-self.p - 2.0)


class Case(NamedTuple):
    """One run: what it shows, its loss, columns of each party, labels, and penalty."""

    loss: Any
    blocks: list[Array]
    y: Array
    l2: float
    rho: float | None = None  # None: as small as the published conditions let it be


def normal(n_parties: int, *, separable: bool, seed: int = 0) -> tuple[list[Array], Array]:
    """Return 200 rows with two standard normal columns a party, and labels with or without errors."""
    rng = np.random.default_rng(seed)
    blocks = [rng.normal(size=(200, 2)) for _ in range(n_parties)]
    scores = np.hstack(blocks) @ rng.normal(size=2 * n_parties)
    y = np.where(scores + (0.0 if separable else 2.0) * rng.normal(size=200) > 0.0, 1.0, -1.0)
    return blocks, y


def cases() -> dict[str, Case]:
    two, two_apart = normal(2, separable=False), normal(2, separable=True)
    three, three_apart = normal(3, separable=False), normal(3, separable=True)
    rng = np.random.default_rng(0)
    column = rng.normal(size=(200, 1))
    column /= np.linalg.norm(column)
    y = column[:, 0] + 0.1 * rng.normal(size=200)
    return {
        "logistic, 2 parties, errors": Case(Logistic(), *two, 0.0),
        "logistic, 3 parties, errors": Case(Logistic(), *three, 0.0),
        "logistic, 2 parties, separable": Case(Logistic(), *two_apart, 0.0),
        "sigmoid, 2 parties, errors": Case(SigmoidLoss(), *two, 0.0),
        "sigmoid, 2 parties, separable": Case(SigmoidLoss(), *two_apart, 0.0),
        "sigmoid, 3 parties, separable": Case(SigmoidLoss(), *three_apart, 0.0),
        "slow tail, 2 parties, separable": Case(SlowTail(), *two_apart, 0.0),
        "squared, 3 parties, one column": Case(Squared(), [column] * 3, y, 0.0, 2.0),
    }


def run(case: Case, rounds: int) -> dict[str, Any]:
    """Return V by rounds, the bound's constant and what goes into it."""
    penalty = Penalty(case.l2)
    least = theorem_1_conditions(case.blocks, case.loss, penalty=penalty, rho=1.0).least_rho
    rho = case.rho or 1.01 * least
    report = theorem_1_conditions(case.blocks, case.loss, penalty=penalty, rho=rho)
    theta = coupling(case.blocks)
    constant = rate_constant(report, theta)
    above = start_value(case.loss, case.y, rho)  # every loss here is at least 0
    V: list[float] = []
    diverges = False
    while not V:
        options: dict[str, Any] = {"rho": rho, "form": "printed", "max_iter": rounds, "tol": ROUNDING**0.5}
        try:
            V = admm(case.blocks, case.loss, case.y, penalty=penalty, **options).stationarity
        except ParameterError:  # it diverges: what it did before is shown
            diverges, rounds = True, int(0.9 * rounds) if rounds <= 200 else 200
    least_so_far = np.minimum.accumulate(V[1:])
    t = np.arange(2, len(V) + 1)
    return {
        "rho": rho, "published conditions": report.holds, "theta": theta, "K": constant, "L1 - f": above,
        "coupling holds": math.isfinite(constant), "diverges": diverges, "t": t, "least V": least_so_far,
        "sum of V": np.cumsum(V[1:]), "V": np.array(V),
    }  # fmt: skip


def largest_radius(n_tables: int) -> tuple[int, float]:
    """Return how many random tables of two parties were tried, and the largest spectral radius of the printed updates.

    Squared loss, where they are linear and y = z after a round; the least rho of the published conditions, or more.
    """
    rng = np.random.default_rng(0)
    tried, worst = 0, 0.0
    for _ in range(n_tables):
        n = int(rng.integers(2, 6))
        sizes = rng.integers(1, n + 1, size=2)
        blocks = [rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-1.0, 1.0) for d in sizes]
        if rng.random() < 0.5:  # nearly the same columns
            k = min(sizes)
            near = 10.0 ** rng.uniform(-3.0, 0.0) * rng.normal(size=(n, k))
            blocks[1][:, :k] = blocks[0][:, :k] * 10.0 ** rng.uniform(-1.0, 1.0) + near
        grams = [block.T @ block for block in blocks]
        spectra = [np.linalg.eigvalsh(gram) for gram in grams]
        l2 = 0.0 if rng.random() < 0.4 else 10.0 ** rng.uniform(-3.0, 3.0)
        if min(values[0] for values in spectra) < 1e-9:
            continue
        rho = max(math.sqrt(2.0), *((2.0 * values[-1] - l2) / values[0] for values in spectra)) * 1.0001
        rho *= 1.0 if rng.random() < 0.7 else 10.0 ** rng.uniform(0.0, 2.0)
        first, second = (
            np.linalg.solve(gram + l2 / rho * np.eye(len(gram)), block.T)
            for gram, block in zip(grams, blocks, strict=True)
        )
        a, d = sizes[0], sum(sizes)
        update = np.zeros((d + n, d + n))  # of x_1, x_2 and z
        update[:a, a:d], update[a:d, :a] = -first @ blocks[1], -second @ blocks[0]
        update[:d, d:] = (1.0 - 1.0 / rho) * np.vstack([first, second])
        update[d:] = rho / (1.0 + rho) * np.hstack(blocks) @ update[:d]
        update[d:, d:] += np.eye(n) / (1.0 + rho)
        tried, worst = tried + 1, max(worst, float(np.abs(np.linalg.eigvals(update)).max()))
    return tried, worst


def exponent(t: Array, least: Array) -> float | None:
    """Return the slope of log V in log t over the last two decades, None where V fell to rounding errors."""
    if least[-1] <= 1e3 * ROUNDING * least[0]:
        return None
    places = np.unique(np.geomspace(max(t[0], t[-1] / 100), t[-1], 50).astype(int)) - t[0]
    return float(np.polyfit(np.log(t[places]), np.log(least[places]), 1)[0])


def tables(found: dict[str, dict[str, Any]]) -> dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    bounds = (f"least V by {at:,}: bound / measured" for at in AT)
    head = ("loss, parties, labels", "rho", "K (L^1 - f)", *bounds, "exponent", "sum of V / its bound")
    rows = []
    for name, case in found.items():
        t, least = case["t"], case["least V"]
        total = case["K"] * case["L1 - f"]
        cells = []
        for at in AT:
            if case["diverges"]:
                cells.append(f"- / {case['V'][at - 1]:.1e}" if at <= len(case["V"]) else "diverges")
            elif at <= t[-1]:
                measured = least[at - 2]
                cells.append(f"{total / (at - 1):.1e} / {measured:.1e}")
            else:
                cells.append(f"{total / (at - 1):.1e} / 0 (round {t[-1]})")
        slope = case["exponent"]
        finite = math.isfinite(total)
        rows.append((
            name, f"{case['rho']:.3g}", f"{total:.3g}" if finite else "none", *cells,
            "" if case["diverges"] else "geometric" if slope is None else f"{slope:.2f}",
            f"{case['sum of V'][-1] / total:.2g}" if finite else "",
        ))  # fmt: skip
    return {"rate": (head, rows)}


def draw(found: dict[str, dict[str, Any]]) -> Any:
    figure, axes = plt.subplots(figsize=(7.5, 5.6))
    for k, (name, case) in enumerate(found.items()):
        total = case["K"] * case["L1 - f"]
        if case["diverges"]:
            shown = case["V"]
            axes.plot(np.arange(1, len(shown) + 1), shown / shown[0], color="black", lw=1.4, label=f"{name} (diverges)")
            continue
        places = np.unique(np.geomspace(case["t"][0], case["t"][-1], 300).astype(int)) - 2
        values = case["least V"][places] / total
        axes.plot(case["t"][places], values, color=f"C{k}", lw=1.4, label=name)
    t = np.geomspace(2, ROUNDS, 50)
    axes.plot(t, 1.0 / (t - 1.0), color="grey", ls="--", lw=1.2, label="bound: K (L^1 - f) / (t - 1)")
    axes.set(xscale="log", yscale="log", ylim=(1e-17, 1e4), xlabel="round t",
             ylabel="least V so far, in units of K (L^1 - f)")  # fmt: skip
    axes.legend(fontsize=7)
    figure.tight_layout()
    return figure


@benchmark(page="measured/vertical_solvers.md")
def main(asked) -> None:
    found = {}
    for name, case in cases().items():
        result = run(case, QUICK if asked.quick else ROUNDS)
        result["exponent"] = None if result["diverges"] else exponent(result["t"], result["least V"])
        found[name] = result
        print(name, {key: value for key, value in result.items() if not isinstance(value, np.ndarray)}, flush=True)
    asked.tables(tables(found), width=200)
    brief = {
        name: {key: value for key, value in case.items() if not isinstance(value, np.ndarray)}
        | {"V": {str(at): float(case["V"][at - 1]) for at in AT if at <= len(case["V"])}}
        for name, case in found.items()
    }
    tried, radius = largest_radius(200 if asked.quick else 20_000)
    print(f"two parties, squared loss: largest spectral radius of {tried} random tables is 1 + {radius - 1.0:.1e}")
    asked.picture(lambda: draw(found), "vertical_rate.png")
    keep("vertical_rate", brief, FIGURES if asked.docs else RESULTS)
