"""Alignment: which people do all parties hold, and in which common order.

The common order is that of the sorted canonical identifiers (by Unicode code points). The statements of privacy of
vertical training take the number of aligned people and their identifiers as public; the order of the rows inside a
party enters nowhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sottovoce._optional import pa
from sottovoce._validation import choice
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.vertical.protocols.alignment.identifiers import UsableIdentifiers, usable_identifiers

DUPLICATES: Final = ("error", "drop")


@dataclass(frozen=True, slots=True)
class PartyCounts:
    """What became of the rows of one party; the last three and the number in common add up to ``rows``.

    Parameters
    ----------
    name : str
        The party.
    rows : int
        All its rows.
    missing : int
        Rows without an identifier.
    repeated : int
        Rows whose identifier stands in another row too; all of them are left out.
    not_in_common : int
        Rows whose identifier some other party lacks.
    """

    name: str
    rows: int
    missing: int
    repeated: int
    not_in_common: int


@dataclass(frozen=True, slots=True)
class AskedParty:
    """What an intersection tells of a party in another place, whose rows are not known here.

    Parameters
    ----------
    name : str
        The party.
    identifiers : int
        Size of its set: rows with an identifier that does not repeat.
    left : int
        People who are still in common after it was asked.
    """

    name: str
    identifiers: int
    left: int


@dataclass(frozen=True, slots=True)
class AlignmentReport:
    """An alignment in numbers; it holds no identifier.

    Parameters
    ----------
    method : {"exact", "psi", "kept"}
        "kept": the people of an earlier alignment.
    n_common : int
        People that all parties hold.
    parties : tuple of PartyCounts
        In the order of the parties; only those whose rows are known where the alignment ran.
    bytes_sent : dict of (str, str) to int
        Bytes of all messages from the first party to the second; empty for "exact", which sends none.
    asked : tuple of AskedParty
        Those in other places, in the order in which they were asked.
    """

    method: str
    n_common: int
    parties: tuple[PartyCounts, ...]
    bytes_sent: dict[tuple[str, str], int]
    asked: tuple[AskedParty, ...] = ()

    def summary(self) -> str:
        """Return the numbers as lines of text."""
        names = {each.name for each in self.parties} | {name for pair in self.bytes_sent for name in pair}
        lines = [f"{self.n_common:,} people in common of {len(names)} parties (method {self.method!r})"]
        lines += [
            f"{party.name}: {party.rows:,} rows, {party.missing:,} without an identifier, {party.repeated:,} with a "
            f"repeated one, {party.not_in_common:,} not in common"
            for party in self.parties
        ]
        lines += [
            f"{party.name}: {party.identifiers:,} identifiers, {party.left:,} people in common after it"
            for party in self.asked
        ]
        lines += [f"{sender} to {receiver}: {size:,} bytes" for (sender, receiver), size in self.bytes_sent.items()]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """The rows that all parties hold.

    Parameters
    ----------
    rows : dict of str to ndarray of shape (n_common,), int64
        For each party the indices of its rows, so that the k-th entries of all parties are one person.
    report : AlignmentReport
    """

    rows: dict[str, npt.NDArray[np.int64]] = field(repr=False)
    report: AlignmentReport


def common_rows(identifiers: Mapping[str, Any], *, duplicates: str = "error") -> Alignment:
    """Find the people that all parties hold, and their rows in a common order.

    Parameters
    ----------
    identifiers : mapping of str to array-like of shape (n_rows,)
        For each party, by name, the identifier of each of its rows: text, bytes, whole numbers, or floats that are
        whole. The canonical form is text, the same for 17, 17.0 and "17"; see
        `sottovoce.vertical.protocols.alignment.identifiers`. None, NaN, NaT, pandas.NA and "" are missing: the row
        is left out. Any order, any length.
    duplicates : {"error", "drop"}, default="error"
        What to do when a party has several rows with one identifier. A person has one row: "drop" leaves out every row
        of such an identifier, and so the person.

    Returns
    -------
    Alignment

    Raises
    ------
    ParameterError
        If an argument is wrong, or there are fewer than two parties.
    DataError
        If an entry cannot be an identifier, a party repeats some (with ``duplicates="error"``), or nobody is in common.
        No message holds an identifier.

    Notes
    -----
    Whoever runs it sees all identifiers of all parties, and tells each party its rows, in the order of the common
    identifiers. It is for simulation and for one owner of several tables. Between organisations,
    `sottovoce.vertical.alignment.align_over` finds the same people by private set intersection.

    Examples
    --------
    >>> from sottovoce.vertical.alignment.matching import common_rows
    >>> bank, shop = [17, 4, None, 23], ["23", "17", "99"]
    >>> alignment = common_rows({"bank": bank, "shop": shop})
    >>> alignment.rows["bank"], alignment.rows["shop"]
    (array([0, 3]), array([1, 0]))
    >>> print(alignment.report.summary())
    2 people in common of 2 parties (method 'exact')
    bank: 4 rows, 1 without an identifier, 0 with a repeated one, 1 not in common
    shop: 3 rows, 0 without an identifier, 0 with a repeated one, 1 not in common
    """
    choice("duplicates", duplicates, DUPLICATES)
    _check_parties(identifiers)
    held = {name: _hold(name, given, duplicates) for name, given in identifiers.items()}
    places = _places([*held.values()])
    n_common = len(places[0])
    if n_common == 0:
        raise _nobody(held)
    counts = tuple(
        PartyCounts(name, party.n_rows, party.missing, party.repeated, len(party.rows) - n_common)
        for name, party in held.items()
    )
    rows = {name: party.rows[place] for (name, party), place in zip(held.items(), places, strict=True)}
    return Alignment(rows, AlignmentReport("exact", n_common, counts, {}))


def _check_parties(identifiers: object) -> None:
    if not isinstance(identifiers, Mapping):
        raise ParameterError(
            "identifiers must be a mapping of the name of each party to its identifiers; got an object of type "
            f"{type(identifiers).__name__}."
        )
    unnamed = [type(name).__name__ for name in identifiers if not isinstance(name, str)]
    if unnamed:
        raise ParameterError(f"identifiers must have texts as names of parties; got a name of type {unnamed[0]}.")
    if len(identifiers) < 2:
        raise ParameterError(f"identifiers must be those of at least two parties; got {len(identifiers)}.")


def _hold(name: str, given: object, duplicates: str) -> UsableIdentifiers:
    held = usable_identifiers(f"identifiers[{name!r}]", given)
    if held.repeated and duplicates == "error":
        raise DataError(
            f"identifiers[{name!r}]: {held.repeated:,} rows share {held.shared:,} identifier(s), and a person has one "
            'row. Combine these rows into one before, or leave all of them out with duplicates="drop".'
        )
    return held


def _places(held: list[UsableIdentifiers]) -> list[npt.NDArray[np.int64]]:
    """Return for each party where the common identifiers, sorted, stand in ``texts``."""
    common = held[0].texts
    for party in held[1:]:
        common = common.filter(pa.compute.is_in(common, value_set=party.texts))
    common = common.take(pa.compute.sort_indices(common))  # by bytes of UTF-8, which is by code points
    return [pa.compute.index_in(common, value_set=party.texts).to_numpy(zero_copy_only=False) for party in held]


def _nobody(held: dict[str, UsableIdentifiers]) -> DataError:
    usable = ", ".join(f"{name!r} {len(party.rows):,} of {party.n_rows:,} rows" for name, party in held.items())
    return DataError(
        f"nobody is in common: no identifier is held by all {len(held)} parties (usable: {usable}). Check that the "
        "parties write identifiers alike: leading zeros, case and spaces count."
    )
