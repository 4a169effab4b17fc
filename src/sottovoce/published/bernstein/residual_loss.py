r"""Convex 1-Lipschitz losses of a residual r = <w, x> - y in [-2, 2], for numeric labels y in [-1, 1].

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

from sottovoce._validation import number
from sottovoce.published.bernstein.general_loss import check_convex

__all__ = ["RESIDUAL_LOSSES", "ResidualLoss", "absolute_residual", "huber_residual"]

Array = NDArray[np.float64]


class ResidualLoss(NamedTuple):
    """A convex 1-Lipschitz function f of r = <w, x> - y in [-2, 2].

    Parameters
    ----------
    name : str
        For receipts.
    value : callable
        From an array of r to f(r).
    derivative : callable
        From an array of r to f'(r), a subgradient where f' jumps; not decreasing, within [-1, 1].
    """

    name: str
    value: Callable[[Array], Array]
    derivative: Callable[[Array], Array]

    def check(self) -> None:
        """Refuse a loss that is not convex and 1-Lipschitz at 2,001 points of [-2, 2].

        Raises
        ------
        ParameterError
            Naming what is wrong.
        """
        check_convex(self.name, self.derivative, reach=2.0)


def huber_residual(delta: float) -> ResidualLoss:
    """Return Huber's loss over delta: r^2 / (2 delta) where abs(r) is at most ``delta``, abs(r) - delta/2 beyond."""
    delta = number("delta", delta, above=0.0, at_most=2.0)

    def value(r: Array) -> Array:
        far = np.abs(r)
        return np.where(far <= delta, 0.5 * far**2 / delta, far - 0.5 * delta)

    return ResidualLoss("huber residual", value, lambda r: np.clip(r / delta, -1.0, 1.0))


def absolute_residual(beta: float) -> ResidualLoss:
    """Return the absolute residual, its derivative smoothed over a width of 2 beta as the paper smooths the hinge."""
    beta = number("beta", beta, above=0.0, at_most=1.0)
    return ResidualLoss("absolute residual", np.abs, lambda r: r / np.hypot(r, 2.0 * beta))


RESIDUAL_LOSSES: Final[dict[str, Callable[[float], ResidualLoss]]] = {
    "absolute residual": absolute_residual,
    "huber residual": lambda beta: huber_residual(2.0 * beta),
}
