"""`evaluate`: from a trained model and rows that nobody may see to measures with intervals, for one charge.

What each row adds is total, whatever the row holds. The models of this library, also at the end of a pipeline, score a
row by their own row kernels, so that other rows cannot reach its last digit.
"""

import re
import warnings
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any, Final, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.validation import _num_samples, check_is_fitted

from sottovoce._columns import as_array, refuse_by_type, refuse_no_table, refuse_texts
from sottovoce._entries import entries, numbers_of, places_in
from sottovoce._groups import kept_rows, person_codes
from sottovoce._numerics import Vector
from sottovoce._optional import loaded
from sottovoce._plain_data import digest, scalar
from sottovoce._validation import warn_of_large_delta
from sottovoce.central.core import Asked, Driven, Release, drive
from sottovoce.central.data.operation import Held
from sottovoce.central.data.streamed import RemoteTable, StreamedTable
from sottovoce.estimators.base import PrivateEstimator, model_digest, public_rows
from sottovoce.estimators.classifier import DPLinearClassifier
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.estimators.pipeline import DPPipeline, example_of
from sottovoce.estimators.reading import UnreadTable, check_columns, check_public_sizes, numbers, refuse_beside
from sottovoce.estimators.search_plan import margins_of
from sottovoce.evaluation.evaluation import Evaluation, released
from sottovoce.evaluation.plan import EvaluationPlan, evaluation_receipt
from sottovoce.evaluation.tables import (
    MOST_LOSS,
    MOST_ODDS,
    PLACING,
    CellCounts,
    ScoredRows,
    Table,
    axes_of,
)
from sottovoce.exceptions import DataError, ParameterError, SottovoceError
from sottovoce.ledger.charging import charging
from sottovoce.ledger.ledger import Ledger
from sottovoce.privacy.adjacency import unit_of
from sottovoce.randomness import Purpose, Streams

_HOW: Final = "predict_proba", "decision_function"
_COLUMNS: Final = re.compile("feature|columns are missing", re.IGNORECASE)  # in words of others about columns


