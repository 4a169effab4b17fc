"""How a fit charges a ledger: reserve before the data are read, commit after the noise, cancel if none was drawn."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from sottovoce.exceptions import AccountingError, LedgerError, LedgerIntegrityError, ParameterError, PrivacyWarning
from sottovoce.ledger.ledger import Charge, Ledger
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import Event

__all__ = ["OpenCharge", "charging", "is_charged"]


class OpenCharge:
    """The reservation of one fit; does nothing where there is no ledger.

    Attributes
    ----------
    charge : Charge or None
        The last entry about it.
    """

    def __init__(self, ledger: Ledger | None = None, charge: Charge | None = None, event: Event | None = None) -> None:
        self._ledger = ledger
        self.charge = charge
        self._event = event

    def check_plan(self, event: Event) -> None:
        """Refuse to go on, before any noise, if the plan is not the one that was charged.

        Raises
        ------
        AccountingError
            If it is not: the public size of the data changed after the charge.
        """
        if self._event is not None and event != self._event:
            raise AccountingError(
                f"the plan changed after it was charged (charged {self._event!r}, now {event!r}); no noise was drawn."
            )

    def commit(self, event: Event) -> None:
        """Record what the fit released.

        Raises
        ------
        AccountingError
            If it cost more than was reserved: the result must not be used.
        """
        if self._ledger is None or self.charge is None:
            return
        try:
            self.charge = self._ledger.commit(self.charge, event)
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

    Raises
    ------
    ParameterError
        If one is given without the other, or is of the wrong kind.
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
    has_drawn: Callable[[], bool],
) -> Iterator[OpenCharge]:
    """Hold a reservation while a fit runs.

    Parameters
    ----------
    ledger : str, Ledger or None
    dataset : str or None
    event, delta, adjacency, seeded, plan
        As for `Ledger.reserve`.
    has_drawn : callable
        Tells whether noise may have been drawn, or anything have been released. Asked if the fit fails: if not, the
        reservation is cancelled; else it stays as spent.

    Yields
    ------
    OpenCharge
        To be committed before the result is handed out.
    """
    if not is_charged(ledger, dataset):
        yield OpenCharge()
        return
    assert ledger is not None and dataset is not None
    book = Ledger(ledger) if isinstance(ledger, str) else ledger
    charge = book.reserve(dataset, event, delta=delta, adjacency=adjacency, seeded=seeded, plan=plan)
    held = OpenCharge(book, charge, event)
    try:
        yield held
    except BaseException as error:
        if not has_drawn() and held.charge == charge:
            try:
                book.cancel(charge, "the fit ended before any noise was drawn")
            except LedgerError as another:
                error.add_note(f"The charge could not be cancelled, and counts as spent: {another}")
        else:
            error.add_note(f"Noise may have been drawn: charge {charge.charge} of dataset {dataset!r} counts as spent.")
        raise
