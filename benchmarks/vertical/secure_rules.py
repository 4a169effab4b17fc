"""Constants of joint training by rule, chosen on sets that no table shows.

    python -m benchmarks.vertical.secure_rules [--quick] [--only passes,link,moments,cubic,ridge,hinge,weights,auto]

A simulation in floating point of what `sottovoce.vertical.protocols.secure` computes in whole numbers, with the noise
of K parties of which one knows its own; phishing, mushrooms, german, w8a, MNIST digits, skin, and made-up tables. Each
line changes one constant; cells are medians of three seeds. ``auto`` compares joint training with local models.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.driver import benchmark
from benchmarks.vertical.divided import Divided, divided, made_up
from sottovoce.central.noisy_moments import NoisyMoments
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.vertical import VerticalLogisticRegression, VerticalRidge, split_columns

Array = NDArray[np.float64]

DELTA: Final = 1e-5
EPSILONS: Final = (0.5, 1.0, 2.0, 4.0)
CONSTANT: Final = 0.3
SETS: Final = ("phishing", "mushrooms", "german", "w8a", "mnist_4v9", "made 4000x40", "made 40000x60", "made 10000x200")
LINKS: Final = {1: ((3.0433,), (0.5,)), 2: ((1.65649144, 4.03465098), (0.25793087, 0.24206913))}  # (b, h) of k pieces
WEIGHTS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "equal": lambda sizes, norms: np.ones(len(sizes)),
    "by sqrt(columns)": lambda sizes, norms: np.sqrt(sizes),
    "by columns": lambda sizes, norms: np.asarray(sizes, float),
    "by data_norm": lambda sizes, norms: np.asarray(norms, float),
    "by data_norm^2": lambda sizes, norms: np.square(norms),
}


class Problem(NamedTuple):
    """Rows as a plan sees them, at most 1 long; labels -1 and +1, or within them."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    penalty: float
    numbers: bool
    parts: tuple[slice, ...]


def problem(data: Divided, weights: str = "by sqrt(columns)") -> Problem:
    """Weigh the parties' parts of a row; the constant is the first column."""
    squares = WEIGHTS[weights](data.sizes, data.data_norm)
    shares = np.sqrt(squares / squares.sum())
    tables = []
    for blocks in (data.blocks, data.blocks_test):
        parts = [np.full((len(blocks[0]), 1), CONSTANT)]
        for block, norm, share in zip(blocks, data.data_norm, shares, strict=True):
            rows = block / norm
            parts.append(share * rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True)))
        tables.append(np.hstack(parts) / math.hypot(1.0, CONSTANT))
    if data.is_regression:
        low, high = data.public["label_bounds"]
        labels = [np.clip((2.0 * part - low - high) / (high - low), -1.0, 1.0) for part in (data.y, data.y_test)]
    else:
        labels = [np.where(part == data.public["classes"][-1], 1.0, -1.0) for part in (data.y, data.y_test)]
    cuts = [0, *(1 + np.cumsum(data.sizes)).tolist()]
    places = tuple(slice(low, high) for low, high in itertools.pairwise(cuts))
    penalty = 1.0 / sum(norm**2 for norm in data.data_norm)
    return Problem(tables[0], labels[0], tables[1], labels[1], penalty, data.is_regression, places)


def table_of(name: str, n_parties: int, *, first: float = 0.0, numbers: bool = False) -> Divided:
    """Return a set; with ``numbers`` its classes are taken for numbers."""
    if name.startswith("made "):
        n, d = map(int, name[5:].split("x"))
        return made_up(n, d, n_parties, 0, regression=numbers, first=first)
    data = divided(name, n_parties, 0, first=first)
    if not numbers or data.is_regression:
        return data
    y, y_test = (np.where(part == data.public["classes"][-1], 1.0, -1.0) for part in (data.y, data.y_test))
    return data._replace(y=y, y_test=y_test, public={"label_bounds": (-1.0, 1.0)})


def noise_factor(n_parties: int) -> float:
    """Return what the shares of noise of K parties cost, one of which knows its own."""
    return math.sqrt(n_parties / (n_parties - 1.0))


def symmetric(rng: np.random.Generator, d: int, std: float) -> Array:
    """Return the noise of a Gram matrix."""
    upper = np.triu(rng.normal(size=(d, d)) * std / math.sqrt(2.0), 1)
    return np.asarray(upper + upper.T + np.diag(rng.normal(size=d) * std))


def link(z: Array, pieces: int) -> Array:
    """Return sigmoid(z) - 1/2, in clips, or exactly with 0 of them."""
    if pieces == 0:
        return np.asarray(0.5 * np.tanh(0.5 * z))
    return np.asarray(sum(h * np.clip(z / b, -1.0, 1.0) for b, h in zip(*LINKS[pieces], strict=True)))


