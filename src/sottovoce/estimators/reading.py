"""Tables as fits take them: public sizes first, values when the fit has paid for them."""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import (
    _num_features,
    _num_samples,
    check_consistent_length,
    validate_data,
)

from sottovoce._columns import (
    one_dimension_refused,
    refuse_by_cell,
    refuse_by_type,
    refuse_no_table,
    refuse_texts,
    typed_columns,
)
from sottovoce._entries import entries, refuse_no_column
from sottovoce._numerics import PIECE, Vector
from sottovoce._optional import pa
from sottovoce._validation import refuse_masked
from sottovoce.central.data.operation import Holder
from sottovoce.central.data.part import Part, is_large_map
from sottovoce.central.data.streamed import OutsideTable, RemoteTable, StreamedTable
from sottovoce.central.kernels.calls import CSR, passes
from sottovoce.central.parallel import Team, one_blas_thread, team
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.privacy.adjacency import Adjacency

_WIDE: Final = 256  # columns; of wider rows fewer are multiplied at once
_LEAST_ROWS: Final = 64
_AT_ONCE: Final = 2**18  # entries whose squares are held

# NaN and infinity are left to make_rows and to the label checks, whose messages say where and what to do
_FLOATS: Final = [np.float64, np.float32]
ROWS: Final = {"accept_sparse": "csr", "dtype": _FLOATS, "order": "C", "ensure_all_finite": False}


@dataclass(frozen=True, eq=False)
class UnreadTable:
    """What a fit takes in place of X and y where reading can fail over a value of the data.

    Such a failure is an answer about the data, so it may come only after the charge.
    """

    shape: tuple[int, int]  # public numbers of rows and of columns
    read: Callable[[], tuple[Any, Any]]  # returns X and y
    # Called after ``read``; returns the person of each row. None where the unit is a row.
    groups: Callable[[], Any] | None = None


def is_plain(X: Any) -> bool:
    """Tell whether kernels take this as it is: then what other kinds of tables are asked for and read by is skipped."""
    return type(X) is np.ndarray and X.ndim == 2 and X.size > 0 and X.flags.c_contiguous and X.dtype in _FLOATS


def least_rows(estimator: Any) -> int:
    """Return how few rows a fit takes: none where their number is secret, for a refusal would tell it."""
    given = getattr(getattr(estimator, "estimator", estimator), "adjacency", None)  # of a search: that of its model
    is_secret = isinstance(given, (str, Adjacency)) and given in (Adjacency.ADD_REMOVE, Adjacency.ADD_REMOVE.value)
    return int(not is_secret or estimator.epsilon == math.inf)


def public_size(X: Any) -> tuple[int, int]:
    """Return the numbers of rows and columns of a table whose values are not looked at."""
    if is_plain(X):
        return X.shape  # type: ignore[no-any-return]
    try:
        return _num_samples(X), _num_features(X)
    except IndexError:
        raise DataError(
            "X is a list without rows, which does not tell its columns: give an array of the shape (0, n_features)."
        ) from None


def check_public_sizes(X: Any, y: Any) -> None:
    """Refuse, before anything is charged or read, labels that are missing or that do not fit the number of rows."""
    refuse_copy_of_map(X, row_by_row=True)
    if y is None:
        if isinstance(X, StreamedTable) and not X.has_labels:
            X.labels()  # says that there are none
        if isinstance(X, RemoteTable) and not X.has_labels:
            raise ParameterError("the table names no target: say which column holds the labels, target=...")
        if not isinstance(X, (OutsideTable, UnreadTable)):
            raise ParameterError("y is missing: give the labels, one for each row of X.")
        return
    if isinstance(X, RemoteTable):
        raise ParameterError(
            "y must be None: the labels of a table on a cluster lie beside its rows, in the column target=... of it."
        )
    if len(getattr(y, "shape", ())) > 1 and tuple(y.shape[1:]) != (1,):
        raise ParameterError(f"y must hold one label for each row of X; got the shape {tuple(y.shape)}.")
    refuse_no_column(y, "y")
    check_consistent_length(X, y)


def check_columns_of(estimator: Any, X: Any, *, reset: bool = True) -> None:
    """Refuse, before anything is charged or read, a table of a kind, shape or with columns that no fit takes.

    ``reset``: False compares the columns with those of the fitted estimator.
    """
    if isinstance(X, OutsideTable):
        check_columns(estimator, X, reset=reset)
    elif not isinstance(X, UnreadTable):
        numbers(estimator, without_rows(X), reset=reset, ensure_min_samples=0, **ROWS)


def without_rows(X: Any) -> Any:
    """Return the columns of a table in memory, in its own container, with none of its rows: a public fact."""
    if hasattr(X, "iloc"):
        return X.iloc[:0]
    if isinstance(X, np.ndarray) or typed_columns(X):
        return X[:0]
    return np.empty((0, public_size(X)[1]), getattr(X, "dtype", np.float64))


