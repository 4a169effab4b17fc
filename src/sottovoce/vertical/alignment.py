"""Parties with the same people in the same order: who is held by all of them, and in which order.

The order is that of the sorted canonical identifiers (by Unicode code points). The statements of privacy of vertical
training take the number of aligned people and their identifiers as public; the order of the rows inside a party enters
nowhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, cast

import numpy as np
import scipy.sparse as sp

from sottovoce._columns import as_array
from sottovoce._optional import pa
from sottovoce._validation import choice, in_order, whole_number
from sottovoce.exceptions import DataError, ParameterError, PartyError
from sottovoce.vertical.coordinator.parties import InProcessParties, Parties
from sottovoce.vertical.coordinator.plan import checked, helpers_among, read_public_facts
from sottovoce.vertical.party.party import Party
from sottovoce.vertical.requests.alignment import AlignTo, Intersect, PsiClient, announce
from sottovoce.vertical.requests.identifiers import UsableIdentifiers, usable_identifiers
from sottovoce.vertical.wire import Done, Payload

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
    asked : tuple of AskedParty
        Those in other places, in the order in which they were asked.
    bytes_sent : int
        Bytes of all messages; 0 for "exact", which sends none.
    """

    method: str
    n_common: int
    parties: tuple[PartyCounts, ...]
    asked: tuple[AskedParty, ...] = ()
    bytes_sent: int = 0

    def summary(self) -> str:
        """Return the numbers as lines of text."""
        lines = [f"{self.n_common:,} people in common (method {self.method!r})"]
        lines += [
            f"{party.name}: {party.rows:,} rows, {party.missing:,} without an identifier, {party.repeated:,} with a "
            f"repeated one, {party.not_in_common:,} not in common"
            for party in self.parties
        ]
        lines += [
            f"{party.name}: {party.identifiers:,} identifiers, {party.left:,} people in common after it"
            for party in self.asked
        ]
        return "\n".join([*lines, f"{self.bytes_sent:,} bytes of messages"] if self.bytes_sent else lines)


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
    names = [party.name for party in in_order("parties", parties, "a list of Party objects")]
    if len(set(names)) != len(names):
        raise ParameterError(f"the names of the parties must differ; got {names!r}.")
    rows, report = common_rows(
        {party.name: party.ids for party in parties if not party.is_helper}, duplicates=duplicates
    )
    return AlignedParties([party if party.is_helper else party.take(rows[party.name]) for party in parties], report)


def common_rows(identifiers: Mapping[str, Any], *, duplicates: str = "error") -> tuple[dict[str, Any], AlignmentReport]:
    """Return the rows of each party, in the order of the people whom all of them hold, and a report.

    The canonical form of an identifier is text, the same for 17, 17.0 and "17"; None, NaN, NaT, pandas.NA and "" are
    missing. No error holds an identifier.
    """
    choice("duplicates", duplicates, DUPLICATES)
    if len(identifiers) < 2:
        raise ParameterError(f"an alignment needs at least two parties with identifiers; got {len(identifiers)}.")
    held = {name: _hold(name, given, duplicates) for name, given in identifiers.items()}
    first, *others = held.values()
    common = first.texts
    for party in others:
        common = common.filter(pa.compute.is_in(common, value_set=party.texts))
    common = common.take(pa.compute.sort_indices(common))  # by bytes of UTF-8, which is by code points
    n_common = len(common)
    if n_common == 0:
        raise _nobody(held)
    counts = tuple(
        PartyCounts(name, party.n_rows, party.missing, party.repeated, len(party.rows) - n_common)
        for name, party in held.items()
    )
    rows = {name: party.rows_of(common) for name, party in held.items()}
    return rows, AlignmentReport("exact", n_common, counts)


def _hold(name: str, given: object, duplicates: str) -> UsableIdentifiers:
    held = usable_identifiers(f"ids of party {name!r}", given)
    if held.repeated and duplicates == "error":
        raise DataError(
            f"ids of party {name!r}: {held.repeated:,} rows share {held.shared:,} identifier(s), and a person has one "
            'row. Combine these rows into one before, or leave all of them out with duplicates="drop".'
        )
    return held


