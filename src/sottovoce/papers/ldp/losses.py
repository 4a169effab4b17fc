r"""Convex 1-Lipschitz losses of u = y <w, x>, written as mixtures of absolute values (Lemma 4.8 of the paper).

For convex f on [-1, 1] let D = f'(1) - f'(-1), draw U uniformly on [f'(-1), f'(1)], and let s be the largest point with
U in the subdifferential of f at s. Then

.. math:: f(u) = \tfrac{D}{2} \, \mathbb{E} |u - s| + \tfrac12 (f'(1) + f'(-1)) u + \text{const}, \qquad
          f'(u) = f'(-1) + D \, \mathbb{P}(s < u).

One s serves for *all* factors of a report. An s of its own for every factor, as the paper's listing has it, estimates
the polynomial at the mean of s, which is another function: a test shows it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sottovoce._validation import number
from sottovoce.exceptions import ParameterError
from sottovoce.local.fits.surrogate import last_points
from sottovoce.published.bernstein.smoothing import hinge_half

__all__ = ["GENERAL_LOSSES", "GeneralLoss", "check_convex"]

Array = NDArray[np.float64]

_BISECTIONS = 54


def check_convex(name: str, derivative: Callable[[Array], Array], *, reach: float) -> None:
    """Refuse a loss that is not convex and 1-Lipschitz at 2,001 points from -reach to reach."""
    slopes = np.asarray(derivative(np.linspace(-reach, reach, 2001)), dtype=np.float64)
    for slope in (slopes.min(), slopes.max()):
        number(f"derivative of the loss {name!r}", float(slope), at_least=-1.0, at_most=1.0)
    if not np.all(np.diff(slopes) >= -1e-12):
        raise ParameterError(f"the loss {name!r} is not convex: its derivative decreases somewhere.")


class GeneralLoss(NamedTuple):
    """A convex 1-Lipschitz function f of u in [-1, 1].

    Parameters
    ----------
    name : str
        For receipts.
    value : callable
        From an array of u to f(u).
    derivative : callable
        From an array of u to f'(u), a subgradient where f' jumps; not decreasing, within [-1, 1].
    """

    name: str
    value: Callable[[Array], Array]
    derivative: Callable[[Array], Array]

    @property
    def ends(self) -> tuple[float, float]:
        """f'(-1) and f'(1)."""
        low, high = (float(v) for v in np.asarray(self.derivative(np.array([-1.0, 1.0])), dtype=np.float64))
        return low, high

    def check(self) -> None:
        """Refuse a loss that is not convex and 1-Lipschitz at 2,001 points of [-1, 1].

        Raises
        ------
        ParameterError
            Naming what is wrong.
        """
        check_convex(self.name, self.derivative, reach=1.0)

    def thresholds(self, shares: Array) -> Array:
        """Return s for U = f'(-1) + D ``shares``, shares in (0, 1): the largest point with f'(s) <= U, by bisection."""
        low_slope, high_slope = self.ends
        return last_points(self.derivative, low_slope + (high_slope - low_slope) * shares, 1.0, _BISECTIONS)


GENERAL_LOSSES = {
    loss.name: loss
    for loss in (
        GeneralLoss("logistic", lambda u: np.logaddexp(0.0, -u), lambda u: -expit(-u)),
        GeneralLoss("hinge by mixture", hinge_half, lambda u: np.where(u < 0.5, -1.0, 0.0)),
        GeneralLoss("absolute", lambda u: np.abs(0.5 - u), lambda u: np.where(u < 0.5, -1.0, 1.0)),
    )
}
