"""A trained model as a plain estimator of scikit-learn: the same function, made by post-processing."""

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from sottovoce._numerics import Vector
from sottovoce._validation import truth
from sottovoce.estimators.reading import shares_within

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


def clipped_regression(model: Any, ends: tuple[float, float]) -> "TransformedTargetRegressor":
    """Return the linear function of ``model`` with predictions clipped to both ``ends``."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.linear_model import LinearRegression
    from sklearn.preprocessing import FunctionTransformer

    given = dict(zip(("a_min", "a_max"), ends, strict=True))
    clip = FunctionTransformer(
        np.clip, np.clip, kw_args=given, inv_kw_args=given, validate=True, check_inverse=False
    ).fit(np.reshape(ends, (2, 1)))
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


def shortened(X: Any, bound: float, location: Vector, scale: Vector) -> Any:
    """Return rows that are at most ``bound`` long, less ``location`` and over ``scale``.

    ``X``: array or CSR matrix of shape (n, d).
    ``location``, ``scale``: of shape (d,).
    """
    share = shares_within(X, bound, (location, scale))[:, None]
    is_sparse = bool(sp.issparse(X))
    moved = X.multiply(share) if is_sparse else share * X
    return moved + (1.0 - share) * location if location.any() else moved


def behind_its_bounds(model: Any, plain: Callable[[Any], Any], *, shorten_rows: bool) -> Any:
    """Return what ``plain`` makes of a model, behind steps that cut columns and rows as the model does, if it does."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    truth("shorten_rows", shorten_rows)
    steps, inner = [], copy.copy(model)
    location, scale = model.row_unit_ or (np.zeros(model.n_features_in_), np.ones(model.n_features_in_))
    if model.column_bounds_ is not None:
        low, high = model.column_bounds_
        middle, half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
        inner.coef_, inner.intercept_ = model.coef_ * half, model.intercept_ + model.coef_ @ middle
        location, scale = (location - middle) / half, scale / half
        steps.append(cut_columns(model, middle, half, 1.0))
    if model.row_bound_ is not None and shorten_rows:
        given = {"bound": model.row_bound_, "location": location, "scale": scale}
        steps.append(_fitted(FunctionTransformer(shortened, kw_args=given, accept_sparse=True), model))
    if not steps:
        return plain(model)
    vars(inner).pop("feature_names_in_", None)  # they are known to the first step
    return make_pipeline(*steps, plain(inner))


def _fitted(plain: Any, model: Any, **attributes: Any) -> Any:
    vars(plain).update(attributes, n_features_in_=model.n_features_in_)
    if hasattr(model, "feature_names_in_"):
        plain.feature_names_in_ = model.feature_names_in_.copy()
    return plain
