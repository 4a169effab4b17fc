r"""Convex 1-Lipschitz losses of u = y <w, x>, written as mixtures of absolute values (Lemma 4.8 of the paper).

For convex f on [-1, 1] let D = f'(1) - f'(-1), draw U uniformly on [f'(-1), f'(1)], and let s be the largest point with
U in the subdifferential of f at s. Then

.. math:: f(u) = \tfrac{D}{2} \, \mathbb{E} |u - s| + \tfrac12 (f'(1) + f'(-1)) u + \text{const}, \qquad
          f'(u) = f'(-1) + D \, \mathbb{P}(s < u).

One s serves for *all* factors of a report. An s of its own for every factor, as the paper's listing has it, estimates
the polynomial at the mean of s, which is another function: a test shows it.

Convex 1-Lipschitz losses of a residual r = <w, x> - y in [-2, 2], for numeric labels y in [-1, 1].

Remark 4.14 of the paper asks for them: "a method similar to Algorithm 1". The report is the same: noisy copies of
(x, y). A factor is v_k = 1/2 + (<w, x_k> - y_k)/4, linear in the copy where that of a margin is a product, and the
direction of the gradient is x_0 alone:

.. math:: G(w) = \Big[ \sum_{j=0}^{p} c_j \binom{p}{j} \prod_{k=1}^{j} v_{jp+k} \prod_{k=j+1}^{p} (1 - v_{jp+k}) \Big]
          \, x_0, \qquad c_j = f'(4j/p - 2).

f' of a loss that is even is odd, so the polynomial is a straight line at p = 1 and p = 2: with a
surrogate of these degrees every such loss is least squares. The least degree that can tell them apart is 3.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sottovoce._validation import number
from sottovoce.exceptions import ParameterError
from sottovoce.local.fits.surrogate import last_points
from sottovoce.papers.ldp.polynomial import hinge_half

__all__ = ["GENERAL_LOSSES", "RESIDUAL_LOSSES", "Loss", "absolute_residual", "huber_residual"]

Array = NDArray[np.float64]

_BISECTIONS = 54


class Loss(NamedTuple):
    """A convex 1-Lipschitz function f of u = y <w, x> in [-1, 1], or of a residual r = <w, x> - y in [-2, 2].

    Parameters
    ----------
    name : str
        For messages.
    value : callable
        From an array of u to f(u).
    derivative : callable
        From an array of u to f'(u), a subgradient where f' jumps; not decreasing, within [-1, 1].
    reach : float, default 1.0
        How far from 0 the argument can be: 1 for u, 2 for a residual.
    """

    name: str
    value: Callable[[Array], Array]
    derivative: Callable[[Array], Array]
    reach: float = 1.0

    @property
    def ends(self) -> tuple[float, float]:
        """f'(-1) and f'(1)."""
        low, high = (float(v) for v in np.asarray(self.derivative(np.array([-1.0, 1.0])), dtype=np.float64))
        return low, high

    def check(self) -> None:
        """Refuse a loss that is not convex and 1-Lipschitz at 2,001 points from -reach to reach.

        Raises
        ------
        ParameterError
            Naming what is wrong.
        """
        slopes = np.asarray(self.derivative(np.linspace(-self.reach, self.reach, 2001)), dtype=np.float64)
        for slope in (slopes.min(), slopes.max()):
            number(f"derivative of the loss {self.name!r}", float(slope), at_least=-1.0, at_most=1.0)
        if not np.all(np.diff(slopes) >= -1e-12):
            raise ParameterError(f"the loss {self.name!r} is not convex: its derivative decreases somewhere.")

    def thresholds(self, shares: Array) -> Array:
        """Return s for U = f'(-1) + D ``shares``, shares in (0, 1): the largest point with f'(s) <= U, by bisection."""
        low_slope, high_slope = self.ends
        return last_points(self.derivative, low_slope + (high_slope - low_slope) * shares, 1.0, _BISECTIONS)


GENERAL_LOSSES = {
    loss.name: loss
    for loss in (
        Loss("logistic", lambda u: np.logaddexp(0.0, -u), lambda u: -expit(-u)),
        Loss("hinge by mixture", hinge_half, lambda u: np.where(u < 0.5, -1.0, 0.0)),
        Loss("absolute", lambda u: np.abs(0.5 - u), lambda u: np.where(u < 0.5, -1.0, 1.0)),
    )
}


def huber_residual(delta: float) -> Loss:
    """Return Huber's loss over delta: r^2 / (2 delta) where abs(r) is at most ``delta``, abs(r) - delta/2 beyond."""
    delta = number("delta", delta, above=0.0, at_most=2.0)

    def value(r: Array) -> Array:
        far = np.abs(r)
        return np.where(far <= delta, 0.5 * far**2 / delta, far - 0.5 * delta)

    return Loss("huber residual", value, lambda r: np.clip(r / delta, -1.0, 1.0), 2.0)


def absolute_residual(beta: float) -> Loss:
    """Return the absolute residual, its derivative smoothed over a width of 2 beta as the paper smooths the hinge."""
    beta = number("beta", beta, above=0.0, at_most=1.0)
    return Loss("absolute residual", np.abs, lambda r: r / np.hypot(r, 2.0 * beta), 2.0)


RESIDUAL_LOSSES: Final[dict[str, Callable[[float], Loss]]] = {
    "absolute residual": absolute_residual,
    "huber residual": lambda beta: huber_residual(2.0 * beta),
}
