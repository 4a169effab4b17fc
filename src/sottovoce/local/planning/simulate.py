"""Reported vectors by their exact law, without making K candidates each: for planning and for benchmarks.

A report's candidate is, for a person whose unit vector is z, a standard Gaussian vector whose component along z is
replaced by a draw of the density of `sottovoce.local.cap`. Nothing here is a release: never send what it returns.
"""

import numpy as np
from numpy.typing import NDArray

from sottovoce.exceptions import ParameterError
from sottovoce.local.cap import density
from sottovoce.local.protocol import Protocol

Array = NDArray[np.float64]

_GRID = np.linspace(-10.0, 10.0, 40_001)


def simulate(protocol: Protocol, Z: Array, rng: np.random.Generator) -> Array:
    """Return one reported vector for each row of Z.

    ``Z``, ndarray of shape (n, d): unit vectors times the label's sign (`Protocol.encode_many` and the labels).
    ``rng``: numpy.random.Generator.
    """
    z = np.asarray(Z, np.float64)
    if z.ndim != 2 or z.shape[1] != protocol.d:
        raise ParameterError(f"Z must be an array of shape (n, {protocol.d}); got {z.shape}.")
    values = density(_GRID, protocol.epsilon, protocol.K, protocol.m, protocol.b)
    cumulative = np.concatenate([[0.0], np.cumsum(0.5 * (values[1:] + values[:-1]))])
    t = np.interp(rng.random(len(z)), cumulative / cumulative[-1], _GRID)
    g = rng.standard_normal(z.shape)
    g += (t - np.einsum("ij,ij->i", g, z))[:, None] * z
    return g
