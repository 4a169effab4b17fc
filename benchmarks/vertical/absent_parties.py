"""Vertical Frank-Wolfe where parties are away: without noise beside Theorem 1, and with noise what it costs.

    python -m benchmarks.vertical.absent_parties [--quick] [--docs] [--only exact|noisy]

Four parties; every party but the label holder answers in a round with probability p, and is asked the same again in the
next one. Without noise: 400 people, three columns a party, a product of l1 balls of radius 1/4, entries -1 and +1;
f(w_t) - min f by rounds, mean of 30 seeds of the line, beside the bound of Theorem 1 of Lou and Cheung for independent
sampling (p_min = p) with the exact expected curvature, and beside the same bound for shuffled and drawn groups. With
noise: the table of `benchmarks.vertical.frank_wolfe`, 50,000 people and 200 columns, public labels, delta = 1e-5,
excess risk over the least on the ball, median of 5 seeds.
"""

import json
import math
import warnings
from typing import Any

import numpy as np

from benchmarks.common import DOCS, keep, make_parser, show, write_tables
from benchmarks.vertical.frank_wolfe import DELTA, NAMES, least_risk, risk, table
from sottovoce.exceptions import PartyError
from sottovoce.optimize import IndependentSampling, L1Ball, LeastSquares, NiceSampling, ProductDomain
from sottovoce.optimize.theory import expected_curvature, theorem_1_bound
from sottovoce.vertical import InProcessParties, Party, VerticalLasso
from sottovoce.vertical.frames import FRAME_BYTES
from sottovoce.vertical.protocols.frank_wolfe.messages import BallSelect, BallVertex, TrainOnBall
from sottovoce.vertical.wire import code_of

FIGURES = DOCS / "figures" / "vertical_absent_parties.json"
CHANCES = (1.0, 0.8, 0.5, 0.2)
ROUNDS = (3, 10, 30, 100)
FIRST = {kind.code for kind in (BallSelect, BallVertex, TrainOnBall)}  # what opens a round
NOISY = (
    ("product", {"aggregation": "product"}),
    ("product, 2 a round", {"aggregation": "product", "parties_per_round": 2}),
    ("product, 1 a round", {"aggregation": "product", "parties_per_round": 1}),
    ("global", {"aggregation": "global"}),
    ("local", {"aggregation": "local"}),
)


class Sometimes(InProcessParties):
    """Parties that are there in a round with a chance; the first always is."""

    def __init__(self, parties: list[Party], chance: float, seed: int) -> None:
        super().__init__(parties)
        self._chance = chance
        self._lost: dict[str, bytes] = {}
        self._rngs = {name: np.random.default_rng((seed, at)) for at, name in enumerate(self.names)}

    def _answer(self, name: str, raw: bytes) -> bytes:
        kind = code_of(raw[FRAME_BYTES:])
        if kind in FIRST and name != self.names[0]:
            came_back = self._lost.get(name) == b""  # in this round, with what it owed; then it is there
            if not came_back and self._rngs[name].random() >= self._chance:
                self._lost[name] = raw
                raise PartyError(f"party {name!r} is away.")
            owed = self._lost.pop(name, None)
            if owed == raw and kind == BallVertex.code:  # without noise the question of this round follows
                self._lost[name] = b""
        return super()._answer(name, raw)


def made(entries: Any) -> list[Party]:
    """Return the four parties of a table."""
    return [
        Party(part, name=name, data_bound=1.0) for name, part in zip(NAMES, np.split(entries, 4, axis=1), strict=True)
    ]


