"""What is wrong with the published noise of ADMM sharing, on real data; docs/privacy/published_vertical_noise.md.

    python -m benchmarks.papers.admm.flaws [--only a9a,wide] [--std 100] [--docs] [--quick]

The attacked party is the last one: 57 columns of a9a, 1,000 of the wide set. ``--docs`` writes the tables into the
page.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from benchmarks.common import data_folder
from benchmarks.driver import benchmark, option
from benchmarks.vertical.data import Parties, a9a_parties, wide_set
from sottovoce.papers.admm.algorithm import half_inverse
from sottovoce.papers.admm.attacks import (
    Lemma1Counterexample,
    distance_to_columns,
    identify_rows,
    labels_from_dual,
    recover_block,
    rows_to_know,
)
from sottovoce.papers.admm.bounds import lemma_1_bound, theorem_3_std
from sottovoce.privacy.accounting import gaussian_epsilon

SETS = {"a9a": a9a_parties, "wide": wide_set}
TRIES = {"a9a": 200, "wide": 20}  # rows to identify; the wide set takes two seconds for each
NEIGHBOURS = {"a9a": 20, "wide": 5}
KNOWN = 2  # known rows, in units of the rank
EPSILON, DELTA = 1.0, 1e-5
PAIRS = (50, 400, 2000)

Array = NDArray[np.float64]


def release_of(block: Array, std: float) -> Callable[[np.random.Generator], Array]:
    """Return the published message of a party, at weights that are drawn again each time."""
    factor = half_inverse(block)
    return lambda rng: (
        block @ (rng.standard_normal(block.shape[1]) + std * (factor @ rng.standard_normal(factor.shape[1])))
    )


def support(block: Array, std: float, pairs: int, rng: np.random.Generator) -> dict[str, float]:
    """Return how far releases are from their own block, at most, and from neighbouring blocks, at least.

    A pair of neighbours is told apart when the release of either one leaves the other's span, so the larger distance
    of the two counts.
    """
    first = release_of(block, std)

    def apart(changed: Array) -> float:
        there, back = first(rng), release_of(changed, std)(rng)
        return max(distance_to_columns(there, changed), distance_to_columns(back, block))

    found: dict[str, list[float]] = {"own": [], "row": [], "entry": []}
    for row in rng.choice(len(block), pairs, replace=False):
        found["own"].append(distance_to_columns(first(rng), block))
        changed = block.copy()
        changed[row] = block[rng.choice(np.flatnonzero((block != block[row]).any(axis=1)))]
        found["row"].append(apart(changed))
        changed = block.copy()
        column = rng.integers(block.shape[1])
        changed[row, column] += -1.0 if block[row, column] > 0.0 else 1.0
        found["entry"].append(apart(changed))
    return {"own": max(found["own"]), "row": min(found["row"]), "entry": min(found["entry"])}


def identified(block: Array, releases: Any, tries: int, rng: np.random.Generator) -> int:
    """Return in how many cases one release names the one row that the attacker does not know."""
    candidates = np.unique(block, axis=0)
    hits = 0
    for row in rng.choice(len(block), tries, replace=False):
        rows = np.delete(np.arange(len(block)), row)
        (guess,) = identify_rows(releases(rng), rows, block[rows], candidates)
        hits += np.array_equal(candidates[guess], block[row])
    return hits


def all_identified(block: Array, releases: Any, n_known: int, rng: np.random.Generator) -> float:
    """Return the share of the unknown rows that one release names, when random rows are known."""
    candidates = np.unique(block, axis=0)
    rows = rng.choice(len(block), n_known, replace=False)
    guesses = candidates[identify_rows(releases(rng), rows, block[rows], candidates)]
    return float(np.mean((guesses == np.delete(block, rows, axis=0)).all(axis=1)))


def recovered(block: Array, rank: int, releases: Any, rng: np.random.Generator) -> float:
    """Return the largest error of an entry, from as many releases and known rows as the rank."""
    stacked = np.column_stack([releases(rng) for _ in range(rank)])
    rows = rows_to_know(stacked)
    return float(np.abs(recover_block(stacked, rows, block[rows]) - block).max())


def labels_seen(parties: Parties, factors: list[Array], rng: np.random.Generator) -> list[float]:
    """Run three rounds of eq. (16), lambda = rho = 1, noise of Theorem 3; return the share of labels that y shows."""
    blocks, signs, shares = parties.blocks(), parties.y, []
    hessians = [np.eye(block.shape[1]) + block.T @ block for block in blocks]
    z, y = np.zeros(len(signs)), np.zeros(len(signs))
    messages = [np.zeros(len(signs)) for _ in blocks]
    for _ in range(3):
        total = sum(messages)
        sent = []
        for block, hessian, factor, message in zip(blocks, hessians, factors, messages, strict=True):
            weights = np.linalg.solve(hessian, block.T @ (z - (total - message) - y))
            bound = lemma_1_bound(
                block.shape[1], penalty=1.0, curvature=1.0, rho=1.0, n_parties=len(blocks), norm_bound=1.0
            )
            std = theorem_3_std(bound, epsilon=EPSILON, delta=DELTA)
            sent.append(block @ (weights + std * (factor @ rng.standard_normal(factor.shape[1]))))
        messages = sent
        z = update_z(sum(messages) + y, signs)
        y = y + sum(messages) - z
        shares.append(float(np.mean(labels_from_dual(y) == signs)))
    return shares


def update_z(target: Array, signs: Array) -> Array:
    """Return the z with l'(z) + z - target = 0: with v = z * label it lies in [target * label, that + 1]; bisection."""
    low = target * signs
    v, step = low + 0.5, 0.25
    for _ in range(52):
        v = v + step * np.sign(expit(-v) - (v - low))
        step *= 0.5
    return v * signs


