"""Rows that do not fit into memory: encoded once to scratch disk, and read from there."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from sottovoce.central.data.scratch import check_room
from sottovoce.central.data.scratch_table import ScratchTable
from sottovoce.cli._echo import echo
from sottovoce.cli._holdout import Split
from sottovoce.cli._rows import OpenedTable
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.estimators.reading import UnreadTable
from sottovoce.evaluation.tables import BYTES_A_ROW

__all__ = ["SpilledRows", "spilled_for_evaluation", "spilled_for_fit"]

Mask = npt.NDArray[np.bool_]

_TOGETHER: Final = "those of a person are needed together"
_LABEL: Final = 64  # bytes of a label, at most but for long names of classes
_FIT: Final = 8 * 8  # bytes that a fit remembers of a row: label, target, scale, divisor, dual variables before and now
_FIT_A_CLASS: Final = 3 * 8


@dataclass(frozen=True, eq=False)
class SpilledRows:
    """A file of which no value was looked at yet, and that goes to scratch disk when it is.

    Attributes
    ----------
    opened : OpenedTable
    folder : Path or None
        Where scratch files are; None: where temporary files are.
    """

    opened: OpenedTable
    folder: Path | None

    def unread(self) -> UnreadTable:
        """Return all rows, as a fit or an evaluation takes them."""
        return UnreadTable(self.opened.rows.shape, lambda: (self._written(), None))

    def split(self, held: Mask) -> Split:
        """Return the rows in two parts, those that are ``held`` out and the others; the file is read once for both."""
        n_held, width = int(held.sum()), self.opened.rows.shape[1]

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
    """Return the rows for a fit on scratch disk, or None where they are held in memory.

    That is so for a table that is small, and for a fit that cannot read rows in blocks: of a large table this is said.
    The room that is looked for follows from public sizes: where the number of rows is secret, from its stand-in.

    Raises
    ------
    StorageError
        If the disk has no room.
    """
    n_rows, n_features = opened.rows.shape
    if opened.is_small:
        return None
    why = None
    if opened.rows.groups is not None:
        why = _TOGETHER
    else:
        plan = estimator.plan_for(n_trained, n_features, estimator.planned_models())
        if not plan.in_order:
            why = f"solver {plan.solver!r} needs them at hand"
    if why is not None:
        _note_in_memory(why)
        return None
    classes = len(getattr(estimator, "classes", None) or ())
    each = opened.row_bytes + _LABEL + _FIT + _FIT_A_CLASS * classes
    check_room((estimator.n_public or n_rows) * each, folder, "the encoded table")
    return SpilledRows(opened, folder)


def spilled_for_evaluation(opened: OpenedTable, n_public: int | None, folder: Path | None) -> SpilledRows | None:
    """Return the rows for an evaluation on scratch disk, or None where they are held in memory; as for a fit."""
    if opened.is_small:
        return None
    if opened.rows.groups is not None:
        _note_in_memory(_TOGETHER)
        return None
    each = opened.row_bytes + _LABEL + BYTES_A_ROW
    check_room((n_public or opened.rows.shape[0]) * each, folder, "the encoded table")
    return SpilledRows(opened, folder)


def _note_in_memory(why: str) -> None:
    echo(f"note: all rows of the table are held in memory: {why}.", err=True)
