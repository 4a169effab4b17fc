"""Fitted models and tables whose rows are elsewhere: predictions and scores are made there."""

from collections.abc import Callable
from copy import copy
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sottovoce.central.data.outside import RemoteTable
from sottovoce.estimators.reading import check_columns
from sottovoce.estimators.ties import LEFT_OUT
from sottovoce.exceptions import DataError, ParameterError

__all__ = ["accuracy", "comparable", "r_squared", "where_the_rows_are"]

F = TypeVar("F", bound=Callable[..., Any])


def where_the_rows_are(method: F) -> F:
    """Let a method of a fitted model, of one table, be run where the rows of the table are."""

    @wraps(method)
    def run(self: Any, X: Any) -> Any:
        if isinstance(X, RemoteTable):
            return X.predicted(_sent(self, X), method.__name__)
        return method(self, X)

    return cast("F", run)


def accuracy(model: Any, X: RemoteTable, y: Any, sample_weight: Any) -> float:
    """Return the part of rows whose class is predicted, counted where the rows are."""
    _refuse_beside(X, y, sample_weight)
    counts = X.counted(_sent(model, X), "count_right")
    return float(sum(right for right, _ in counts) / sum(rows for _, rows in counts))


def r_squared(model: Any, X: RemoteTable, y: Any, sample_weight: Any) -> float:
    """Return the coefficient of determination, from sums that are made where the rows are."""
    _refuse_beside(X, y, sample_weight)
    parts = np.array(X.counted(_sent(model, X), "sum_squares"))
    rows, means, around_means, missed = parts.T
    mean = rows @ means / rows.sum()
    spread = around_means.sum() + rows @ (means - mean) ** 2
    if rows.sum() < 2:
        return float("nan")  # as scikit-learn has it
    if spread == 0.0:
        return 1.0 if missed.sum() == 0.0 else 0.0
    return float(1.0 - missed.sum() / spread)


def comparable(labels: NDArray[Any], predicted: NDArray[Any]) -> NDArray[Any]:
    """Return labels that can be compared with predictions, or refuse them."""
    if (labels.dtype.kind in "UO") != (predicted.dtype.kind in "UO"):
        raise DataError(
            f"the labels of the table are of type {labels.dtype}, the classes of the model of type {predicted.dtype}: "
            "they cannot be compared."
        )
    return labels


def _sent(model: Any, X: RemoteTable) -> Any:
    """Return what workers get of a fitted model: no seed, no ledger, no charge."""
    check_is_fitted(model)
    check_columns(model, X, reset=False)
    sent = copy(model)
    for name in LEFT_OUT:
        if hasattr(sent, name):
            setattr(sent, name, None)
    sent.__dict__.pop("charge_", None)
    sent.__dict__.pop("feature_names_in_", None)
    if X.feature_names:  # they were compared just now: workers need not warn once more
        sent.feature_names_in_ = np.array(X.feature_names, dtype=object)
    return sent


def _refuse_beside(X: RemoteTable, y: Any, sample_weight: Any) -> None:
    if y is not None or sample_weight is not None:
        raise ParameterError(
            "y and sample_weight must be left out where X is a table on a cluster: its rows stay there, with their "
            "labels. Name the column of labels when the table is made (target=...)."
        )
    if not X.has_labels:
        raise ParameterError("the table on the cluster names no target: make it with target=NAME.")
