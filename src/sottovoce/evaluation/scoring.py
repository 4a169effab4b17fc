"""From a model and a table to what each row adds: total, whatever the rows hold.

The models of this library, also at the end of a pipeline, score a row by their own row kernels, so that other rows
cannot reach its last digit.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.validation import _num_samples, validate_data

from sottovoce._entries import entries, numbers_of, places_in
from sottovoce._numerics import Vector
from sottovoce._optional import loaded
from sottovoce.central.data.streamed import StreamedTable
from sottovoce.estimators.classifier import DPLinearClassifier
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.estimators.pipeline import DPPipeline
from sottovoce.estimators.reading import UnreadTable, check_columns, refuse_texts
from sottovoce.estimators.search.scores import margins_of
from sottovoce.evaluation.plan import EvaluationPlan
from sottovoce.evaluation.tables import MOST_LOSS, MOST_ODDS, ScoredRows, StoredRows
from sottovoce.exceptions import ParameterError

_LABEL: Final = "label as it was read"
_HOW: Final = "predict_proba", "decision_function"


def task_of(model: Any) -> tuple[str, int]:
    """Return the kind of evaluation that a trained model allows, and its number of classes.

    Raises ParameterError if it is no trained model, or one of several outputs.
    """
    if not hasattr(model, "predict"):
        raise ParameterError(f"model must be a trained model with a method predict; got {type(model).__name__}.")
    classes = getattr(model, "classes_", None)
    if classes is None:
        tags = get_tags(model) if hasattr(model, "__sklearn_tags__") else None
        if "classifier" in (getattr(model, "_estimator_type", None), getattr(tags, "estimator_type", None)):
            raise ParameterError(f"model is a {type(model).__name__} without classes_: fit it first.")
        return "regression", 0
    if isinstance(classes, (list, tuple)) and len(classes) and isinstance(classes[0], np.ndarray):
        raise ParameterError("model predicts several outputs: evaluate each of them by a model of its own.")
    n_classes = len(classes)
    if n_classes == 2:
        kinds = {"predict_proba": "binary, probabilities", "decision_function": "binary, scores"}
        return next((kinds[name] for name in _HOW if hasattr(model, name)), "classes"), n_classes
    return "classes, probabilities" if hasattr(model, "predict_proba") else "classes", n_classes


def score_rows(plan: EvaluationPlan, model: Any, X: Any, y: Any) -> ScoredRows | StoredRows:
    """Read the table and score its rows; the first look at its values. A table on disk is read in blocks.

    Raises DataError if the labels or rows cannot be read as a table at all.
    """
    if isinstance(X, UnreadTable):
        X, y = X.read()
    if y is not None:
        y = entries(y)
    if isinstance(X, StreamedTable):
        return _score_blocks(plan, model, X, y)
    return _score_in_memory(plan, model, X, y)


def _score_blocks(plan: EvaluationPlan, model: Any, X: StreamedTable, y: Any) -> StoredRows:
    if isinstance(model, DPLinearEstimator):
        check_columns(model, X, reset=False)
    memory = X.row_memory(len(X))
    rows = StoredRows(memory, losses=plan.task == "classes, probabilities")
    memory.new(_LABEL)
    classes = None if plan.task == "regression" else model.classes_
    given: Iterator[tuple[slice, Any]] = iter(((slice(0, len(X)), y),)) if y is not None else X.label_blocks()
    for place, labels in given:
        memory.put(_LABEL, place, labels_of(plan, classes, labels))
    with closing(X.blocks()) as blocks:
        for place, block in blocks:
            rows.put(place, _score_in_memory(plan, model, block, memory.get(_LABEL, place), block=True))
    memory.drop(_LABEL)
    return rows


def _score_in_memory(plan: EvaluationPlan, model: Any, X: Any, y: Any, *, block: bool = False) -> ScoredRows:
    """Score rows; of a ``block`` the columns were checked, and the labels are what `labels_of` returns."""
    X, unreadable = _readable(model, X, checked=block)
    while (behind := _behind_steps(model, X)) is not None:
        model, X = behind
        X, more = _readable(model, X)
        unreadable = unreadable | more
    classes, own = None if plan.task == "regression" else model.classes_, isinstance(model, DPLinearEstimator)
    labels = y if block else labels_of(plan, classes, y)
    with np.errstate(all="ignore"):
        if plan.task == "regression":
            assert plan.label_bounds is not None
            found = margins_of(model, X)[:, 0] if own else np.asarray(model.predict(X), np.float64).reshape(-1)
            return _without(labels, np.clip(found, *plan.label_bounds), unreadable)
        if plan.task.startswith("binary"):
            return _without(labels, np.clip(_scores(model, X), *_limits(plan)), unreadable)
        if plan.task == "classes":
            places = margins_of(model, X).argmax(axis=1) if own else _places(model.classes_, entries(model.predict(X)))
            return _without(labels, np.asarray(places, np.float64), unreadable)
        chances = _probabilities(model, X)
        rows = _without(
            labels, np.argmax(chances, axis=1).astype(np.float64), unreadable | np.isnan(chances).any(axis=1)
        )
        of_label = chances[np.arange(len(chances)), np.where(rows.left_out, 0, rows.labels).astype(np.int64)]
        squares = np.sum(chances**2, axis=1) - 2.0 * of_label + 1.0
        return ScoredRows(
            rows.labels,
            rows.scores,
            rows.left_out,
            (np.clip(-np.log(of_label), 0.0, MOST_LOSS), np.clip(squares, 0.0, 2.0)),
        )


def labels_of(plan: EvaluationPlan, classes: Any, y: NDArray[Any]) -> Vector:
    """Return labels as numbers within their bounds, or as places in the list of classes; NaN for all others."""
    if plan.task == "regression":
        assert plan.label_bounds is not None
        values = numbers_of(y)
        return np.where(np.isfinite(values), np.clip(values, *plan.label_bounds), np.nan)
    return _places(classes, y)


def _places(classes: Any, y: NDArray[Any]) -> Vector:
    places = places_in(entries(classes).tolist(), y)
    return np.where(places < 0, np.nan, places)


def _without(labels: Vector, scores: Vector, unreadable: NDArray[np.bool_]) -> ScoredRows:
    return ScoredRows(labels, scores, unreadable | np.isnan(labels) | np.isnan(scores))


def _behind_steps(model: Any, X: Any) -> tuple[Any, Any] | None:
    """Return the model of this library at the end of a pipeline, and the rows as its steps hand them to it."""
    if isinstance(model, DPPipeline):
        return model.steps_[-1][1], model._before_model(_laid_out(X))[1:]
    if isinstance(model, Pipeline) and isinstance(model[-1], (DPLinearEstimator, DPPipeline)):
        return model[-1], model[:-1].transform(_laid_out(X))[1:] if len(model) > 1 else X
    return None


def _laid_out(X: Any) -> Any:
    """Return the first row and then all rows, in one layout: numpy adds up the entries of a row as they lie in memory.

    A single row has every layout, so there is always one more; the blocks of a frame may have either.
    """
    places, pandas, arrow = np.maximum(np.arange(-1, _num_samples(X)), 0), loaded("pandas"), loaded("pyarrow")
    if arrow is not None and isinstance(X, arrow.Table):  # before scikit-learn 1.7 its own function refuses one
        return X.take(places)
    rows = _safe_indexing(X, places)
    if pandas is not None and isinstance(rows, pandas.DataFrame):
        return pandas.concat([rows.iloc[:, [column]] for column in range(rows.shape[1])], axis=1)
    return rows


def _limits(plan: EvaluationPlan) -> tuple[float, float]:
    most = MOST_ODDS if plan.task == "binary, probabilities" else 2.0**60
    return -most, most


def _readable(model: Any, X: Any, *, checked: bool = False) -> tuple[Any, NDArray[np.bool_]]:
    """Return a table that the model takes, and which rows had to be emptied for that: those with NaN or infinity."""
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(np.float64) if X.dtype.kind in "biu" else X, np.nan)
    if isinstance(model, DPLinearEstimator) and not checked:
        X = _cells(X)
        checks = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "ensure_all_finite": False}
        X = validate_data(model, X, reset=False, order="C", **checks)
    bad: NDArray[np.bool_]
    if sp.issparse(X):
        matrix = cast(Any, X).tocsr(copy=True)
        wrong = ~np.isfinite(matrix.data)
        bad = np.zeros(matrix.shape[0], np.bool_)
        bad[np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))[wrong]] = True
        matrix.data[wrong] = 0
        return matrix, bad
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f" and not _takes_nan(model):
        bad = np.asarray(~np.isfinite(X).all(axis=1))
        return np.where(bad[:, None], 0.0, X), bad
    return X, np.zeros(_num_samples(X), np.bool_)


def _cells(X: Any) -> Any:
    """Return a table in which cells that are no numbers are NaN, where the type of a column admits numbers at all."""
    if isinstance(X, (list, tuple)):
        X = np.array(X, dtype=object)
    if isinstance(X, np.ndarray) and X.dtype.kind == "O":
        return numbers_of(X)
    if hasattr(X, "iloc"):  # a data frame of pandas
        X = X.copy(deep=False)
        for name, kind in X.dtypes.items():
            if str(kind) in ("object", "category"):
                X[name] = numbers_of(entries(X[name]))
    refuse_texts(X)
    return X


def _takes_nan(model: Any) -> bool:
    return bool(get_tags(model).input_tags.allow_nan) if hasattr(model, "__sklearn_tags__") else False


def _scores(model: Any, X: Any) -> Vector:
    if isinstance(model, DPLinearEstimator):
        return margins_of(model, X)[:, 0]
    if hasattr(model, "predict_proba"):
        chances = np.asarray(model.predict_proba(X), dtype=np.float64)
        return np.asarray(np.log(chances[:, 1]) - np.log(chances[:, 0]))
    return np.asarray(model.decision_function(X), dtype=np.float64)


def _probabilities(model: Any, X: Any) -> Vector:
    if isinstance(model, DPLinearClassifier):
        own = margins_of(model, X)
        return model.probabilities_of(own[:, 0] if own.shape[1] == 1 else own)
    return np.asarray(model.predict_proba(X), dtype=np.float64)
