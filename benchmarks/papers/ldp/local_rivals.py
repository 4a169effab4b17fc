"""Our report against the published non-interactive forms and an interactive ceiling, for the same people.

    python -m benchmarks.papers.ldp.local_rivals [--quick] [--seeds 5] [--sizes 10000,100000] [--docs]

People and loss of `benchmarks.papers.ldp.bernstein`: the hinge at 1/2 over the unit ball. Each form is built from its
paper as well as we can build it, with the least noise that our accountants allow; all are simulated by the exact law of
their reports. Excess risk on 100,000 other people over that of w = 0, means of five draws of people and noise.

* ``our report``: 22 bytes, epsilon-LDP; ``Aggregator.fit("hinge")``.
* ``Bernstein``: Wang, Smith, Xu 2019, p = 1: 3 copies of (x, y), (epsilon, 1e-6).
* ``Chebyshev, p``: Zheng, Mou, Wang 2017. The derivative by its Chebyshev polynomial, in powers of u: 1 + p(p + 1)/2
  noisy copies of z = y x, one Gaussian release, (epsilon, 1e-6). Copies of x and y apart would need more noise.
* ``net``: Smith, Thakurta, Upadhyay 2017. Each person is given a point of a net of the ball at random (distance 1/2)
  and reports its loss there by one randomised bit, epsilon-LDP; the point of least mean is the answer.
* ``grid``: Wang, Gaboardi, Xu 2018. The same at the (k + 1)^d points of a grid over [-1, 1]^d; the Bernstein polynomial
  of the means is minimised over the ball. k = 4 for d = 2, k = 2 for d = 5.
* ``interactive, Duchi``: n rounds, each person answers once, with its gradient at the weights of then (Duchi, Jordan,
  Wainwright 2013, the mechanism for the Euclidean ball), epsilon-LDP.
* ``interactive, our report``: the same with a report of ours on the gradient's direction.

All but the net and the grid take the steps of `sottovoce.papers.ldp.server.sigm`, from public bounds; ``--longer 10``
shows what is lost by that. ``--docs`` writes the table into
docs/papers/ldp.md.
"""

import math
import sys
import warnings
from collections.abc import Callable
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.polynomial import chebyshev, polynomial
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import gammaln

from benchmarks.driver import DOCS, benchmark, option, write_tables
from benchmarks.papers.ldp.bernstein import DELTA, TEST
from sottovoce._compiling import njit
from sottovoce.exceptions import SottovoceWarning
from sottovoce.local import Aggregator, Protocol, cap
from sottovoce.local.planning.simulate import simulate
from sottovoce.papers.ldp.noise import CopyNoise
from sottovoce.papers.ldp.reproduce import Judge, people
from sottovoce.papers.ldp.server import STEP_FACTOR
from sottovoce.papers.ldp.surrogate import Oracle, bernstein_at, hinge_half, smoothed_hinge_derivative
from sottovoce.privacy.calibration import gaussian_mu

Array = NDArray[np.float64]
Form = Callable[[Array, Array, float, np.random.Generator], Array | None]

BETA: Final = 0.25
EPSILONS: Final = (1.0, 2.0, 4.0, 8.0)
NODES: Final = {2: 4, 5: 2}  # k of the grid; more features have too many points
LONGER = {"steps": 1.0}  # how much longer steps are than those of the theory, but for Duchi's; see ``--longer``


@njit(cache=True)
def project(v: Any) -> None:
    norm = math.sqrt(np.sum(v * v))
    if norm > 1.0:
        v /= norm