@np.errstate(all="ignore")  # what somebody had NumPy say, or raise, of a number would tell of a row
def evaluate(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    epsilon: float,
    delta: float = 0.0,
    ledger: str | Ledger | None = None,
    dataset: str | None = None,
    groups: Any = None,
    max_rows_per_group: int | None = None,
    label_bounds: tuple[float, float] | None = None,
    adjacency: str = "zero-out",
    n_public: int | None = None,
    accept_delta: float | None = None,
    random_state: Any = None,
) -> Evaluation:
    """Evaluate a trained model on private rows: measures with intervals, from a few noisy counts.

    Parameters
    ----------
    model : estimator
        Trained: one of sottovoce's, or any other of scikit-learn's kind that scores each row by itself.
    X : array, sparse matrix, data frame or ParquetTable of shape (n_samples, n_features)
        Private. Rows that were held out of training; see Notes.
    y : array of shape (n_samples,)
        Private. Labels that are missing, or none of the model's classes, are counted and left out.
    epsilon : float
        What the evaluation may cost.
    delta : float, default=0
        0 is pure differential privacy, with the least noise. More is for those who add up many releases.
    ledger : str, Ledger or None, default=None
    dataset : str or None, default=None
        Budget that is charged before the values of X and y are looked at.
    groups : array of shape (n_samples,) or None, default=None
        Private. The person of each row; the unit of the guarantee is then a person.
    max_rows_per_group : int or None, default=None
        Public; required with ``groups``. Of a person with more rows so many are used, drawn at random.
    label_bounds : (float, float) or None, default=None
        Public bounds on the labels of a regression, to which labels and predictions are cut; None takes the model's.
    adjacency : {"zero-out", "add-remove", "replace-one"}, default="zero-out"
    n_public : int or None, default=None
        Public stand-in for the number of rows; required for ``"add-remove"``, where n is secret.
    accept_delta : float or None, default=None
        A delta of 1 / sqrt(n) or more, said a second time.
    random_state : None, int or Generator, default=None
        A seed makes the run repeatable, and not private against whoever knows it.

    Returns
    -------
    Evaluation

    Raises
    ------
    ParameterError
        Before any work: an argument is missing, out of range or does not fit another one.
    DataError
        Before any noise is drawn: X has columns whose type is no number, or the model cannot score the rows.

    Notes
    -----
    Privacy: statement and proof in ``docs/privacy/evaluation.md``. It is about the rows of the evaluation. The model is
    taken as public. On rows that it was trained on, the figures are optimistic and both budgets add up.

    Examples
    --------
    >>> import numpy as np
    >>> import sottovoce as sv
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20_000, 3))
    >>> y = np.where(X @ [2.0, -1.0, 0.5] + 0.5 * rng.normal(size=20_000) > 0, "yes", "no")
    >>> model = sv.DPLogisticRegression(
    ...     epsilon=1.0, delta=1e-6, data_norm=3**0.5, classes=["no", "yes"], random_state=0
    ... ).fit(X[:10_000], y[:10_000])
    >>> found = sv.evaluate(model, X[10_000:], y[10_000:], epsilon=0.5, random_state=0)
    >>> bool(found.accuracy > 0.85 and found.auc > 0.95)
    True
    """
    model = getattr(model, "best_estimator_", model)  # of a search
    refuse_no_table(X)
    person = _unit(X, groups, max_rows_per_group)
    plan = evaluation_plan(
        model, _num_samples(X), epsilon=epsilon, delta=delta, max_rows_per_group=person,
        label_bounds=label_bounds, adjacency=adjacency, n_public=n_public, accept_delta=accept_delta,
    )  # fmt: skip
    _ = plan.event  # refuses what no noise can meet
    streams = Streams(random_state)
    check_public_sizes(X, y)
    _check_columns(model, X)
    if plan.delta > 0.0:
        warn_of_large_delta(plan.delta, plan.n_samples)
    with charging(
        ledger, dataset, plan.event, delta=plan.delta, adjacency=plan.adjacency, seeded=streams.seeded,
        plan={"evaluation of": type(model).__name__, **plan.summary()}, unit=unit_of(plan.max_rows_per_group),
    ) as charge:  # fmt: skip
        charge.looking()
        rows = score_rows(plan, model, X, y)
        if person is not None:
            if groups is None:
                groups = X.groups()
            codes = person_codes(groups, _num_samples(X))
            rows = rows.at(kept_rows(codes, person, streams.generator(Purpose.SAMPLING)))  # the others add to no count
        driven = released_tables(plan, rows, streams)
        charge.check_plan(plan.event)
        charge.commit(driven.event)
        own = isinstance(model, DPLinearEstimator)
        classes = None if plan.task == "regression" else tuple(scalar(name) for name in model.classes_)
        receipt = evaluation_receipt(
            plan, evaluated=type(model).__name__, event=driven.event, seeded=streams.seeded,
            counts=digest(released(classes, driven.result)), model=model_digest(model) if own else None,
            charge=charge.charge,
        )  # fmt: skip
    return Evaluation(plan=plan, classes=classes, tables=driven.result, guarantee_=receipt, charge_=charge.charge)


def evaluation_plan(
    model: Any,
    n_samples: int,
    *,
    label_bounds: tuple[float, float] | None = None,
    adjacency: str = "zero-out",
    n_public: int | None = None,
    **facts: Any,
) -> EvaluationPlan:
    """Return the frozen plan of an evaluation, from public facts; the parameters are those of `evaluate`."""
    task, n_classes = task_of(model)
    neighbours, n_samples = public_rows(adjacency, n_samples, n_public)
    if task == "regression":
        label_bounds = getattr(model, "label_bounds", None) if label_bounds is None else label_bounds
    elif label_bounds is not None:
        raise ParameterError(f"label_bounds are for a regression; {type(model).__name__} predicts classes.")
    return EvaluationPlan(
        task=task, n_classes=n_classes, label_bounds=label_bounds, adjacency=neighbours, n_samples=n_samples, **facts
    )