def by_duals(
    p: Problem, epsilon: float, rng: np.random.Generator, factor: float, *, passes: float = 9.0, some: float = 10.0,
    pieces: int = 2, share: float = 0.08, smoothing: float = 0.0, smallest: float = 0.08,
) -> Array:  # fmt: skip
    """Newton steps with secret dual variables; ``smoothing`` takes the smoothed hinge."""
    n, d = p.X.shape
    mu = gaussian_mu(epsilon, DELTA) / factor
    mu_gram, mu_passes = mu * math.sqrt(share), mu * math.sqrt(1.0 - share)
    information = mu_passes * n / d
    slope, smooth = (1.0, 1.0 / smoothing) if smoothing else (0.5, 0.25)
    growth = (1.0 + information / 1000.0) ** 0.25
    n_passes = round(min(passes + 0.35 * math.log(max(1.0, information / some)) ** 2, 24.0))
    start, decay = min(0.5, 0.09 * growth), max(1.0 - 0.15 / growth, 0.05 ** (1.0 / n_passes))
    clips = 2.0 * slope * np.array([0.1, *(start * decay**t for t in range(n_passes - 1))])
    noises = 2.0 * clips * np.sqrt(clips.sum() / clips) / mu_passes
    std = math.sqrt(2.0) / mu_gram
    values, vectors = np.linalg.eigh(p.X.T @ p.X + symmetric(rng, d, std))
    values = np.maximum(values, 0.5 * math.sqrt(1.0 + 250.0 / (mu_passes * n)) * math.sqrt(2.0 * d) * std)
    penalty = max(p.penalty, 0.2 * slope / mu_passes)
    least = min(0.75, max(smallest, 0.2 * math.sqrt(20.0 / information))) * smooth
    a, total, w, last, curvature = np.zeros(n), np.zeros(d), np.zeros(d), None, 0.75 * smooth
    for t, (clip, noise) in enumerate(zip(clips, noises, strict=True)):
        z = p.X @ w
        if t == 0:
            target = clip * p.y
        elif smoothing:
            target = p.y * np.clip((1.0 - p.y * z) / smoothing, 0.0, 1.0)
        else:
            target = 0.5 * p.y - link(z, pieces)
        move = np.clip(target - a, -clip, clip)
        a = a + move
        total = total + p.X.T @ move + rng.normal(size=d) * noise
        if t == 0:
            w = vectors @ ((vectors.T @ total) * slope / clip / (0.55 * smooth * values + penalty))
            continue
        gradient = total - penalty * w
        if last is not None:
            step, gained = w - last[0], last[1] - gradient
            length, size = np.linalg.norm(step), values @ (vectors.T @ step) ** 2
            seen = (step @ gained - penalty * length**2 + noise * length) / size if size > 0.0 else math.inf
            margin = math.sqrt(values @ (vectors.T @ w) ** 2 / n)
            falls = smooth * math.cosh(min(margin * smooth / slope, 100.0)) ** -1.5
            curvature = min(max(seen, least, falls), 0.75 * smooth)
        last = w, gradient
        w = w + vectors @ ((vectors.T @ gradient) / (curvature * values + penalty))
    return w


