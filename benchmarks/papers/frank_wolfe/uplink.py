"""Bytes from four parties to the coordinator against the number of people.

    python -m benchmarks.papers.frank_wolfe.uplink [--quick] [--docs]

Uplink of vertical Frank-Wolfe at epsilon = 1, delta = 1e-5 (table of ``frank_wolfe.py``, 400 columns,
public labels): the private form of this library; the published algorithm at its T = (n epsilon)^(2/3)
and m = ln(2 T / delta) / .3^2, which does not keep its epsilon; columns without noise until the duality gap is a
hundredth of the loss of the model 0; and sketches of all columns, sent once, 50 numbers a person and party
(Heinze-Deml et al. 2017). Runs are counted message by message. Where a run would be too long the same messages are
made with empty content of the right size.
"""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.driver import benchmark
from benchmarks.vertical.frank_wolfe import NAMES, table
from sottovoce.exceptions import PrivacyWarning
from sottovoce.papers.frank_wolfe import PROTOCOL, PublishedLasso
from sottovoce.vertical import InProcessParties, Party, VerticalLasso
from sottovoce.vertical.requests.frank_wolfe import packed_size
from sottovoce.vertical.requests.general import Description
from sottovoce.vertical.wire import Done, Payload

SIZES = (1_000, 10_000, 100_000, 1_000_000)
LARGEST_RUN = {"local": 100_000, "published": 10_000, "without noise": 100_000}
COLUMNS, ONE_SHOT, IOTA = 400, 50, 0.3
PUBLIC = {"radius": 1.0, "label_bounds": (-1.0, 1.0), "labels_public": True, "fit_intercept": False, "random_state": 0}
PRIVATE = {**PUBLIC, "epsilon": 1.0, "delta": 1e-5}
MODELS: dict[str, dict[str, Any]] = {
    "local": PRIVATE,
    "published": {**PRIVATE, "mechanism_options": {"jl_parameter": IOTA}},
    "without noise": {**PUBLIC, "epsilon": math.inf, "tol": 0.05},
}
TITLES = {
    "local": '"local"', "published": "as published (does not keep its epsilon)",
    "without noise": "raw columns, no noise", "one-shot": "all columns sketched once",
}  # fmt: skip


def parties_of(n: int, columns: int) -> tuple[InProcessParties, Any]:
    entries, y = table(n, columns)
    blocks = np.split(entries, 4, axis=1)
    return parties_with(blocks), y


def parties_with(blocks: Sequence[Any]) -> InProcessParties:
    """Return four parties with these columns, which know the published form too."""
    both = zip(NAMES, blocks, strict=True)
    return InProcessParties([Party(part, name=name, data_bound=1.0, protocols=[PROTOCOL]) for name, part in both])


def measured(kind: str, parties: InProcessParties, y: Any) -> tuple[int, dict[str, Any]]:
    """Return the bytes of one training, and what there is to tell of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        model = _lasso(kind).fit(parties, y)
    return model.uplink_bytes_, {"rounds": model.n_rounds_, "epsilon that holds": model.guarantee_.epsilon}


def by_message(kind: str, n: int, columns: int) -> int:
    """Return the bytes that the messages of a training of so many people have."""
    four = len(NAMES)
    done = Done().n_bytes
    facts = four * Description(n, columns // 4, math.inf, 0, 1.0).n_bytes
    if kind == "one-shot":
        return 8 * four * n * ONE_SHOT
    if kind == "without noise":
        return facts + four * (Payload(np.zeros(2)).n_bytes + 2 * n * columns + done)
    people = parties_with([np.zeros((1, columns // 4))] * four)
    plan: Any = _plan(kind, people, n)
    if kind == "published":
        size = plan.column.size * plan.column.dtype.itemsize
        reply = Payload(np.zeros(3), bytes(size)).n_bytes
        return facts + 3 * four * done + plan.n_steps * four * reply
    chosen = Payload(np.ones(1), bytes(packed_size(plan.n_steps, columns // 4)))
    return facts + four * (done + chosen.n_bytes)


def _lasso(kind: str) -> VerticalLasso:
    return (PublishedLasso if kind == "published" else VerticalLasso)(**MODELS[kind])


def _plan(kind: str, people: InProcessParties, n: int) -> Any:
    """Return the plan for n people; the parties here hold one each."""
    from dataclasses import replace

    plan = _lasso(kind).plan(people)
    descriptions = {name: replace(facts, n_rows=n) for name, facts in plan.facts.descriptions.items()}
    return replace(plan, facts=replace(plan.facts, n_samples=n, descriptions=descriptions))


def growth(sizes: tuple[int, ...], columns: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for n in sizes:
        parties, y = parties_of(n, columns) if n <= max(LARGEST_RUN.values()) else (None, None)
        for kind in TITLES:
            run = parties is not None and n <= LARGEST_RUN.get(kind, 0)
            told: dict[str, Any] = {}
            count = 0
            if run:
                count, told = measured(kind, parties, y)  # type: ignore[arg-type]
            formula = by_message(kind, n, columns)
            if not run:
                count = formula
            found.append({"people": n, "kind": kind, "bytes": count, "run": run, "by message": formula, **told})
            print(
                n, kind, f"{count:,} bytes", f"run (by message {formula:,})" if run else "by message", told, flush=True
            )
    return found


def exponent(found: list[dict[str, Any]], kind: str) -> float:
    """Return the slope of log bytes over log n, from 10,000 people on (or all, if there are no more)."""
    rows = [row for row in found if row["kind"] == kind]
    large = [row for row in rows if row["people"] >= 10_000]
    points = [(math.log(row["people"]), math.log(row["bytes"])) for row in (large if len(large) > 1 else rows)]
    return float(np.polyfit(*zip(*points, strict=True), 1)[0])


@benchmark(page="measured/vertical_sparse.md")
def main(run) -> None:
    sizes = SIZES[:2] if run.quick else SIZES
    found = growth(sizes, 80 if run.quick else COLUMNS)
    rows = []
    for kind, title in TITLES.items():
        texts = [f"{row['bytes']:,}" + ("" if row["run"] else " *") for row in found if row["kind"] == kind]
        rows.append((title, *texts, exponent(found, kind)))
    head = ("uplink bytes", *(f"n = {n:,}" for n in sizes), "exponent of n >= 10,000|.2f")
    run.table("Uplink (* by message)", head, rows, mark="uplink")
