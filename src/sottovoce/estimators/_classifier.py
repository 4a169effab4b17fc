"""What the linear classifiers share: the public class list, one-vs-rest, predictions."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from sottovoce._whole_fit import whole_fit
from sottovoce.estimators._base import DPLinearEstimator, warn_if_classes_were_read
from sottovoce.exceptions import DataError, ParameterError

__all__ = ["DPLinearClassifier"]


class DPLinearClassifier(ClassifierMixin, DPLinearEstimator):  # type: ignore[misc]
    """Base of the classifiers; more than two classes are trained one-vs-rest with the budget split equally."""

    classes: Any
    classes_: NDArray[Any]

    def _public_classes(self) -> NDArray[Any] | None:
        if self.classes is None:
            return None
        try:
            given = list(self.classes) if not isinstance(self.classes, str) else [self.classes]
            listed = np.unique(np.asarray(given))
        except (TypeError, ValueError):
            raise ParameterError(f"classes must be a list of texts or of numbers; got {self.classes!r}.") from None
        if len(listed) != len(given):
            raise ParameterError(f"classes must not repeat a class; got {given!r}.")
        if len(listed) < 2:
            raise ParameterError(f"classes must list at least two classes; got {given!r}.")
        return listed

    def _class_list(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return the public list of classes, or the one read from y where none was given."""
        check_classification_targets(y)
        known = self._public_classes()
        if known is not None:
            _refuse_unknown(y, known)
            return known
        known = np.unique(y)
        if len(known) < 2:
            raise DataError(
                f"y has one class only ({known[0]!r}): a classifier needs two. If the other class exists and is "
                "absent by chance, state the public list: classes=[...]."
            )
        return known

    def _n_models(self) -> int:
        known = self._public_classes()
        if known is None:
            known = getattr(self, "classes_", None)
        return 1 if known is None or len(known) == 2 else len(known)

    def _n_models_without_data(self) -> int:
        known = self._public_classes()
        if known is None:
            raise ParameterError(
                "classes is missing: a fit is charged to a ledger before y is read, and the list of classes decides "
                "what it costs. Give classes=[...]."
            )
        return 1 if len(known) == 2 else len(known)

    def _assumptions(self) -> tuple[str, ...]:
        origin = "given" if self.classes is not None else "READ FROM THE DATA and taken as public"
        lines = [f"the list of classes, {origin}: {', '.join(str(name) for name in self.classes_)}"]
        if len(self.classes_) > 2:
            lines.append(
                f"one-vs-rest: each of the {len(self.classes_)} models spends an equal part (mu / sqrt(models)) of the "
                "budget for training"
            )
        return tuple(lines)

    @whole_fit
    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on X and y.

        Parameters
        ----------
        X : array, memory map, sparse matrix, data frame or ParquetTable of shape (n_samples, n_features)
            Private. float32 and float64 are used as they are, without a copy.
        y : array of shape (n_samples,)
            Private. Class labels, each in ``classes``. May be left out for a ParquetTable that names its target.

        Returns
        -------
        self
        """
        self._public_classes()  # checked before the data are looked at, as all parameters are
        streams = self._check_parameters()
        with self._charged(X, y, streams) as charge:
            X, y = self._read_rows(X, y)
            known = self._class_list(y)
            self.classes_ = known
            positive = known[1:] if len(known) == 2 else known
            plan = self._plan(X.shape[0], X.shape[1], len(positive))
            if self.classes is None and plan.is_private:
                warn_if_classes_were_read(known)
            self._fit_models(X, [np.where(y == name, 1.0, -1.0) for name in positive], plan, streams, charge)
        self._tie_receipt()
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the score of each row: (n_samples,) for two classes, else (n_samples, n_classes).

        Parameters
        ----------
        X : array, memory map, sparse matrix, data frame or ParquetTable of shape (n_samples, n_features)

        Returns
        -------
        ndarray
        """
        scores = self._decision(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

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


def _refuse_unknown(y: NDArray[Any], known: NDArray[Any]) -> None:
    bad = np.flatnonzero(~np.isin(y, known))
    if bad.size:
        raise DataError(
            f"y holds the label {y[bad[0]]!r} (row {int(bad[0])}, {bad.size} row(s) in all), which is not in classes="
            f"{list(known)!r}. Add it to the public list, or drop or relabel those rows before fit."
        )