def fitted(parties: InProcessParties, y: Any, **more: Any) -> VerticalLasso:
    """Return a model, whoever was away."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return VerticalLasso(label_bounds=(-1.0, 1.0), radius=1.0, labels_public=True, **more).fit(parties, y)


def small(n: int = 400, width: int = 3) -> tuple[Any, Any]:
    """Return entries and labels of the problem without noise; neighbours overlap."""
    rng = np.random.default_rng(5)
    entries = rng.choice([-1.0, 1.0], (n, 4 * width))
    for party in range(1, 4):
        entries[:, party * width] = entries[:, (party - 1) * width] * np.where(rng.random(n) < 0.2, -1.0, 1.0)
    weights = np.zeros(4 * width)
    weights[[0, 4, 7, 10]] = 0.2, -0.1, 0.15, 0.05
    return entries, np.clip(entries @ weights + 0.1 * rng.normal(size=n), -1.0, 1.0)


def without_noise(seeds: int) -> list[dict[str, Any]]:
    """Return excess objective and bound, by chance or by parties a round, and by rounds."""
    entries, y = small()
    n, d = entries.shape
    domain = ProductDomain([L1Ball(d // 4, 0.25)] * 4)
    function = LeastSquares(entries / math.sqrt(n), y / math.sqrt(n))
    exact: dict[str, Any] = {"epsilon": math.inf, "aggregation": "product", "fit_intercept": False, "random_state": 0}
    best = fitted(InProcessParties(made(entries)), y, **exact, tol=1e-7, max_iter=5000)
    least = best.history_.objective[-1] / n if best.history_ else math.nan
    cases = [(f"p = {chance:g}", chance, None, IndependentSampling([1.0] + [chance] * 3)) for chance in CHANCES] + [
        (f"{tau} a round, all answer", 1.0, tau, NiceSampling(4, tau)) for tau in (2, 1)
    ]
    found = []
    for label, chance, tau, sampling in cases:
        curvature = expected_curvature(function, domain, sampling)
        runs = []
        for seed in range(seeds if chance < 1.0 or tau else 1):
            parties = Sometimes(made(entries), chance, seed)
            model = fitted(
                parties, y, **exact, tol=1e-12, max_iter=max(ROUNDS) + 1, absent="skip", parties_per_round=tau,
                parties_seed=seed,
            )  # fmt: skip
            assert model.history_ is not None
            path = np.array(model.history_.objective) / n - least
            runs.append([float(path[min(t, len(path) - 1)]) for t in ROUNDS])
        start = 0.5 * float(np.mean(y**2)) - least
        for at, t in enumerate(ROUNDS):
            bound = theorem_1_bound(t, start=start, curvature=curvature, p_min=sampling.p_min)
            mean = float(np.mean([run[at] for run in runs]))
            assert mean <= bound
            found.append({"case": label, "rounds": t, "excess": mean, "bound": bound, "curvature": curvature})
    return found


def with_noise(n: int, d: int, epsilons: tuple[float, ...], seeds: int) -> list[dict[str, Any]]:
    """Return excess risk by mechanism, epsilon and chance."""
    entries, y = table(n, d)
    best, parties = least_risk(entries, y), made(entries)
    found: list[dict[str, Any]] = []
    for label, options in NOISY:
        for epsilon in epsilons:
            for chance in CHANCES:
                risks, missed = [], []
                for seed in range(seeds):
                    line = Sometimes(parties, chance, seed)
                    model = fitted(line, y, epsilon=epsilon, delta=DELTA, random_state=seed, absent="skip", **options)
                    assert model.guarantee_.epsilon <= epsilon
                    assert model.absences_ is not None
                    risks.append(risk(entries, y, model.coef_, model.intercept_) - best)
                    missed.append(sum(model.absences_.lacking.values()) / (4 * model.plan_.n_steps))
                found.append({
                    "variant": label, "epsilon": epsilon, "chance": chance, "excess": float(np.median(risks)),
                    "lacking": float(np.mean(missed)),
                })  # fmt: skip
                print(found[-1], flush=True)
    found.append({"variant": "model 0", "excess": risk(entries, y, np.zeros(d)) - best})
    return found


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__, docs=True)
    parser.add_argument("--only", choices=["exact", "noisy"], help="one part; the other one as it was kept")
    arguments = parser.parse_args()
    kept = json.loads(FIGURES.read_text(encoding="utf-8")) if arguments.only else {}
    exact = kept.get("without noise") if arguments.only == "noisy" else without_noise(2 if arguments.quick else 30)
    if arguments.only == "exact":
        noisy = kept["with noise"]
    else:
        noisy = with_noise(*((2_000, 40, (8.0,), 1) if arguments.quick else (50_000, 200, (8.0,), 5)))
    cases = list(dict.fromkeys(row["case"] for row in exact))
    cells = {(row["case"], row["rounds"]): f"{row['excess']:.5f} / {row['bound']:.3f}" for row in exact}
    first = ("", *(f"{t} rounds" for t in ROUNDS)), [(case, *(cells[case, t] for t in ROUNDS)) for case in cases]
    lines = []
    for label, epsilon in dict.fromkeys((row["variant"], row.get("epsilon")) for row in noisy):
        if epsilon is None:
            continue
        rows = [row for row in noisy if (row["variant"], row.get("epsilon")) == (label, epsilon)]
        lines.append((label, f"{epsilon:g}", *(f"{row['excess']:.4f}" for row in rows), f"{rows[-1]['lacking']:.0%}"))
    second = ("", "epsilon", *(f"p = {chance:g}" for chance in CHANCES), "steps never taken at p = 0.2"), lines
    show("f(w_t) - min f, without noise: measured / bound of Theorem 1", *first)
    show(f"Excess risk with noise; model 0 has {noisy[-1]['excess']:.4f}", *second)
    keep("vertical_absent_parties", {"without noise": exact, "with noise": noisy})
    if arguments.docs and not arguments.quick:
        keep("vertical_absent_parties", {"without noise": exact, "with noise": noisy}, FIGURES.parent)
        write_tables(DOCS / "measured" / "vertical_sparse.md", {"absent exact": first, "absent noisy": second})


if __name__ == "__main__":
    main()
