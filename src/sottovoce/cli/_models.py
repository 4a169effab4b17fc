"""From the options of the command line to an estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import numpy as np

from sottovoce._shown import in_one_line
from sottovoce._validation import bounds
from sottovoce.cli._echo import echo
from sottovoce.cli._options import LEDGER, REQUIRED, ModelKind
from sottovoce.cli._parameters import Models, Parameters
from sottovoce.estimators._solvers import SOLVERS
from sottovoce.estimators.l1_ball import DPLasso, DPSparseLogisticRegression
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.estimators.penalised_models import DPLinearSVC, DPLogisticRegression, DPRidge
from sottovoce.exceptions import ParameterError
from sottovoce.tables import Schema

MODELS: Final[Models] = Models({
    ModelKind.RIDGE: DPRidge, ModelKind.LOGISTIC: DPLogisticRegression, ModelKind.SVM: DPLinearSVC,
    ModelKind.LASSO: DPLasso, ModelKind.SPARSE_LOGISTIC: DPSparseLogisticRegression,
})  # fmt: skip
REGRESSIONS: Final = (ModelKind.RIDGE, ModelKind.LASSO)
_SPARSE: Final = (ModelKind.LASSO, ModelKind.SPARSE_LOGISTIC)

# left to Python, or said by the schema
_HIDDEN: Final = (
    "max_iter", "tol", "verbose", "intercept_scaling", "max_sample_weight", "solver_options", "constraint", "classes",
    "label_bounds", "max_rows_per_group",
)  # fmt: skip
_OF_A_FIT: Final = ("random_state", "ledger", "dataset", "data_norm", "data_bound")
_LEDGER: Final[Mapping[str, Any]] = {
    "more": "sqlite:///PATH or postgresql://USER@HOST/DATABASE.", "metavar": "ADDRESS", **LEDGER
}  # fmt: skip
_SOLVERS: Final = (
    f"One of {', '.join(SOLVERS)}: an unknown name is answered with those of the model, and the guide to solvers says "
    "where each wins."
)


@MODELS.options(
    hidden=(*_HIDDEN, *_OF_A_FIT), epsilon={"default": REQUIRED}, solver={"text": _SOLVERS}
)  # fmt: skip
class Planned(Parameters):
    """Parameters of a training that its plan depends on."""


@MODELS.options(
    hidden=_HIDDEN, ledger=_LEDGER,
    data_norm={"more": "Default: the schema's."},
    data_bound={"more": "Default: the schema's, 1."},
)  # fmt: skip
class Training(Planned):
    """Parameters of a training on one table."""


@Models({"": DPLinearEstimator}).options(
    hidden=(*_HIDDEN, "fit_intercept"), adjacency={"default": "zero-out"},
    ledger={"text": "Privacy budget on disk to charge:", **_LEDGER},
    epsilon={"default": REQUIRED, "text": "What the evaluation may cost, > 0."},
    delta={"default": 0.0, "text": "0 is pure differential privacy; else well below 1 / number of rows."},
)  # fmt: skip
class EvaluationBudget(Parameters):
    """What an evaluation may cost, and who is protected."""


def is_sparse(kind: ModelKind | None) -> bool:
    return kind in _SPARSE


def model_by_target(
    given: ModelKind | None, bounds: tuple[float, float] | None, target: str | None, *, quiet: bool = False
) -> ModelKind:
    """Return the model that was given, or else the one for the target, and say which: ridge where it has bounds."""
    if given is not None:
        return given
    found, why = (ModelKind.LOGISTIC, "a class") if bounds is None else (ModelKind.RIDGE, "a number")
    if not quiet:
        echo(f"note: {target or 'the label'} is {why}, so the model is {found}; --model chooses another.", err=True)
    return found


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
    """
    given = {name: value for name, value in options.items() if value is not None}
    refuse_foreign(MODELS, kind, given)
    labels = label_facts(kind, classes, label_bounds)
    return cast(DPLinearEstimator, MODELS.classes[kind](**labels, **given))


def refuse_foreign(models: Models, kind: ModelKind, given: Mapping[str, Any], *, of: str = "") -> None:
    """Refuse parameters that a model does not have, and the lack of a radius; ``of`` says whose coefficients."""
    if is_sparse(kind) and given.get("radius") is None:
        raise ParameterError(
            f"--radius is missing: --model {kind} needs --radius R, a public bound on the sum of the absolute "
            f"coefficients {of}(of features in [-1, 1], with a schema; for a number in its unit). Small is sparse, "
            "large fits closely."
        )
    models.refuse_foreign(kind, given)


def label_facts(
    kind: ModelKind, classes: tuple[Any, ...] | None, bounds: tuple[float, float] | None, *, two: bool = False
) -> dict[str, Any]:
    """Return what the model has to be told of the labels; ``two``: it knows models of two classes alone."""
    if kind in REGRESSIONS:
        if bounds is None:
            raise ParameterError(
                f"--model {kind} predicts a number, and needs its public bounds: a target of type = "
                '"numeric" with bounds = [low, high]. For classes use --model logistic, sparse-logistic or svm.'
            )
        return {"label_bounds": bounds}
    if classes is None or (two and len(classes) != 2):
        got = "" if classes is None else f"; got {len(classes)}"
        what = (
            "one of two classes, and needs their public list"
            if two
            else "a class, and needs the public list of classes"
        )
        raise ParameterError(
            f'--model {kind} predicts {what}{got}: a target of type = "categorical" with categories = '
            f"[{'negative, positive' if two else '...'}]. For a number use --model ridge or lasso."
        )
    return {"classes": list(classes)}


def model_rows(estimator: DPLinearEstimator, schema: Schema | None) -> list[tuple[str, str]]:
    """Return what the coefficients of a model are about; parameters and steps are in its receipt."""
    rows = [("model", type(estimator).__name__)]
    if schema is not None:
        rows.append(("predicts", str(schema.target)))
    if isinstance(estimator, (DPRidge, DPLasso)):
        low, high = bounds("label_bounds", estimator.label_bounds)
        rows.append(("label bounds", f"{low:g} to {high:g}"))
    else:
        rows.append(("classes", ", ".join(str(name) for name in estimator.classes_)))
    if isinstance(estimator, (DPLasso, DPSparseLogisticRegression)):
        rows.append(("coefficients that are not 0", str(np.count_nonzero(estimator.coef_))))
    if estimator.column_bounds_ is not None:
        rows.append(("columns", "cut to bounds around what the scaler found; coefficients hold within them"))
    if estimator.row_bound_ is not None:
        unit = "" if estimator.row_unit_ is None else ", in units of the scaler"
        rows.append(("rows", f"shortened to {estimator.row_bound_:.6g}{unit}; coefficients hold within it"))
    return [(heading, in_one_line(text)) for heading, text in rows]
