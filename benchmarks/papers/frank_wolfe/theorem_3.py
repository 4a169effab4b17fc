"""Theorem 3 of Lou and Cheung (AAAI 2018) against runs of their Algorithm 2: excess risk by people, by tau, by parties.

    python -m benchmarks.papers.frank_wolfe.theorem_3 [--quick] [--parts people,causes] [--seeds 5]
    python -m benchmarks.papers.frank_wolfe.theorem_3 --docs     # tables and picture, from the figures kept

The table of ``benchmarks.vertical.frank_wolfe`` with 200 columns: entries -1 and 1, ten columns of weight +-0.08,
decoys of correlation 0.6, labels within [-1, 1]; ball of radius 1, four parties, epsilon = 1, delta = 1e-5. Excess risk
is half the mean squared residual less the least one on the ball. Medians over seeds of the noise.

"As printed" is simulated, exactly in law but for the singular value of J, which is taken as sqrt(n / m) + 1: q, J a and
the gradients of Algorithm 2 depend on the records by A'A and A'y only, and J A is drawn with independent rows
N(0, A'A / m). So a million people cost what a thousand do; beyond a million, A'A / n and A'y / n are those of a
million. `PublishedBallPlan` is the form among parties, which clips slopes to G as its privacy statement needs and
works on records; its largest n is run as the same loop without messages.

readings: T and the bound with one C in both, that of Proposition 4 (coordinates are the blocks) or that of the four l1
balls that are walked. people: as printed against n at T = (n eps)^(2/3), with Theorem 3. records: the product's form
and the sound forms. causes: parts of the algorithm taken out one by one. tau: sampled columns, with the floor that is
proved. parties: K. columns: d against the rows of the sketch. binding: a ball that binds, radius 0.4.
"""

import json
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks.driver import DOCS, FIGURES, benchmark, keep, keep_picture, write_tables
from benchmarks.vertical.frank_wolfe import NAMES, table
from sottovoce import DPLasso
from sottovoce.exceptions import PrivacyWarning
from sottovoce.papers.frank_wolfe import (
    PROTOCOL,
    DistributedSampling,
    ProductDomain,
    PublishedBallPlan,
    Quadratic,
    proposition_4_bound,
)
from sottovoce.papers.frank_wolfe.bounds import balls_curvature, theorem_3, weight_cap
from sottovoce.papers.frank_wolfe.noise import (
    Sketch,
    published_column_std,
    published_rows,
    published_selection_scale,
    published_steps,
)
from sottovoce.vertical import InProcessParties, Party, VerticalLasso

NAME = "lou_cheung_utility"
PARTS = ("readings", "people", "causes", "tau", "parties", "columns", "binding", "records")
COLUMNS, PARTIES, EPSILON, DELTA, IOTA = 200, 4, 1.0, 1e-5, 0.3
PEOPLE = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000)
MOST_DRAWN = 1_000_000  # a larger table has the A'A / n and A'y / n of this one
MOST_WITHOUT_SKETCH = 10_000_000
READINGS = {"coordinates": (10_000, 100_000, 1_000_000, 10_000_000),
            "balls": (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)}  # fmt: skip
SEEDS_OF_A_READING = {10_000: 5, 100_000: 3}
FEWER_SEEDS = {100_000_000: 3, 1_000_000_000: 1}
SEEDS_OF_THE_PRODUCT = {100: 5, 300: 5, 1_000: 5, 3_000: 5, 10_000: 3, 30_000: 1, 100_000: 1}
LARGEST_WITH_MESSAGES = 30_000
SOUND = {"local": 100_000, "global": 100_000, "central": 100_000}  # largest n that is run
CLAIM = {"epsilon": EPSILON, "delta": DELTA}
EXPONENT = -2.0 / 3.0

Array = NDArray[np.float64]


