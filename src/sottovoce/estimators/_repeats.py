"""Several private fits on one table in one run, with no ledger that adds them up: counted, and worth a warning.

Each receipt is about one fit. Whoever fits thirteen times in a grid search spends thirteen budgets, so the receipt of
the best model says that it is that of fit 13. The table is the one that was given, or the ``X`` of the outermost call
of scikit-learn that is running, as folds of a cross-validation are parts of it. It is known again

* by its identity: the object, or the array that it is a view of, where views overlap. Weak references are kept. What a
  receipt counts follows from this alone: which objects a program hands over says nothing about rows;
* as a copy, or some of its columns, by a digest of a few hundred entries of each column. Whether two tables are equal
  is private, so only a warning follows from it, told to whoever holds both. Digests are keyed by a secret of the
  process and stay in its memory.

Nothing is known of rows that were drawn by hand, of tables that were changed, and of other runs and workers: that is
what a ledger is for.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import scipy.sparse as sp

from sottovoce._warnings import warn_of_privacy
from sottovoce.estimators._pipelines import frames_of
from sottovoce.randomness import UNCOUNTED

_LOCK: Final = threading.Lock()
_SAMPLE: Final = 256  # rows that are looked at, at most
_FEWEST: Final = 32  # columns of fewer rows are equal by chance
_MOST: Final = 1_000_000  # digests that are kept
_KEY: Final = secrets.token_bytes(64)


@dataclass(eq=False)
class _Table:
    """A table that was fitted, by its identity."""

    fits: int = 0
    told: bool = False  # whether there was a warning


@dataclass
class _Owner:
    """An object that holds tables, and in which of its bytes."""

    reference: weakref.ref[Any]
    tables: list[tuple[tuple[int, int], _Table]] = field(default_factory=list)


_OWNERS: Final[dict[int, _Owner]] = {}
_COLUMNS: Final[dict[int, bool]] = {}  # digests, and whether there was a warning of their table


@contextmanager
def fit_without_ledger(X: Any, has_drawn: Callable[[], bool]) -> Iterator[int]:
    """Warn once if X was fitted before, remember that it is now if noise may have been drawn; yield which fit it is."""
    if UNCOUNTED.get():
        yield 1
        return
    table, before = _outermost_call(X)
    columns = _digests(table)
    with _LOCK:
        held = _held(table)
        number = 1 + max((before, *(one.fits for one in held)))
        is_known = number > 1 or any(column in _COLUMNS for column in columns)
        told = any(one.told for one in held) or any(_COLUMNS.get(column) for column in columns)
        if is_known:  # before the warning: of many threads one tells
            for one in held:
                one.told = True
            _COLUMNS.update((column, True) for column in columns if column in _COLUMNS)
    if is_known and not told:
        warn_of_privacy(
            "this table was fitted privately before in this process, and no ledger adds the fits up: each receipt is "
            "about one fit, and their epsilons add up. Give ledger= and dataset=, or add the receipts up with "
            "sottovoce.report.sum_receipts. (Said once for each table.)"
        )
    try:
        yield number
    finally:
        if has_drawn():
            with _LOCK:
                _remember(table, columns, told=is_known)


def forget() -> None:
    """Forget all tables, for tests."""
    with _LOCK:
        _OWNERS.clear()
        _COLUMNS.clear()


def _outermost_call(X: Any) -> tuple[Any, int]:
    """Return the ``X`` of the outermost call of scikit-learn, and how often a search has fitted it, in workers too."""
    before = 0
    for frame in frames_of("sklearn"):
        told = frame.f_locals
        X = X if told.get("X") is None else told["X"]
        before += len(told.get("all_out") or ())  # of `BaseSearchCV.fit`: one entry a fit
    return X, before


def _owner(table: Any) -> tuple[Any, tuple[int, int]]:
    """Return the object behind a view, and which of its bytes the view spans."""
    if not isinstance(table, np.ndarray):
        return table, (0, 1)
    span = np.lib.array_utils.byte_bounds(table)
    while isinstance(table.base, np.ndarray):
        table = table.base
    return table, span


def _held(table: Any) -> list[_Table]:
    """Return what is remembered of this object, and of views that overlap with it."""
    owner, (low, high) = _owner(table)
    known = _OWNERS.get(id(owner))
    if known is None or known.reference() is not owner:
        return []
    return list(dict.fromkeys(one for (begin, end), one in known.tables if low < end and begin < high))


def _remember(table: Any, columns: list[int], *, told: bool) -> None:
    held = _held(table) or [_Table()]
    for one in held:
        one.fits, one.told = one.fits + 1, one.told or told
    owner, span = _owner(table)
    key = id(owner)
    with contextlib.suppress(TypeError):  # nothing refers weakly to a list
        # no lock in the call-back: it may run anywhere, also while this thread holds the lock
        reference = weakref.ref(owner, lambda _: _OWNERS.pop(key, None))
        known = _OWNERS.get(key)
        if known is None or known.reference() is not owner:
            known = _OWNERS[key] = _Owner(reference)
        if not any(place == span for place, _ in known.tables):
            known.tables += [(span, one) for one in held]
    for column in columns:
        _COLUMNS[column] = _COLUMNS.get(column, False) or told
    while len(_COLUMNS) > _MOST:
        del _COLUMNS[next(iter(_COLUMNS))]


# --- digests


def _digests(table: Any) -> list[int]:
    """Return a keyed digest of each column that is not constant or numbered through; [] of what is no table."""
    try:
        n_rows = table.shape[0] if hasattr(table, "shape") else len(table)
        if n_rows < _FEWEST or not isinstance(n_rows, int):
            return []
        rows = np.arange(0, n_rows, -(-n_rows // _SAMPLE))  # evenly, so that numbers of rows stay known
        if sp.issparse(table):
            any_form: Any = table
            few = any_form.tocsr()[rows]
            held = (few.indptr, few.indices, few.data.astype(np.float64))
            return [_number(b"".join(part.tobytes() for part in held), n_rows, few.shape[1])]
        if isinstance(table, (list, tuple)):
            some = np.asarray([table[row] for row in rows])
        else:
            some = table.iloc[rows] if hasattr(table, "iloc") else table[rows]
        cells = np.asarray(some)
        if cells.ndim != 2:
            return []
        columns = [cells[:, k] for k in range(cells.shape[1])] if cells.dtype == object else None
        if columns is None:
            return _of_numbers(cells.astype(np.float64), n_rows)
        return [found for column in columns for found in _of_objects(column, n_rows)]
    except Exception:  # whatever was given: what is no table is told where it is read
        return []


def _of_numbers(cells: Any, n_rows: int) -> list[int]:
    with np.errstate(all="ignore"):
        steps = np.diff(cells, axis=0)
        kept = np.any(steps != steps[:1], axis=0)
    return [_number(column.tobytes(), n_rows, 0) for column in (cells.T + 0.0)[kept]]


def _of_objects(column: Any, n_rows: int) -> list[int]:
    try:
        return _of_numbers(column.astype(np.float64)[:, None], n_rows)
    except (TypeError, ValueError):
        texts = [str(cell) for cell in column]
        return [_number(repr(texts).encode(), n_rows, 0)] if len(set(texts)) > 1 else []


def _number(data: bytes, *sizes: int) -> int:
    return int.from_bytes(hashlib.blake2b(repr(sizes).encode() + data, key=_KEY, digest_size=8).digest())
