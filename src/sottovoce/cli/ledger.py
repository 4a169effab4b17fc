"""``sottovoce ledger``: privacy budgets on disk; create, show, history, cancel, import, verify, export."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sottovoce._plain_data import plain
from sottovoce.cli._echo import echo
from sottovoce.cli._options import LEDGER, REQUIRED, Told, argument, command, flag, option, output, refuse_options
from sottovoce.cli._output import print_columns, print_rows
from sottovoce.exceptions import LedgerError, ParameterError
from sottovoce.ledger import ChargeRecord, Dataset, Ledger, verify_export
from sottovoce.privacy.events import outline
from sottovoce.report import read_receipt

_URL: Any = option("--ledger", "sqlite:///PATH or postgresql://USER@HOST/DATABASE.", default=REQUIRED, **LEDGER)
_DATASET: Any = option("--dataset", "Name of the data set.", default=REQUIRED)


@dataclass(frozen=True)
class _Budget:
    """What a data set may spend, and how it is counted."""

    epsilon: float = option("--epsilon", "Budget for all fits together, > 0.", default=REQUIRED)
    delta: float = option("--delta", "Of the budget; well below 1 / number of people.", default=REQUIRED)
    adjacency: str = option(
        "--adjacency", "Which tables are neighbours: zero-out, add-remove or replace-one.", default="zero-out"
    )
    unit: str = option("--unit", "What a neighbouring change is about: row or person.", default="row")
    composition: str = option(
        "--composition",
        "How charges add up: gaussian is the tightest, for Gaussian releases alone; mixed takes everything.",
        default="mixed",
    )
    allow_nonprivate: bool = flag(
        "--allow-nonprivate", "Take runs that are not private: without protection outside the sum, with a seed in it."
    )


@command
def create(*, url: str = _URL, dataset: str = _DATASET, budget: _Budget) -> Told:
    """Give a data set a budget, for good; the ledger is made where there is none."""
    book = Ledger(url)
    made = book.create(dataset, **vars(budget))
    told = {**_dataset_json(book, made), "head": book.head()}
    return Told(told, lambda: print_rows(f"Data set {dataset}", _dataset_rows(book, made)), f"head {told['head']}")


@command
def show(url: str = _URL, dataset: str | None = option("--dataset", "Only this one. Default: all.")) -> Told:
    """Show the budgets, what is spent of them and what remains."""
    book = Ledger(url)
    known = book.datasets()
    if dataset is not None:
        book.spent(dataset)  # says which there are
        known = {dataset: known[dataset]}
    shown = (partial(print_rows, f"Data set {one.name}", _dataset_rows(book, one)) for one in known.values())
    told = [_dataset_json(book, one) for one in known.values()]
    return Told(told, *(shown if known else ["This ledger has no data sets."]))


@command
def history(url: str = _URL, dataset: str = _DATASET) -> Told:
    """Show every charge of a data set, the oldest first."""
    charges = Ledger(url).history(dataset)
    headings = ("entry", "day (UTC)", "who", "state", "private", "what")
    return Told([*map(_charge_json, charges)], lambda: print_columns(
        f"Charges of {dataset}", headings, map(_charge_row, charges), ends_in_words=True
    ))  # fmt: skip


@command
def cancel(
    url: str = _URL,
    charge: str = argument(None, "Number of the entry that `ledger history` shows, or the name of the charge."),
    reason: str = option(
        "--reason", "For the record: why nobody learnt anything from this run. No data in it.", default=REQUIRED
    ),
) -> Told:
    """Give back a charge whose run is over and told nobody anything. A decision about privacy: never automate it."""
    book = Ledger(url)
    name = _named(book, charge)
    record = next(known for known in book.history(book.cancel(name, reason).dataset) if known.charge == name)
    return Told(
        _charge_json(record),
        f"Entry {record.seq} of {record.dataset} does not count any more. Recorded as cancelled by hand:",
        f"    {record.ended_by}: {record.reason}",
        "That a run failed over its data is an answer about them: whoever saw this one fail got it for nothing.",
    )


@command
def import_(
    url: str = _URL,
    dataset: str = _DATASET,
    receipt: Path = argument(None, "Receipt, model file or page of a run that no ledger was charged for."),
    same_unit: bool = flag("--same-unit", "The receipt's unit is that of the data set, in other words."),
    another_run: bool = flag("--another-run", "An equal receipt was imported, of another run."),
) -> Told:
    """Charge a run of before by its receipt. Do so for all old receipts before the first new fit."""
    book = Ledger(url)
    made = book.import_receipt(dataset, read_receipt(receipt), same_unit=same_unit, another_run=another_run)
    spent, delta = book.spent(dataset)
    return Told(
        {"dataset": dataset, "entry": made.seq - 1, "spent": spent, "delta": delta, "head": made.hash},
        f"Entry {made.seq - 1} of {dataset}: imported. Spent now: epsilon {spent:.6g} at delta {delta:g}",
        f"head {made.hash}",
    )


@command
def verify(
    url: str | None = option("--ledger", "Address of the ledger.", **LEDGER),
    exported: Path | None = option("--file", "Verify this file from `ledger export` in place of a database."),
    expected_head: str | None = option(
        "--expected-head",
        "Hash of an entry that was the last one at some time, kept elsewhere: shows that no end was cut off.",
    ),
) -> Told:
    """Check the chain of hashes and every charge against its budget; exit code 1 if something is wrong."""
    if exported is not None:
        if url != os.environ.get("SOTTOVOCE_LEDGER"):
            refuse_options("and --file are two ledgers: verify one at a time", {"--ledger": url})
        found = verify_export(exported, expected_head=expected_head)
    elif url is None:
        raise ParameterError("--ledger is missing: give the address of the ledger, or --file with an export.")
    else:
        found = Ledger(url).verify(expected_head)
    for problem in found.problems:
        echo(f"PROBLEM: {problem}", err=True)
    told = {name: getattr(found, name) for name in ("ok", "n_entries", "head", "anchored", "problems")}
    return Told(told, f"{found.n_entries} entries hold together; head {found.head}", *([] if found.anchored else [
        "No --expected-head was given: that entries were cut off at the end would not show. Keep the head in "
        "another place."
    ]), status=0 if found.ok else 1)  # fmt: skip


@command
def export(url: str = _URL, out: Path = output("--out", "Where to write the JSON lines.", default=REQUIRED)) -> None:
    """Write the whole ledger as JSON lines, which `ledger verify --file` checks without the database."""
    echo(f"head {Ledger(url).export(out)}")


def _named(book: Ledger, charge: str) -> str:
    for dataset in book.datasets():
        for known in book.history(dataset):
            if charge in (known.charge, str(known.seq)):
                return known.charge
    raise LedgerError(f"charge {charge!r} is not in this ledger. `sottovoce ledger history` shows the entries.")


def _remaining(book: Ledger, known: Dataset) -> float | None:
    return book.remaining(known.name) if known.delta > 0.0 else None


def _dataset_rows(book: Ledger, known: Dataset) -> list[tuple[str, str]]:
    spent, delta = book.spent(known.name)
    remaining = _remaining(book, known)
    charges = [charge for charge in book.history(known.name) if charge.state != "cancelled"]
    open_ = sum(charge.state == "reserved" for charge in charges)
    rows = [
        ("budget", f"epsilon {known.epsilon:g} at delta {delta:g}"),
        ("spent", f"epsilon {spent:.6g}"),
        ("charges", f"{len(charges)}, of which {open_} without an end: running, failed or killed (they count)"),
        ("neighbours", known.adjacency.statement(known.unit)),
        ("unit", known.unit),
        ("composition", known.composition),
        ("created", f"{known.created_at[:10]} by {known.created_by}"),
    ]
    if remaining is not None:
        rows.insert(2, ("remains", f"epsilon {remaining:.6g} for one more fit of Gaussian releases at delta {delta:g}"))
    seeded = sum(charge.seeded for charge in charges)
    unprotected = sum(not charge.is_protected for charge in charges)
    if seeded or unprotected:
        rows.append(
            ("NOT PRIVATE", f"{seeded} charge(s) with a seed, {unprotected} without protection (outside the sum)")
        )
    return rows


def _dataset_json(book: Ledger, known: Dataset) -> dict[str, object]:
    spent, delta = book.spent(known.name)
    told = ("epsilon", "unit", "composition", "allow_nonprivate", "created_at", "created_by")
    return {
        "dataset": known.name, "delta": delta, "spent": plain(spent), "remaining": _remaining(book, known),
        "adjacency": known.adjacency.value, **{name: getattr(known, name) for name in told},
    }  # fmt: skip


def _charge_row(charge: ChargeRecord) -> tuple[str, ...]:
    private = "yes" if charge.is_private else "NO: seeded" if charge.seeded else "NO: unprotected"
    what = str(charge.plan.get("estimator", "")) or "a charge"
    if charge.receipt is not None:
        what += ", imported from its receipt"
    if charge.by_hand:
        what += f"; cancelled by hand, by {charge.ended_by}: {charge.reason}"
    told = outline(charge.event).replace("\n", "; ")
    return (str(charge.seq), charge.at[:10], charge.who, charge.state, private, f"{what}; {told}")


def _charge_json(charge: ChargeRecord) -> dict[str, object]:
    told = ("state", "at", "who", "code", "ended_at", "ended_by", "reason", "by_hand", "receipt", "delta")
    return {
        "charge": charge.charge,
        "entry": charge.seq,
        **{name: getattr(charge, name) for name in told},
        "adjacency": charge.adjacency.value,
        "private": charge.is_private,
        "seeded": charge.seeded,
        "event": charge.event.to_dict(),
        "committed_event": None if charge.committed_event is None else charge.committed_event.to_dict(),
        "plan": dict(charge.plan),
    }
