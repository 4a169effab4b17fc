r"""How good a model is, by reports that it was not made from.

For the margin u = <w, z> the mean of (1 - u)^2 over people is 1 - 2 <w, m> + <w, S w>, linear in the moments: with w
from all folds but one and the moments from that one, the estimate is unbiased for the error of models of this many
reports, 1 - 1/n_folds of all. Its standard error is known too: with r = |w|, the report's x = <g, w> has
E r^k He_k(x/r) = A_k u^k, so the second moment of one report's share is a polynomial in u; the moments of u beyond the
second are closed as if u were Gaussian.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from sottovoce.local.fits.moments import Folds, MomentEstimate, Moments

Array = NDArray[np.float64]
Fit = Callable[[MomentEstimate, Folds], Array]  # from the estimate of some reports and its own folds


@dataclass(frozen=True)
class HeldOut:
    """An estimate from held-out reports, and its standard error."""

    value: float
    standard_error: float


@dataclass(frozen=True)
class Quality:
    """What held-out reports say of a model; all of it is post-processing of the reports.

    Attributes
    ----------
    squared_error : HeldOut
        E (s - <w, x>)^2; the model that always says 0 has 1.
    explained : float
        1 - squared_error: the share of the trivial error that is removed. Below 0 the model is worse than nothing.
    accuracy_if_normal : float
        Share of right signs if margins were Gaussian with the estimated mean and variance: a rough figure, no bound.
        NaN where the estimated variance is not positive.
    """

    squared_error: HeldOut
    accuracy_if_normal: float

    @property
    def explained(self) -> float:
        return 1.0 - self.squared_error.value


def folds_of(moments: Moments, A1: float, A2: float) -> Folds:
    """Return, for each fold, the estimate without it and the one from it alone; none where a fold would be empty."""
    if moments.n_folds < 2 or not (moments.count > 0).all():
        return []
    return [
        (moments.estimate(A1, A2, without=fold), moments.estimate(A1, A2, only=fold)) for fold in range(moments.n_folds)
    ]


def held_out(fits: Sequence[Array], folds: Folds, A: tuple[float, float, float, float]) -> HeldOut:
    """Return the mean of (1 - <w, z>)^2, each w being judged on the fold it was not made from.

    ``fits``, sequence of ndarray of shape (d,): the model made without each fold.
    ``folds``: see `folds_of`.
    ``A``: constants of the mechanism.
    """
    n = sum(held.n for _, held in folds)
    value = variance = 0.0
    for w, (_, held) in zip(fits, folds, strict=True):
        share = held.n / n
        mean, square = held.margin(w)
        value += share * (1.0 - 2.0 * mean + square)
        # a public second moment has no noise
        variance += share**2 * share_variance(float(w @ w), mean, square, A, noisy=bool(held.v2)) / held.n
    return HeldOut(float(value), math.sqrt(variance))


def share_variance(
    r2: float, mean: float, square: float, A: tuple[float, float, float, float], *, noisy: bool
) -> float:
    """Return the variance of -2 x/A1 + (x^2 - r2)/A2, x = <g, w>, over reports of people with these margins.

    ``noisy``: False leaves the second term out.
    """
    A1, A2, A3, A4 = A
    square = min(max(square, 0.0), r2)  # |u| <= |w|
    mean = math.copysign(min(abs(mean), math.sqrt(square)), mean)
    spread = square - mean**2
    third = mean**3 + 3.0 * mean * spread
    fourth = mean**4 + 6.0 * mean**2 * spread + 3.0 * spread**2
    total = (2.0 / A1) ** 2 * (A2 * square + r2)
    if noisy:
        total -= 4.0 / (A1 * A2) * (A3 * third + 2.0 * r2 * A1 * mean)
        total += (1.0 / A2) ** 2 * (A4 * fourth + 4.0 * r2 * A2 * square + 2.0 * r2**2)
    return max(total - (noisy * square - 2.0 * mean) ** 2, 0.0)


def _joined(parts: Sequence[MomentEstimate]) -> MomentEstimate:
    n = sum(part.n for part in parts)
    first = sum((part.n / n * part.first for part in parts), np.zeros(parts[0].d))
    second = sum((part.n / n * part.second for part in parts), np.zeros_like(parts[0].second))
    return MomentEstimate(n, first, second, parts[0].v1, parts[0].v2)


def quality(fit: Fit, folds: Folds, A: tuple[float, float, float, float]) -> Quality:
    """Return what held-out reports say of the models that ``fit`` makes from all folds but one, and their folds."""
    held_ones = [held for _, held in folds]
    fits = []
    for place, (rest, _) in enumerate(folds):
        others = held_ones[:place] + held_ones[place + 1 :]
        inner = (
            [(_joined(others[:k] + others[k + 1 :]), one) for k, one in enumerate(others)] if len(others) > 1 else []
        )
        fits.append(fit(rest, inner))
    n = sum(held.n for _, held in folds)
    margins = [(held.n / n, *held.margin(w)) for w, held in zip(fits, held_ones, strict=True)]
    mean, square = sum(share * mean for share, mean, _ in margins), sum(share * square for share, _, square in margins)
    spread = square - mean**2
    return Quality(
        squared_error=held_out(fits, folds, A),
        accuracy_if_normal=float(ndtr(mean / math.sqrt(spread))) if spread > 0.0 else math.nan,
    )
