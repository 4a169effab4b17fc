"""How a fit charges a ledger: reserve, look at the data, commit.

A charge is given back only where nothing of the data was looked at: whether a fit fails over its data is an exact
answer about them, and what costs nothing can be asked again and again.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from sottovoce.exceptions import AccountingError, LedgerError, LedgerIntegrityError, ParameterError, PrivacyWarning
from sottovoce.ledger.book import ChargeRecord
from sottovoce.ledger.ledger import Charge, Ledger
from sottovoce.privacy.adjacency import ROW_UNIT, Adjacency
from sottovoce.privacy.events import Event

_UNUSED: Final = "the run ended before it looked at any value of the data"
_REMEDY: Final = (
    "Whether a fit fails over its data is an exact answer about them; that it is charged limits how often it can be "
    "asked. Whoever holds the data can check them before a fit, without a ledger: no NaN or infinity in X and y, every "
    "label among the public classes, every cell as the schema says. If nobody learnt anything from this failure, who "
    "answers for the data set can decide to give the charge back by hand: "
)


@dataclass(eq=False)
class OpenCharge:
    """The reservation of one fit; does nothing where there is no ledger."""

    ledger: Ledger | None = None
    charge: Charge | None = None  # the last entry about it
    event: Event | None = None  # that was charged
    before: ChargeRecord | None = None  # of a process that ended
    run: str | None = None  # by which copies of the run, and later executions, find the charge
    looked: bool = False  # whether any value of the data may have been looked at

    def __post_init__(self) -> None:
        self.closed = self.before is not None and self.before.state == "committed"

    def looking(self) -> None:
        """Say that values of the data are looked at from now on: the charge stays, however the run ends."""
        self.looked = True

    def check_plan(self, event: Event) -> None:
        """Refuse to go on, before any noise, if the plan is not the one that was charged.

        Raises AccountingError if it is not: the public size of the data changed after the charge.
        """
        if self.event is not None and event != self.event:
            raise AccountingError(
                f"the plan changed after it was charged (charged {self.event!r}, now {event!r}); no noise was drawn."
            )

    def close_for(self, result: str) -> None:
        """Record that the charge is for one result, by its digest, before that leaves: of copies of a run one goes on.

        Raises LedgerError if it cannot be recorded, or the charge was closed for another result: this one must stay.
        """
        if self.ledger is None or self.charge is None or self.run is None:
            return
        found = self.ledger.close_for(self.charge.dataset, self.run, result)
        if found is None or found[1].note != result:
            given_back = found is None or found[1].state == "cancelled"
            why = "it was given back" if given_back else "another copy of this run has released one"
            raise LedgerError(
                f"charge {self.charge.charge} of dataset {self.charge.dataset!r} is not for this result: {why}. "
                "Nothing was sent; begin a new run."
            )
        self.charge, self.closed = found[0], True

    def commit(self, event: Event) -> None:
        """Record what the fit releases.

        Raises AccountingError if it costs more than was reserved, or if somebody cancelled the charge meanwhile: the
        result must not be used.
        """
        if self.ledger is None or self.charge is None or self.closed:
            return
        try:
            self.charge = self.ledger.commit(self.charge, event)
        except LedgerIntegrityError:
            raise
        except LedgerError as error:  # the fit is paid for already; its end is only a record
            warnings.warn(
                f"this fit is charged, but its end could not be recorded: {error} Charge {self.charge.charge} stays "
                "'reserved' in the history, which counts the same.",
                PrivacyWarning,
                stacklevel=3,
            )


def is_charged(ledger: object, dataset: object) -> bool:
    """Tell whether fits are charged to a ledger; both parameters are checked.

    Raises ParameterError if one is given without the other, or is of the wrong kind.
    """
    if ledger is None and dataset is None:
        return False
    if ledger is None or dataset is None:
        missing, given = ("ledger", "dataset") if ledger is None else ("dataset", "ledger")
        raise ParameterError(f"{missing} is missing: {given} is given, and a charge needs both.")
    if not isinstance(ledger, (str, Ledger)):
        raise ParameterError(f"ledger must be a Ledger or its address, such as 'sqlite:///budget.db'; got {ledger!r}.")
    if not isinstance(dataset, str):
        raise ParameterError(f"dataset must be the name of a data set in the ledger; got {dataset!r}.")
    return True


@contextmanager
def charging(
    ledger: str | Ledger | None,
    dataset: str | None,
    event: Event,
    *,
    delta: float,
    adjacency: Adjacency,
    seeded: bool,
    plan: Mapping[str, object],
    unit: str = ROW_UNIT,
    run: str | None = None,
) -> Iterator[OpenCharge]:
    """Hold a reservation while a fit runs.

    Parameters
    ----------
    ledger : str, Ledger or None
    dataset : str or None
    event, delta, adjacency, seeded, plan, unit
        As for `Ledger.reserve`.
    run : str or None
        A secret name of this run: executed again after its process ended, it goes on with the charge that it made.

    Yields
    ------
    OpenCharge
        To be told before the values of the data are looked at, and to be committed before the result is handed out.
        A run that fails before both gives the reservation back.
    """
    if not is_charged(ledger, dataset):
        yield OpenCharge()
        return
    assert ledger is not None and dataset is not None
    book = Ledger(ledger) if isinstance(ledger, str) else ledger
    found = None if run is None else book.find(dataset, run)
    if found is None:
        named = plan if run is None else {**plan, "run": run}
        charge = book.reserve(dataset, event, delta=delta, adjacency=adjacency, seeded=seeded, plan=named, unit=unit)
        held = OpenCharge(book, charge, event, run=run)
    else:  # its process ended; what it looked at nobody knows
        charge, record = found
        held = OpenCharge(book, charge, record.event, record, run, looked=True)
        held.check_plan(event)
    try:
        yield held
    except BaseException as error:
        kept = f"Charge {charge.charge} of dataset {dataset!r} counts as spent: "
        if held.looked or held.charge != charge:
            error.add_note(f"{kept}the values of the data were looked at. {_REMEDY}{book.how_to_cancel(charge.charge)}")
        else:
            try:
                book.cancel(charge, _UNUSED)
            except LedgerError as another:
                error.add_note(f"{kept}it could not be cancelled. {another}")
        raise
