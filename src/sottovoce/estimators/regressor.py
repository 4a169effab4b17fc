"""What the regressions share: public bounds on the labels, to which they are clipped, and predictions."""

from functools import partial
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from sottovoce._numerics import Vector
from sottovoce._parameters import attribute, estimator, parameter
from sottovoce._plain_data import encode
from sottovoce._validation import bounds, truth
from sottovoce.central.data.labels import NumberLabels, ReadLabels
from sottovoce.central.data.operation import Holder
from sottovoce.central.data.streamed import RemoteTable
from sottovoce.central.plan import Plan, Solution
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.estimators.plain import behind_its_bounds, clipped_regression, linear_regression
from sottovoce.estimators.reading import labels_of
from sottovoce.estimators.remote import scored, where_the_rows_are
from sottovoce.exceptions import DataError


@estimator
class DPLinearRegressor(RegressorMixin, DPLinearEstimator):  # type: ignore[misc]
    """Base of the regressions."""

    label_bounds: tuple[float, float] | None = parameter(
        "(float, float)",
        default=None,
        text="""Public bounds on the labels, in the unit of y. Labels outside are clipped to them in training, and
        so are predictions.""",
    )

    coef_: Vector = attribute("ndarray of shape (n_features,)")
    intercept_: float = attribute("float")

    def label_range(self) -> tuple[float, float]:
        """Return the public bounds on the labels, checked."""
        return bounds(
            "label_bounds", self.label_bounds,
            remedy="They are public bounds on the labels; never compute them from the data.",
        )  # fmt: skip

    def _middle(self) -> float:
        low, high = self.label_range()
        return 0.5 * (low + high) if self.fit_intercept else 0.0

    def _label_bound(self) -> float:
        low, high = self.label_range()
        return max(high - self._middle(), self._middle() - low)

    def _label_assumptions(self) -> tuple[str, ...]:
        return (f"label_bounds = {tuple(encode(self.label_bounds))} (labels beyond were clipped to them)",)

    def read_labels(self, holder: Holder) -> None:
        rule = NumberLabels(type(self).__name__, *self.label_range(), self._middle(), self._label_unit())
        labels = holder.ask(ReadLabels(rule))
        if labels.number:
            rule.refuse(labels)

    def _offset(self, solution: Solution) -> float:
        return solution.offset + self._middle()

    def _take(self, plan: Plan, solution: Solution) -> None:
        super()._take(plan, solution)
        coef, intercept = self._unscaled(plan, solution.weights)
        self.coef_, self.intercept_ = coef[0], float(intercept[0]) + self._offset(solution)

    @where_the_rows_are
    def predict(self, X: Any) -> Vector:
        """Predict the label of each row: the linear prediction, cut to ``label_bounds``, which no label leaves.

        Parameters
        ----------
        X : array, memory map, sparse matrix, data frame or ParquetTable of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return np.clip(self._scores(X)[:, 0], *self.label_range())

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R^2 of `predict`. It is not private.

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
        y = labels_of(X, y)
        if getattr(getattr(y, "dtype", None), "kind", "") in tuple("mMc"):
            raise DataError(f"y must hold numbers; got the type {y.dtype}. Give what the model was trained to predict.")
        return float(super().score(X, y, sample_weight))

    def to_sklearn(self, *, clip_predictions: bool = True) -> Any:
        """Return the trained model as a plain estimator of scikit-learn, for tools that know no other.

        Parameters
        ----------
        clip_predictions : bool, default True
            True gives a `TransformedTargetRegressor` that cuts predictions to ``label_bounds``, as `predict` does,
            behind a step of ours where rows are shortened to ``row_bound_``. False gives a `LinearRegression`, which
            does neither: what ONNX and most other formats can hold.

        Returns
        -------
        sklearn.base.RegressorMixin
            Fitted: ``predict`` is that of this model up to rounding, ``feature_names_in_`` is kept.

        Notes
        -----
        This is post-processing and costs no budget. **It holds no receipt**: keep `guarantee_` beside it
        (``docs/guide/way_out.md``). Its parameters are scikit-learn's defaults and say nothing of this training; its
        ``fit`` trains without privacy.
        """
        check_is_fitted(self)
        truth("clip_predictions", clip_predictions)
        make = partial(clipped_regression, ends=self.label_range()) if clip_predictions else linear_regression
        return behind_its_bounds(self, make, shorten_rows=clip_predictions)
