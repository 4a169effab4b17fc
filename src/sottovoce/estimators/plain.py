"""A trained model as a plain estimator of scikit-learn: the same function, made by post-processing."""

import copy
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from sottovoce._numerics import Vector

if TYPE_CHECKING:  # scikit-learn's own models take long to load, and few ask for one
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import Pipeline


def plain_classifier(kind: type[Any], model: Any) -> Any:
    """Return a classifier of scikit-learn with the scores of ``model``."""
    return _fitted(kind(), model, coef_=model.coef_.copy(), intercept_=model.intercept_.copy(), classes_=model.classes_)


def one_vs_rest(kind: type[Any], model: Any) -> Any:
    """Return one classifier for each class: then scikit-learn scales probabilities one-vs-rest, as ``model`` does."""
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.preprocessing import LabelBinarizer

    both = np.array([0, 1])
    parts = [
        _fitted(kind(), model, coef_=model.coef_[k : k + 1].copy(), intercept_=model.intercept_[[k]], classes_=both)
        for k in range(len(model.classes_))
    ]
    labels = LabelBinarizer(sparse_output=True).fit(model.classes_)
    return _fitted(
        OneVsRestClassifier(kind()), model, estimators_=parts, label_binarizer_=labels, classes_=model.classes_
    )


def linear_regression(model: Any) -> "LinearRegression":
    """Return the linear function of ``model``, whose predictions are not clipped."""
    from sklearn.linear_model import LinearRegression

    return _fitted(LinearRegression(), model, coef_=model.coef_.copy(), intercept_=model.intercept_)


def clipped_regression(model: Any, low: float, high: float) -> "TransformedTargetRegressor":
    """Return the linear function of ``model`` with predictions clipped to [low, high]."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.linear_model import LinearRegression
    from sklearn.preprocessing import FunctionTransformer

    ends = {"a_min": low, "a_max": high}
    clip = FunctionTransformer(
        np.clip, np.clip, kw_args=ends, inv_kw_args=ends, validate=True, check_inverse=False
    ).fit([[low], [high]])
    whole = TransformedTargetRegressor(LinearRegression(), transformer=clone(clip), check_inverse=False)
    return _fitted(whole, model, regressor_=linear_regression(model), transformer_=clip, _training_dim=1)


def cut_columns(source: Any, location: Vector, scale: Vector, cut: float) -> "Pipeline":
    """Return what moves columns to 0, divides them by a scale and cuts them to +-``cut``."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    moved = _fitted(
        StandardScaler(with_mean=bool(location.any())),
        source,
        mean_=location.copy(),
        scale_=scale.copy(),
        var_=scale**2,
    )
    ends = np.full((2, len(scale)), cut) * [[-1.0], [1.0]]
    return make_pipeline(moved, MinMaxScaler((-cut, cut), clip=True).fit(ends))


def behind_its_cut(to_sklearn: Callable[..., Any]) -> Callable[..., Any]:
    """Give what a method ``to_sklearn`` returns the bounds that a model cuts its columns to, if it has any."""

    @wraps(to_sklearn)
    def whole(model: Any, **options: Any) -> Any:
        from sklearn.pipeline import make_pipeline

        if getattr(model, "column_bounds_", None) is None:
            return to_sklearn(model, **options)
        low, high = model.column_bounds_
        middle, half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
        inner = copy.copy(model)
        inner.coef_, inner.intercept_ = model.coef_ * half, model.intercept_ + model.coef_ @ middle
        vars(inner).pop("feature_names_in_", None)  # they are known to the first step
        return make_pipeline(cut_columns(model, middle, half, 1.0), to_sklearn(inner, **options))

    return whole


def _fitted(plain: Any, model: Any, **attributes: Any) -> Any:
    vars(plain).update(attributes, n_features_in_=model.n_features_in_)
    if hasattr(model, "feature_names_in_"):
        plain.feature_names_in_ = model.feature_names_in_.copy()
    return plain
