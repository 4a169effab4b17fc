"""What the entries of a ledger add up to: data sets, their charges, what is spent.

The body of each kind of entry:

* ``ledger`` (the first one): ``format``, ``version``, ``ledger`` (a random name);
* ``create``: ``dataset``, ``epsilon``, ``delta``, ``adjacency``, ``unit``, ``composition``, ``allow_nonprivate``;
* ``reserve``: ``dataset``, ``charge`` (a random name), ``event``, ``delta``, ``adjacency``, ``seeded``, ``plan``,
  ``receipt`` (a fingerprint) if it was imported, and ``unit`` (in words) if that is a person;
* ``commit``: ``dataset``, ``charge``, ``event``; ``cancel``: ``dataset``, ``charge``, ``reason``, and ``by_hand``
  (true) if it was not the run itself that gave the charge back.

A charge counts from its reservation on, with the event that was reserved, unless it is cancelled. The same code reads a
database before each charge, verifies it, and verifies an export.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, Literal

from sottovoce._plain_data import canonical_text
from sottovoce._validation import number
from sottovoce.exceptions import AccountingError, BudgetError, LedgerError, LedgerIntegrityError, SottovoceError
from sottovoce.ledger.entries import FIRST, Entry
from sottovoce.privacy.accounting import flatten
from sottovoce.privacy.adjacency import UNITS, Adjacency, is_of_persons
from sottovoce.privacy.events import Event, NonPrivateEvent, event_from_dict
from sottovoce.privacy.filters import PrivacyFilter, Release, Tally, costs_at_most

FORMAT: Final = "sottovoce-ledger"
VERSION: Final = 1


@dataclass(frozen=True)
class Dataset:
    """A data set and its budget, as `Ledger.create` wrote it; nothing of it ever changes.

    Attributes
    ----------
    name : str
    epsilon, delta : float
        The budget.
    adjacency : Adjacency
    unit : str
        What one neighbouring change is about, in words.
    composition : str
        The rule by which charges add up; see `sottovoce.privacy.filters`.
    allow_nonprivate : bool
        Whether charges without any protection are recorded, outside the sum, rather than refused.
    created_at : str
        The day, in UTC.
    created_by : str
    """

    name: str
    epsilon: float
    delta: float
    adjacency: Adjacency
    unit: str
    composition: str
    allow_nonprivate: bool
    created_at: str
    created_by: str

    @property
    def filter(self) -> PrivacyFilter:
        """The rule that says what fits."""
        return PrivacyFilter(self.epsilon, self.delta, self.composition)


@dataclass(frozen=True)
class ChargeRecord:
    """One charge of a data set.

    Attributes
    ----------
    charge : str
        Its name.
    dataset : str
    state : {"reserved", "committed", "cancelled"}
        ``"reserved"`` counts as spent, as ``"committed"`` does: the run may have drawn its noise before it ended.
    event : Event
        What was reserved, and counts.
    committed_event : Event or None
        What the run said that it released.
    delta : float
        Delta of the run's own promise.
    adjacency : Adjacency
        That the event was made for.
    seeded : bool
        The noise can be repeated by whoever knows the seed: not private.
    plan : dict
        Public facts of the run.
    at, who, code : str
        On which day, by whom, by which version.
    ended_at : str or None
        The same day again, whenever the run ended: how long a search took would tell its secret number of trials.
    ended_by : str or None
    reason : str or None
        Of a cancellation.
    by_hand : bool
        It was cancelled by somebody who named it, not by the run that held it.
    note : str or None
        Which result it was committed for, where several could be: see `Ledger.commit`.
    receipt : str or None
        Fingerprint of the receipt, if the charge was imported from one.
    seq : int
        Number of the entry that reserved it.
    last : int
        Number of the last entry about it.
    hash : str
        Hash of that entry.
    """

    charge: str
    dataset: str
    event: Event
    delta: float
    adjacency: Adjacency
    seeded: bool
    plan: Mapping[str, Any]
    at: str
    who: str
    code: str
    receipt: str | None
    seq: int
    last: int
    hash: str
    state: Literal["reserved", "committed", "cancelled"] = "reserved"
    committed_event: Event | None = None
    ended_at: str | None = None
    ended_by: str | None = None
    reason: str | None = None
    by_hand: bool = False
    note: str | None = None

    @property
    def is_private(self) -> bool:
        """False for a seeded run and for one without protection."""
        return not self.seeded and self.is_protected

    @property
    def is_protected(self) -> bool:
        """False where something was released without protection."""
        return not _unprotected(self.event)

    @property
    def counts(self) -> bool:
        """Whether it is part of what is spent."""
        return self.state != "cancelled" and self.is_protected


@dataclass
class _Account:
    dataset: Dataset
    charges: dict[str, ChargeRecord] = field(default_factory=dict)
    runs: dict[str, list[str]] = field(default_factory=dict)  # charges by the run that their plan names
    # of what counts, by its rule and by whom it was told, with the charges that were looked at; made when asked for
    tallies: dict[tuple[PrivacyFilter, str | None], tuple[Tally, int]] = field(default_factory=dict)

    def of_run(self, run: str, result: str = "") -> ChargeRecord | None:
        """Return a run's charge for a result; else one that is open, else the last that counts, else the last."""
        known = [self.charges[name] for name in self.runs.get(run, ())]
        known.sort(key=lambda each: (each.note == result, each.state == "reserved", each.counts))
        return known[-1] if known else None

    def release(self, charge: ChargeRecord) -> Release:
        return _release(self.dataset.adjacency, charge.event, charge.adjacency, charge.delta)

    def spent(self, *more: Release, rule: PrivacyFilter | None = None, coordinator: str | None = None) -> float:
        """Return what is spent with further releases: in all, or by another rule of what one coordinator was told."""
        rule = rule or self.dataset.filter
        tally, seen = self.tallies.get((rule, coordinator)) or (Tally(rule), 0)
        for charge in itertools.islice(self.charges.values(), seen, None):
            if charge.counts and coordinator in (None, charge.plan.get("coordinator")):
                tally.add(self.release(charge))
        self.tallies[rule, coordinator] = tally, len(self.charges)
        tally = tally.copy()
        for release in more:
            tally.add(release)
        return tally.spent()