class Problem:
    """What least squares knows of a table, and the least risks."""

    def __init__(self, n: int, d: int = COLUMNS, drawn: int = MOST_DRAWN) -> None:
        self.d, drawn = d, min(n, drawn)
        entries, y = table(drawn, d)
        gram, moment = np.zeros((d, d)), np.zeros(d)
        for low in range(0, drawn, 2**16):
            piece = entries[low : low + 2**16]
            gram += piece.T @ piece
            moment += piece.T @ y[low : low + 2**16]
        self.n, self.gram, self.moment = n, gram / drawn, moment / drawn
        self.constant = 0.5 * float(np.mean(y**2))
        values, vectors = np.linalg.eigh(self.gram)
        self.root = (vectors * np.sqrt(np.maximum(values, 0.0))).T  # root' root = gram

    def risk(self, x: Array) -> float:
        """Return half the mean squared residual."""
        return 0.5 * float(x @ self.gram @ x) - float(self.moment @ x) + self.constant

    def least(self, radius: float, n_balls: int = 1) -> float:
        """Return the least risk on the l1 ball, or on the product of one such ball for each party."""
        step = 1.0 / float(np.linalg.eigvalsh(self.gram)[-1])
        x = ahead = np.zeros(self.d)
        pace = 1.0
        for _ in range(2000):
            moved = ahead - step * (self.gram @ ahead - self.moment)
            following = np.concatenate([on_ball(part, radius) for part in np.split(moved, n_balls)])
            faster = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * pace * pace))
            ahead = following + (pace - 1.0) / faster * (following - x)
            x, pace = following, faster
        return self.risk(x)

    def least_within(self, cap: float) -> float:
        """Return the least risk of models whose weights are all within +-cap."""
        found = minimize(
            self.risk, np.zeros(self.d), jac=lambda x: self.gram @ x - self.moment, method="L-BFGS-B",
            bounds=[(-cap, cap)] * self.d, options={"maxiter": 2000, "ftol": 1e-14, "gtol": 1e-9},
        )  # fmt: skip
        return float(found.fun)


def on_ball(x: Array, radius: float) -> Array:
    sizes = np.abs(x)
    if sizes.sum() <= radius:
        return x
    ordered = np.sort(sizes)[::-1]
    over = np.cumsum(ordered) - radius
    last = int(np.flatnonzero(ordered > over / np.arange(1, len(x) + 1))[-1])
    return np.sign(x) * np.maximum(sizes - over[last] / (last + 1), 0.0)


def printed(
    problem: Problem,
    seed: int,
    *,
    n_parties: int = PARTIES,
    tau: int | None = None,
    radius: float = 1.0,
    slope_bound: float = 1.0,
    choices: bool = True,
    columns: bool = True,
    sketch: bool = True,
    steps: float = 1.0,
    iota: float = IOTA,
    one_vertex: bool = False,
) -> Array:
    """Return the model of Algorithm 2 as printed; parts can be taken out.

    Parameters
    ----------
    choices, columns, sketch : bool
        Whether there is noise on the choices, noise on the columns, and a sketch.
    steps : float
        Multiplies T.
    iota : float
        Of the sketch.
    one_vertex : bool
        Move to the best of the parties' vertices alone, so that the model stays in the ball.
    """
    rng, n, width = np.random.default_rng(seed), problem.n, problem.d // n_parties
    T = max(1, round(steps * published_steps(n, EPSILON)))
    claim = {"n_people": n, "n_steps": T, **CLAIM}
    A = problem.root  # of norms as columns of the table over sqrt(n)
    leading = 1.0
    if sketch:
        m = published_rows(T, DELTA, iota)
        A = rng.normal(size=(m, problem.d)) / math.sqrt(m) @ problem.root
        leading = math.sqrt(n / m) + 1.0
    std = published_column_std(leading, n_parties=n_parties, **claim) / math.sqrt(n) if columns else 0.0
    scale = published_selection_scale(slope_bound, radius, **claim) if choices else 0.0
    drawn_each = width if tau is None else tau
    p = drawn_each / width
    firsts = width * np.arange(n_parties)[:, None]
    x, q = np.zeros(problem.d), np.zeros(len(A))
    for t in range(T):
        size = 2.0 / (p * t + 2.0)
        gradient = (A.T @ q - problem.moment).reshape(n_parties, width)
        if drawn_each < width:
            drawn = np.argpartition(rng.random((n_parties, width)), drawn_each, axis=1)[:, :drawn_each]
        else:
            drawn = np.broadcast_to(np.arange(width), (n_parties, width))
        slopes = np.take_along_axis(gradient, drawn, axis=1)
        noisy = np.concatenate([slopes, -slopes], axis=1)
        if scale:
            noisy += rng.laplace(0.0, scale, noisy.shape)
        best = noisy.argmax(axis=1)
        places = (firsts[:, 0] + drawn[np.arange(n_parties), best % drawn_each])[:, None]
        signs = np.where(best < drawn_each, -1.0, 1.0)
        if one_vertex:
            winner = int(noisy.max(axis=1).argmax())
            places, signs = places[winner : winner + 1], signs[winner : winner + 1]
        shared = A[:, places[:, 0]]
        if std:
            shared = shared + rng.normal(0.0, std, shared.shape)
        x *= 1.0 - size
        x[places[:, 0]] += size * radius * signs
        q = (1.0 - size) * q + size * radius * (shared @ signs)
    return x


