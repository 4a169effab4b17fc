r"""The derivative of a record's loss where its label may be soft: a released label, corrected for its flips.

Labels are numbers t, and the derivative is linear in t, so that a t whose mean is the true label gives a derivative
whose mean is the true one: m - t for squared loss, and 1/(1 + e^-m) - 1/2 - t/2 for logistic loss, which for t = -1
and +1 is its own derivative.
"""

from typing import Any, Final, NamedTuple

from numba import njit

from sottovoce.losses import Squared
from sottovoce.losses._sigmoid import sigmoid
from sottovoce.losses.base import provides_slope

__all__ = ["LOSSES", "SoftLogistic"]


class SoftLogistic(NamedTuple):
    """log(1 + e^m) - m/2 - t m/2: logistic loss with a soft label t."""


@provides_slope(SoftLogistic)
@njit(inline="always")
def _slope(loss: SoftLogistic, y: float, m: float) -> float:
    return sigmoid(m) - 0.5 - 0.5 * y


# by the name of the loss that users know
LOSSES: Final[dict[str, Any]] = {"squared": Squared(), "logistic": SoftLogistic()}