def released_tables(plan: EvaluationPlan, rows: ScoredRows, streams: Streams) -> Driven[dict[str, Table]]:
    """Release the noisy tables, as planned.

    Counts are whole numbers: the tables are the same however the rows are cut into pieces.
    """
    return drive(lambda: _tables(plan), Held(rows), streams)


def _tables(plan: EvaluationPlan) -> Asked[dict[str, Table]]:
    placed: dict[str, tuple[Vector, float]] = {}
    tables = {}
    for name, mechanism in plan.mechanisms.items():
        if name in PLACING:
            placed[name] = (yield Release(name, CellCounts(plan, name), mechanism)), mechanism.noise_std
            continue
        axes = axes_of(plan, name, placed)
        noisy = yield Release(name, CellCounts(plan, name, axes), mechanism)
        lines = len(axes[0]) if axes[0] is not None else plan.n_classes
        tables[name] = Table(noisy[:-1].reshape(lines, -1), float(noisy[-1]), mechanism.noise_std, axes)
    return tables


def _unit(X: Any, groups: Any, max_rows_per_group: int | None) -> int | None:
    """Return the public bound on the rows of a person, or None where the unit is a row."""
    unnamed = groups is None and getattr(X, "groups", None) is None
    if unnamed != (max_rows_per_group is None):
        missing, given = ("groups", "max_rows_per_group") if unnamed else ("max_rows_per_group", "groups")
        raise ParameterError(f"{missing} is missing: {given} is given, and the unit of a person needs both.")
    if groups is not None and _num_samples(groups) != (n := _num_samples(X)):
        raise ParameterError(f"groups must hold one person for each of {n} rows; got {_num_samples(groups)}.")
    refuse_beside(X, groups=groups)
    return max_rows_per_group


def _check_columns(model: Any, X: Any) -> None:
    """Refuse, before the charge, columns that are not those of the model: others' models say so by a row of ones."""
    if isinstance(X, RemoteTable):
        raise ParameterError(
            f"X is a {type(X).__name__}, whose rows stay where they are, and an evaluation reads them here. Write the "
            "rows that were held out to Parquet files, and give a ParquetTable of these."
        )
    if isinstance(model, PrivateEstimator):
        check_is_fitted(model)
        model.check_columns(X, reset=False)
    elif isinstance(X, StreamedTable) and hasattr(model, "n_features_in_"):
        check_columns(model, X, reset=False)
    elif (row := example_of(X)) is not None:
        try:
            with warnings.catch_warnings(action="ignore"):
                model.predict(row)
        except Exception as error:
            if sp.issparse(X) or _COLUMNS.search(str(error)):
                raise ParameterError(f"{type(model).__name__} does not take the columns of X: {error}") from error


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


def score_rows(plan: EvaluationPlan, model: Any, X: Any, y: Any) -> ScoredRows:
    """Read the table and score its rows; the first look at its values. A table on disk is read in blocks.

    Raises DataError if the labels or rows cannot be read as a table at all.
    """
    if isinstance(X, UnreadTable):
        X, y = X.read()
    if y is not None:
        y = entries(y)
    try:
        # a warning of a step or a model, of a quotient by 0 or an unknown category, say, would tell of a row
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            return _score_blocks(plan, model, X, y)
    except (SottovoceError, MemoryError, OSError):
        raise
    except Exception as error:
        raise DataError(
            f"{type(model).__name__} cannot score the rows of X: {type(error).__name__}. Its words are left out, for "
            "they may show a cell. Try the model on made-up rows with the same columns and kinds of cells."
        ) from None