def clipped(
    entries: Any, y: Any, seed: int, *, epsilon: float = EPSILON, n_steps: int | None = None, n_parties: int = PARTIES
) -> Array:
    """Return the model of `PublishedBallPlan` on records, as one loop in one place (its G is 1)."""
    rng, (n, d) = np.random.default_rng(seed), entries.shape
    T = published_steps(n, epsilon) if n_steps is None else n_steps
    claim = {"n_people": n, "n_steps": T, "epsilon": epsilon, "delta": DELTA}
    sketch = Sketch(n, published_rows(T, DELTA, IOTA), 0)
    J = np.empty((sketch.n_rows, n), np.float32)
    for place, piece in sketch._drawn_pieces():
        J[:, place] = piece
    std = published_column_std(sketch.leading_singular_value, n_parties=n_parties, **claim)
    scale = published_selection_scale(1.0, 1.0, **claim)
    A, labels, width = np.asarray(entries, np.float32), np.asarray(y, np.float32), d // n_parties
    x, q = np.zeros(d), np.zeros(sketch.n_rows)
    for t in range(T):
        size = 2.0 / (t + 2.0)
        slopes = np.clip(q.astype(np.float32) @ J - labels, -1.0, 1.0)
        gradient = ((slopes @ A) / n).reshape(n_parties, width)
        noisy = np.concatenate([gradient, -gradient], axis=1)
        best = (noisy + rng.laplace(0.0, scale, noisy.shape)).argmax(axis=1)
        places, signs = width * np.arange(n_parties) + best % width, np.where(best < width, -1.0, 1.0)
        shared = J @ A[:, places] + rng.normal(0.0, std, (len(J), n_parties))
        x *= 1.0 - size
        x[places] += size * signs
        q = (1.0 - size) * q + size * (shared @ signs)
    return x


def middle(problem: Problem, best: float, models: list[Array]) -> dict[str, float]:
    """Return the median excess risk and l1 norm."""
    return {
        "excess": float(np.median([problem.risk(x) - best for x in models])),
        "norm": float(np.median([np.abs(x).sum() for x in models])),
    }


def summary(problem: Problem, best: float, seeds: int, **changes: Any) -> dict[str, float]:
    return middle(problem, best, [printed(problem, seed, **changes) for seed in range(seeds)])


