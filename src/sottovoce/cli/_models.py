"""From the options of the command line to an estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from sottovoce._shown import in_one_line
from sottovoce._validation import bounds
from sottovoce.cli._options import ModelKind, refuse_options
from sottovoce.estimators import DPLasso, DPLinearSVC, DPLogisticRegression, DPRidge, DPSparseLogisticRegression
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.exceptions import ParameterError
from sottovoce.tables import Schema

__all__ = ["PENALTY_OPTIONS", "RADIUS_OPTIONS", "is_sparse", "make_estimator", "model_rows"]

_ESTIMATORS: Final[Mapping[ModelKind, type[DPLinearEstimator]]] = {
    ModelKind.RIDGE: DPRidge,
    ModelKind.LASSO: DPLasso,
    ModelKind.LOGISTIC: DPLogisticRegression,
    ModelKind.SPARSE_LOGISTIC: DPSparseLogisticRegression,
    ModelKind.SVM: DPLinearSVC,
}
_REGRESSIONS: Final = (ModelKind.RIDGE, ModelKind.LASSO)
_SPARSE: Final = (ModelKind.LASSO, ModelKind.SPARSE_LOGISTIC)

# parameters that only one family of models has
PENALTY_OPTIONS: Final = ("alpha", "solver", "data_norm")
RADIUS_OPTIONS: Final = ("radius", "n_steps", "data_bound")


def is_sparse(kind: ModelKind) -> bool:
    return kind in _SPARSE


def make_estimator(
    kind: ModelKind,
    *,
    classes: tuple[Any, ...] | None,
    label_bounds: tuple[float, float] | None,
    options: Mapping[str, Any],
) -> DPLinearEstimator:
    """Return the estimator of a kind; its numbers are checked when it plans, before any data are read.

    ``classes``, ``label_bounds``: what is publicly known about the labels; the kind decides which of the two it needs.
    ``options``: further constructor parameters; those that are None keep their defaults.

    Raises ParameterError if the kind does not suit the labels, has no such parameter, or lacks one that it needs.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if is_sparse(kind):
        foreign, why = PENALTY_OPTIONS, f"is not for --model {kind}, whose coefficients are bounded by --radius"
        if "radius" not in given:
            raise ParameterError(
                f"--radius is missing: --model {kind} needs --radius R, a public bound on the sum of the absolute "
                "coefficients (of features in [-1, 1], with a schema). Small is sparse, large fits closely."
            )
    else:
        foreign, why = RADIUS_OPTIONS, f"is for --model lasso and sparse-logistic, not for {kind}"
    refuse_options(why, {f"--{name.replace('_', '-')}": given.get(name) for name in foreign})
    if kind not in (ModelKind.LOGISTIC, ModelKind.SVM):
        why = f"is for --model logistic and svm, not for {kind}"
        refuse_options(why, {"--class-weight": given.get("class_weight")})
    if kind in _REGRESSIONS:
        if label_bounds is None:
            raise ParameterError(
                f"--model {kind} predicts a number, and needs its public bounds: with a schema, a target of type = "
                '"numeric" with bounds = [low, high]; without one, --label-bounds LOW,HIGH. For classes use --model '
                "logistic, sparse-logistic or svm."
            )
        return _ESTIMATORS[kind](label_bounds=label_bounds, **given)
    if classes is None:
        raise ParameterError(
            f"--model {kind} predicts a class, and needs the public list of classes: a target of "
            'type = "categorical" with categories = [...]. For a number use --model '
            "ridge or lasso."
        )
    return _ESTIMATORS[kind](classes=list(classes), **given)


def model_rows(estimator: DPLinearEstimator, schema: Schema | None) -> list[tuple[str, str]]:
    rows = [("model", type(estimator).__name__)]
    if schema is not None:
        rows.append(("predicts", str(schema.target)))
    if isinstance(estimator, (DPRidge, DPLasso)):
        low, high = bounds("label_bounds", estimator.label_bounds)
        rows.append(("label bounds", f"{low:g} to {high:g}"))
    else:
        rows.append(("classes", ", ".join(str(name) for name in estimator.classes_)))
    rows.append(("features", str(estimator.n_features_in_)))
    if isinstance(estimator, (DPLasso, DPSparseLogisticRegression)):
        rows.append(("entries, at most", f"{estimator.data_bound:.6g}"))
        rows.append(("radius of the l1 ball", f"{estimator.radius:.6g}"))
        rows.append(("coefficients that are not 0", str(np.count_nonzero(estimator.coef_))))
    elif isinstance(estimator, (DPRidge, DPLogisticRegression, DPLinearSVC)):
        noisy = " (found in the rows)" if estimator.data_norm == "auto" else ""
        rows.append(("row norm, at most", f"{estimator.data_norm_:.6g}{noisy}"))
        rows.append(("penalty alpha", str(estimator.alpha)))
    if estimator.column_bounds_ is not None:
        rows.append(("columns", "cut to bounds around what the scaler found; coefficients hold within them"))
    if estimator.max_rows_per_group is not None:
        rows.append(("rows of one person, at most", str(estimator.max_rows_per_group)))
    rows.append(("intercept", "yes" if estimator.fit_intercept else "no"))
    steps = "steps" if hasattr(estimator, "radius") else "passes over the data"
    rows.append((steps, str(estimator.n_iter_)))
    return [(heading, in_one_line(text)) for heading, text in rows]