def _score_blocks(plan: EvaluationPlan, model: Any, X: Any, y: Any) -> ScoredRows:
    """Score rows block by block; a table in memory is one block. No model is asked about no rows: none predicts so."""
    on_disk, n = isinstance(X, StreamedTable), _num_samples(X)
    room = X.row_memory(n).zeros if on_disk else np.zeros
    labels, scores, *losses = (room((n,), np.float64) for _ in range(4 if "losses" in plan.tables else 2))
    rows = ScoredRows(labels, scores, room((n,), np.bool_), (losses[0], losses[1]) if losses else None)
    classes = None if plan.task == "regression" else model.classes_
    labelled = X.label_blocks(missing=True) if on_disk and y is None else iter(((slice(0, n), y),))
    given: Iterator[tuple[slice, Any]] = labelled
    for place, some in given if n else ():
        labels[place] = labels_of(plan, classes, some)
    parts: Any = X.blocks() if on_disk else _whole(X)
    with closing(parts) as blocks:
        for place, block in blocks:
            found = _score_block(plan, model, block, labels[place], checked=on_disk)
            scores[place], rows.left_out[place] = found.scores, found.left_out
            for column, values in zip(losses, found.losses or (), strict=True):
                column[place] = values
    return rows


def _whole(X: Any) -> Iterator[tuple[slice, Any]]:
    if n := _num_samples(X):
        yield slice(0, n), X


def _score_block(plan: EvaluationPlan, model: Any, X: Any, labels: Vector, *, checked: bool) -> ScoredRows:
    """Score rows whose labels were read; ``checked``: their columns were."""
    X, unreadable = _readable(model, X, checked=checked)
    while (behind := _behind_steps(model, X)) is not None:
        model, X = behind
        X, more = _readable(model, X)
        unreadable = unreadable | more
    own = isinstance(model, DPLinearEstimator)
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
    rows = _without(labels, np.argmax(chances, axis=1).astype(np.float64), unreadable | np.isnan(chances).any(axis=1))
    of_label = chances[np.arange(len(chances)), np.where(rows.left_out, 0, rows.labels).astype(np.int64)]
    squares = np.clip(np.sum(chances**2, axis=1) - 2.0 * of_label + 1.0, 0.0, 2.0)
    return replace(rows, losses=(np.clip(-np.log(of_label), 0.0, MOST_LOSS), squares))


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
    if isinstance(X, (list, tuple)) and (rows := as_array(X, object)).ndim == 2:  # numpy has one type for all rows
        parts = [model, *(model.get_params() if hasattr(model, "get_params") else {}).values()]
        tags = [get_tags(part).input_tags for part in parts if hasattr(type(part), "__sklearn_tags__")]
        X = rows if any(one.string or one.categorical for one in tags) else numbers_of(rows)
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(np.float64) if X.dtype.kind in "biu" else X, np.nan)
    if isinstance(model, DPLinearEstimator) and not checked:
        X = _cells(X)
        checks = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "ensure_all_finite": False}
        X = numbers(model, X, reset=False, order="C", **checks)
    bad: NDArray[np.bool_]
    if sp.issparse(X):
        matrix = cast(Any, X).tocsr(copy=True)
        wrong = ~np.isfinite(matrix.data)
        bad = np.zeros(matrix.shape[0], np.bool_)
        bad[np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))[wrong]] = True
        matrix.data[wrong] = 0
        return matrix, bad
    takes_nan = hasattr(model, "__sklearn_tags__") and get_tags(model).input_tags.allow_nan
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f" and not takes_nan:
        bad = np.asarray(~np.isfinite(X).all(axis=1))
        return np.where(bad[:, None], 0.0, X), bad
    return X, np.zeros(_num_samples(X), np.bool_)


def _cells(X: Any) -> Any:
    """Return a table in which cells that are no numbers are NaN, where the type of a column admits numbers at all."""
    if isinstance(X, np.ndarray) and X.dtype.kind == "O":
        return numbers_of(X)
    refuse_by_type(X)
    if hasattr(X, "iloc"):  # a data frame of pandas
        X = X.copy(deep=False)
        for name, kind in X.dtypes.items():
            if str(kind) in ("object", "category"):
                X[name] = numbers_of(entries(X[name]))
    refuse_texts(X)
    return X


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