def promised(problem: Problem, tau: int | None = None, n_parties: int = PARTIES) -> dict[str, float]:
    """Return Theorem 3 with its constants filled in; the curvature is that of Proposition 4."""
    tau = COLUMNS // n_parties if tau is None else tau
    domain = ProductDomain.intervals(-1.0, 1.0, n_blocks=COLUMNS)
    curvature = proposition_4_bound(
        Quadratic(problem.gram), domain, DistributedSampling(COLUMNS, n_parties, tau)
    )  # fmt: skip
    rows = published_rows(published_steps(problem.n, EPSILON), DELTA, IOTA)
    bound = theorem_3(
        n_people=problem.n, n_columns=COLUMNS, n_parties=n_parties, sampled_columns=tau, radius=1.0,
        curvature=curvature, sketch_rows=rows, **CLAIM,
    )  # fmt: skip
    return {"risk": bound.risk, "curvature": curvature, "steps": bound.n_steps}


def of_reading(problem: Problem, reading: str) -> dict[str, float]:
    """Return Theorem 3 with one C in the bound and in T."""
    C = balls_curvature(1.0, n_parties=PARTIES)
    if reading == "coordinates":
        domain = ProductDomain.intervals(-1.0, 1.0, n_blocks=COLUMNS)
        C = proposition_4_bound(
            Quadratic(problem.gram), domain, DistributedSampling(COLUMNS, PARTIES, COLUMNS // PARTIES)
        )
    steps = float(published_steps(problem.n, EPSILON))
    for _ in range(4):  # m has the logarithm of T, and T has m
        bound = theorem_3(
            n_people=problem.n, n_columns=COLUMNS, n_parties=PARTIES, sampled_columns=COLUMNS // PARTIES, radius=1.0,
            curvature=C, sketch_rows=published_rows(max(1, round(steps)), DELTA, IOTA), **CLAIM,
        )  # fmt: skip
        steps = bound.n_steps
    return {"C": C, "T": steps, "bound": bound.risk}


def noted(function: Callable[..., Iterator[dict[str, Any]]]) -> Callable[..., list[dict[str, Any]]]:
    """Return what yields rows as what returns their list, and prints each as it comes."""

    @wraps(function)
    def listed(*given: Any) -> list[dict[str, Any]]:
        found = []
        for row in function(*given):
            print(row, flush=True)
            found.append(row)
        return found

    return listed


def problems(people: Iterable[int]) -> Iterator[tuple[int, Problem, float]]:
    """Yield n, the problem of as many people, and its least risk on the ball."""
    for n in people:
        problem = Problem(n)
        yield n, problem, problem.least(1.0)


@noted
def by_reading(people: dict[str, tuple[int, ...]], seeds: int) -> Iterator[dict[str, Any]]:
    for n, problem, best in problems(sorted({n for listed in people.values() for n in listed})):
        for reading in (reading for reading, listed in people.items() if n in listed):
            own: dict[str, Any] = {"n": n, "reading": reading, "model 0": problem.constant - best}
            own |= of_reading(problem, reading)
            longer = own["T"] / published_steps(n, EPSILON)
            own["seeds"] = min(seeds, SEEDS_OF_A_READING.get(n, 1))
            own |= summary(problem, best, own["seeds"], steps=longer)
            if reading == "balls" and n <= MOST_WITHOUT_SKETCH:
                own["no sketch"] = summary(problem, best, own["seeds"], sketch=False, steps=longer)
            yield own


@noted
def by_people(people: tuple[int, ...], seeds: int) -> Iterator[dict[str, Any]]:
    for n, problem, best in problems(people):
        own: dict[str, Any] = {
            "n": n, "T": published_steps(n, EPSILON), "model 0": problem.constant - best,
            "bound": promised(problem), **summary(problem, best, min(seeds, FEWER_SEEDS.get(n, seeds))),
        }  # fmt: skip
        if n <= MOST_WITHOUT_SKETCH:
            own["no sketch"] = summary(problem, best, seeds, sketch=False)
        yield own


@noted
def by_records(people: dict[int, int], sound: dict[str, int], seeds: int) -> Iterator[dict[str, Any]]:
    """Run the product: its form of Algorithm 2, and the sound ones."""
    common = {**CLAIM, "radius": 1.0, "label_bounds": (-1.0, 1.0)}
    joint = {**common, "labels_public": True, "fit_intercept": False}
    for n, problem, best in problems(sorted({n for n in PEOPLE if n <= max((*sound.values(), *people), default=0)})):
        entries, y = table(n, COLUMNS)
        parts = zip(NAMES, np.split(entries, PARTIES, axis=1), strict=True)
        parties = InProcessParties(
            [Party(part, name=name, data_bound=1.0, protocols=[PROTOCOL]) for name, part in parts]
        )

        def model(kind: str, seed: int, n=n, entries=entries, y=y, parties=parties) -> Array:  # type: ignore[no-untyped-def]
            if kind == "paper" and n > LARGEST_WITH_MESSAGES:
                return clipped(entries, y, seed)
            if kind == "central":
                options = {"data_bound": 1.0, "adjacency": "replace-one", "fit_intercept": False}
                fitted: Any = DPLasso(**common, **options, random_state=seed).fit(entries, y)
            else:
                way = {"mechanism": PublishedBallPlan} if kind == "paper" else {"aggregation": kind}
                fitted = VerticalLasso(**joint, **way, random_state=seed).fit(parties, y)
            return np.asarray(fitted.coef_, np.float64).ravel()

        own: dict[str, Any] = {"n": n}
        kinds = [("paper", people.get(n, 0)), *((kind, seeds if n <= most else 0) for kind, most in sound.items())]
        for kind, runs in ((kind, runs) for kind, runs in kinds if runs):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrivacyWarning)
                own[kind] = {**middle(problem, best, [model(kind, seed) for seed in range(runs)]), "seeds": runs}
        yield own


