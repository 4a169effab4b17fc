"""Rows that are set aside by coins before a fit, and never trained on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sottovoce._groups import person_codes
from sottovoce._validation import number
from sottovoce.estimators.reading import UnreadTable
from sottovoce.exceptions import ParameterError
from sottovoce.randomness import Purpose, Streams

__all__ = ["Split", "split_by_coins"]

_AT_ONCE = 1 << 16

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Split:
    """A table in two parts."""

    training: UnreadTable  # with persons both have all rows: those of the other part have no person there
    held_out: UnreadTable
    chosen: Callable[[], Mask]  # returns which rows of the file are held out


def split_by_coins(rows: UnreadTable, share: float, random_state: int | None) -> Split:
    """Hold out each row, or each person with all their rows, with probability ``share``; no value is read.

    Coins know nothing of the rows. Without persons, the sizes of both parts are therefore public. How many rows the
    people of one part have is not: with persons both parts keep the size of the table, and the rows of the others have
    no person, so that they contribute nothing.

    Raises ParameterError if the share is not in (0, 1), or if the coins left one part of the rows empty.
    """
    share = number("--holdout", share, above=0.0, below=1.0)
    n_rows = rows.shape[0]
    # with persons one coin more than there can be people: that of nobody, whose code is -1, and who is in no part
    coins, thrown = np.zeros(n_rows + 1, np.bool_), Streams(random_state).generator(Purpose.HOLDING_OUT)
    for start in range(0, n_rows, _AT_ONCE):
        stop = min(start + _AT_ONCE, n_rows)
        coins[start:stop] = thrown.random(stop - start) < share
    rows = replace(rows, read=cache(rows.read))
    if rows.groups is not None:
        return _split_people(rows, cache(rows.groups), coins)
    held = coins[:-1]
    if held.all() or not held.any():
        raise ParameterError(f"--holdout {share:g}: the coins left one part of {n_rows} rows empty. Try again.")
    return Split(_part(rows, ~held), _part(rows, held), lambda: held)


def _split_people(rows: UnreadTable, groups: Callable[[], Any], coins: Mask) -> Split:
    @cache
    def held() -> Mask:
        return coins[person_codes(groups(), rows.shape[0])]

    def only(part: bool) -> Any:
        kept = groups().copy()
        kept[held() != part] = None
        return kept

    return Split(replace(rows, groups=lambda: only(False)), replace(rows, groups=lambda: only(True)), held)


def _part(rows: UnreadTable, chosen: Mask) -> UnreadTable:
    def read() -> tuple[Any, Any]:
        X, y = rows.read()
        return X[chosen], y[chosen]

    return UnreadTable((int(chosen.sum()), rows.shape[1]), read)
