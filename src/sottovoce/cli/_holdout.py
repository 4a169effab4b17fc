"""Rows that are set aside by coins before a fit, and the room that rows on scratch disk take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from sottovoce._groups import person_codes
from sottovoce._validation import number
from sottovoce.central.data.scratch import check_room
from sottovoce.central.plan import Takes
from sottovoce.cli._rows import Mask, OpenedTable
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.exceptions import ParameterError
from sottovoce.randomness import Purpose, Streams

_AT_ONCE = 1 << 16
_LABEL: Final = 64  # bytes of a label, at most but for long names of classes
_FIT: Final = 8 * 8  # bytes that a fit remembers of a row: label, target, scale, divisor, dual variables before and now
_FIT_A_CLASS: Final = 3 * 8


@dataclass(frozen=True, eq=False)
class Split:
    """A table in two parts."""

    training: OpenedTable  # with persons both have all rows: those of the other part have no person there
    held_out: OpenedTable
    chosen: Callable[[], Mask]  # returns which rows of the file are held out


def split_by_coins(opened: OpenedTable, share: float, random_state: int | None) -> Split:
    """Hold out each row, or each person with all their rows, with probability ``share``; no value is read.

    Coins know nothing of the rows. Without persons, the sizes of both parts are therefore public. How many rows the
    people of one part have is not: with persons both parts keep the size of the table, and the rows of the others have
    no person, so that they contribute nothing.
    """
    share = number("--holdout", share, above=0.0, below=1.0)
    n_rows = opened.n_rows
    # with persons one coin more than there can be people: that of nobody, whose code is -1, and who is in no part
    coins, thrown = np.zeros(n_rows + 1, np.bool_), Streams(random_state).generator(Purpose.HOLDING_OUT)
    for start in range(0, n_rows, _AT_ONCE):
        stop = min(start + _AT_ONCE, n_rows)
        coins[start:stop] = thrown.random(stop - start) < share
    if opened.groups is not None:
        return _split_people(opened, cache(opened.groups), coins)
    held = coins[:-1]
    if held.all() or not held.any():
        raise ParameterError(f"--holdout {share:g}: the coins left one part of {n_rows} rows empty. Try again.")
    training, held_out = (replace(opened, chosen=own) for own in (~held, held))
    return Split(training, held_out, lambda: held)


def _split_people(opened: OpenedTable, groups: Callable[[], Any], coins: Mask) -> Split:
    @cache
    def held() -> Mask:
        return coins[person_codes(groups(), opened.n_rows)]

    def only(part: bool) -> Any:
        kept = groups().copy()
        kept[held() != part] = None
        return kept

    return Split(replace(opened, groups=lambda: only(False)), replace(opened, groups=lambda: only(True)), held)


def check_room_for_fit(opened: OpenedTable, estimator: DPLinearEstimator, folder: Path | None) -> None:
    """Refuse a scratch disk without room for a table that is not held in memory, whole or in part.

    Persons, and solvers that do not take rows in order, need rows there a second time.

    Raises StorageError.
    """
    if not opened.is_small:  # else the sizes may have no plan
        plan = estimator.plan_for(opened.n_rows, opened.schema.n_features, estimator.planned_models())
        copies = 1 if Takes.ROWS_IN_ORDER in plan.takes and opened.groups is None else 2
        more = _FIT + _FIT_A_CLASS * len(getattr(estimator, "classes", None) or ())
        check_room_of(opened, copies, more, estimator.n_public, folder)


def check_room_of(opened: OpenedTable, copies: int, more: int, n_public: int | None, folder: Path | None) -> None:
    """Refuse a scratch disk without room for rows, and ``more`` bytes a row.

    It follows from public sizes: where the number of rows is secret, from its stand-in.
    """
    if not opened.is_small:
        each = copies * opened.row_bytes + more + _LABEL
        check_room((n_public or opened.table.n_rows) * each, folder, "the encoded table")