CAUSES: dict[str, dict[str, Any]] = {
    "as printed": {},
    "no noise on choices": {"choices": False},
    "no noise on columns": {"columns": False},
    "no sketch": {"sketch": False},
    "iota = 0.1 in place of 0.3": {"iota": 0.1},
    "no noise at all": {"choices": False, "columns": False},
    "no sketch and no noise on choices": {"sketch": False, "choices": False},
    "no sketch, no noise": {"sketch": False, "choices": False, "columns": False},
    "G = 0.1 in place of 1": {"slope_bound": 0.1},
    "a quarter of the steps": {"steps": 0.25},
    "four times the steps": {"steps": 4.0},
    "one vertex a step, not four": {"one_vertex": True},
}


@noted
def by_cause(people: tuple[int, ...], seeds: int) -> Iterator[dict[str, Any]]:
    for n, problem, best in problems(people):
        for cause, changes in CAUSES.items():
            yield {"n": n, "cause": cause, **summary(problem, best, seeds, **changes)}


@noted
def by_tau(people: tuple[int, ...], taus: tuple[int, ...], seeds: int) -> Iterator[dict[str, Any]]:
    ways = {"printed": {}, "no sketch": {"sketch": False}, "noiseless": CAUSES["no sketch, no noise"]}
    for n, problem, best in problems(people):
        for tau in taus:
            cap = weight_cap(1.0, sampled_columns=tau, n_columns_of_party=COLUMNS // PARTIES)
            own = {"n": n, "tau": tau, "p": tau * PARTIES / COLUMNS, "cap": cap}
            own |= {"floor": max(0.0, problem.least_within(cap) - best), "bound": promised(problem, tau)["risk"]}
            yield own | {name: summary(problem, best, seeds, tau=tau, **changes) for name, changes in ways.items()}


@noted
def by_parties(people: tuple[int, ...], counts: tuple[int, ...], seeds: int) -> Iterator[dict[str, Any]]:
    for n, problem, best in problems(people):
        for count in counts:
            own = {"n": n, "parties": count, **summary(problem, best, seeds, n_parties=count)}
            yield own | {"bound": promised(problem, n_parties=count)["risk"]}


@noted
def by_columns(counts: tuple[int, ...], seeds: int) -> Iterator[dict[str, Any]]:
    """Take more columns than the sketch has rows, and fewer; moments of 100,000 rows."""
    for d in counts:
        for n in (100_000, 1_000_000):
            problem = Problem(n, d, drawn=100_000)
            best = problem.least(1.0)
            own: dict[str, Any] = {"n": n, "d": d, "m": published_rows(published_steps(n, EPSILON), DELTA, IOTA)}
            own |= {"model 0": problem.constant - best, **summary(problem, best, seeds)}
            yield own | {"no sketch": summary(problem, best, seeds, sketch=False)}


@noted
def binding(people: tuple[int, ...], seeds: int) -> Iterator[dict[str, Any]]:
    """Take a ball that binds: the sum of four vertices leaves it, and the risk falls below the least one on it."""
    for n in people:
        problem = Problem(n)
        best, product = problem.least(0.4), problem.least(0.4, PARTIES)
        own = {"n": n, "product": product - best, **summary(problem, best, seeds, radius=0.4)}
        yield own | {"noiseless": summary(problem, best, 1, radius=0.4, **CAUSES["no sketch, no noise"])}


def slope(found: list[dict[str, Any]], low: int, high: int, what: Any) -> float:
    """Return the exponent of a line through the points between two n, on log scales."""
    chosen = [row for row in found if low <= row["n"] <= high]
    return float(np.polyfit(np.log([row["n"] for row in chosen]), np.log([what(row) for row in chosen]), 1)[0])


def digits(excess: float) -> str:
    if abs(excess) < 1e-9:
        return "0"
    return f"{excess:.4f}" if abs(excess) >= 5e-4 else f"{excess:.0e}"


def tables(kept: dict[str, Any]) -> dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    """Return all tables: a column is its title, and what it shows of a row."""
    records = {row["n"]: row for row in kept["records"]}
    wholes = {row["n"]: row for row in kept["tau"] if row["p"] == 1.0}

    def made(rows: Iterable[dict[str, Any]], columns: dict[str, Callable[[Any], str]]) -> Any:
        return tuple(columns), [tuple(show_of(row) for show_of in columns.values()) for row in rows]

    def excess(*names: str) -> Callable[[Any], str]:
        def text(row: Any) -> str:
            for name in names:
                row = row.get(name)
                if row is None:
                    return ""
            return digits(row["excess"])

        return text

    def product(kind: str) -> Callable[[Any], str]:
        return lambda row: excess(kind)(records.get(row["n"], {}))

    def times(form: str) -> Callable[[Any], str]:
        return lambda row: f"{row[form]['excess'] / wholes[row['n']][form]['excess']:.1f}"

    def value(name: str, form: str = "") -> Callable[[Any], str]:
        return lambda row: digits(row[name]) if form == "digits" else format(row[name], form)

    n, model_0, norm = value("n", ","), value("model 0", "digits"), value("norm", ".2f")
    printed_, bare = {"as printed": excess(), "its l1 norm": norm}, {"without the sketch": excess("no sketch")}
    people = sorted({row["n"] for row in kept["causes"]})
    causes = {(row["n"], row["cause"]): row for row in kept["causes"]}
    readings = [row for reading in READINGS for row in kept["readings"] if row["reading"] == reading]
    return {
        "readings": made(readings, {
            "n": n, "C of": value("reading"), "C": value("C", ",.0f"), "T": value("T", ",.0f"),
            "Theorem 3": value("bound", ".3g"), **printed_, **bare, "model 0": model_0,
        }),
        "people": made(kept["people"], {
            "n": n, "T": value("T", ","), "model 0": model_0, **printed_, **bare,
            "`PublishedBallPlan`": product("paper"),
            "(n eps)^(-2/3)": lambda row: digits((row["n"] * EPSILON) ** EXPONENT),
            "Theorem 3 at another T, C of Proposition 4": lambda row: f"{row['bound']['risk']:.3g}",
            '"local"': product("local"), '"global"': product("global"), "`DPLasso`, one table": product("central"),
        }),
        "causes": (
            ("", *(f"n = {count:,}: {what}" for count in people for what in ("excess", "l1 norm"))),
            [(cause, *(show_of(causes[count, cause]) for count in people for show_of in (excess(), norm)))
             for cause in CAUSES],
        ),
        "tau": made((row for row in kept["tau"] if row["n"] in wholes), {
            "n": n, "tau": value("tau"), "p": value("p", "g"), "weight cap": value("cap", "g"),
            "floor, proved": value("floor", "digits"), "no noise, no sketch": excess("noiseless"),
            "no sketch": excess("no sketch"), "times that of tau = 50": times("no sketch"),
            "as printed": excess("printed"), "as printed, times that of tau = 50": times("printed"),
            "1/p^2": lambda row: f"{row['p'] ** -2:,.0f}", "Theorem 3": value("bound", ".3g"),
        }),
        "parties": made(kept["parties"], {
            "n": n, "parties": value("parties"), **printed_, "Theorem 3": value("bound", ".3g")
        }),
        "columns": made(kept["columns"], {
            "columns": value("d", ","), "rows of the sketch": value("m"), "n": n, **printed_, **bare,
            "model 0": model_0,
        }),
        "binding": made(kept["binding"], {
            "n": n, **printed_, "no noise, no sketch": excess("noiseless"),
            "l1 norm of it": lambda row: f"{row['noiseless']['norm']:.2f}",
            "least on the product of four balls": value("product", "digits"),
        }),
    }  # fmt: skip


def of_the_page(found: dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]]) -> dict[str, Any]:
    """Return the tables of the page: one C in bound and in T; most causes, without 3,000 people; tau of a million."""

    def part(name: str, columns: Iterable[str], want: Callable[[tuple[str, ...]], bool] = bool) -> Any:
        head, rows = found[name]
        places = [place for place, title in enumerate(head) if title in columns]
        return tuple(head[at] for at in places), [tuple(row[at] for at in places) for row in rows if want(row)]

    few = ("as printed", "no noise on choices", "no noise on columns", "no sketch", "iota = 0.1 in place of 0.3",
           "no sketch, no noise", "one vertex a step, not four")  # fmt: skip
    causes = [title for title in found["causes"][0] if "3,000:" not in title]
    return {
        "readings": part("readings", [title for title in found["readings"][0] if title != "model 0"]),
        "causes": part("causes", causes, lambda row: row[0] in few),
        "tau": part(
            "tau", ("tau", "p", "floor, proved", "no noise, no sketch", "as printed"), lambda row: row[0] == "1,000,000"
        ),
    }


