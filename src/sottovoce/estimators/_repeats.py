"""Several private fits on one table in one process, with no ledger that adds them up: worth a warning.

Each receipt is about one fit. Who fits thirteen times in a grid search spends thirteen budgets, and no receipt says so.
The table is known by its identity: the array, matrix or data frame that was given (behind it the array that it is a
view of), or the ``X`` of the outermost call of scikit-learn that is running, as folds of a cross-validation are copies.
Only weak references are kept. Nothing is known of tables that were copied or read again, of lists, and of other
processes: that is what a ledger is for.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from sottovoce._warnings import warn_of_privacy
from sottovoce.estimators._pipelines import frames_of
from sottovoce.randomness import UNCOUNTED

__all__ = ["fit_without_ledger"]

_LOCK: Final = threading.Lock()


@dataclass
class _Table:
    """A table that was fitted, and which of its bytes: views of other rows are not the same table."""

    reference: weakref.ref[Any]
    bounds: list[tuple[int, int]] = field(default_factory=list)
    told: bool = False  # whether there was a warning


_TABLES: Final[dict[int, _Table]] = {}


@contextmanager
def fit_without_ledger(X: Any, has_drawn: Callable[[], bool]) -> Iterator[None]:
    """Warn if X was fitted before, and remember that it is now if noise may have been drawn."""
    if UNCOUNTED.get():
        yield
        return
    table = _outermost_table(X)
    if _is_worth_a_word(table):
        warn_of_privacy(
            "this table was fitted privately before in this process, and no ledger adds the fits up: each receipt is "
            "about one fit, and their epsilons add up. Give ledger= and dataset=, or add the receipts up with "
            "sottovoce.report.sum_receipts. (Said once for each table.)"
        )
    try:
        yield
    finally:
        if has_drawn():
            _remember(table)


def _outermost_table(X: Any) -> Any:
    for frame in frames_of("sklearn"):
        given = frame.f_locals.get("X")
        X = X if given is None else given
    return X


def _owner(table: Any) -> tuple[Any, tuple[int, int]]:
    """Return the object behind a view, and which of its bytes the view spans."""
    if not isinstance(table, np.ndarray):
        return table, (0, 1)
    span = np.lib.array_utils.byte_bounds(table)
    while isinstance(table.base, np.ndarray):
        table = table.base
    return table, span


def _is_worth_a_word(table: Any) -> bool:
    """Return whether these rows were fitted before, the first time that it is asked after such a fit."""
    owner, (low, high) = _owner(table)
    with _LOCK:
        known = _TABLES.get(id(owner))
        if known is None or known.reference() is not owner or known.told:
            return False
        known.told = any(low < end and begin < high for begin, end in known.bounds)
        return known.told


def _remember(table: Any) -> None:
    owner, span = _owner(table)
    key = id(owner)
    try:
        # no lock in the call-back: it may run anywhere, also while this thread holds the lock
        reference = weakref.ref(owner, lambda _: _TABLES.pop(key, None))
    except TypeError:  # a list
        return
    with _LOCK:
        known = _TABLES.get(key)
        if known is None or known.reference() is not owner:
            known = _TABLES[key] = _Table(reference)
        known.bounds.append(span)
