"""Scores of a trained model on the rows that were held out: a sum of one bounded term a row, released with noise.

Every term is computed from its row and the model alone, by the row kernels and by scalar functions, so that the other
rows cannot reach its last digit (a matrix product may round a row differently in another place of the matrix).
"""

import math
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy.special import expit

from sottovoce._numerics import Vector
from sottovoce._validation import choice, magnitude
from sottovoce.central.core import Asked, Release
from sottovoce.central.data.operation import AtHome, Ticks
from sottovoce.central.data.part import Part
from sottovoce.central.parallel import team
from sottovoce.central.sums.clipped_sums import sum_mechanism
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.estimators.regressor import DPLinearRegressor
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from sottovoce.privacy.mechanisms.gaussian import GridGaussian

_CLASSIFICATION: Final = ("accuracy", "neg_log_loss")
_REGRESSION: Final = ("neg_mean_squared_error",)


def scoring_for(
    estimator: DPLinearEstimator, scoring: str | None, score_bound: float | None, n_classes: int
) -> tuple[str, float]:
    """Return the name of the score and the bound on a row's loss, from public facts.

    Raises ParameterError if the score does not fit the estimator, or the bound the score.
    """
    offered: tuple[str, ...] = _REGRESSION if isinstance(estimator, DPLinearRegressor) else _CLASSIFICATION
    if not hasattr(estimator, "predict_proba"):
        offered = tuple(name for name in offered if name != "neg_log_loss")
    name = offered[0] if scoring is None else choice("scoring", scoring, offered)
    if name == "accuracy":
        if score_bound is not None:
            raise ParameterError(f"score_bound must be None for scoring='accuracy'; got {score_bound!r}.")
        return name, 1.0
    if score_bound is not None:
        return name, magnitude("score_bound", score_bound)
    if isinstance(estimator, DPLinearRegressor):
        low, high = estimator.label_range()
        return name, 0.25 * (high - low) ** 2
    return name, 2.0 * math.log(n_classes)


def row_losses(name: str, bound: float, model: DPLinearEstimator, X: Any, y: Vector) -> Vector:
    """Return the loss of each row, within [0, ``bound``] whatever the row is.

    ``name``, ``bound``: from `scoring_for`.
    ``model``: trained.
    ``X``: of shape (n, d).
    ``y``: of shape (n,); labels, or places in ``model.classes_``.
    """
    margins = margins_of(model, X)
    if name == "neg_mean_squared_error":
        assert isinstance(model, DPLinearRegressor)
        loss = (np.clip(margins[:, 0], *model.label_range()) - y) ** 2
    elif name == "accuracy":
        winners = (margins[:, 0] > 0.0).astype(int) if margins.shape[1] == 1 else margins.argmax(axis=1)
        loss = (winners != y).astype(np.float64)
    elif margins.shape[1] == 1:
        loss = np.logaddexp(0.0, np.where(y == 1, -1.0, 1.0) * margins[:, 0])
    else:
        each = expit(margins)
        own = np.take_along_axis(each, y.astype(int)[:, None], axis=1)[:, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            loss = -np.log(own / each.sum(axis=1))
    return np.clip(np.where(np.isnan(loss), bound, loss), 0.0, bound)


def score_mechanism(adjacency: Adjacency, noise_multiplier: float) -> GridGaussian:
    """Return the mechanism that releases the score of a trial; what it costs is known before any data are read."""
    return sum_mechanism(Neighbours(adjacency), 1.0, noise_multiplier)


def score(bound: float, mechanism: GridGaussian) -> Asked[float]:
    """Release sum_i (1 - 2 loss_i / bound) with noise, of rows whose losses are within [0, ``bound``]."""
    (noisy,) = yield Release("a noisy score", ScoreSum(bound, mechanism.tick), mechanism)
    return float(noisy)


@dataclass(frozen=True)
class ScoreSum(AtHome[Ticks]):
    """The sum of one term of each loss, within [-1, 1], in whole ticks.

    A row that is not there contributes 0, the middle of the range, so that its term moves the sum by 1 and not by 2.
    """

    bound: float
    tick: float

    def on(self, part: Any) -> Ticks:
        terms = np.clip(1.0 - 2.0 * (part / self.bound), -1.0, 1.0)
        total: Ticks = np.trunc(terms / self.tick).astype(np.int64).sum(keepdims=True)
        return total


def margins_of(model: DPLinearEstimator, X: Any) -> Vector:
    """Return the margin of each row for each weight vector, shape (n, k)."""
    weights = np.atleast_2d(model.coef_)
    margins = np.empty((X.shape[0], len(weights)))
    with team() as threads, closing(Part(model.within_bounds(X), threads).blocks()) as blocks:
        for place, rows in blocks:
            for k, w in enumerate(weights):
                margins[place, k] = rows.margins(w, threads)
    with np.errstate(invalid="ignore", over="ignore"):
        out: Vector = margins + np.atleast_1d(model.intercept_)
    return out