def attack(name: str, std: float) -> dict[str, Any]:
    """Run all attacks on the last party of one set."""
    rng = np.random.default_rng(0)
    parties = SETS[name](data_folder())
    blocks = [np.ascontiguousarray(block) for block in parties.blocks()]
    factors = [half_inverse(block) for block in blocks]
    block, published = blocks[-1], release_of(blocks[-1], std)
    counts = np.unique(block, axis=0, return_counts=True)[1]

    def isotropic(rng: np.random.Generator) -> Array:
        return block @ rng.standard_normal(block.shape[1]) + std * rng.standard_normal(len(block))

    return {
        "shape": block.shape,
        "ranks": [(made.shape[1], part.shape[1]) for made, part in zip(factors, blocks, strict=True)],
        "support": support(block, std, NEIGHBOURS[name], rng),
        "support, a million times the noise": support(block, 1e6 * std, NEIGHBOURS[name], rng),
        "candidates": len(counts), "commonest": float(counts.max() / len(block)), "tries": TRIES[name],
        "identified": identified(block, published, TRIES[name], rng),
        "identified, isotropic noise": identified(block, isotropic, TRIES[name], rng),
        "known rows": KNOWN * factors[-1].shape[1],
        "all identified": all_identified(block, published, KNOWN * factors[-1].shape[1], rng),
        "error of recovery": recovered(block, factors[-1].shape[1], published, rng),
        "labels": labels_seen(parties, factors, rng),
    }  # fmt: skip


def lemma(n_pairs: int) -> dict[str, Any]:
    """Return the bound of Lemma 1 and the truth, and what isotropic noise made for the bound would give."""
    case = Lemma1Counterexample(n_pairs)
    std = theorem_3_std(case.bound, epsilon=EPSILON, delta=DELTA)
    return {
        "columns": n_pairs + 1, "bound": case.bound, "change": case.change,
        "change at fixed weights": case.change_at_fixed_weights, "assumptions": case.assumptions(),
        "epsilon, isotropic noise": gaussian_epsilon(case.change / std, DELTA),
    }  # fmt: skip


def attack_rows(found: dict[str, dict[str, Any]], std: float) -> list[tuple[str, ...]]:
    """Return the table of the attacks, a column for each set."""

    def line(what: str, cell: Any) -> tuple[str, ...]:
        return (what, *(cell(result) for result in found.values()))

    def distances(key: str) -> Any:
        return lambda result: " / ".join(f"{result[key][part]:.1e}" for part in ("own", "row", "entry"))

    return [
        line("rows x columns of the attacked party", lambda r: "{:,} x {:,}".format(*r["shape"])),
        line("rank of columns, each party", lambda r: ", ".join(f"{a} of {b}" for a, b in r["ranks"])),
        line(f"distance to own / row changed / entry changed, sigma = {std:g}", distances("support")),
        line(f"the same, sigma = {1e6 * std:g}", distances("support, a million times the noise")),
        line(
            "different rows to choose from; share of the commonest",
            lambda r: f"{r['candidates']:,}; {r['commonest']:.2%}",
        ),
        line(f"row identified from one release, sigma = {std:g}", lambda r: f"{r['identified']} of {r['tries']}"),
        line(
            "the same with noise N(0, sigma^2 I) instead",
            lambda r: f"{r['identified, isotropic noise']} of {r['tries']}",
        ),
        line(
            "other rows identified from one release, so many random rows known",
            lambda r: f"{r['all identified']:.2%}, {r['known rows']:,} known",
        ),
        line("largest error of an entry, whole block recovered", lambda r: f"{r['error of recovery']:.0e}"),
        line("labels seen in y, rounds 1, 2, 3", lambda r: ", ".join(f"{share:.2%}" for share in r["labels"])),
    ]


def lemma_rows(found: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return the table of the counterexample, a row for each size."""
    return [
        (
            f"{case['columns']:,}",
            f"{case['bound']:.4f}",
            f"{case['change']:.4f}",
            f"{case['change at fixed weights']:.4f}",
            "all" if all(case["assumptions"].values()) else "not all",
            f"{case['epsilon, isotropic noise']:.2f}",
        )
        for case in found
    ]


@benchmark(page="privacy/published_vertical_noise.md", only=(",".join(SETS), "a9a"), std=option(100.0, help="sigma"))
def main(run) -> None:
    found = {name: attack(name, run.std) for name in run.only.split(",")}
    cases = [lemma(n_pairs) for n_pairs in PAIRS]
    head = ("columns", "bound of Lemma 1", "true change", "as Definition 2 is printed", "assumptions hold",
            f"epsilon of isotropic noise, claimed {EPSILON:g}")  # fmt: skip
    run.tables({
        "attacks": (("", *found), attack_rows(found, run.std)), "Lemma 1": (head, lemma_rows(cases))
    })  # fmt: skip
    run.keep("vertical_flaws", {"attacks": found, "lemma 1": cases})