@njit(cache=True)
def bernstein_pass(Z: Any, coefficients: Any, noise: float, std: float, smoothness: float, draws: Any) -> Any:
    """Take the steps with reports of degree 1; ``draws`` are nine normal numbers and d more for each person."""
    d = Z.shape[1]
    total, z, mean, moved, gradient = np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d)
    for k in range(len(Z)):
        b = smoothness + STEP_FACTOR * std * math.sqrt(k + 2.0)
        length, u, normal = math.sqrt(np.sum(z * z)), np.sum(z * Z[k]), draws[k]
        first = 0.5 + 0.5 * (u + noise * length * normal[0]) * (1.0 + noise * normal[1])
        second = 0.5 + 0.5 * (u + noise * length * normal[2]) * (1.0 + noise * normal[3])
        factor = (coefficients[0] * (1.0 - first) + coefficients[1] * second) * (1.0 + noise * normal[4])
        for j in range(d):
            gradient[j] = factor * (Z[k, j] + noise * normal[5 + j])
        moved[:] = z - gradient / b
        project(moved)
        mean += (moved - mean) / (k + 1.0)
        total += gradient
        z[:] = -total / b
        project(z)
    return mean


@njit(cache=True)
def power_pass(Z: Any, powers: Any, noise: float, std: float, smoothness: float, draws: Any) -> Any:
    """Take the steps with noisy copies of z for each power of u, and one more for the direction."""
    d, degree = Z.shape[1], len(powers) - 1
    total, z, mean, moved, gradient = np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d)
    for k in range(len(Z)):
        b = smoothness + STEP_FACTOR * std * math.sqrt(k + 2.0)
        length, u, normal = math.sqrt(np.sum(z * z)), np.sum(z * Z[k]), draws[k]
        factor, place = powers[0], d
        for j in range(1, degree + 1):
            term = powers[j]
            for _ in range(j):
                term *= u + noise * length * normal[place]
                place += 1
            factor += term
        for j in range(d):
            gradient[j] = factor * (Z[k, j] + noise * normal[j])
        moved[:] = z - gradient / b
        project(moved)
        mean += (moved - mean) / (k + 1.0)
        total += gradient
        z[:] = -total / b
        project(z)
    return mean


@njit(cache=True)
def interactive_pass(Z: Any, duchi: bool, scale: float, std: float, smoothness: float, coins: Any, draws: Any) -> Any:
    """Take the steps with each person's answer to the weights of then.

    ``coins`` are two uniform numbers a person: for the side of the gradient's direction; and for the report: below
    ``scale`` the hemisphere of Duchi et al. is the right one, or the component along the direction of our report.
    """
    d = Z.shape[1]
    total, z, mean, moved, g = np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d)
    for k in range(len(Z)):
        b = smoothness + STEP_FACTOR * std * math.sqrt(k + 2.0)
        length = math.sqrt(np.sum(Z[k] * Z[k]))
        size = length if np.sum(z * Z[k]) < 0.5 else 0.0  # of the gradient, which is -Z[k] or 0
        side = -1.0 if coins[k, 0] < 0.5 + 0.5 * size else 1.0
        normal = draws[k]
        along = np.sum(normal * Z[k]) / length
        if duchi:  # a point of the sphere of radius std, on the likely side with probability ``scale``
            right = (along * side > 0.0) == (coins[k, 1] < scale)
            g[:] = normal * ((std if right else -std) / math.sqrt(np.sum(normal * normal)))
        else:
            g[:] = (normal + (side * coins[k, 1] - along) * Z[k] / length) / scale
        moved[:] = z - g / b
        project(moved)
        mean += (moved - mean) / (k + 1.0)
        total += g
        z[:] = -total / b
        project(z)
    return mean


def ours(X: Array, y: Array, epsilon: float, rng: np.random.Generator) -> Array:
    protocol = Protocol(epsilon=epsilon, n_features=X.shape[1], intercept=0.0, completion="slack")
    Z, aggregator = protocol.encode_many(X) * y[:, None], Aggregator(protocol)
    for start in range(0, len(Z), 50_000):
        aggregator.moments.add(simulate(protocol, Z[start : start + 50_000], rng))
    return np.asarray(aggregator.fit("hinge").weights[: X.shape[1]])


