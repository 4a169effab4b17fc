"""Parties with the same people in the same order."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from sottovoce._columns import as_array
from sottovoce._validation import in_order, whole_number
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
    names = [party.name for party in in_order("parties", parties, "a list of Party objects")]
    if len(set(names)) != len(names):
        raise ParameterError(f"the names of the parties must differ; got {names!r}.")
    aligned = common_rows({party.name: party.ids for party in parties if not party.is_helper}, duplicates=duplicates)
    return AlignedParties(
        [party if party.is_helper else party.take(aligned.rows[party.name]) for party in parties], aligned.report
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
