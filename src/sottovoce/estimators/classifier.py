"""What the linear classifiers share: the public class list, joint or one-vs-rest, predictions, probabilities."""

import math
import warnings
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from sottovoce._entries import listed
from sottovoce._numerics import Vector
from sottovoce._parameters import attribute, estimator, parameter
from sottovoce._shown import quoted
from sottovoce._validation import in_order
from sottovoce._warnings import warn_of_privacy
from sottovoce.central.data.labels import ClassLabels, FindClasses, ReadLabels
from sottovoce.central.data.operation import Holder
from sottovoce.central.data.part import Part
from sottovoce.central.data.streamed import RemoteTable
from sottovoce.central.solvers.multinomial import MultinomialPlan, NonPrivateMultinomialPlan
from sottovoce.estimators.base import Written, are_plain
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.estimators.plain import behind_its_bounds, one_vs_rest, plain_classifier
from sottovoce.estimators.reading import labels_of
from sottovoce.estimators.remote import scored, where_the_rows_are
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.losses import Logistic

# Names in receipts: the scores of such a model are logarithms of odds of all classes together.
JOINT_SOLVERS: Final = (MultinomialPlan.solver, NonPrivateMultinomialPlan.solver)


@estimator
class DPLinearClassifier(ClassifierMixin, DPLinearEstimator):  # type: ignore[misc]
    """Base of the classifiers; more than two classes are trained jointly or one-vs-rest, as the solver has it."""

    classes: Any = parameter(
        "list or None",
        default=None,
        text="""Public list of the classes. A label outside it is an error; a class that is absent from the data is
        fine. None reads the list from y, with a warning, and the receipt says so. Where the list has texts and y is
        an array of an integer type, labels are places in the sorted list, as ensembles of scikit-learn write them;
        ``classes_`` and predictions are then places too.""",
    )

    coef_: Vector = attribute("ndarray of shape (1, n_features) or (n_classes, n_features)")
    intercept_: Vector = attribute("ndarray of shape (1,) or (n_classes,)")
    classes_: NDArray[Any] = attribute("ndarray of shape (n_classes,)")

    def public_classes(self) -> NDArray[Any] | None:
        """Return the list that was given, checked and sorted, or None."""
        if self.classes is None:
            return None
        once = _sorted_classes if are_plain(self.classes) else _sorted_classes.__wrapped__
        return once(Written(self.classes)).copy()

    def known_models(self) -> int | None:
        known = self.public_classes()
        return None if known is None else _n_models(known)

    def planned_models(self) -> int:
        return self.known_models() or _n_models(getattr(self, "classes_", ()))

    def read_labels(self, holder: Holder) -> None:
        names = self.public_classes()
        if isinstance(holder, Part) and holder.labels is not None:
            _refuse_no_classes(holder.labels)
        if names is None:
            names = holder.ask(FindClasses())
            if len(names) < 2:
                raise DataError(
                    f"y has one class only or none ({names.tolist()!r}): a classifier needs two. If another class "
                    "exists and is absent by chance, state the public list: classes=[...]."
                )
            if self.epsilon != math.inf:
                warn_of_privacy(
                    f"classes were read from y ({names.tolist()!r}) and are taken to be public knowledge; the receipt "
                    "says so. Give classes=[...] to state them."
                )
        if names.dtype.kind == "f" and np.any(names % 1.0):
            _refuse_no_classes(names)
        rule = ClassLabels(names)
        labels = holder.ask(ReadLabels(rule))
        if labels.number:
            rule.refuse(labels)
        self.classes_ = rule.known(labels.kind)

    def _label_assumptions(self) -> tuple[str, ...]:
        origin = "given" if self.classes is not None else "READ FROM THE DATA and taken as public"
        names = self.class_names()
        places = f" (labels came as places in it, 0 to {len(names) - 1})" if are_places(self.classes_, names) else ""
        return (f"the list of classes, {origin}: {', '.join(map(quoted, names))}{places}",)

    def class_names(self) -> NDArray[Any]:
        """Return the classes as the public list writes them, also where labels were places in it."""
        given = self.public_classes()
        return self.classes_ if given is None else given

    def shared_budget(self, solver: str) -> tuple[str, ...]:
        n_classes = len(self.classes_)
        if n_classes == 2:
            return ()
        if solver in JOINT_SOLVERS:
            return (
                f"one model of all {n_classes} classes: what a row adds for all of them is clipped as one vector, so "
                "the budget is spent once, not once a class",
            )
        return (
            f"one-vs-rest: each of the {n_classes} models spends an equal part (mu / sqrt(models)) of the budget for "
            "training",
        )

    @where_the_rows_are
    def decision_function(self, X: Any) -> Vector:
        """Return the score of each row: (n_samples,) for two classes, else (n_samples, n_classes).

        Parameters
        ----------
        X : array, memory map, sparse matrix, data frame or ParquetTable of shape (n_samples, n_features)

        Returns
        -------
        ndarray
        """
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    @where_the_rows_are
    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row.

        Parameters
        ----------
        X : array, memory map, sparse matrix, data frame or ParquetTable of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        scores = self.decision_function(X)
        winners = (scores > 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        predicted: NDArray[Any] = self.classes_[winners]
        return predicted

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the part of rows whose class `predict` finds. It is not private.

        Parameters
        ----------
        X : array, memory map, sparse matrix, data frame, ParquetTable or DaskTable of shape (n_samples, n_features)
        y : array of shape (n_samples,) or None
            None for tables that name their target; needed for all others.
        sample_weight : array of shape (n_samples,) or None

        Returns
        -------
        float
        """
        if isinstance(X, RemoteTable):
            return scored(self, X, y, sample_weight)
        return float(super().score(X, labels_of(X, y), sample_weight))

    def to_sklearn(self, *, shorten_rows: bool = True) -> Any:
        """Return the trained model as a plain estimator of scikit-learn, for tools that know no other.

        `LinearSVC` for `DPLinearSVC`. A logistic model is a `LogisticRegression`, or a `OneVsRestClassifier` of these
        where more than two classes were trained one-vs-rest.

        Parameters
        ----------
        shorten_rows : bool, default True
            True puts a step of ours before it where rows are shortened to ``row_bound_``. False leaves that out, as
            ONNX and most other formats need it: such rows get other scores.

        Returns
        -------
        sklearn.base.ClassifierMixin
            Fitted: ``predict``, ``decision_function`` and ``predict_proba`` are those of this model up to rounding,
            ``classes_`` and ``feature_names_in_`` are kept.

        Notes
        -----
        This is post-processing and costs no budget. **It holds no receipt**: keep `guarantee_` beside it
        (``docs/guide/way_out.md``). Its parameters are scikit-learn's defaults and say nothing of this training; its
        ``fit`` trains without privacy.
        """
        from sklearn.linear_model import LogisticRegression
        from sklearn.svm import LinearSVC

        check_is_fitted(self)
        jointly = len(self.classes_) == 2 or self.guarantee_.parameters["solver"] in JOINT_SOLVERS
        is_logistic = isinstance(self._loss, Logistic)
        make = plain_classifier if jointly or not is_logistic else one_vs_rest
        kind = LogisticRegression if is_logistic else LinearSVC
        return behind_its_bounds(self, partial(make, kind), shorten_rows=shorten_rows)

    @where_the_rows_are
    def predict_proba(self, X: Any) -> Vector:
        """Return the probability of each class (columns in the order of ``classes_``).

        With more than two classes: the softmax of the scores where the receipt says that all classes were trained as
        one model, else the one-vs-rest probabilities, scaled to sum to one.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return self.probabilities_of(self.decision_function(X))

    def probabilities_of(self, scores: Vector) -> Vector:
        """Return the probabilities of rows with these scores, see `decision_function`."""
        if scores.ndim == 1:
            positive = expit(scores)
            return np.column_stack([1.0 - positive, positive])
        if self.guarantee_.parameters["solver"] in JOINT_SOLVERS:
            return np.asarray(softmax(scores, axis=1))
        each = expit(scores)
        total = each.sum(axis=1, keepdims=True)
        return np.where(total > 0.0, each / np.where(total > 0.0, total, 1.0), 1.0 / each.shape[1])

    @where_the_rows_are
    def predict_log_proba(self, X: Any) -> Vector:
        """Return the logarithm of `predict_proba`.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return np.log(self.predict_proba(X))


@lru_cache(maxsize=64)
def _sorted_classes(classes: Written) -> NDArray[Any]:
    try:
        given = list(in_order("classes", classes.given))
        known = np.unique(listed(given))
    except (TypeError, ValueError):
        raise ParameterError(f"classes must be a list of texts or of numbers; got {classes.given!r}.") from None
    if len(known) != len(given):
        raise ParameterError(f"classes must not repeat a class; got {given!r}.")
    if len(known) < 2:
        raise ParameterError(f"classes must list at least two classes; got {given!r}.")
    try:
        _refuse_no_classes(known)
    except (TypeError, ValueError) as error:  # of scikit-learn
        raise ParameterError(f"classes cannot be {given!r}: {error}") from None
    return known


def _refuse_no_classes(labels: NDArray[Any]) -> None:
    """Have scikit-learn say that labels are no classes, where their type allows that they are none."""
    kind = labels.dtype.kind
    if kind == "f" and (missing := np.flatnonzero(np.isnan(labels))).size:
        raise DataError(
            f"Input y contains NaN: row {missing[0]} ({missing.size} row(s) in all). Drop these rows, or give them a "
            "class of their own, before fit."
        )
    if kind not in "biuUO" and not (kind == "f" and np.all((np.trunc(labels) == labels) & (np.abs(labels) < 2.0**53))):
        with warnings.catch_warnings(action="ignore"):  # how many of the labels are different is private
            check_classification_targets(labels)


def _n_models(classes: Any) -> int:
    return len(classes) if len(classes) > 2 else 1


def are_places(classes: NDArray[Any], names: NDArray[Any]) -> bool:
    """Return whether ``classes`` are the places of classes whose names are texts."""
    return names.dtype.kind == "U" and classes.dtype.kind in "iu" and list(classes) == list(range(len(names)))