def bernstein(X: Array, y: Array, epsilon: float, rng: np.random.Generator) -> Array:
    noise, oracle, d = CopyNoise.calibrated("tight", epsilon, DELTA, 1), Oracle(1, BETA), X.shape[1]
    std = oracle.gradient_std(noise, d) / LONGER["steps"]
    draws = rng.standard_normal((len(X), 5 + d))
    # y = -1 turns the signs of both kinds of noise, whose laws are even
    steps = bernstein_pass(X * y[:, None], oracle.coefficients, noise.first_std, std, oracle.smoothness, draws)
    return np.asarray(steps)


def chebyshev_form(degree: int) -> Form:
    powers = chebyshev.cheb2poly(
        chebyshev.Chebyshev.interpolate(lambda u: smoothed_hinge_derivative(u, BETA), degree).coef
    )
    u = np.linspace(-1.0, 1.0, 401)
    smoothness = float(np.abs(polynomial.polyval(u, polynomial.polyder(powers))).max())

    def fit(X: Array, y: Array, epsilon: float, rng: np.random.Generator) -> Array:
        d, copies = X.shape[1], 1 + degree * (degree + 1) // 2
        noise = 2.0 * math.sqrt(copies) / gaussian_mu(epsilon, DELTA)
        spread = sum(powers[k] ** 2 * ((u**2 + noise**2) ** k - u ** (2 * k)) for k in range(1, degree + 1))
        second = (polynomial.polyval(u, powers) ** 2 + spread) * (1.0 + d * noise**2)
        draws = rng.standard_normal((len(X), d + degree * (degree + 1) // 2))
        std = math.sqrt(float(second.max())) / LONGER["steps"]
        return np.asarray(power_pass(X * y[:, None], powers, noise, std, smoothness, draws))

    return fit


def means_at(points: Array, Z: Array, largest: float, epsilon: float, rng: np.random.Generator) -> Array:
    """Return an estimate of the mean loss at each point, from one randomised bit a person at one of the points."""
    where = rng.integers(len(points), size=len(Z))
    loss = np.clip(hinge_half(np.einsum("ij,ij->i", Z, points[where])), 0.0, largest) / largest
    lean = math.tanh(0.5 * epsilon)
    bits = rng.random(len(Z)) < 0.5 + lean * (loss - 0.5)
    counts = np.maximum(np.bincount(where, minlength=len(points)), 1)
    share = np.bincount(where, weights=bits, minlength=len(points)) / counts
    return np.asarray(largest * (0.5 + (share - 0.5) / lean))


def net(X: Array, y: Array, epsilon: float, rng: np.random.Generator) -> Array | None:
    if X.shape[1] not in NODES:
        return None
    points = np.array(list(product((-1.0, -0.5, 0.0, 0.5, 1.0), repeat=X.shape[1])))
    points = points[(points**2).sum(axis=1) <= 1.0]
    return np.asarray(points[np.argmin(means_at(points, X * y[:, None], 1.5, epsilon, rng))])


def grid(X: Array, y: Array, epsilon: float, rng: np.random.Generator) -> Array | None:
    d = X.shape[1]
    if d not in NODES:
        return None
    k = NODES[d]
    points = np.array(list(product(np.linspace(-1.0, 1.0, k + 1), repeat=d)))
    largest = 0.5 + math.sqrt(d)
    values = means_at(points, X * y[:, None], largest, epsilon, rng).reshape((k + 1,) * d)

    def surrogate(w: Array) -> float:
        out = values
        for v in 0.5 * (1.0 + w):  # the basis polynomials of one coordinate, one after the other
            out = np.tensordot(np.array([bernstein_at(e, np.array(v)) for e in np.eye(k + 1)]), out, axes=1)
        return float(out)

    ball = [{"type": "ineq", "fun": lambda w: 1.0 - w @ w}]
    starts = [np.zeros(d), *(0.5 * s / math.sqrt(d) for s in rng.choice([-1.0, 1.0], (4, d)))]
    found = [minimize(surrogate, start, constraints=ball, method="SLSQP", options={"maxiter": 100}) for start in starts]
    best = min(found, key=lambda one: one.fun).x
    return np.asarray(best / max(1.0, float(np.linalg.norm(best))))


def interactive_duchi(X: Array, y: Array, epsilon: float, rng: np.random.Generator) -> Array:
    n, d = X.shape
    # the mean of |first coordinate| on the unit sphere is gamma(d/2) / (sqrt(pi) gamma((d + 1)/2))
    radius = math.sqrt(math.pi) * math.exp(gammaln(0.5 * (d + 1)) - gammaln(0.5 * d)) / math.tanh(0.5 * epsilon)
    right = 1.0 / (1.0 + math.exp(-epsilon))
    draws = (rng.random((n, 2)), rng.standard_normal((n, d)))
    return np.asarray(interactive_pass(X * y[:, None], True, right, radius, 0.5 / BETA, *draws))


def interactive_ours(X: Array, y: Array, epsilon: float, rng: np.random.Generator) -> Array:
    n, d = X.shape
    sizes = cap.design(epsilon, 0)
    A = cap.constants(epsilon, sizes.K, sizes.m, sizes.b).A
    t = np.linspace(-10.0, 10.0, 40_001)
    cumulative = np.cumsum(cap.density(t, epsilon, sizes.K, sizes.m, sizes.b))
    coins = np.column_stack([rng.random(n), np.interp(rng.random(n), cumulative / cumulative[-1], t)])
    std = math.sqrt(A[1] + d) / A[0] / LONGER["steps"]
    steps = interactive_pass(X * y[:, None], False, A[0], std, 0.5 / BETA, coins, rng.standard_normal((n, d)))
    return np.asarray(steps)


FORMS: Final[dict[str, Form]] = {
    "our report": ours, "Bernstein, p = 1": bernstein, "Chebyshev, p = 1": chebyshev_form(1),
    "Chebyshev, p = 3": chebyshev_form(3), "net": net, "grid": grid, "interactive, Duchi": interactive_duchi,
    "interactive, our report": interactive_ours,
}  # fmt: skip


def table_of(found: list[dict[str, Any]]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the table of the page, means and standard deviations over the draws."""
    rows = []
    for n, d, name in product(sorted({r["n"] for r in found}), (2, 5, 20), FORMS):
        some = [np.array(r["excess"]) for r in found if (r["n"], r["d"], r["form"]) == (n, d, name)]
        if some:
            rows.append((f"{n:,}", f"{d}", name, *(f"{one.mean():.3f} ± {one.std():.3f}" for one in some)))
    return ("people", "d", "form", *(f"epsilon {e:g}" for e in EPSILONS)), rows


@benchmark(
    page="papers/ldp.md", seeds=(5, 1), sizes=("10000,100000", "1000"),
    longer=option(1.0, help="steps this much longer than those of the theory"),
)  # fmt: skip
def main(run) -> None:
    LONGER["steps"] = run.longer
    warnings.simplefilter("ignore", SottovoceWarning)
    found: list[dict[str, Any]] = []
    for n, d in product(map(int, run.sizes.split(",")), (2, 5, 20)):
        judge = Judge(d, TEST)
        for name, form in FORMS.items():
            for epsilon in EPSILONS:
                runs = []
                for seed in range(run.seeds):
                    X, y = people(n, d, seed)
                    w = form(X, y, epsilon, np.random.default_rng([seed, n, d]))
                    if w is not None:
                        runs.append(judge(w))
                if runs:
                    found.append({"n": n, "d": d, "form": name, "epsilon": epsilon, "excess": runs})
                    print(n, d, name, epsilon, f"{np.mean(runs):.3f}", file=sys.stderr, flush=True)
            run.keep("local_rivals", found)
    head, rows = table_of(found)
    run.table(f"Excess risk over that of w = 0, {run.seeds} seeds", head, rows)
    if run.docs:
        most = [row for row in rows if row[0] == "100,000" and row[1] != "2"]  # the page is short
        write_tables(DOCS / run.page, {"rivals": (head, most)})
