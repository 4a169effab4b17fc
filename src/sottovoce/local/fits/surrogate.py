r"""Polynomials in place of a convex loss, by its mixture of absolute values.

Any convex f with bounded derivative is, on [-R, R], a mixture of absolute values and a linear function [1]_:

.. math:: f(u) = \frac D2 \, E|u - s| + \frac{f'(R) + f'(-R)}{2} u + c, \qquad D = f'(R) - f'(-R),

where s = (f')^{-1}(U) is the largest point whose derivative is at most U, and U is uniform between f'(-R) and f'(R). A
loss is therefore given by its derivative alone, jumps included, and the least-squares polynomial of f in the Chebyshev
weight is the mixture of those of |u - s|, which are known in closed form: with u = R cos t and s = R cos a, the
coefficient of T_k is (2/pi) I_k, of T_0 I_0/pi, times R, where for k >= 2

.. math:: I_k = \frac{\sin (k-1)a}{k-1} + \frac{\sin (k+1)a}{k+1} - \frac{2 \cos a \sin ka}{k}.

I_2 = (2/3) sin^3 a is never negative: the quadratic surrogate of a convex loss is convex.

References
----------
.. [1] Wang, Smith, Xu (2019). Noninteractive Locally Private Learning of Linear Models via Polynomial Approximations.
   ALT 2019; Lemma 4.8.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from sottovoce._validation import number, whole_number
from sottovoce.exceptions import ParameterError

Array = NDArray[np.float64]
Derivative = Callable[[Array], Any]

_ATOMS: Final = 4096
_CHECKED: Final = 2001
_LEAST: Final = 5e-324


@dataclass(frozen=True)
class MarginLoss:
    """A convex loss f(u) of the margin u = s <w, x>, given by its derivative.

    Parameters
    ----------
    name : str
        For receipts.
    derivative : callable
        f' of an array of margins; it must not fall. At a jump any value between its sides.
    """

    name: str
    derivative: Derivative

    def mixture(self, radius: float) -> "AbsoluteMixture":
        """Return the loss on [-radius, radius] as a mixture of absolute values."""
        return AbsoluteMixture.of(self.derivative, radius)


_LOSSES: Final = {
    # max(0, 1/2 - u): margins lie in [-1, 1], so the usual threshold 1 would be linear
    "hinge": MarginLoss("hinge(0.5)", lambda u: np.where(u < 0.5, -1.0, 0.0)),
    "logistic": MarginLoss("logistic", lambda u: -0.5 * (1.0 - np.tanh(0.5 * u))),
}


def margin_loss(loss: str | MarginLoss | Derivative) -> MarginLoss:
    if isinstance(loss, MarginLoss):
        return loss
    if isinstance(loss, str) and loss in _LOSSES:
        return _LOSSES[loss]
    if callable(loss):
        return MarginLoss(getattr(loss, "__name__", "given by its derivative"), loss)
    raise ParameterError(
        f"loss must be one of {', '.join(map(repr, _LOSSES))}, a MarginLoss, or a function that returns the derivative "
        f"of a convex loss; got {loss!r}."
    )


@dataclass(frozen=True, eq=False)
class AbsoluteMixture:
    """The measure of Lemma 4.8: f(u) = (spread/2) mean |u - atoms| + slope u + constant on [-radius, radius]."""

    atoms: Array
    spread: float
    slope: float
    radius: float

    @classmethod
    def of(cls, derivative: Derivative, radius: float) -> "AbsoluteMixture":
        """Find the atoms of a loss by bisection of its derivative.

        Raises ParameterError if the derivative is not finite on [-radius, radius], or falls somewhere: the loss is not
        convex.
        """
        radius = number("radius", radius, above=0.0)
        grid = np.linspace(-radius, radius, _CHECKED)
        slopes = np.asarray(derivative(grid), dtype=np.float64)
        if slopes.shape != grid.shape or not np.isfinite(slopes).all():
            raise ParameterError(
                f"the derivative of the loss must return one finite number for each margin within {radius:g} of 0."
            )
        first, last = float(slopes[0]), float(slopes[-1])
        if np.any(np.diff(slopes) < -1e-9 * max(abs(first), abs(last), _LEAST)):
            raise ParameterError("the derivative of the loss must never fall: the loss is not convex.")
        levels = first + (np.arange(_ATOMS) + 0.5) / _ATOMS * (last - first)
        return cls(last_points(derivative, levels, radius), last - first, 0.5 * (first + last), radius)

    def surrogate(self, degree: int) -> Array:
        """Return (c0, ..., c_degree): the least-squares polynomial in the Chebyshev weight on [-radius, radius].

        The loss is known up to a constant only, so c0 is too.
        """
        degree = whole_number("degree", degree, at_least=1, at_most=30)
        angle = np.arccos(np.clip(self.atoms / self.radius, -1.0, 1.0))
        series = np.empty(degree + 1)
        for k in range(degree + 1):
            series[k] = float(_overlap(angle, k).mean()) * (1.0 if k == 0 else 2.0) / math.pi
        powers = np.zeros(degree + 1)
        found = chebyshev.cheb2poly(0.5 * self.spread * self.radius * series)
        powers[: len(found)] = found
        powers /= self.radius ** np.arange(degree + 1)
        powers[1] += self.slope
        return powers


def last_points(derivative: Derivative, levels: Array, radius: float, n_steps: int = 60) -> Array:
    """Return the largest s in [-radius, radius] with f'(s) <= level, for each level, by bisection."""
    low, high = np.full(levels.shape, -radius), np.full(levels.shape, radius)
    for _ in range(n_steps):  # f'(low) <= level < f'(high)
        middle = 0.5 * (low + high)
        below = np.asarray(derivative(middle), dtype=np.float64) <= levels
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return low


def _overlap(a: Array, k: int) -> Array:
    """Return I_k, the integral of |cos t - cos a| cos kt over [0, pi]."""
    if k == 0:
        return np.asarray(2.0 * np.sin(a) + (math.pi - 2.0 * a) * np.cos(a))
    if k == 1:
        return np.asarray(a - 0.5 * np.sin(2.0 * a) - 0.5 * math.pi)
    sums = np.sin((k - 1) * a) / (k - 1) + np.sin((k + 1) * a) / (k + 1)
    return np.asarray(sums - 2.0 * np.cos(a) * np.sin(k * a) / k)