def _nobody(held: dict[str, UsableIdentifiers]) -> DataError:
    usable = ", ".join(f"{name!r} {len(party.rows):,} of {party.n_rows:,} rows" for name, party in held.items())
    return DataError(
        f"nobody is in common: no identifier is held by all {len(held)} parties (usable: {usable}). Check that the "
        "parties write identifiers alike: leading zeros, case and spaces count."
    )


def split_columns(
    X: Any, columns: "Sequence[int] | Mapping[str, Sequence[Any]]", **facts: Mapping[str, Any]
) -> InProcessParties:
    """Give the columns of one table to several parties in this process.

    Parameters
    ----------
    X : array, DataFrame or sparse matrix of shape (n_rows, n_features)
    columns : sequence of int, or dict
        How many columns each party gets, in order, named ``"party1"``, ``"party2"``, ...; or, by the party's name, the
        names (of a DataFrame) or numbers of its columns.
    **facts : dict
        Further arguments of `Party`, each a dict by party: ``data_norm={"party1": 3.0, "party2": 2.5}``.

    Returns
    -------
    InProcessParties

    Raises
    ------
    ParameterError
        If a column is given twice, is missing from X, or the numbers do not add up.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce.vertical import split_columns
    >>> split_columns(np.ones((4, 5)), [3, 2])
    InProcessParties([Party('party1', 4 rows, 3 features), Party('party2', 4 rows, 2 features)])
    """
    table = _table(X)
    names = list(table.columns) if hasattr(table, "columns") else None
    places = _places(columns, names, table.shape[1])
    for fact, values in facts.items():
        if not isinstance(values, Mapping):
            raise ParameterError(f"{fact} must be a dict by party; got {type(values).__name__}.")
        unknown = set(values) - set(places)
        if unknown:
            raise ParameterError(
                f"{fact} names {sorted(unknown)[0]!r}, which is not a party; there are {list(places)!r}."
            )
    return InProcessParties(
        [
            Party(
                table.iloc[:, given] if hasattr(table, "iloc") else table[:, given],
                name=name,
                **{fact: values[name] for fact, values in facts.items() if name in values},
            )
            for name, given in places.items()
        ]
    )


def _table(X: Any) -> Any:
    if hasattr(X, "shape") and len(X.shape) == 2:
        return sp.csc_array(cast("Any", X)) if sp.issparse(X) else X
    table = as_array(X)
    if table.ndim != 2:
        raise ParameterError(f"X must be a table; got an array of shape {table.shape}.")
    return table


def _places(columns: Any, names: list[Any] | None, width: int) -> dict[str, list[int]]:
    if isinstance(columns, Mapping):
        lists = {name: in_order(f"columns[{name!r}]", given) for name, given in columns.items()}
        places = {name: [_place(column, names, width) for column in given] for name, given in lists.items()}
    else:
        wanted = "a list of numbers of columns, or a dict by party"
        sizes = [whole_number("columns", size, at_least=1) for size in in_order("columns", columns, wanted)]
        if sum(sizes) != width:
            raise ParameterError(
                f"columns must add up to the {width} columns of X; got {sizes!r}, {sum(sizes)} in all."
            )
        ends = [0, *accumulate(sizes)]
        places = {f"party{m + 1}": list(range(ends[m], ends[m + 1])) for m in range(len(sizes))}
    every = [place for given in places.values() for place in given]
    if len(set(every)) != len(every):
        raise ParameterError("columns gives a column of X to more than one party, or twice to one.")
    return places


def _place(column: Any, names: list[Any] | None, width: int) -> int:
    if names is not None and column in names:
        return names.index(column)
    if isinstance(column, (int, np.integer)) and not isinstance(column, bool) and 0 <= column < width:
        return int(column)
    raise ParameterError(f"columns names {column!r}, which X does not have.")


# ------------------------------------------------------------------ in different places


