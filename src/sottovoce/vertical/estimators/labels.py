"""The labels: who holds them, and those that are given."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce._entries import entries
from sottovoce._validation import choice
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.estimators.parties import owned

__all__ = ["check_length", "label_holder", "labels_of", "own_labels"]


def label_holder(given: str | None, parties: Parties) -> str:
    """Return who holds the labels: who is named, else the one party that was made with some, else the first."""
    if given is not None:
        return choice("label_holder", given, parties.names)
    holders = [name for name, party in owned(parties).items() if party.y is not None]
    if len(holders) > 1:
        raise ParameterError(
            f"parties {', '.join(map(repr, holders))} all hold labels: say whose with label_holder=..."
        )
    if holders:
        return holders[0]
    here = owned(parties)
    return next((name for name in parties.names if name not in here or not here[name].is_helper), parties.names[0])


def own_labels(parties: Parties, holder: str, y: ArrayLike | None) -> Any:
    """Return the labels that the party itself holds, or None; refuse a training without any. Nothing is read."""
    party = owned(parties).get(holder)
    own = None if party is None else party.y
    if own is None and y is None:
        raise ParameterError(f"y is missing: give the labels, or make the party {holder!r} with y=...")
    return own


def labels_of(parties: Parties, holder: str, y: ArrayLike | None) -> NDArray[Any]:
    """Return the labels, given or held; where they are both, they must be the same."""
    own = own_labels(parties, holder, y)
    if own is None or y is None:
        return entries(own if y is None else y)
    given = entries(y)
    if not np.array_equal(given, own):
        raise DataError(
            f"y is given twice, and is not the same: party {holder!r} was made with y=... too. Give it once; aligned "
            "parties put their own in order."
        )
    return given


def check_length(y: ArrayLike, n_rows: int) -> None:
    """Refuse labels that are not one a row."""
    if np.shape(y) != (n_rows,):
        raise DataError(f"y must hold one label for each of {n_rows} rows; got the shape {np.shape(y)}.")
