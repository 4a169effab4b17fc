r"""The hinge at 1/2 and the step function, smoothed over a width beta.

.. math::

    f(u) &= [1/2 - u]_+, & f_\beta(u) &= \tfrac12 \big(t + \sqrt{t^2 + \beta^2}\big), \quad t = 1/2 - u, \\
    h(u) &= [u]_+, & h_\beta(u) &= \tfrac12 \big(u + \sqrt{u^2 + \beta^2}\big).

Facts, each tested: 0 <= f_beta - f <= beta/2; -1 <= f_beta' <= 0; 0 <= f_beta'' <= 1/(2 beta), attained at u = 1/2
(the paper says 1/beta); |f_beta'''| <= 0.43 / beta^2. The same holds for h_beta with 0 <= h_beta' <= 1.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "THIRD_DERIVATIVE",
    "hinge_half",
    "smoothed_hinge_derivative",
    "smoothed_step",
]

Array = NDArray[np.float64]

# max |f'''| beta^2 = max_t (3/2) t / (1 + t^2)^(5/2), at t = 1/2
THIRD_DERIVATIVE: Final = 0.75 / math.sqrt(1.25**5)


def hinge_half(u: Array) -> Array:
    """Return [1/2 - u]_+."""
    return np.maximum(0.5 - u, 0.0)


def smoothed_hinge_derivative(u: Array, beta: float) -> Array:
    """Return f_beta'(u) = -(1 + t / sqrt(t^2 + beta^2)) / 2."""
    gap = 0.5 - u
    return -0.5 * (1.0 + gap / np.hypot(gap, beta))


def smoothed_step(u: Array, beta: float) -> Array:
    """Return h_beta'(u) = (1 + u / sqrt(u^2 + beta^2)) / 2: the smoothed indicator of u > 0."""
    return 0.5 * (1.0 + u / np.hypot(u, beta))
