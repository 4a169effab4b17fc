"""From sums over reports to a model: the choice of fit, its quality by held-out reports, its receipt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._plain_data import digest
from sottovoce._validation import number, whole_number
from sottovoce.exceptions import ParameterError, SottovoceError
from sottovoce.local.cap import EDGE_OF_DEGREE_0
from sottovoce.local.fits.ball import minimise_in_ball
from sottovoce.local.fits.held_out import Fit, folds_of, quality
from sottovoce.local.fits.model import LocalModel
from sottovoce.local.fits.moments import Folds, MomentEstimate, Moments
from sottovoce.local.fits.receipts import local_receipt
from sottovoce.local.fits.ridge import Layout, default_alpha, first_moment_only, mean_only, ridge, ridge_by_folds
from sottovoce.local.fits.surrogate import margin_loss
from sottovoce.local.protocol import Protocol
from sottovoce.privacy.guarantee import Guarantee

Array = NDArray[np.float64]

LEAST_SQUARES: Final = "least squares"
_FACTORS: Final = (0.1, 0.25, 0.5, 2.0, 4.0, 8.0)  # of the default penalty, for held-out reports to choose from


def layout_of(protocol: Protocol) -> Layout:
    """Return which coordinates a model of this protocol uses, and which direction is its intercept.

    The slack makes vectors unit vectors and is not a feature. With it the intercept's coordinate is constant; without
    it the mean of the vectors takes its place.
    """
    if protocol.completion == "normalise":
        return Layout(protocol.d)
    free = protocol.n_columns if protocol.intercept else None
    return Layout(protocol.d, protocol.d - 1, free, protocol.intercept or None)


def fit_model(
    protocol: Protocol, moments: Moments, loss: Any = LEAST_SQUARES, *, degree: Any = "auto", radius: Any = 1.0,
    alpha: Any = None, public_rows: Any = None, shuffled: Any = False, delta: Any = None,
    reported_under: Sequence[str] = (),
) -> LocalModel:  # fmt: skip
    """Return a model from sums over reports; arguments are those of `Aggregator.fit` and of `local_receipt`."""
    least_squares = isinstance(loss, str) and loss in (LEAST_SQUARES, "squared")
    regression = protocol.task == "regression"
    if not least_squares and regression:
        raise ParameterError(
            f"loss must be {LEAST_SQUARES!r} for a regression: its reports hold no margin, and of a label its mean "
            f"alone; got {loss!r}. Against outliers collect by label_ladder and fit by fit_ladder."
        )
    if not isinstance(shuffled, bool):
        raise ParameterError(f"shuffled must be True or False; got {shuffled!r}.")
    degree = _given_degree(degree)
    A = protocol.constants.A
    second = None if public_rows is None else _public_second(protocol, public_rows)
    estimate = moments.estimate(*A[:2])
    folds: Folds = folds_of(moments, *A[:2]) if moments.n_folds > 1 and (moments.count > 0).all() else []
    if second is not None:
        estimate = estimate.with_second(second)
        folds = [(rest.with_second(second), held.with_second(second)) for rest, held in folds]
    first_only = protocol.degree == 0 and second is None
    if first_only and degree == 1:
        raise ParameterError(f"degree must be 0 for a protocol of degree 0, or give public_rows; got {degree!r}.")
    layout = layout_of(protocol)
    if least_squares:
        degree = int(not first_only) if degree is None else degree
        fit = _least_squares(folds, degree, alpha, layout, cautious=regression)
        name, surrogate, w = LEAST_SQUARES, None, fit(estimate, folds)
    else:
        if alpha is not None:
            raise ParameterError(f"alpha is for least squares only; got {alpha!r}. The radius is the penalty.")
        margin = margin_loss(loss)
        mixture = margin.mixture(number("radius", radius, above=0.0))
        if degree is None:
            degree = int(not first_only and estimate.edge <= EDGE_OF_DEGREE_0)
        name, surrogate = f"{margin.name}, |w| <= {mixture.radius:g}", mixture.surrogate(degree + 1)
        fit = _in_ball(surrogate, mixture.radius, layout)
        w = fit(estimate, folds)
    return LocalModel(
        protocol=protocol,
        weights=w,
        loss=name,
        degree=degree,
        n_reports=estimate.n,
        guarantee_=_receipt(
            protocol, estimate.n, public_rows, shuffled, delta, np.asarray(w, dtype=np.float64), reported_under
        ),
        quality_=quality(fit, folds, A, surrogate) if folds and not first_only else None,
    )


def _least_squares(folds: Folds, degree: int, alpha: Any, layout: Layout, *, cautious: bool) -> Fit:
    if degree == 0:
        if alpha is not None:
            raise ParameterError(f"alpha needs degree 1: there is nothing to penalise with degree 0; got {alpha!r}.")
        if cautious and layout.level is not None:  # without a second moment no slope of a regression is known
            return lambda some, _: mean_only(some, layout)
        return lambda some, inner: first_moment_only(some, inner, layout)
    if isinstance(alpha, str) and alpha != "held-out":
        raise ParameterError(f"alpha must be a number >= 0, 'held-out' or None; got {alpha!r}.")
    factor = _chosen_factor(folds, layout) if isinstance(alpha, str) else None

    def fit(some: MomentEstimate, inner: Folds) -> Array:
        penalty = alpha if factor is None else factor * default_alpha(some)
        if not inner:
            return ridge(some, penalty, layout)
        return ridge_by_folds(some, inner, penalty, layout, cautious=cautious)

    return fit


def _chosen_factor(folds: Folds, layout: Layout) -> float:
    """Return the factor of the default penalty whose held-out error is least, if by more than its standard error."""
    if not folds:
        raise ParameterError("alpha 'held-out' needs at least two folds with reports in each.")

    def errors(factor: float) -> Array:
        margins = [held.margin(ridge(rest, factor * default_alpha(rest), layout)) for rest, held in folds]
        return np.array([square - 2.0 * mean for mean, square in margins])

    usual, best, least = errors(1.0), 1.0, 0.0
    for factor in _FACTORS:
        gains = errors(factor) - usual
        mean, doubt = float(gains.mean()), float(gains.std(ddof=1)) / len(gains) ** 0.5
        if mean < least and mean < -doubt:
            best, least = factor, mean
    return best


def _in_ball(coefficients: Array, radius: float, layout: Layout) -> Fit:
    used = layout.n_used

    def fit(some: MomentEstimate, _: Folds) -> Array:
        part = MomentEstimate(some.n, some.first[:used], some.second[:used, :used], some.v1, some.v2)
        w = np.zeros(layout.d)
        w[:used] = minimise_in_ball(part, coefficients, radius)
        return w

    return fit


def _given_degree(degree: Any) -> int | None:
    if isinstance(degree, str) and degree == "auto":
        return None
    return whole_number("degree", degree, at_least=0, at_most=1, remedy="Or give 'auto'.")


def _public_second(protocol: Protocol, rows: Any) -> Array:
    try:
        Z = protocol.encode_many(rows)
    except SottovoceError:
        raise
    except (OverflowError, ValueError, TypeError):
        raise ParameterError("public_rows must be records of numbers, or of the protocol's features.") from None
    if not len(Z):
        raise ParameterError("public_rows must hold at least one record.")
    return np.asarray(Z.T @ Z / len(Z))


def _receipt(
    protocol: Protocol, n: int, public_rows: Any, shuffled: bool, delta: Any, weights: Array | None = None,
    reported_under: Sequence[str] = (),
) -> Guarantee:  # fmt: skip
    if shuffled and delta is None:
        raise ParameterError("delta is missing: the central epsilon after a shuffle needs one, well below 1 / n.")
    if not shuffled and delta is not None:
        raise ParameterError("delta is for shuffled=True only: a local report has delta = 0.")
    return local_receipt(
        protocol.id.hex(),
        protocol.mechanism,
        protocol.epsilon,
        n,
        public_rows=public_rows is not None,
        shuffled_delta=None if delta is None else float(delta),
        model=None if weights is None else digest(weights.tolist()),
        protocols=reported_under,
    )