def own_groups(X: Any) -> Callable[[], Any] | None:
    """Return what tells the person of each row when a fit has paid for it, where the table can; a column never does."""
    return X.groups if isinstance(X, (UnreadTable, OutsideTable)) else None


def refuse_beside(X: Any, **values: Any) -> None:
    """Refuse, from public facts, values of each row that do not fit."""
    for name, given in values.items():
        if given is not None and not callable(given):  # a table that can tell itself
            if len(shape := getattr(given, "shape", ())) > 1:
                raise ParameterError(f"{name} must hold one value for each row of X; got the shape {tuple(shape)}.")
            refuse_no_column(given, name)
            check_consistent_length(X, given)


def read_rows(estimator: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Return X, in memory, as a C-contiguous float array or a canonical CSR matrix, and y as it is.

    The estimator is told number and names of the columns.
    """
    if isinstance(X, UnreadTable):
        X, y = X.read()
    if y is None:
        validate_data(estimator, X, y, **ROWS)  # says that y is missing
    X = read_features(estimator, X)
    if not (type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "biufU"):
        y = entries(y)
    check_consistent_length(X, y)
    return X, y


def read_features(estimator: Any, X: Any) -> Any:
    """Return X as a C-contiguous float array or a canonical CSR matrix; the estimator is told its columns."""
    if is_plain(X):
        estimator.n_features_in_ = X.shape[1]  # all that scikit-learn would do, in a tenth of a small fit
        vars(estimator).pop("feature_names_in_", None)
        return X
    refuse_copy_of_map(X, row_by_row=True)
    X = numbers(estimator, X, **ROWS)
    return _canonical(X) if sp.issparse(X) else X


def numbers(estimator: Any, X: Any, **checks: Any) -> Any:
    """Return X as scikit-learn's `validate_data` does; where it cannot, columns whose type is no number are named."""
    refuse_no_table(X)
    refuse_by_type(X)
    refuse_by_cell(X)
    refuse_masked("X", X)
    try:
        # of their sum, by which it looks for NaN
        with one_dimension_refused(), np.errstate(over="ignore", invalid="ignore"):
            return validate_data(estimator, X, **{"ensure_min_samples": least_rows(estimator)} | checks)
    except (TypeError, ValueError, OverflowError) as error:
        refuse_texts(X, by_cell=True)
        if (said := str(error).partition("\n")[0]).startswith("Input X contains"):  # and imputers are proposed
            raise DataError(f"{said} Fill such cells as in the training rows, or drop the rows.") from None
        raise


def refuse_copy_of_map(X: Any, *, row_by_row: bool) -> None:
    """Raise a DataError if X is a large memory map that cannot be used without a copy of the whole.

    ``X``: anything; only arrays backed by a memory map are looked at.
    ``row_by_row``: whether rows must lie one after another in memory (C order), as the kernels need them.
    """
    if not is_large_map(X):
        return
    is_float = X.dtype in (np.dtype(np.float32), np.dtype(np.float64))
    if is_float and (X.flags.c_contiguous or not row_by_row):
        return
    layout = "" if X.flags.c_contiguous else " in Fortran order" if X.flags.f_contiguous else " with gaps"
    raise DataError(
        f"X is a memory map of {X.dtype.name} ({X.dtype.str}){layout} with {X.size:,} entries: using it would copy all "
        "of it into memory. Write it once as float32 or float64 in C order, piece by piece, into "
        'numpy.lib.format.open_memmap(path, mode="w+", dtype="float32", shape=X.shape), and give '
        'numpy.load(path, mmap_mode="r").'
    )


def check_columns(estimator: Any, X: OutsideTable, *, reset: bool) -> None:
    """Remember (``reset``) or check number and names of the columns, with scikit-learn's own messages."""
    header: Any = np.empty((0, X.shape[1]))
    if X.feature_names:  # an empty table with these columns, of a kind that scikit-learn takes names from
        header = pa.table({name: pa.array([], pa.float64()) for name in X.feature_names})
    validate_data(estimator, header, reset=reset, skip_check_array=True)


def labels_of(X: Any, y: Any) -> Any:
    """Return the labels of a table to score a model on: those that were given, or those that the table names."""
    if y is None and isinstance(X, StreamedTable):
        return X.labels()  # says so if there are none
    if y is None:
        raise ParameterError("y is missing: give the labels, one for each row of X.")
    return y


def products(X: NDArray[Any], weights: Vector, first: int = 0, n_rows: int | None = None) -> Vector:
    """Return X times the weights, a few rows at a time: numpy would make a double copy of all of a float32 matrix.

    The sum of a row's products is rounded in an order that depends on its place among those that are multiplied at
    once. So rows stand where they stand in the whole table, however it is cut: the results are the same, bit by bit.

    ``X``: of shape (n, d).
    ``weights``: of shape (d, k).
    ``first``, ``n_rows``: place of the first row in the whole table, and the number of its rows; None: these are the
        last.
    """
    if sp.issparse(X):
        return np.asarray(safe_sparse_dot(X, weights, dense_output=True))
    stop = first + len(X)
    n_rows = stop if n_rows is None else n_rows
    at_once = (
        PIECE if X.shape[1] <= _WIDE else max(_LEAST_ROWS, PIECE * _WIDE // X.shape[1] // _LEAST_ROWS * _LEAST_ROWS)
    )
    out = np.empty((len(X), weights.shape[1]))
    for begin in range(first - first % at_once, stop, at_once):
        end = min(begin + at_once, n_rows)
        lo, hi = max(begin, first), min(end, stop)
        rows, into = X[lo - first : hi - first], out[lo - first : hi - first]
        if hi - lo == end - begin:
            np.matmul(rows, weights, out=into)
        else:
            padded = np.zeros((end - begin, X.shape[1]), X.dtype)
            padded[lo - begin : hi - begin] = rows
            into[...] = np.matmul(padded, weights)[lo - begin : hi - begin]
    return out


def shares_within(X: Any, bound: float, unit: tuple[Vector, Vector] | None = None) -> Vector:
    """Return what makes each row at most ``bound`` long: 1 for most, 0 where a length is no number.

    Each follows from its row alone, to the last digit.

    ``X``: array or CSR matrix of shape (n, d), of float32 or float64.
    ``unit``: two arrays of shape (d,): the first is taken from each row, then it is divided by the second.
    """
    out, at_once = np.empty(X.shape[0]), max(1, _AT_ONCE // X.shape[1])
    X = _canonical(X) if sp.issparse(X) else X
    for begin in range(0, len(out), at_once):
        here = slice(begin, min(begin + at_once, len(out)))
        rows: Any = X[here]
        is_sparse = bool(sp.issparse(rows)) and not (unit is not None and unit[0].any())
        rows = rows.toarray() if sp.issparse(X) and not is_sparse else rows
        if unit is not None:
            with np.errstate(over="ignore"):
                rows = sp.csr_array(rows.multiply(1.0 / unit[1])) if is_sparse else (rows - unit[0]) / unit[1]
        kernel = CSR(rows.data, rows.indices, rows.indptr, X.shape[1]) if is_sparse else np.ascontiguousarray(rows)
        passes.norms(kernel, 0, here.stop - begin, out[here])
    return np.asarray(bound / np.maximum(out, bound))


def _canonical(X: Any) -> Any:
    """Return a CSR matrix without duplicate entries; a copy only where there are some.

    Two entries in one place count twice in a product but not in a norm: left alone they would break the bound on a row.
    A fresh object is made, because cached flags of the user's may be out of date; places have 32 bits where they fit.
    """
    fresh = sp.csr_array(sp.csr_matrix((X.data, X.indices, X.indptr), shape=X.shape, copy=False))
    try:
        fresh.check_format(full_check=True)
    except ValueError as error:
        raise DataError(f"X is not a valid CSR matrix: {error}.") from error
    if not fresh.has_canonical_format:
        fresh = fresh.copy()
        fresh.sum_duplicates()
    return fresh


@contextmanager
def holding(estimator: Any, X: Any, y: Any = None, *, labelled: bool = True) -> Iterator[Holder]:
    """Hold a table for one fit: its rows, their raw labels, and what is remembered of them until the end.

    The estimator is told number and names of the columns. Labels that a table names itself are read where they are.
    Rows that are not ``labelled`` were read, and checked, before.
    """
    if isinstance(X, RemoteTable):
        if labelled:
            check_columns(estimator, X, reset=True)
        with X.opened() as holder, _products(X):
            yield holder
        return
    if labelled and isinstance(X, StreamedTable):
        check_columns(estimator, X, reset=True)
        if y is not None:
            y = entries(y)
            check_consistent_length(X, y)
        elif not X.has_labels:
            X.labels()  # says that there are none
    elif labelled:
        X, y = read_rows(estimator, X, y)
    with team() as threads, _products(X):
        part = Part(X, threads, X.row_memory(X.shape[0]) if isinstance(X, StreamedTable) else None, labels=y)
        try:
            yield part
        finally:
            part.memory.close()


def _products(X: Any) -> AbstractContextManager[None]:
    """Return what a fit multiplies in: sums of one thread and of several differ, and tables anywhere give one model."""
    return one_blas_thread() if X.shape[1] < _WIDE else nullcontext()


def holding_labels(y: NDArray[Any]) -> Part:
    return Part(np.empty((len(y), 0)), Team(1, None), labels=y)
