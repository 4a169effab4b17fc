"""What a fit or an evaluation reads: rows that are set aside by coins before, and rows that go to scratch disk."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sottovoce._groups import person_codes
from sottovoce._validation import number
from sottovoce.central.data.scratch import check_room
from sottovoce.central.data.scratch_table import ScratchTable
from sottovoce.cli._rows import OpenedTable
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.estimators.reading import UnreadTable
from sottovoce.evaluation.tables import BYTES_A_ROW
from sottovoce.exceptions import ParameterError
from sottovoce.randomness import Purpose, Streams

_AT_ONCE = 1 << 16

Mask = npt.NDArray[np.bool_]
_LABEL: Final = 64  # bytes of a label, at most but for long names of classes
_FIT: Final = 8 * 8  # bytes that a fit remembers of a row: label, target, scale, divisor, dual variables before and now
_FIT_A_CLASS: Final = 3 * 8


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


@dataclass(frozen=True, eq=False)
class SpilledRows:
    """A file of which no value was looked at yet, and that goes to scratch disk when it is."""

    opened: OpenedTable
    folder: Path | None  # where scratch files are; None: where temporary files are

    def unread(self) -> UnreadTable:
        return replace(self.opened.rows, read=lambda: (self._written(), None))

    def split(self, split: Split) -> Split:
        """Return the same parts, of rows on scratch disk; the file is read once for both."""
        if self.opened.rows.groups is not None:  # each part is all rows
            read = cache(lambda: (self._written(), None))
            return replace(
                split, training=replace(split.training, read=read), held_out=replace(split.held_out, read=read)
            )
        held, width = split.chosen(), self.opened.rows.shape[1]
        n_held = int(held.sum())

        @cache
        def parts() -> tuple[ScratchTable, ScratchTable]:
            trained, kept = self._empty(), self._empty()
            try:
                start = 0
                with closing(self.opened.pieces()) as pieces:
                    for X, y in pieces:
                        chosen = held[start : start + X.shape[0]]
                        start += X.shape[0]
                        for table, rows in ((trained, ~chosen), (kept, chosen)):
                            table.add(X[rows], y[rows])
            except BaseException:
                trained.close()
                kept.close()
                raise
            return trained, kept

        return Split(
            UnreadTable((len(held) - n_held, width), lambda: (parts()[0], None)),
            UnreadTable((n_held, width), lambda: (parts()[1], None)),
            lambda: held,
        )

    def _written(self) -> ScratchTable:
        with closing(self.opened.pieces()) as pieces:
            return ScratchTable.write(pieces, self.opened.rows.shape[1], folder=self.folder)

    def _empty(self) -> ScratchTable:
        return ScratchTable(self.opened.rows.shape[1], folder=self.folder)


def spilled_for_fit(
    opened: OpenedTable, estimator: DPLinearEstimator, n_trained: int, folder: Path | None
) -> SpilledRows | None:
    """Return the rows for a fit on scratch disk, or None where the table is small and held in memory.

    Persons, and solvers that do not take rows in order, need them there a second time. The room that is looked for
    follows from public sizes: where the number of rows is secret, from its stand-in.

    Raises StorageError if the disk has no room.
    """
    n_rows, n_features = opened.rows.shape
    if opened.is_small:
        return None
    plan = estimator.plan_for(n_trained, n_features, estimator.planned_models())
    copies = 1 if plan.in_order and opened.rows.groups is None else 2
    classes = len(getattr(estimator, "classes", None) or ())
    each = copies * opened.row_bytes + _LABEL + _FIT + _FIT_A_CLASS * classes
    check_room((estimator.n_public or n_rows) * each, folder, "the encoded table")
    return SpilledRows(opened, folder)


def spilled_for_evaluation(opened: OpenedTable, n_public: int | None, folder: Path | None) -> SpilledRows | None:
    if opened.is_small:
        return None
    each = opened.row_bytes + _LABEL + BYTES_A_ROW
    check_room((n_public or opened.rows.shape[0]) * each, folder, "the encoded table")
    return SpilledRows(opened, folder)
