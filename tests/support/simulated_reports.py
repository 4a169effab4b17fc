"""Reported vectors by their exact law, without making K candidates each. Nothing here is a release.

A report's candidate is, for a person whose unit vector is z, a standard Gaussian vector whose component along z is
replaced by a draw of the density of `sottovoce.local.cap`.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.local.candidates import normal_quantile, uniforms
from sottovoce.local.cap import _membership
from sottovoce.local.odds import Odds
from sottovoce.local.protocol import Protocol

Array = NDArray[np.float64]

_GRID = np.linspace(-10.0, 10.0, 40_001)


def density(t: Array, epsilon: float, K: int, m: int, b: float) -> Array:
    """Return the density of the component along z."""
    odds = Odds(epsilon, K, m)
    lean = K * float(odds.top - odds.rest) * _membership(t, K, m, b)
    return np.exp(-0.5 * t * t) / math.sqrt(2.0 * math.pi) * (K * float(odds.rest) + lean)


def simulate(protocol: Protocol, z: Array, rng: np.random.Generator) -> Array:
    """Return one reported vector for each row of z, a unit vector times the label's sign."""
    values = density(_GRID, protocol.epsilon, protocol.K, protocol.m, protocol.b)
    cumulative = np.concatenate([[0.0], np.cumsum(0.5 * (values[1:] + values[:-1]))])
    t = np.interp(rng.random(len(z)), cumulative / cumulative[-1], _GRID)
    g = rng.standard_normal(z.shape)
    g += (t - np.einsum("ij,ij->i", g, z))[:, None] * z
    return g


def candidates(seeds: Any, indices: Any, d: int) -> Array:
    """Return the candidate of each pair of seed and index, in numpy: what the server's kernel is compared with."""
    first = np.asarray(indices, np.uint64) * np.uint64(d) + np.uint64(1)
    counters = first[:, None] + np.arange(d, dtype=np.uint64)
    return normal_quantile(uniforms(np.asarray(seeds, np.uint64)[:, None], counters))