def picture(kept: dict[str, Any]) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 4.6))
    rows = kept["people"]
    n = np.array([row["n"] for row in rows], float)
    left.plot(n, [row["excess"] for row in rows], "o-", color="#d62728", label="Algorithm 2 as printed")
    bare = [(row["n"], row["no sketch"]["excess"]) for row in rows if "no sketch" in row]
    left.plot(
        *zip(*bare, strict=True), "s-", color="#d62728", lw=1, ms=4, alpha=0.5, label="the same without its sketch"
    )
    left.plot(n, (n * EPSILON) ** EXPONENT, "--", color="black", lw=1, label="(n eps)^(-2/3), constant 1")
    for reading, mark in (("coordinates", "^"), ("balls", "v")):
        own = [row for row in kept["readings"] if row["reading"] == reading]
        people = [row["n"] for row in own]
        left.plot(people, [row["bound"] for row in own], ":", marker=mark, ms=4, color="black",
                  label=f"Theorem 3, C of the {reading}")  # fmt: skip
        left.plot(people, [row["excess"] for row in own], "--", marker=mark, ms=4, color="#8c564b", lw=1,
                  label=f"as printed at its T, C of the {reading}")  # fmt: skip
    left.plot(n, [row["model 0"] for row in rows], color="#999999", lw=1, label="the model 0")
    kinds = (("paper", '"paper", slopes clipped', "#ff7f0e"), ("local", '"local"', "#1f77b4"),
             ("global", '"global"', "#9467bd"),
             ("central", "DPLasso, one table", "#17becf"))  # fmt: skip
    for kind, label, colour in kinds:
        points = [(row["n"], row[kind]["excess"]) for row in kept["records"] if kind in row]
        left.plot(*zip(*points, strict=True), ".-", color=colour, lw=1, label=label)
    left.set(
        xscale="log", yscale="log", xlabel="people n", ylabel="excess risk", title="all columns, four parties",
        ylim=(1e-5, 1e8),
    )  # fmt: skip
    most = max(row["n"] for row in kept["tau"])
    taus = [row for row in kept["tau"] if row["n"] == most]
    p = [row["p"] for row in taus]
    right.plot(p, [row["printed"]["excess"] for row in taus], "o-", color="#d62728", label="Algorithm 2 as printed")
    right.plot(p, [row["noiseless"]["excess"] for row in taus], "s-", color="#1f77b4", label="no noise, no sketch")
    right.plot(p, [row["no sketch"]["excess"] for row in taus], "^-", color="#ff7f0e", label="without its sketch")
    floors = [(row["p"], row["floor"]) for row in taus if row["floor"] > 1e-6]
    right.plot(*zip(*floors, strict=True), "v-", color="black", label="floor, proved for every n")
    whole = next(row for row in taus if row["p"] == 1.0)["printed"]["excess"]
    right.plot(p, [whole / q**2 for q in p], "--", color="black", lw=1, label="1/p^2 of Remark 1")
    right.set(xscale="log", yscale="log", xlabel="p = share of the columns that are drawn", ylabel="excess risk",
              title=f"n = {most:,}", ylim=(None, 1.0))  # fmt: skip
    for axis in (left, right):
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7.5, loc="upper left", ncols=2 if axis is left else 1)
    figure.tight_layout()
    keep_picture(figure, FIGURES / f"{NAME}.png")


