"""Parties with the same people in the same order."""

from collections.abc import Sequence

from sottovoce.exceptions import ParameterError
from sottovoce.vertical.alignment.matching import AlignmentReport, common_rows
from sottovoce.vertical.coordinator.parties import InProcessParties
from sottovoce.vertical.party.party import Party


class AlignedParties(InProcessParties):
    """Parties that hold the same people in the same order.

    Attributes
    ----------
    report : AlignmentReport
        By count only.
    """

    def __init__(self, parties: Sequence[Party], report: AlignmentReport) -> None:
        super().__init__(parties)
        self.report = report


def align(parties: Sequence[Party], *, duplicates: str = "error") -> AlignedParties:
    """Keep, at every party, the rows of the people whom all of them hold, in one common order.

    Whoever calls it has the identifiers of all parties. Between organisations `sottovoce.vertical.alignment.align_over`
    compares them by private set intersection.

    Parameters
    ----------
    parties : sequence of Party
        Each made with ``ids=...``; a `Helper` has no people and stays as it is.
    duplicates : {"error", "drop"}, default "error"
        An identifier that repeats within a party: an error, or all its rows are left out.

    Returns
    -------
    AlignedParties
        Labels that a party was made with are put in order too.

    Raises
    ------
    ParameterError, DataError
        If a party has no identifiers, an identifier repeats, or nobody is in common; errors tell counts, not
        identifiers.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce.vertical import Party, align
    >>> clinic = Party(np.ones((3, 2)), ids=["c", "a", "b"], name="clinic")
    >>> bank = Party(np.ones((3, 1)), ids=["b", "d", "c"], name="bank")
    >>> align([clinic, bank]).report.n_common
    2
    """
    names = [party.name for party in parties]
    if len(set(names)) != len(names):
        raise ParameterError(f"the names of the parties must differ; got {names!r}.")
    aligned = common_rows({party.name: party.ids for party in parties if not party.is_helper}, duplicates=duplicates)
    return AlignedParties(
        [party if party.is_helper else party.take(aligned.rows[party.name]) for party in parties], aligned.report
    )
