r"""Minimise the quadratic surrogate of a loss over a ball, exactly.

With f(u) close to c0 + c1 u + c2 u^2 for |u| <= radius, E f(<w, z>) is close to c0 + c1 <m, w> + c2 <w, S w>, which
noisy moments give. Over |w| <= radius, and S without its negative eigenvalues, the minimiser is (2 c2 S + t I)^{-1}
(-c1 m) with the least t >= 0 that keeps it inside: a trust-region problem, one eigendecomposition and one root.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from sottovoce._validation import number
from sottovoce.exceptions import ParameterError
from sottovoce.local.fits.moments import MomentEstimate

Array = NDArray[np.float64]

_FLAT = 1e-12  # curvature relative to the largest that counts as none


def minimise_quadratic(matrix: Array, vector: Array, radius: float) -> Array:
    """Return the shortest minimiser of w'Mw/2 - <b, w> over |w| <= radius, for M without its negative eigenvalues.

    ``matrix``, ndarray of shape (d, d): M, symmetric.
    ``vector``, ndarray of shape (d,): b.
    ``radius``: float, > 0.
    """
    radius = number("radius", radius, above=0.0)
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    values = np.maximum(values, 0.0)
    pull = vectors.T @ vector
    size = float(np.linalg.norm(pull))
    if size == 0.0:
        return np.zeros(len(vector))
    flat = values <= _FLAT * max(float(values[-1]), size / radius)
    if float(np.linalg.norm(pull[flat])) <= _FLAT * size:  # no pull where there is no curvature
        inside = np.where(flat, 0.0, pull / np.where(flat, 1.0, values))
        if np.linalg.norm(inside) <= radius:
            return np.asarray(vectors @ inside)
    # 1/|pull / (values + t)| rises from below 1/radius, at 0, to above it at |pull| / radius
    t = brentq(
        lambda t: _inverse_length(pull, values, t) - 1.0 / radius, 0.0, 2.0 * size / radius, xtol=1e-300, rtol=1e-14
    )
    w = vectors @ (pull / (values + t))
    return np.asarray(w * min(1.0, radius / float(np.linalg.norm(w))))


def minimise_in_ball(estimate: MomentEstimate, coefficients: Array, radius: float = 1.0) -> Array:
    """Return the minimiser of c1 <m, w> + c2 <w, S w> over |w| <= radius.

    ``coefficients``: the surrogate, c2 >= 0. Two of them need the first moment only: degree 0 in the gradient.
    ``radius``: float, > 0.
    """
    c = np.asarray(coefficients, dtype=np.float64)
    if c.shape not in ((2,), (3,)) or not np.isfinite(c).all() or (len(c) == 3 and not c[2] >= 0.0):
        raise ParameterError(
            f"coefficients must be finite (c0, c1) or (c0, c1, c2) with c2 >= 0; got {coefficients!r}."
        )
    curvature = 2.0 * c[2] * estimate.second if len(c) == 3 else np.zeros_like(estimate.second)
    return minimise_quadratic(curvature, -c[1] * estimate.first, radius)


def _inverse_length(pull: Array, values: Array, t: float) -> float:
    down = values + t
    if np.any((down == 0.0) & (pull != 0.0)):
        return 0.0
    return float(1.0 / np.linalg.norm(pull / np.where(down == 0.0, 1.0, down)))
