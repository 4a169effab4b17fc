"""From the options of the command line to an estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sottovoce._validation import bounds
from sottovoce.cli._options import ModelKind
from sottovoce.estimators import DPLinearSVC, DPLogisticRegression, DPRidge
from sottovoce.estimators._base import DPLinearEstimator
from sottovoce.exceptions import ParameterError
from sottovoce.tables import Schema

__all__ = ["make_estimator", "model_rows"]

_CLASSIFIERS: dict[ModelKind, type[DPLinearEstimator]] = {
    ModelKind.LOGISTIC: DPLogisticRegression,
    ModelKind.SVM: DPLinearSVC,
}


def make_estimator(
    kind: ModelKind,
    *,
    classes: tuple[Any, ...] | None,
    label_bounds: tuple[float, float] | None,
    options: Mapping[str, Any],
) -> DPLinearEstimator:
    """Return the estimator of a kind, with every parameter checked; no data are read.

    Parameters
    ----------
    kind : ModelKind
    classes, label_bounds
        What is publicly known about the labels; the kind decides which of the two it needs.
    options : mapping
        Further constructor parameters; those that are None keep their defaults.

    Raises
    ------
    ParameterError
        If the kind does not suit the labels, or a parameter is missing or out of range.
    """
    given = {name: value for name, value in options.items() if value is not None}
    estimator: DPLinearEstimator
    if kind is ModelKind.RIDGE:
        if label_bounds is None:
            raise ParameterError(
                "--model ridge predicts a number, and needs its public bounds: with a schema, a target of type = "
                '"numeric" with bounds = [low, high]; without one, --label-bounds LOW,HIGH. For classes use --model '
                "logistic or --model svm."
            )
        estimator = DPRidge(label_bounds=label_bounds, **given)
    else:
        if classes is None:
            raise ParameterError(
                f"--model {kind} predicts a class, and needs the public list of classes: with a schema, a target of "
                'type = "categorical" with categories = [...]; without one, --classes A,B. For a number use --model '
                "ridge."
            )
        estimator = _CLASSIFIERS[kind](classes=list(classes), **given)
    estimator.plan(1, 1)
    return estimator


def model_rows(estimator: DPLinearEstimator, schema: Schema | None) -> list[tuple[str, str]]:
    """Return (heading, text) pairs that describe a trained model."""
    rows = [("model", type(estimator).__name__)]
    if schema is not None:
        rows.append(("predicts", str(schema.target)))
    if isinstance(estimator, DPRidge):
        low, high = bounds("label_bounds", estimator.label_bounds)
        rows.append(("label bounds", f"{low:g} to {high:g}"))
    else:
        rows.append(("classes", ", ".join(str(name) for name in estimator.classes_)))
    rows.append(("features", str(estimator.n_features_in_)))
    rows.append(("row norm, at most", f"{estimator.data_norm:.6g}"))
    rows.append(("penalty alpha", str(estimator.alpha)))
    rows.append(("intercept", "yes" if estimator.fit_intercept else "no"))
    rows.append(("passes over the data", str(estimator.n_iter_)))
    return rows