class Book:
    """The state that a sequence of entries leads to.

    Entries are taken one by one with `read`, which checks the chain and that each entry is possible after those before
    it.
    """

    def __init__(self) -> None:
        self.head = FIRST
        self.n_entries = 0
        self.ledger: str | None = None
        self._accounts: dict[str, _Account] = {}
        self._charges: dict[str, str] = {}  # data set of each charge

    @property
    def datasets(self) -> dict[str, Dataset]:
        return {name: account.dataset for name, account in self._accounts.items()}

    def account(self, dataset: str) -> _Account:
        if dataset not in self._accounts:
            known = ", ".join(map(repr, self._accounts)) or "none"
            raise LedgerError(
                f"dataset {dataset!r} is not in this ledger; there are: {known}. Make it with Ledger.create, or with "
                "sottovoce ledger create."
            )
        return self._accounts[dataset]

    def charge(self, charge: str) -> ChargeRecord:
        if charge not in self._charges:
            raise LedgerError(f"charge {charge!r} is not in this ledger.")
        return self._accounts[self._charges[charge]].charges[charge]

    def day_of(self, charge: str | None) -> str | None:
        return self.charge(charge).at[:10] if charge in self._charges else None

    def check_new(self, dataset: str) -> None:
        if dataset in self._accounts:
            known = self._accounts[dataset].dataset
            raise LedgerError(
                f"dataset {dataset!r} exists already, with epsilon={known.epsilon!r} and delta={known.delta!r}: a "
                "budget is never changed. Choose another name for other people."
            )

    def check_unit(self, dataset: str, unit: str) -> None:
        """Refuse a charge for rows where the budget is for persons, and the other way round.

        An epsilon for one row is none for a person with several, and one for persons says less of rows than it could:
        budgets of both kinds cannot be added up.
        """
        known = self.account(dataset).dataset
        if is_of_persons(unit) == is_of_persons(known.unit):
            return
        if is_of_persons(unit):
            raise LedgerError(
                f"dataset {dataset!r} has a budget for {known.unit!r}, and this run is for persons "
                "(max_rows_per_group). Nothing was charged. Create a data set for persons: Ledger.create(..., "
                "unit='person'), or sottovoce ledger create --unit person."
            )
        raise LedgerError(
            f"dataset {dataset!r} has a budget for {known.unit!r}, and this run is for single rows: its epsilon says "
            "too little of a person with several. Nothing was charged. Fit with groups=... and max_rows_per_group=..., "
            "which is 1 where each person has one row."
        )

    def check_fits(self, dataset: str, event: Event, made_for: Adjacency, delta: float, *, seeded: bool) -> None:
        """Refuse a charge that does not fit.

        Raises
        ------
        BudgetError
            The message names the budget, what is spent and what is asked for.
        AccountingError
            If the event was made for another adjacency, or cannot be accounted.
        """
        account = self.account(dataset)
        known, spent = account.dataset, account.spent()
        budget = f"dataset {dataset!r} has a budget of epsilon={known.epsilon!r} at delta={known.delta!r}"
        unprotected = _unprotected(event)
        if (seeded or unprotected) and not known.allow_nonprivate:
            what, remedy = (
                ("would release something without protection (epsilon = inf)", "Train with a finite epsilon")
                if unprotected
                else ("would draw its noise from a random_state, which can be drawn again", "Leave random_state out")
            )
            raise BudgetError(
                f"{budget}, and this run {what}. {remedy}, or create the data set with allow_nonprivate=True if that "
                "is meant. Nothing was charged.",
                budget=(known.epsilon, known.delta), spent=spent, asked=float("inf"),
            )  # fmt: skip
        if unprotected:
            return
        asked = account.spent(_release(known.adjacency, event, made_for, delta))
        if known.filter.covers(asked):
            return
        if asked == float("inf") and known.composition == "gaussian":
            remedy = (
                "Its composition='gaussian' covers Gaussian releases alone; create data sets for other releases with "
                "composition='mixed'."
            )
        else:
            remedy = "Ask for less (see `sottovoce ledger show`), or use data of other people."
        raise BudgetError(
            f"{budget}, of which epsilon={spent:.6g} is spent; this run would bring it to epsilon={asked:.6g}. Nothing "
            f"was charged. {remedy}",
            budget=(known.epsilon, known.delta), spent=spent, asked=asked,
        )  # fmt: skip

    def check_not_charged(self, charge: str) -> None:
        if charge in self._charges and (known := self.charge(charge)).state != "cancelled":
            raise LedgerError(
                f"the run of this receipt charged this ledger itself: entry {known.seq}, dataset {known.dataset!r}."
            )

    def check_new_receipt(self, dataset: str, receipt: str) -> None:
        for known in self.account(dataset).charges.values():
            if known.receipt == receipt and known.state != "cancelled":
                raise LedgerError(
                    f"dataset {dataset!r} is charged for this receipt already, by entry {known.seq} of "
                    f"{known.at[:10]}. If it is the receipt of another run, equal to the last letter, say so: "
                    "another_run=True."
                )

    def check_open(self, charge: str) -> None:
        record = self.charge(charge)
        if record.state != "reserved":
            raise LedgerError(f"charge {charge!r} of dataset {record.dataset!r} is {record.state} already.")

    def check_commit(self, charge: str, event: Event) -> None:
        """Refuse the end of a run that cost more than was reserved for it.

        Raises LedgerError if the charge was committed before.
        Raises AccountingError if the event costs more; the reservation stays as it is. Or if the charge was cancelled
        by hand meanwhile.
        """
        record = self.charge(charge)
        if record.state == "cancelled":
            raise AccountingError(
                f"charge {charge!r} of dataset {record.dataset!r} was cancelled ({record.reason}) while its run went "
                "on: nobody pays for the result. Do not use it."
            )
        self.check_open(charge)
        self.check_cost(record, event)

    def check_cost(self, record: ChargeRecord, event: Event) -> None:
        """Raise AccountingError if the event costs more than was reserved."""
        known = self._accounts[record.dataset].dataset
        released = _release(known.adjacency, event, record.adjacency, record.delta)
        reserved = _release(known.adjacency, record.event, record.adjacency, record.delta)
        if event == record.event:
            return
        if _unprotected(event) != _unprotected(record.event) or not costs_at_most(released, reserved, known.filter):
            raise AccountingError(
                f"charge {record.charge!r} of dataset {record.dataset!r}: the run cost more than was reserved for it "
                f"(reserved {record.event!r}, released {event!r}). Do not use its result; the reservation counts as "
                "spent."
            )

    def read(self, entry: Entry) -> None:
        """Take the next entry.

        Raises LedgerIntegrityError if it does not follow the last one, or says what cannot be.
        """
        place = f"entry {entry.seq}"
        if entry.seq != self.n_entries:
            raise LedgerIntegrityError(f"entry {self.n_entries} is missing: {place} is in its place.")
        if entry.previous != self.head:
            raise LedgerIntegrityError(f"{place} does not follow entry {entry.seq - 1}: the chain of hashes is broken.")
        if (entry.kind == "ledger") != (entry.seq == 0):
            raise LedgerIntegrityError(f"{place} is of kind {entry.kind!r}, which has no place there.")
        take = {"ledger": self._found, "create": self._create, "reserve": self._reserve}.get(entry.kind, self._close)
        try:
            take(entry)
        except LedgerIntegrityError as error:
            raise LedgerIntegrityError(f"{place}: {error}") from None
        except (SottovoceError, KeyError, TypeError, AttributeError) as error:
            raise LedgerIntegrityError(f"{place} of kind {entry.kind!r} is no such entry: {error}") from None
        self.head, self.n_entries = entry.hash, entry.seq + 1

    def _found(self, entry: Entry) -> None:
        if entry.body["format"] != FORMAT:
            raise LedgerIntegrityError(f"the format is {entry.body['format']!r} instead of {FORMAT!r}.")
        if entry.body["version"] != VERSION:
            raise LedgerIntegrityError(
                f"ledger version {entry.body['version']!r} cannot be read by this version of sottovoce (it reads "
                f"{VERSION}): update sottovoce."
            )
        self.ledger = str(entry.body["ledger"])

    def _create(self, entry: Entry) -> None:
        body = entry.body
        if body["dataset"] in self._accounts:
            raise LedgerIntegrityError(f"dataset {body['dataset']!r} exists already.")
        if not isinstance(body["allow_nonprivate"], bool):
            raise LedgerIntegrityError("allow_nonprivate must be true or false.")
        if body["unit"] not in UNITS.values():
            raise LedgerIntegrityError(f"a budget is for rows or for persons, not for {body['unit']!r}.")
        rule = PrivacyFilter(body["epsilon"], body["delta"], body["composition"])
        dataset = Dataset(
            name=str(body["dataset"]),
            epsilon=rule.epsilon,
            delta=rule.delta,
            adjacency=Adjacency.parse(body["adjacency"]),
            unit=body["unit"],
            composition=rule.composition,
            allow_nonprivate=body["allow_nonprivate"],
            created_at=entry.at,
            created_by=entry.who,
        )
        self._accounts[dataset.name] = _Account(dataset)

    def _reserve(self, entry: Entry) -> None:
        body = entry.body
        if body["dataset"] not in self._accounts:
            raise LedgerIntegrityError(f"dataset {body['dataset']!r} does not exist.")
        if body["charge"] in self._charges:
            raise LedgerIntegrityError(f"charge {body['charge']!r} exists already.")
        if not isinstance(body["seeded"], bool) or not isinstance(body["plan"], dict):
            raise LedgerIntegrityError("seeded must be true or false, and plan an object.")
        account = self._accounts[body["dataset"]]
        if body.get("receipt") is None and is_of_persons(body.get("unit", "")) != is_of_persons(account.dataset.unit):
            raise LedgerIntegrityError("one of charge and data set is for persons, and the other is not.")
        charge = ChargeRecord(
            charge=str(body["charge"]),
            dataset=str(body["dataset"]),
            event=_event(body["event"]),
            delta=number("delta", body["delta"], at_least=0.0, below=1.0),
            adjacency=Adjacency.parse(body["adjacency"]),
            seeded=body["seeded"],
            plan=body["plan"],
            at=entry.at,
            who=entry.who,
            code=entry.code,
            receipt=None if body.get("receipt") is None else str(body["receipt"]),
            seq=entry.seq,
            last=entry.seq,
            hash=entry.hash,
        )
        if charge.is_protected:
            account.release(charge)  # refuses an adjacency that does not fit
        account.charges[charge.charge] = charge
        self._charges[charge.charge] = charge.dataset
        if "run" in charge.plan:
            account.runs.setdefault(str(charge.plan["run"]), []).append(charge.charge)

    def _close(self, entry: Entry) -> None:
        body = entry.body
        if entry.kind not in ("commit", "cancel"):
            raise LedgerIntegrityError(f"there is no kind of entry {entry.kind!r}.")
        record = self._charges.get(body["charge"])
        if record is None or record != body["dataset"]:
            raise LedgerIntegrityError(f"charge {body['charge']!r} of dataset {body['dataset']!r} does not exist.")
        account = self._accounts[record]
        charge = account.charges[body["charge"]]
        if charge.state != "reserved":
            raise LedgerIntegrityError(f"charge {charge.charge!r} was {charge.state} before.")
        ended = replace(charge, ended_at=entry.at, ended_by=entry.who, last=entry.seq, hash=entry.hash)
        if entry.kind == "commit":
            ended = replace(ended, state="committed", committed_event=_event(body["event"]), note=body.get("note"))
        else:
            by_hand = body.get("by_hand", False) is not False
            ended = replace(ended, state="cancelled", reason=str(body["reason"]), by_hand=by_hand)
            account.tallies.clear()  # it counts no more
        account.charges[charge.charge] = ended


def _event(data: object) -> Event:
    return _read_event(canonical_text(data))


@lru_cache(maxsize=4096)
def _read_event(text: str) -> Event:
    return event_from_dict(json.loads(text))


def _release(wanted: Adjacency, event: Event, made_for: Adjacency, delta: float) -> Release:
    """Return what is charged; a promise to one kind of neighbours says nothing to another."""
    if made_for is not wanted and not _unprotected(event) and flatten(event):
        raise AccountingError(
            f"a release made for adjacency {made_for.value!r} gives no guarantee for {wanted.value!r}. Fit with "
            f"adjacency={wanted.value!r}."
        )
    return Release(event, delta)


@lru_cache(maxsize=4096)
def _unprotected(event: Event) -> bool:
    return NonPrivateEvent() in flatten(event)
