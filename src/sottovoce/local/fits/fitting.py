"""From sums over reports to a model: least squares, its quality by held-out reports, its receipt."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._plain_data import digest
from sottovoce._validation import truth, whole_number
from sottovoce.exceptions import ParameterError, SottovoceError
from sottovoce.local.fits.held_out import Fit, folds_of, quality
from sottovoce.local.fits.model import LocalModel
from sottovoce.local.fits.moments import Folds, MomentEstimate, Moments
from sottovoce.local.fits.receipts import local_receipt
from sottovoce.local.fits.ridge import Layout, first_moment_only, mean_only, ridge, ridge_by_folds
from sottovoce.local.protocol import Protocol

Array = NDArray[np.float64]

LEAST_SQUARES: Final = "least squares"  # what model files name


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
    protocol: Protocol, moments: Moments, *, degree: Any = "auto", alpha: Any = None, public_rows: Any = None,
    shuffled: Any = False, delta: Any = None,
) -> LocalModel:  # fmt: skip
    """Return a model from sums over reports; arguments are those of `Aggregator.fit`."""
    if truth("shuffled", shuffled) and delta is None:
        raise ParameterError("delta is missing: the central epsilon after a shuffle needs one, well below 1 / n.")
    if not shuffled and delta is not None:
        raise ParameterError("delta is for shuffled=True only: a local report has delta = 0.")
    degree = _given_degree(degree)
    A = protocol.constants.A
    second = None if public_rows is None else _public_second(protocol, public_rows)
    estimate = moments.estimate(*A[:2])
    folds = folds_of(moments, *A[:2])
    if second is not None:
        estimate = estimate.with_second(second)
        folds = [(rest.with_second(second), held.with_second(second)) for rest, held in folds]
    first_only = protocol.degree == 0 and second is None
    if first_only and degree == 1:
        raise ParameterError(f"degree must be 0 for a protocol of degree 0, or give public_rows; got {degree!r}.")
    degree = int(not first_only) if degree is None else degree
    fit = _least_squares(degree, alpha, layout_of(protocol), cautious=protocol.task == "regression")
    w = fit(estimate, folds)
    return LocalModel(
        protocol=protocol,
        weights=w,
        loss=LEAST_SQUARES,
        degree=degree,
        n_reports=estimate.n,
        guarantee_=local_receipt(
            protocol.id.hex(),
            protocol.mechanism,
            protocol.epsilon,
            estimate.n,
            public_rows=public_rows is not None,
            shuffled_delta=None if delta is None else float(delta),
            model=digest(w.tolist()),
        ),
        quality_=quality(fit, folds, A) if folds and not first_only else None,
    )


def _least_squares(degree: int, alpha: Any, layout: Layout, *, cautious: bool) -> Fit:
    if degree == 0:
        if alpha is not None:
            raise ParameterError(f"alpha needs degree 1: there is nothing to penalise with degree 0; got {alpha!r}.")
        if cautious and layout.level is not None:  # without a second moment no slope of a regression is known
            return lambda some, _: mean_only(some, layout)
        return lambda some, inner: first_moment_only(some, inner, layout)

    def fit(some: MomentEstimate, inner: Folds) -> Array:
        if not inner:
            return ridge(some, alpha, layout)
        return ridge_by_folds(some, inner, alpha, layout, cautious=cautious)

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
