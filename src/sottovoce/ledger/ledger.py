"""The durable privacy budget: data sets with a budget, charged before anybody looks at them."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import secrets
import shlex
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from sottovoce._files import write_whole
from sottovoce._plain_data import canonical_text, plain
from sottovoce._validation import choice, filled_text, number, truth
from sottovoce._version import __version__
from sottovoce.exceptions import AccountingError, LedgerError, LedgerIntegrityError, ParameterError, SottovoceError
from sottovoce.ledger.book import FORMAT, VERSION, Book, ChargeRecord, Dataset
from sottovoce.ledger.entries import FIRST, Entry
from sottovoce.ledger.store import Row, Store
from sottovoce.ledger.verification import Verification, read_row, verify_book
from sottovoce.privacy.accounting import gaussian_epsilon
from sottovoce.privacy.adjacency import ROW_UNIT, UNITS, Adjacency, is_of_persons
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.events import Event, GaussianEvent
from sottovoce.privacy.filters import PrivacyFilter, Release
from sottovoce.privacy.guarantee import Guarantee

_CODE: Final = f"sottovoce {__version__}"
_LONGEST_NAME: Final = 200
_T = TypeVar("_T")
_Bodies = list[tuple[str, dict[str, Any]]]  # the kinds of entries and what they say
_WHICH: Final = (
    "'person' is for fits with groups=... and max_rows_per_group=..., 'row' for all others, also where each person has "
    "one row."
)
_TRIES: Final = 20  # of an append that another writer came before; with the writer's lock there is no second one


@dataclass(frozen=True)
class Charge:
    """A reservation in a ledger, or its end.

    Attributes
    ----------
    charge : str
        Its name.
    dataset : str
    ledger : str
        Name of the ledger.
    seq : int
        Number of the last entry about it.
    hash : str
        Hash of that entry: kept elsewhere, it proves later that the ledger still holds the entry and all before it.
    """

    charge: str
    dataset: str
    ledger: str
    seq: int
    hash: str


class Ledger:
    """A privacy budget on disk, append-only, shared by processes and machines.

    Parameters
    ----------
    url : str
        ``sqlite:///PATH`` (a file, for processes of one machine) or ``postgresql://USER@HOST/DATABASE``.
    who : str or None
        Who charges, for the record. None takes the user and the host.
    timeout : float, > 0, default 60
        Seconds to wait for other writers.

    Raises
    ------
    LedgerError
        If the address is of another kind, or ``sottovoce[ledger]`` is not installed. Nothing is connected or made yet.

    Notes
    -----
    What is promised: ``docs/privacy/ledger.md``. A ledger object may be copied, pickled and used after a fork; a
    password in ``url`` travels with it, so keep it in ``~/.pgpass`` or in the environment.

    Examples
    --------
    >>> import tempfile
    >>> from sottovoce import Ledger
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger(f"sqlite:///{folder}/budget.db")
    ...     made = ledger.create("people", epsilon=3.0, delta=1e-6)
    ...     ledger.spent("people")
    (0.0, 1e-06)
    """

    def __init__(self, url: str, *, who: str | None = None, timeout: float = 60.0) -> None:
        if not isinstance(url, str):
            raise ParameterError(f"url must be a string such as 'sqlite:///budget.db'; got {url!r}.")
        self.url = url
        self.timeout = number("timeout", timeout, above=0.0, at_most=86400.0)
        self.who = None if who is None else filled_text("who", who, or_none=True)
        self._open()

    def _open(self) -> None:
        self._store = Store(self.url, self.timeout)
        self._book = Book()
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"url": self._store.address, "who": self.who, "timeout": self.timeout}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()

    def __repr__(self) -> str:
        return f"Ledger({self._store.url!r})"

    def create(
        self,
        dataset: str,
        *,
        epsilon: float,
        delta: float,
        adjacency: str = "zero-out",
        unit: str = "row",
        composition: str = "mixed",
        allow_nonprivate: bool = False,
    ) -> Dataset:
        """Give a data set a budget, for good; the ledger itself is made where there is none.

        Parameters
        ----------
        dataset : str
            Its name: the same people must have the same name everywhere.
        epsilon : float, > 0
        delta : float, in [0, 1)
        adjacency : {"zero-out", "add-remove", "replace-one"}, default "zero-out"
            Fits must be made for the same.
        unit : {"row", "person"}, default "row"
            What one neighbouring change is about: a row, or a person for fits with ``max_rows_per_group``, whatever
            that is.
        composition : {"mixed", "gaussian", "renyi", "basic"}, default "mixed"
            How charges add up. ``"gaussian"`` is the tightest, for Gaussian releases alone (the default solver of
            ridge, logistic regression and SVM); ``"mixed"`` takes everything. See ``docs/guide/ledger.md``.
        allow_nonprivate : bool, default False
            Take runs that are not private rather than refuse them: those without any protection are recorded outside
            the sum, those with a ``random_state`` are charged.

        Returns
        -------
        Dataset

        Raises
        ------
        ParameterError
            If a parameter is out of range.
        LedgerError
            If the data set exists already: a budget is never changed.
        """
        name = _checked_name(dataset)
        rule = PrivacyFilter(epsilon, delta, composition)
        body = {
            "dataset": name,
            "epsilon": rule.epsilon,
            "delta": rule.delta,
            "adjacency": Adjacency.parse(adjacency).value,
            "unit": UNITS[choice("unit", unit, UNITS, remedy=_WHICH)],
            "composition": rule.composition,
            "allow_nonprivate": truth("allow_nonprivate", allow_nonprivate),
        }
        self._store.create()
        self._append([("create", body)], lambda book: book.check_new(name))
        return self._book.datasets[name]

    def reserve(
        self,
        dataset: str,
        event: Event,
        *,
        delta: float,
        adjacency: str | Adjacency,
        seeded: bool = False,
        plan: Mapping[str, object] | None = None,
        unit: str = ROW_UNIT,
        admits: Callable[[Callable[..., float]], object] | None = None,
        final: bool = False,
    ) -> Charge:
        """Charge what a run will cost at most, before it looks at the data.

        Parameters
        ----------
        dataset : str
        event : Event
            Of the frozen plan.
        delta : float
            Delta of the run's own promise.
        adjacency : str or Adjacency
            That the event was made for.
        seeded : bool, default False
            The noise comes from a given seed: refused, or with ``allow_nonprivate`` recorded as not private.
        plan : dict or None
            Public facts of the run, for the record; they must not depend on the data.
        unit : str
            Whom the event protects, in the words of its receipt.
        admits : callable or None
            Asked under the writer's lock, with `would_spend` of the data set as it is then; it raises to refuse.
        final : bool, default False
            Commit it in the same transaction: nothing will be known of the run that is not known now.

        Returns
        -------
        Charge
            To be given to `commit` after the run, or to `cancel` if nothing was drawn. Until then, and for ever if
            the process dies, it counts as spent.

        Raises
        ------
        BudgetError
            If it does not fit; the message names the budget, what is spent, and what this would bring it to.
        AccountingError
            If the event was made for an adjacency that does not fit.
        LedgerError
            If the data set or the ledger is not there, or its budget is for rows and the event for persons, or the
            other way round.
        """
        if not isinstance(event, Event):
            raise ParameterError(f"event must be an Event; got {event!r}.")
        delta = number("delta", delta, at_least=0.0, below=1.0)
        made_for = Adjacency.parse(adjacency)
        body = _reservation(dataset, event, delta, made_for, truth("seeded", seeded), plan or {})
        if is_of_persons(filled_text("unit", unit)):
            body["unit"] = unit

        def check(book: Book) -> None:
            book.check_unit(dataset, unit)
            book.check_fits(dataset, event, made_for, delta, seeded=seeded)
            if admits is not None:
                admits(book.account(dataset).spent)

        self._asked(check)  # accounting can take a second: once before the writer's lock is held
        bodies = [("reserve", body), ("commit", _end(body))]
        return self._append(bodies if truth("final", final) else bodies[:1], check)

    def import_receipt(
        self, dataset: str, guarantee: Guarantee, *, same_unit: bool = False, another_run: bool = False
    ) -> Charge:
        """Charge an earlier run that no ledger was charged for, by its receipt.

        Import all old receipts before the first new fit: what was admitted without them is not taken back.

        Parameters
        ----------
        dataset : str
        guarantee : Guarantee
            The receipt. It is believed: whether it is that of the model is for `sottovoce receipt verify` to say.
        same_unit : bool, default False
            The receipt's unit and that of the data set are the same in other words.
        another_run : bool, default False
            Import it although an equal receipt was imported: two runs with the same parameters can have equal ones.

        Returns
        -------
        Charge
            Committed.

        Raises
        ------
        BudgetError
            If it does not fit, naming what it would bring the data set to. A budget is never exceeded, not even to
            record what has happened: then the budget does not cover that run, and people should be told so.
        AccountingError
            If the receipt is for an adjacency that does not fit.
        LedgerError
            If its unit is another one, if it was imported before, or if the run charged this ledger itself.
        """
        if not isinstance(guarantee, Guarantee):
            raise ParameterError(f"guarantee must be a Guarantee, as in model.guarantee_; got {guarantee!r}.")
        truth("same_unit", same_unit)
        truth("another_run", another_run)
        made_for = Adjacency.parse(guarantee.adjacency)
        facts = {
            "estimator": guarantee.parameters.get("estimator"),
            "epsilon": guarantee.epsilon,
            "unit": guarantee.unit,
            "receipt of": f"sottovoce {guarantee.version}",
            "day of the receipt": guarantee.day,
        }
        body = _reservation(dataset, guarantee.event, guarantee.delta, made_for, guarantee.seeded, facts)
        body["receipt"] = hashlib.sha256(guarantee.signed_bytes()).hexdigest()  # the same with and without a signature

        def check(book: Book) -> None:
            known = book.account(dataset).dataset
            persons = is_of_persons(known.unit) and is_of_persons(guarantee.unit)
            if not (same_unit or persons or known.unit == guarantee.unit):
                raise LedgerError(
                    f"the receipt is about {guarantee.unit!r}, the budget of dataset {dataset!r} about {known.unit!r}. "
                    "If both are the same in other words, say so: same_unit=True."
                )
            if guarantee.charge is not None:
                book.check_not_charged(guarantee.charge["charge"])
            if not another_run:
                book.check_new_receipt(dataset, body["receipt"])
            book.check_fits(dataset, guarantee.event, made_for, guarantee.delta, seeded=guarantee.seeded)

        return self._append([("reserve", body), ("commit", _end(body))], check)

    def commit(self, charge: Charge, event: Event, *, note: str | None = None) -> Charge:
        """Record the end of a run, with the event that it really had.

        What was reserved stays charged: nothing is given back after noise was drawn.

        Parameters
        ----------
        charge : Charge
            From `reserve`.
        event : Event
        note : str or None, default=None
            Which result this is, such as its digest: whoever finds the charge committed sees for what.

        Raises
        ------
        AccountingError
            If the run cost more than was reserved: its result must not be used.
        LedgerError
            If the charge is not open.
        """
        record = self._known(charge)
        body = {"dataset": record.dataset, "charge": record.charge, "event": event.to_dict()}
        body |= {} if note is None else {"note": note}
        return self._append([("commit", body)], lambda book: book.check_commit(record.charge, event))

    def cancel(self, charge: Charge | str, reason: str) -> Charge:
        """Give back a reservation of a run that told nobody anything: no result, and no failure over the data.

        Parameters
        ----------
        charge : Charge or str
            From `reserve`; or its name, as in `history`, which is recorded as done by hand. That is a decision about
            privacy for whoever answers for the data set, after the run has ended; nothing may take it automatically,
            because whether a run failed over the data is itself an answer about the data.
        reason : str
            For the record; it must not depend on the data.

        Raises
        ------
        LedgerError
            If the charge is not open.
        """
        record = self._now().charge(charge) if isinstance(charge, str) else self._known(charge)
        by_hand = {"by_hand": True} if isinstance(charge, str) else {}
        body = {"dataset": record.dataset, "charge": record.charge, "reason": filled_text("reason", reason), **by_hand}
        return self._append([("cancel", body)], lambda book: book.check_open(record.charge))

    def how_to_cancel(self, charge: str) -> str:
        """Return the line by which whoever answers for the data set gives an open charge of this name back."""
        return f"sottovoce ledger cancel {charge} --ledger {shlex.quote(self._store.url)} --reason 'what nobody saw'"

    def datasets(self) -> dict[str, Dataset]:
        """Return all data sets, by name."""
        return self._now().datasets

    def spent(self, dataset: str) -> tuple[float, float]:
        """Return (epsilon, delta): what is spent of a data set's budget by its own rule, reservations included.

        It says how much of the budget is used up. The promise is about the budget: that all releases together, chosen
        in any way, are (epsilon, delta)-DP with the epsilon and delta of the data set.
        """

        def spent(book: Book) -> tuple[float, float]:
            account = book.account(dataset)
            return account.spent(), account.dataset.delta

        return self._asked(spent)

    def remaining(self, dataset: str, *, delta: float | None = None) -> float:
        """Return the largest epsilon that one more fit of Gaussian releases can have, 0 if none.

        Parameters
        ----------
        dataset : str
        delta : float or None
            Delta of that fit; None for the data set's.
        """

        def remaining(book: Book) -> float:
            account = book.account(dataset)
            at = number("delta", account.dataset.delta if delta is None else delta, above=0.0, below=1.0)
            return _largest_epsilon(account.dataset.filter, account.spent, at)

        return self._asked(remaining)

    def would_spend(
        self, dataset: str, *more: Release, rule: PrivacyFilter | None = None, coordinator: str | None = None
    ) -> float:
        """Return the epsilon that is spent with further releases, made for the neighbours of the data set.

        Parameters
        ----------
        dataset : str
        *more : Release
        rule : PrivacyFilter or None
            None for that of the data set.
        coordinator : str or None
            Of whose releases alone; None for all.
        """
        return self._asked(lambda book: book.account(dataset).spent(*more, rule=rule, coordinator=coordinator))

    def history(self, dataset: str) -> list[ChargeRecord]:
        """Return all charges of a data set, the oldest first, cancelled ones included."""
        return list(self._now().account(dataset).charges.values())

    def find(self, dataset: str, run: str) -> tuple[Charge, ChargeRecord] | None:
        """Return an open charge whose plan names this run, or the last one that was not cancelled; None without any.

        Parameters
        ----------
        dataset : str
        run : str
            ``plan["run"]`` of the reservation.
        """
        found = self._now().account(dataset).of_run(run)
        return None if found is None or not found.counts else (self._end_of(found), found)

    def close_for(self, dataset: str, run: str, result: str) -> tuple[Charge, ChargeRecord] | None:
        """Commit a charge of a run for one result, before that leaves: of copies of the run each has its own charge.

        Parameters
        ----------
        dataset : str
        run : str
            ``plan["run"]`` of the reservation.
        result : str
            The result's digest.

        Returns
        -------
        (Charge, ChargeRecord) or None
            The charge whose ``note`` is the result, and the result may leave; or the one that stands in its place,
            for another result or given back, and it must stay. None where nothing of this run was charged.

        Raises
        ------
        LedgerError
            If it cannot be recorded.
        """
        while True:
            record = self._now().account(dataset).of_run(run, result)
            if record is None or record.state != "reserved":
                return None if record is None else (self._end_of(record), record)
            try:
                self.commit(self._end_of(record), record.event, note=result)
            except (AccountingError, LedgerError):
                if self._now().charge(record.charge).state == "reserved":  # nobody else was first: it cannot be written
                    raise

    def _end_of(self, record: ChargeRecord) -> Charge:
        return Charge(record.charge, record.dataset, str(self._book.ledger), record.last, record.hash)

    def head(self) -> str:
        """Return the hash of the last entry: kept elsewhere, `verify` proves with it that nothing was cut off."""
        return self._now().head

    def holds(self, entry: str) -> bool:
        """Tell whether an entry of this hash is in the ledger, which then is no older and no other than it was then."""
        return any(row[2] == entry for row in self._store.read())

    def verify(self, expected_head: str | None = None) -> Verification:
        """Read everything again and check the hashes, the order, every charge against its budget, and the triggers.

        Parameters
        ----------
        expected_head : str or None
            Hash of an entry that was the last one at some time (`head`, or ``charge_.hash`` of a fit). Without it a
            ledger whose last entries were cut off looks like one that never had them; nothing inside can tell.

        Returns
        -------
        Verification
            ``ok``, and the problems in words.
        """
        found = verify_book(map(read_row, self._store.read()), expected_head=expected_head)
        missing = (
            f"the trigger {name!r}, which refuses changes, is not there"
            for name in sorted(self._store.missing_guards())
        )
        return replace(found, problems=(*found.problems, *missing))

    def export(self, path: str | Path) -> str:
        """Write the whole ledger as JSON lines, which `verify_export` checks without a database.

        Parameters
        ----------
        path : str or Path
            An existing file is replaced.

        Returns
        -------
        str
            The hash of the last entry.
        """
        rows = self._store.read()
        write_whole(path, "".join(f'{{"hash":"{row[2]}","entry":{row[3]}}}\n' for row in rows))
        return rows[-1][2] if rows else FIRST

    def _alone(self, work: Callable[[], _T]) -> _T:
        """Be the only one here who uses the book; one that an interrupt left half-written is read afresh.

        No generator holds the lock: one in whose ``with`` an interrupt comes would hold it as long as the exception is
        kept, which in an interpreter is until the next one.
        """
        with self._lock:
            try:
                return work()
            except BaseException as error:
                if not isinstance(error, SottovoceError):
                    self._book = Book()
                    error.add_note("If a charge was being made, `sottovoce ledger show` says whether it counts.")
                raise

    def _asked(self, ask: Callable[[Book], _T]) -> _T:
        def work() -> _T:
            self._catch_up(self._store.read)
            return ask(self._book)

        return self._alone(work)

    def _now(self) -> Book:
        return self._asked(lambda book: book)

    def _catch_up(self, read: Callable[[int], list[Row]]) -> None:
        known = self._book.n_entries
        rows = read(max(0, known - 1))
        if known and not (rows and rows[0][2] == self._book.head):
            raise LedgerIntegrityError(
                f"the ledger {self._store.url} no longer has entry {known - 1} as it was read here: another file has "
                "taken its place, an old copy perhaps. Nothing was written. `sottovoce ledger verify` says what it has."
            )
        for row in rows[known > 0 :]:
            self._book.read(read_row(row))

    def _known(self, charge: Charge) -> ChargeRecord:
        if not isinstance(charge, Charge):
            raise ParameterError(f"charge must be a Charge, from Ledger.reserve; got {charge!r}.")
        return self._now().charge(charge.charge)

    def _append(self, bodies: _Bodies, check: Callable[[Book], None]) -> Charge:
        """Add entries that ``check`` admits after everything before them; return what the last one is about."""

        def work() -> Charge:
            with self._store.writing() as (read, append):
                self._catch_up(read)
                check(self._book)
                entries = self._entries(bodies)
                for entry in entries:
                    append((entry.seq, entry.previous, entry.hash, entry.text))
            for entry in entries:  # they are on disk now
                self._book.read(entry)
            last = entries[-1]
            return Charge(
                last.body.get("charge", ""), last.body["dataset"], str(self._book.ledger), last.seq, last.hash
            )

        for _ in range(_TRIES):
            try:  # no context manager: a Ctrl-C in its lines would say nothing of the charge
                return self._alone(work)
            except self._store.collision:
                continue
        raise LedgerError(f"the ledger {self._store.url} is written by somebody who does not wait: try again later.")

    def _entries(self, bodies: _Bodies) -> list[Entry]:
        """Return the entries to be added, each with a day in UTC as its stamp: for the end of a charge, that it began.

        A finer one would tell how long a search took, and so its secret number of trials; so would the day of the end,
        after a midnight.
        """
        entries: list[Entry] = []
        seq, head = self._book.n_entries, self._book.head
        if seq == 0:
            bodies = [("ledger", {"format": FORMAT, "version": VERSION, "ledger": secrets.token_hex(16)}), *bodies]
        who, today = self.who or _user(), datetime.now(UTC).date().isoformat()
        for kind, body in bodies:
            at = self._book.day_of(body.get("charge")) or today
            entry = Entry(seq=seq, previous=head, kind=kind, at=at, who=who, code=_CODE, body=body)
            entries.append(entry)
            seq, head = seq + 1, entry.hash
        return entries


def _reservation(
    dataset: str, event: Event, delta: float, adjacency: Adjacency, seeded: bool, plan: Mapping[str, object]
) -> dict[str, Any]:
    body = {
        "dataset": dataset,
        "charge": secrets.token_hex(16),
        "event": event.to_dict(),
        "delta": delta,
        "adjacency": adjacency.value,
        "seeded": seeded,
        "plan": json.loads(json.dumps(plain(plan), default=str)),  # what is no plain data is written out
    }
    canonical_text(body)
    return body


def _end(reservation: dict[str, Any]) -> dict[str, Any]:
    """Return the end of a charge of which no more is to be said."""
    return {what: reservation[what] for what in ("dataset", "charge", "event")}


def _checked_name(dataset: object) -> str:
    good = isinstance(dataset, str) and 0 < len(dataset) <= _LONGEST_NAME and dataset.isprintable()
    if not isinstance(dataset, str) or not good or dataset != dataset.strip():
        raise ParameterError(
            f"dataset must be a name of 1 to {_LONGEST_NAME} printable characters without spaces at its ends; got "
            f"{dataset!r}."
        )
    return dataset


def _largest_epsilon(rule: PrivacyFilter, spent: Callable[[Release], float], delta: float) -> float:
    """Return the largest epsilon of a Gaussian fit at ``delta`` that ``rule`` admits beside what is ``spent``."""

    def fits(epsilon: float) -> bool:
        mu = gaussian_mu(epsilon, delta)
        return rule.covers(spent(Release(GaussianEvent(1.0 / mu), delta)))

    low, high = 0.0, max(rule.epsilon, gaussian_epsilon(1.0, delta))
    while fits(high) and high < 1e6:  # with a large delta a fit can have more epsilon than the budget
        low, high = high, 2.0 * high
    while high - low > 1e-9 * high and high > 1e-9 * rule.epsilon:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _user() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # the last where a system has no list of users
        user = f"uid {os.getuid()}" if hasattr(os, "getuid") else "an unknown user"
    return f"{user}@{socket.gethostname()}"
