"""`evaluate`: from a trained model and rows that nobody may see to measures with intervals, for one charge."""

from contextlib import closing
from typing import Any

from sklearn.utils.validation import _num_samples

from sottovoce._groups import kept_rows, person_codes
from sottovoce._numerics import Vector
from sottovoce._plain_data import digest
from sottovoce._validation import number, warn_of_large_delta
from sottovoce.central.core import Asked, Driven, Release, drive
from sottovoce.central.data.holder import Held
from sottovoce.estimators.base import public_rows
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.estimators.reading import UnreadTable, check_public_sizes
from sottovoce.estimators.ties import model_digest
from sottovoce.evaluation.evaluation import Evaluation, released
from sottovoce.evaluation.plan import EvaluationPlan, evaluation_receipt
from sottovoce.evaluation.scoring import score_rows, task_of
from sottovoce.evaluation.tables import PLACING, CellCounts, ScoredRows, StoredRows, Table, axes_of
from sottovoce.exceptions import ParameterError
from sottovoce.ledger.charging import charging
from sottovoce.ledger.ledger import Ledger
from sottovoce.privacy.adjacency import unit_of
from sottovoce.randomness import Purpose, Streams


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
        Before any noise is drawn: X has columns whose type is no number.

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
    person = _unit(X, groups, max_rows_per_group)
    plan = evaluation_plan(
        model, 1 if X is None else _size(X), epsilon=epsilon, delta=delta, max_rows_per_group=person,
        label_bounds=label_bounds, adjacency=adjacency, n_public=n_public, accept_delta=accept_delta,
    )  # fmt: skip
    _ = plan.event  # refuses what no noise can meet
    streams = Streams(random_state)
    check_public_sizes(X, y)
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
            codes = person_codes(groups, _size(X))
            rows = _of(rows.whole(), kept_rows(codes, person, streams.generator(Purpose.SAMPLING)))
        with closing(rows):
            driven = released_tables(plan, rows, streams)
        charge.check_plan(plan.event)
        charge.commit(driven.event)
        own = isinstance(model, DPLinearEstimator)
        classes = None if plan.task == "regression" else tuple(_plain(name) for name in model.classes_)
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
    epsilon: float,
    delta: float = 0.0,
    max_rows_per_group: int | None = None,
    label_bounds: tuple[float, float] | None = None,
    adjacency: str = "zero-out",
    n_public: int | None = None,
    accept_delta: float | None = None,
) -> EvaluationPlan:
    """Return the frozen plan of an evaluation, from public facts; the parameters are those of `evaluate`."""
    task, n_classes = task_of(model)
    neighbours, n_samples = public_rows(adjacency, n_samples, n_public)
    if task == "regression":
        label_bounds = getattr(model, "label_bounds", None) if label_bounds is None else label_bounds
    elif label_bounds is not None:
        raise ParameterError(f"label_bounds are for a regression; {type(model).__name__} predicts classes.")
    return EvaluationPlan(
        task=task, n_classes=n_classes, label_bounds=label_bounds, epsilon=number("epsilon", epsilon),
        delta=number("delta", delta), adjacency=neighbours, n_samples=n_samples,
        max_rows_per_group=max_rows_per_group, accept_delta=accept_delta,
    )  # fmt: skip


def released_tables(plan: EvaluationPlan, rows: ScoredRows | StoredRows, streams: Streams) -> Driven[dict[str, Table]]:
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
    if groups is not None and _num_samples(groups) != _size(X):
        raise ParameterError(f"groups must hold one person for each of {_size(X)} rows; got {_num_samples(groups)}.")
    return max_rows_per_group


def _size(X: Any) -> int:
    return int(X.shape[0]) if isinstance(X, UnreadTable) else int(_num_samples(X))


def _of(rows: ScoredRows, kept: Any) -> ScoredRows:
    """Return the rows that are used; the others add to no count."""
    losses = None if rows.losses is None else (rows.losses[0][kept], rows.losses[1][kept])
    return ScoredRows(rows.labels[kept], rows.scores[kept], rows.left_out[kept], losses)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