def by_cubic(
    p: Problem, epsilon: float, rng: np.random.Generator, factor: float, *, reach: float = 8.0, passes: int = 3,
    c: float = 0.12, kappa: float = 2.0, shares: tuple[float, float, float] = (0.25, 0.25, 0.5),
) -> Array:  # fmt: skip
    """Fresh slopes of a cubic on [-reach, reach], each party's margins cut at its part of it."""
    d = p.X.shape[1]
    mu = gaussian_mu(epsilon, DELTA) / factor
    grid = np.linspace(-reach, reach, 2001)
    k1, k3 = np.linalg.lstsq(np.stack([grid, grid**3], 1), 0.5 * np.tanh(0.5 * grid), rcond=None)[0]
    most = float(np.abs(k1 * grid + k3 * grid**3).max())
    for_labels, for_moments, for_passes = (mu * math.sqrt(share) for share in shares)
    std = math.sqrt(2.0) / for_moments
    pull = p.X.T @ (0.5 * p.y) + rng.normal(size=d) / for_labels
    values, vectors = np.linalg.eigh(p.X.T @ p.X + symmetric(rng, d, std))
    divisors = c * (np.maximum(values, 0.0) + kappa * math.sqrt(d) * std) + p.penalty
    w = vectors @ ((vectors.T @ pull) / divisors)
    points = []
    for _ in range(passes):
        z = sum(np.clip(p.X[:, part] @ w[part], -reach / len(p.parts), reach / len(p.parts)) for part in p.parts)
        slopes = p.X.T @ (k1 * z + k3 * z**3) + rng.normal(size=d) * 2.0 * most * math.sqrt(passes) / for_passes
        w = w + vectors @ ((vectors.T @ (pull - slopes - p.penalty * w)) / divisors)
        points.append(w)
    return np.asarray(np.mean(points[passes // 2 :], axis=0))


def by_moments(
    p: Problem, epsilon: float, rng: np.random.Generator, factor: float, *, label_weight: float = 0.5**0.5
) -> Array:
    """Ridge from noisy second moments."""
    std = math.sqrt(2.0) * (1.0 + label_weight**2) * factor / gaussian_mu(epsilon, DELTA)
    rows = np.hstack([p.X, label_weight * p.y[:, None]])
    return NoisyMoments(rows.T @ rows + symmetric(rng, rows.shape[1], std), label_weight, std).ridge(p.penalty)[0]


def by_refinement(
    p: Problem, epsilon: float, rng: np.random.Generator, factor: float, *, passes: int = 8, share: float = 0.25,
    clip: float = 0.15, decay: float = 0.8, edge: float = 0.6,
) -> Array:  # fmt: skip
    """Ridge from noisy second moments, and passes over residuals with secret dual variables."""
    n, d = p.X.shape
    mu = gaussian_mu(epsilon, DELTA) / factor
    mu_gram, mu_passes = mu * math.sqrt(share), mu * math.sqrt(1.0 - share)
    start = clip * (1.0 + mu_passes * n / d / 1000.0) ** 0.25
    clips = np.array([min(2.0, start * decay**k) for k in range(passes)])
    noises = 2.0 * clips * np.sqrt(clips.sum() / clips) / mu_passes
    std = math.sqrt(2.0) * 1.5 / mu_gram
    rows = np.hstack([p.X, 0.5**0.5 * p.y[:, None]])
    moments = NoisyMoments(rows.T @ rows + symmetric(rng, d + 1, std), 0.5**0.5, std)
    w, _ = moments.ridge(p.penalty)
    values, vectors = np.linalg.eigh(moments.gram)
    values, penalty = np.maximum(values, edge * math.sqrt(2.0 * d) * std), max(p.penalty, 0.05 / mu_passes)
    a, total = np.zeros(n), np.zeros(d)
    for bound, noise in zip(clips, noises, strict=True):
        move = np.clip(p.y - p.X @ w - a, -bound, bound)
        a = a + move
        total = total + p.X.T @ move + rng.normal(size=d) * noise
        w = w + vectors @ ((vectors.T @ (total - penalty * w)) / (values + penalty))
    return np.asarray(w)


def measures(p: Problem, w: Array, *, hinge: bool = False) -> tuple[float, ...]:
    """Return accuracy and loss, or the error over the variance of numbers."""
    scores = p.X_test @ w
    if p.numbers:
        return (float(np.mean((np.clip(scores, -1.0, 1.0) - p.y_test) ** 2) / np.var(p.y_test)),)
    margins = scores * p.y_test
    losses = np.maximum(0.0, 1.0 - margins) if hinge else np.logaddexp(0.0, -margins)
    return 100.0 * float(np.mean(margins > 0.0)), float(np.mean(losses))


def medians(
    p: Problem, solve: Callable[..., Array], factor: float, seeds: int, *, hinge: bool = False, **options: Any
) -> list[tuple[float, ...]]:
    found = []
    for epsilon in EPSILONS:
        runs = [
            measures(p, solve(p, epsilon, np.random.default_rng(seed), factor, **options), hinge=hinge)
            for seed in range(seeds)
        ]
        found.append(tuple(np.median(runs, axis=0).tolist()))
    return found


# what each part tries: how it solves, and by label the options that differ from the rule
TRIED: Final[dict[str, tuple[Callable[..., Array], dict[str, dict[str, Any]]]]] = {
    "passes": (
        by_duals,
        {"rule: 9": {}, "6": {"passes": 6}, "7": {"passes": 7}, "8": {"passes": 8}, "10": {"passes": 10},
         "one table's: 12": {"passes": 12, "some": 20.0}},
    ),
    "link": (by_duals, {"rule: 2 pieces": {}, "1 piece": {"pieces": 1}, "exact": {"pieces": 0}}),
    "moments": (by_duals, {"rule: .08 of mu^2": {}, ".04": {"share": 0.04}, ".16": {"share": 0.16}}),
    "cubic": (
        by_cubic,
        {"rule": {}, "Z 6": {"reach": 6.0}, "Z 12": {"reach": 12.0}, "c .1": {"c": 0.1}, "c .15": {"c": 0.15},
         "1 pass": {"passes": 1}, "5 passes": {"passes": 5}, "kappa 1": {"kappa": 1.0}, "kappa 4": {"kappa": 4.0},
         "shares .4 .1 .5": {"shares": (0.4, 0.1, 0.5)}},
    ),
    "ridge": (
        by_refinement,
        {"rule": {}, "moments only": {"passes": 0}, "5 passes": {"passes": 5}, "12 passes": {"passes": 12},
         "clip .1": {"clip": 0.1}, "clip .3": {"clip": 0.3}, "decay .9": {"decay": 0.9}, "edge .3": {"edge": 0.3},
         "edge 1": {"edge": 1.0}, ".12 of mu^2": {"share": 0.12}, ".5 of mu^2": {"share": 0.5}},
    ),
    "hinge": (
        by_duals,
        {"rule: corner 1, step .4": {"smoothing": 1.0, "smallest": 0.4}, "corner .5, step .08": {"smoothing": 0.5},
         "corner .5, step .4": {"smoothing": 0.5, "smallest": 0.4}, "corner 1, step .08": {"smoothing": 1.0},
         "corner 2, step .4": {"smoothing": 2.0, "smallest": 0.4}},
    ),
}  # fmt: skip


def lines(part: str, names: Sequence[str], seeds: int) -> Iterator[tuple[str, str, list[tuple[float, ...]]]]:
    """Yield set, label and cells of a part."""
    if part == "weights":
        for name in names:
            for first, numbers in ((0.15, False), (0.85, False), (0.15, True), (0.85, True)):
                data = table_of(name, 2, first=first, numbers=numbers)
                for label in WEIGHTS:
                    solve = by_moments if numbers else by_duals
                    cells = medians(problem(data, label), solve, noise_factor(2), seeds)
                    yield f"{name}, {data.sizes}", ("ridge, " if numbers else "") + label, cells
        return
    if part == "auto":
        for name in names:
            for numbers in (False, True):
                for n_parties in (2, 3):
                    data = table_of(name, n_parties, numbers=numbers)
                    p, place = problem(data), f"{name}, {n_parties} parties" + ", ridge" * numbers
                    solve = by_refinement if numbers else by_duals
                    yield place, "joint", medians(p, solve, noise_factor(n_parties), seeds)
                    yield place, "local models", [apart(data, epsilon, seeds) for epsilon in EPSILONS]
                    told = [gaussian_mu(epsilon, DELTA) / noise_factor(n_parties) for epsilon in EPSILONS]
                    yield place, "people x mu / columns", [(mu * p.X.shape[0] / p.X.shape[1],) for mu in told]
        return
    solve, tried = TRIED[part]
    for name in names:
        p = problem(table_of(name, 3, numbers=part == "ridge"))
        for label, options in tried.items():
            if options.get("passes") == 0:  # all of the budget goes there then
                yield name, label, medians(p, by_moments, noise_factor(3), seeds)
                continue
            yield name, label, medians(p, solve, noise_factor(3), seeds, hinge=part == "hinge", **options)


def apart(data: Divided, epsilon: float, seeds: int) -> tuple[float, ...]:
    train, test = (split_columns(np.hstack(t), data.sizes, **data.facts) for t in (data.blocks, data.blocks_test))
    kind = VerticalRidge if data.is_regression else VerticalLogisticRegression
    found = []
    for seed in range(seeds):
        model = kind(epsilon=epsilon, delta=DELTA, mechanism="local-models", random_state=seed, **data.public)
        joint = model.fit(train, data.y).compare(test, data.y_test).joint
        if data.is_regression:
            found.append((joint["mean squared error"] / float(np.var(data.y_test)),))
        else:
            found.append((100.0 * joint["accuracy"], joint["log loss"]))
    return tuple(np.median(found, axis=0).tolist())


@benchmark(only=",".join((*TRIED, "weights", "auto")))
def main(run) -> None:
    names, seeds = (("made 4000x40",), 1) if run.quick else (SETS, 3)
    for part in run.only.split(","):
        rows = (
            (name, label, *(" / ".join(f"{value:.4g}" for value in cell) for cell in cells))
            for name, label, cells in lines(part, names, seeds)
        )
        head = ("set", "", *(f"{epsilon:g}" for epsilon in EPSILONS))
        run.table(f"{part}: accuracy / loss, or error over variance", head, rows)