@benchmark(page="papers/frank_wolfe.md", parts=",".join(PARTS), seeds=5)
def main(chosen) -> None:
    kept_at = FIGURES / f"{NAME}.json"
    kept: dict[str, Any] = json.loads(kept_at.read_text(encoding="utf-8")) if kept_at.exists() else {}
    if not chosen.docs:
        parts, quick = chosen.parts.split(","), chosen.quick
        seeds, few = (1, (300, 1_000)) if quick else (chosen.seeds, (3_000, 30_000, 1_000_000))
        measures = {
            "readings": lambda: by_reading(dict.fromkeys(READINGS, (300, 1_000)) if quick else READINGS, seeds),
            "people": lambda: by_people(few if quick else PEOPLE, seeds),
            "causes": lambda: by_cause(few, seeds),
            "tau": lambda: by_tau(few, (50, 5) if quick else (50, 25, 10, 5, 2, 1), seeds),
            "parties": lambda: by_parties(few, (2, 4) if quick else (2, 4, 8, 20), seeds),
            "columns": lambda: by_columns((40,) if quick else (40, 200, 1_000), seeds),
            "binding": lambda: binding(few, seeds),
            "records": lambda: (
                by_records({300: 1}, dict.fromkeys(SOUND, 300), 1)
                if quick
                else by_records(SEEDS_OF_THE_PRODUCT, SOUND, min(3, seeds))
            ),
        }
        kept = {} if quick else kept
        for part in parts:
            kept[part] = measures[part]()
            keep(NAME, kept)
            if not quick:
                keep(NAME, kept, FIGURES)
    if all(part in kept for part in PARTS):
        made = tables(kept)
        for name, (head, rows) in made.items():
            chosen.table(name, head, rows, width=170)
        if not chosen.quick:
            print("without noise and sketch:", next(row["noiseless"] for row in kept["tau"] if row["p"] == 1.0))
            of = slope(kept["people"], 100_000, 10**9, lambda row: row["excess"])
            print("exponent of n, as printed, last decade:", of)
        if chosen.docs:
            write_tables(DOCS / chosen.page, of_the_page(made))
            picture(kept)
