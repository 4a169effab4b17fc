"""Predictions by models inside others, and of tables whose rows are elsewhere: they are made there."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass
from functools import wraps
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sottovoce._entries import numbers_of
from sottovoce.central.data.beside import StepRows
from sottovoce.central.data.operation import Holder
from sottovoce.central.data.streamed import RemoteTable, is_sparse, rows_after
from sottovoce.estimators.base import LEFT_OUT
from sottovoce.estimators.reading import check_columns
from sottovoce.exceptions import DataError, ParameterError

F = TypeVar("F", bound=Callable[..., Any])


def where_the_rows_are(method: F) -> F:
    """Let a method of a fitted model, of one table, be run where the rows of the table are; it warns of no row."""

    @wraps(method)
    def run(self: Any, X: Any) -> Any:
        if isinstance(X, RemoteTable):
            return X.predicted(sent(self, X), method.__name__)
        with np.errstate(all="ignore"):
            return method(self, X)

    return cast("F", run)


def scored(model: Any, X: RemoteTable, y: Any, sample_weight: Any) -> float:
    """Return the accuracy of a classifier, or R^2, from what is counted where the rows are."""
    _refuse_beside(X, y, sample_weight)
    parts = X.counted(Judge(sent(model, X)), "rated")
    if not hasattr(model, "classes_"):
        return r_squared_of(parts)
    return float(sum(right for right, _ in parts) / sum(rows for _, rows in parts))


def r_squared_of(parts: Sequence[Any]) -> float:
    """Return the coefficient of determination of what `sum_squares` says of each part of a table."""
    rows, means, around_means, missed = np.array(parts).T
    mean = rows @ means / rows.sum()
    spread = around_means.sum() + rows @ (means - mean) ** 2
    if rows.sum() < 2:
        return float("nan")  # as scikit-learn has it
    if spread == 0.0:
        return 1.0 if missed.sum() == 0.0 else 0.0
    return float(1.0 - missed.sum() / spread)


@dataclass(frozen=True)
class Judge:
    """What a worker says of some rows and their labels, by a model that was sent to it."""

    model: Any

    def rated(self, X: Any, y: Any) -> tuple[float, ...]:
        return (count_right if hasattr(self.model, "classes_") else sum_squares)(self.model.predict(X), y)


def count_right(predicted: Any, y: Any) -> tuple[int, int]:
    """Return of how many rows the class is predicted, and the number of rows."""
    if (y.dtype.kind in "UO") != (predicted.dtype.kind in "UO"):
        raise DataError(
            f"the labels of the table are of type {y.dtype}, the classes of the model of type {predicted.dtype}: "
            "they cannot be compared."
        )
    return int(np.sum(predicted == y)), len(predicted)


def sum_squares(predicted: Any, y: Any) -> tuple[int, float, float, float]:
    """Return what R^2 is made of: number of rows, mean of labels, squares around it, squares of what is missed."""
    values = numbers_of(y)
    if not np.isfinite(values).all():
        raise DataError("labels contain NaN or infinity: there is no R^2 of such rows.")
    mean = float(values.mean()) if len(values) else 0.0
    return len(values), mean, float(np.square(values - mean).sum()), float(np.square(values - predicted).sum())


def sent(model: Any, X: RemoteTable) -> Any:
    """Return what workers get of a fitted model: no seed, no ledger, no charge."""
    check_is_fitted(model)
    check_columns(model, X, reset=False)
    bare = _bare(model)
    bare.__dict__.pop("feature_names_in_", None)
    if X.feature_names:  # they were compared just now: workers need not warn once more
        bare.feature_names_in_ = np.array(X.feature_names, dtype=object)
    return bare


def _bare(model: Any) -> Any:
    bare = copy(model)
    for name in LEFT_OUT:
        if hasattr(bare, name):
            setattr(bare, name, None)
    bare.__dict__.pop("charge_", None)
    if "best_estimator_" in vars(bare):
        bare.best_estimator_ = _bare(bare.best_estimator_)
    if "steps_" in vars(bare):
        bare.steps_ = [(name, _bare(step)) for name, step in bare.steps_]
    return bare


class OpenedRows(RemoteTable):
    """A table that is open for one fit, whose rows go through steps where they are."""

    shape: tuple[int, int] = (0, 0)
    dtype: np.dtype[Any] = np.dtype(np.float64)
    feature_names: tuple[str, ...] = ()
    has_labels: bool = False
    has_sparse_rows = False

    def __init__(self, table: RemoteTable, holder: Holder) -> None:
        self._table, self._holder = table, holder
        self.shape, self.dtype, self.feature_names = table.shape, table.dtype, table.feature_names
        self.has_labels = table.has_labels

    def after(self, step: Callable[[Any], Any]) -> "OpenedRows":
        """Have the rows go through a step; a row of ones says how many columns there are then."""
        like = rows_after(step, ones(self))
        self.shape, self.dtype, self.feature_names = (self.shape[0], like.shape[1]), like.dtype, ()
        self.has_sparse_rows = is_sparse(like)
        self._holder.ask(StepRows(step, self.shape[1]))
        return self

    def opened(self) -> AbstractContextManager[Holder]:
        return nullcontext(self._holder)

    def predicted(self, model: Any, method: str) -> Any:
        return self._table.predicted(model, method)

    def counted(self, model: Any, method: str) -> Sequence[Any]:
        return self._table.counted(model, method)


@contextmanager
def opened_once(X: Any) -> Iterator[Any]:
    """Have a table on a cluster open for all that is fitted to it here; others stay as they are."""
    if not isinstance(X, RemoteTable):
        yield X
        return
    with X.opened() as holder:
        yield OpenedRows(X, holder)


def ones(X: Any) -> Any:
    """Return a row of ones of the width and the type of a table: public facts."""
    return np.ones((1, X.shape[1]), X.dtype)


def _refuse_beside(X: RemoteTable, y: Any, sample_weight: Any) -> None:
    if y is not None or sample_weight is not None:
        raise ParameterError(
            "y and sample_weight must be left out where X is a table on a cluster: its rows stay there, with their "
            "labels. Name the column of labels when the table is made (target=...)."
        )
    if not X.has_labels:
        raise ParameterError("the table on the cluster names no target: make it with target=NAME.")


def _of_model(name: str, text: str) -> Any:
    """Return a method that hands rows on to that of the model inside, there where the model has it."""

    def has(self: "AroundModel") -> bool:
        getattr(self._prototype(), name)  # its AttributeError says what is missing
        return True

    def method(self: "AroundModel", X: Any) -> Any:
        if isinstance(X, RemoteTable):
            return X.predicted(sent(self, X), name)
        return getattr(self._model(), name)(self._before_model(X))

    method.__name__, method.__doc__ = name, text
    return available_if(has)(method)


class AroundModel(ABC):
    """Sets the budget of a model, and predicts with it once it is fitted."""

    _word: ClassVar[str]  # for what is around the model, in messages

    def _refuse_own(self, part: Any, what: str, names: Sequence[str]) -> None:
        for name in names:
            if getattr(part, name) is not None:
                raise ParameterError(
                    f"{name} of the {what} must be None, because the {self._word} sets it; got "
                    f"{getattr(part, name)!r}. Give {name} to {type(self).__name__}."
                )

    @abstractmethod
    def _prototype(self) -> Any:
        """Return a model of the same kind, fitted or not: it tells which methods there are."""

    @abstractmethod
    def _model(self) -> Any:
        """Return the fitted model, or raise that there is none."""

    def _before_model(self, X: Any) -> Any:
        return X

    classes_ = property(lambda self: self._model().classes_, doc="The public list of classes.")
    predict = _of_model("predict", "Predict with the model inside; see its ``predict``.")
    decision_function = _of_model("decision_function", "Return the scores of the model inside; see its own.")
    predict_proba = _of_model("predict_proba", "Return the probabilities of the model inside; see its own.")
    predict_log_proba = _of_model("predict_log_proba", "Return the logarithms of `predict_proba`.")

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return accuracy or R^2, without noise: not covered by the receipt. y may be left out as for `fit`."""
        if isinstance(X, RemoteTable):
            return scored(self, X, y, sample_weight)
        return float(self._model().score(self._before_model(X), y, sample_weight))
