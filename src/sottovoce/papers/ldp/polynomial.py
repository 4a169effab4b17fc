r"""Bernstein polynomials of the derivative of a smoothed loss, on the interval [-1, 1] of a prediction u = y <w, x>.

The degree-p Bernstein polynomial of a function g, evaluated at v = (1 + u)/2 in [0, 1], is

.. math:: P(u) = \sum_{j=0}^{p} c_j \binom{p}{j} v^j (1 - v)^{p-j}, \qquad c_j = g(2j/p - 1).

Each of its terms is a product of p factors, and a product of independent unbiased estimates is unbiased: this is why
the algorithm wants polynomials. The paper [1]_ samples g at j/p and evaluates at v = u, which approximates g on [0, 1]
only and diverges on [-1, 0), as a test shows.

The iterated operator of order h, I - (I - B)^h, has the same form with other coefficients.

The hinge at 1/2 and the step function, smoothed over a width beta.

.. math::

    f(u) &= [1/2 - u]_+, & f_\beta(u) &= \tfrac12 \big(t + \sqrt{t^2 + \beta^2}\big), \quad t = 1/2 - u, \\
    h(u) &= [u]_+, & h_\beta(u) &= \tfrac12 \big(u + \sqrt{u^2 + \beta^2}\big).

Facts, each tested: 0 <= f_beta - f <= beta/2; -1 <= f_beta' <= 0; 0 <= f_beta'' <= 1/(2 beta), attained at u = 1/2
(the paper says 1/beta); |f_beta'''| <= 0.43 / beta^2. The same holds for h_beta with 0 <= h_beta' <= 1.

References
----------
.. [1] Wang, Smith, Xu (2019). Noninteractive Locally Private Learning of Linear Models via Polynomial Approximations.
   ALT 2019; arXiv:1812.06825, Section 3 and Algorithm 1.
.. [2] Micchelli (1973). The saturation class and iterates of the Bernstein polynomials. J. Approx. Theory 8.
"""

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._validation import whole_number

__all__ = [
    "THIRD_DERIVATIVE",
    "bernstein_at",
    "bernstein_coefficients",
    "binomials",
    "hinge_half",
    "smoothed_hinge_derivative",
    "smoothed_step",
]

Array = NDArray[np.float64]

# max |f'''| beta^2 = max_t (3/2) t / (1 + t^2)^(5/2), at t = 1/2
THIRD_DERIVATIVE: Final = 0.75 / math.sqrt(1.25**5)


def binomials(degree: int) -> Array:
    """Return the binomial coefficients C(p, 0), ..., C(p, p)."""
    return np.array([math.comb(degree, j) for j in range(degree + 1)], dtype=np.float64)


def bernstein_coefficients(function: Callable[[Array], Array], degree: int, *, order: int = 1) -> Array:
    """Return c_0, ..., c_p of the (iterated) Bernstein polynomial of ``function``.

    Parameters
    ----------
    function : callable
        From an array of predictions in [-1, 1] to values.
    degree : int, >= 1
        p.
    order : int, >= 1
        Order h of the iterated operator; 1 is Bernstein's.

    Returns
    -------
    ndarray of shape (degree + 1,)
    """
    degree = whole_number("degree", degree, at_least=1)
    order = whole_number("order", order, at_least=1)
    nodes = np.arange(degree + 1) / degree
    wanted = np.asarray(function(2.0 * nodes - 1.0), dtype=np.float64)
    out = wanted.copy()
    for _ in range(order - 1):  # I - (I - B)^h, by correcting at the nodes
        out += wanted - bernstein_at(out, nodes)
    return out


def bernstein_at(coefficients: Array, v: Array) -> Array:
    """Return P at v in [0, 1], in the product form in which the server evaluates it from noisy factors."""
    degree = len(coefficients) - 1
    j = np.arange(degree + 1)
    terms = coefficients * binomials(degree) * v[..., None] ** j * (1.0 - v[..., None]) ** (degree - j)
    total: Array = terms.sum(axis=-1)
    return total


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