def align_over(parties: Parties, *, client: str | None = None, people: Sequence[str] | None = None) -> AlignmentReport:
    """Align parties where they are: afterwards every one of them is the people in common, in one order.

    The client, who lives where the coordinator runs, asks the others one after the other by private set intersection
    (extra ``[vertical]``), and announces the people in common. Each party then has their rows only, for all sessions,
    until it is aligned anew; trainings on other rows end. The client's own rows follow last, so that its ``alignment``
    is set only when all are aligned. Rows without an identifier, and those whose identifier repeats, are left out, by
    each party at home.

    The keys are new in each run. A run that is to be resumed does this before what it repeats, keeps the people, and
    gives them the next time: they are announced again, without an intersection.

    Parameters
    ----------
    parties : Parties
        Each with identifiers.
    client : str or None
        A party in ``parties.here``. None takes the first one there.
    people : sequence of str or None
        Of an earlier alignment, in their canonical form, sorted.

    Returns
    -------
    AlignmentReport
        The rows of other parties are not known to the client: of them it has what the intersection tells.

    Raises
    ------
    DataError
        If nobody is in common, or fewer than the client's ``least_people``; nobody is announced then.
    PartyError
        If a party refuses or fails. Parties before it may be aligned already: run it again.
    ParameterError
        If there is no client with identifiers, or nobody else.
    """
    home = _client(parties, client)
    others = {name: rows for name, rows in _with_tables(parties).items() if name != home.name}
    if not others:
        raise ParameterError(f"an alignment needs at least two parties; there is {home.name!r} alone.")
    held = home.identifiers
    with parties.session() as talk:
        common, asked = list(people or ()), list[AskedParty]()
        if people is None:
            common, asked = _held_by_all(held.texts.to_pylist(), talk, others, home.least_people)
            if len(common) < home.least_people:
                raise _too_few(home, len(common), asked)
        announcement = announce(common)
        for name in others:
            talk.ask(name, AlignTo(announcement), Done)
        home.align(common)  # last of all
        sent = talk.uplink_bytes + talk.downlink_bytes
    counts = PartyCounts(home.name, held.n_rows, held.missing, held.repeated, len(held.rows) - len(common))
    return AlignmentReport("psi" if people is None else "kept", len(common), (counts,), tuple(asked), sent)


def _held_by_all(
    common: list[str], talk: Parties, others: Mapping[str, int], least: int
) -> tuple[list[str], list[AskedParty]]:
    """Return those of the client's identifiers that all servers hold, sorted, and what each server told.

    ``others``: the servers, with the rows of their whole tables.

    Each server is asked about those that are left, under new keys; once fewer than ``least`` are left nobody is asked
    about them any more. Raises `PartyError` if a server does not follow the protocol, as
    far as that can be seen; it was told of nobody.
    """
    asked = []
    for name, most in others.items():
        if len(common) < least:
            break
        client = PsiClient(common)
        told = talk.ask(name, Intersect(client.request()), Payload)
        setup = told.octets[: int(checked(name, told.numbers, 1)[0])]
        try:
            client.read_setup(setup, most)
            common = [common[place] for place in client.intersect(setup, told.octets[len(setup) :])]
        except DataError as error:
            raise PartyError(f"party {name!r} sent what is no part of an intersection: {error}") from None
        asked.append(AskedParty(name, client.n_server, len(common)))
    return sorted(common), asked


def _with_tables(parties: Parties) -> dict[str, int]:
    """Return all parties but the helpers, who have no people, with the rows of their whole tables, as they say."""
    with parties.session() as talk:
        facts = read_public_facts(talk)
    helpers = helpers_among(facts)
    return {name: facts[name].n_rows + facts[name].other_rows for name in parties.names if name not in helpers}


def _client(parties: Parties, name: str | None) -> Party:
    here = {each: party for each, party in parties.here.items() if isinstance(party, Party)}
    if not here:
        raise ParameterError("no party lives where the coordinator runs; one must, to ask the others about its people.")
    if name is None:
        name = next(each for each in parties.names if each in here)
    if name not in here:
        raise ParameterError(
            f"client must be a party that lives here, out of {', '.join(map(repr, here))}; got {name!r}."
        )
    if here[name].ids is None:
        raise ParameterError(f"party {name!r} has no identifiers to be aligned by: Party(..., ids=...).")
    return here[name]


def _too_few(home: Party, n_common: int, asked: Sequence[AskedParty]) -> DataError:
    steps = ", ".join(f"{each.left:,} after {each.name!r} with {each.identifiers:,} identifiers" for each in asked)
    steps = steps or f"{home.name!r} itself has no more that are there and do not repeat, and asked nobody"
    if n_common == 0:
        what = "nobody is in common"
    else:
        what = (
            f"{n_common:,} people are in common, and party {home.name!r} is aligned to at least {home.least_people:,}"
        )
    return DataError(
        f"{what} (left: {steps}). Check that the parties write identifiers alike: leading zeros, case and spaces count."
    )
