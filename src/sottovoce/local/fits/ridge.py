r"""Least squares from noisy moments: the default fit, for labels of two classes and for numbers.

The minimiser of E (s - <w, x>)^2 solves S w = m, S = E[x x'], m = E[s x]. From estimates
(`sottovoce.local.fits.moments`):

1. S is cleaned as a whole, since its trace is known to be 1; then coordinates that the model does not use are left
   out. The noise of S is close to a symmetric Gaussian matrix whose entries off the diagonal have variance
   :math:`\sigma^2 = v_2 / (2n)`: its eigenvalues fill a semicircle with edge :math:`E = 2 \sigma \sqrt d`. An
   eigenvalue l of the truth above E/2 shows as e = l + E^2/(4 l) [1]_; inverted, l = (e + sqrt(e^2 - E^2))/2. What lies
   below the edge is noise: those directions share what is left of the trace.
2. One direction u, which carries the intercept, is free; all others are penalised by alpha. With s = u'Su and b the
   rest of S u, the others are fitted after u is taken out, w = (S - b b'/s + alpha I)^{-1} (m - b <u, m>/s), and u is
   put back in, v = w - u <b, w>/s. By default alpha is half the noise edge (with a public second moment, .35 times the
   norm of the noise of m).
3. The slope is set again to undo the shrinkage: c = <v, m> / <v, S v>, and the model is u <u, m>/s + c v. On the
   reports that made v, <v, m> is too large by (v1/n) times the trace of the map from m to v, which is taken off
   (`ridge`), and <v, S v> is wrong by what v shares with the noise of S; with folds, v from all but one meets m and S
   of that one (`ridge_by_folds`). The denominator is never taken for less than its share of what is below the edge,
   and its standard error is added, so that a slope that cannot be measured becomes small.
4. For a regression a wrong level costs more than a wrong slope, and v changes the level where S, and so b, is lost in
   noise: <l, S v>, l being the part along u, is 0 only for the true S. The share min(1, r^2) of what folds find it to
   be, r the noise edge over .2, is taken off <v, m>, and the standard error counts 1 + r^4/2 times. As the second
   moment is lost, the slope goes to 0 and the model to the mean of the labels; where it is well known nothing changes.

Without noise and with alpha = 0 this is the exact solution.

References
----------
.. [1] Benaych-Georges, Nadakuditi (2011). The eigenvalues and eigenvectors of finite, low rank perturbations of large
   random matrices. Advances in Mathematics 227(1); section 3.1.
"""

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space

from sottovoce._validation import number
from sottovoce.exceptions import ParameterError
from sottovoce.local.cap import EDGE_OF_DEGREE_0
from sottovoce.local.fits.moments import Folds, MomentEstimate

Array = NDArray[np.float64]

SHARE_OF_EDGE: Final = 0.5
SHARE_OF_NOISE: Final = 0.35
_TINY: Final = 1e-300
_LEAST_REST: Final = 0.02  # of the trace: the other directions are never taken for empty


@dataclass(frozen=True)
class Layout:
    """Which coordinates of a vector the model uses, and which direction it does not penalise.

    ``d``: length of a vector.
    ``used``, int or None: the first ``used`` coordinates have coefficients, the others none; None for all.
    ``free``: the coordinate that is constant; or the direction of the largest eigenvalue, which carries the mean where
      no coordinate is constant; or no direction.
    ``level``, float or None: what a constant coordinate is.
    """

    d: int
    used: int | None = None
    free: int | str | None = "top"
    level: float | None = None

    @property
    def n_used(self) -> int:
        return self.d if self.used is None else self.used


class Spectrum(NamedTuple):
    """A second moment by its cleaned eigenvalues, its eigenvectors (columns), and the value below the edge."""

    values: Array
    vectors: Array
    rest: float

    @property
    def matrix(self) -> Array:
        return np.asarray((self.vectors * self.values) @ self.vectors.T)


class _Parts(NamedTuple):
    """The part along the free direction; the penalised part, its slope unset; what the slope is set with."""

    lead: Array
    v: Array
    bias: float
    floor: float


def default_alpha(estimate: MomentEstimate) -> float:
    if estimate.v2 > 0.0:
        return SHARE_OF_EDGE * estimate.edge
    return SHARE_OF_NOISE * math.sqrt(estimate.v1 * estimate.d / estimate.n)


def ridge(estimate: MomentEstimate, alpha: float | None = None, layout: Layout | None = None) -> Array:
    """Return coefficients w of all d coordinates such that <w, x> predicts s, from all reports at once.

    ``alpha``, float >= 0, or None: the penalty, in the unit of the eigenvalues (which sum to 1); None for
      `default_alpha`.
    ``layout``: by default all coordinates are used and the top direction is free.
    """
    parts = _parts(estimate, alpha, layout)
    gain, size = estimate.margin(parts.v)
    return parts.lead + _slope(gain - parts.bias, size, parts, estimate) * parts.v


def ridge_by_folds(
    estimate: MomentEstimate,
    folds: Folds,
    alpha: float | None = None,
    layout: Layout | None = None,
    *,
    cautious: bool = False,
) -> Array:
    """Return coefficients as `ridge` does, with the slope from reports that the directions were not made from.

    ``estimate``: from all reports.
    ``alpha``: float >= 0, or None.
    ``cautious``: step 4 of the module: for a regression.
    """
    parts = _parts(estimate, alpha, layout)
    ratio = (estimate.edge / EDGE_OF_DEGREE_0) ** 2 if cautious else 0.0
    gain = size = 0.0
    for rest, held in folds:
        apart = _parts(rest, alpha, layout)
        mixed = min(1.0, ratio) * float(apart.lead @ held.second @ apart.v)
        mean, square = held.margin(apart.v)
        gain += held.n / estimate.n * (mean - mixed)
        size += held.n / estimate.n * square
    return parts.lead + _slope(gain, size, parts, estimate, 1.0 + 0.5 * ratio**2) * parts.v


def first_moment_only(estimate: MomentEstimate, folds: Folds, layout: Layout | None = None) -> Array:
    """Return the first moment as coefficients: the limit of an infinite penalty, with nothing free.

    ``folds``: they set the slope. Without them, or with no second moment, it is 1: never too steep, since no direction
      has a second moment beyond 1.
    """
    used = estimate.d if layout is None else layout.n_used
    w = np.where(np.arange(estimate.d) < used, estimate.first, 0.0)
    if not folds or not math.isfinite(estimate.v2):
        return w
    gain = size = 0.0
    for rest, held in folds:
        mean, square = held.margin(np.where(np.arange(estimate.d) < used, rest.first, 0.0))
        gain += held.n / estimate.n * mean
        size += held.n / estimate.n * square
    floor = float(w @ w) / estimate.d
    return min(max(gain, 0.0) / max(size, floor, _TINY), float(estimate.d)) * w


def mean_only(estimate: MomentEstimate, layout: Layout) -> Array:
    """Return coefficients that say the mean of s to everybody, by the constant coordinate of the layout."""
    if not isinstance(layout.free, int) or layout.level is None:
        raise ParameterError("layout must have a constant coordinate: without one no model says the same to all.")
    w = np.zeros(layout.d)
    w[layout.free] = estimate.first[layout.free] / layout.level**2
    return w


def _parts(estimate: MomentEstimate, alpha: float | None, layout: Layout | None) -> _Parts:
    alpha = default_alpha(estimate) if alpha is None else number("alpha", alpha, at_least=0.0)
    layout = Layout(estimate.d) if layout is None else layout
    used = slice(0, layout.n_used)
    spectrum = clean_spectrum(estimate)
    S, m = spectrum.matrix[used, used], estimate.first[used]
    u, s = _free_direction(S, layout)
    basis = _complement(u, len(m))
    b = np.zeros(len(m)) if u is None else basis @ (basis.T @ (S @ u))
    values, vectors = np.linalg.eigh(basis.T @ (S - np.outer(b, b) / s) @ basis)
    values, vectors = np.maximum(values, 0.0), basis @ vectors
    empty = values + alpha <= 1e-12 * max(float(np.trace(S)), _TINY)  # no x has anything there
    weights = np.where(empty, 0.0, 1.0 / np.where(empty, 1.0, values + alpha))
    along = 0.0 if u is None else float(u @ m)
    w = vectors @ (weights * (vectors.T @ (m - b * along / s)))
    v, lead = np.zeros(layout.d), np.zeros(layout.d)
    v[used] = w if u is None else w - u * float(b @ w) / s
    if u is not None:
        lead[used] = u * along / s
    trace = float(weights @ (1.0 + (vectors.T @ b) ** 2 / s**2))
    return _Parts(lead, v, estimate.v1 / estimate.n * trace, spectrum.rest * float(v @ v))


def clean_spectrum(estimate: MomentEstimate) -> Spectrum:
    """Return the eigenvalues of the second moment without the noise, as far as it is known.

    Moments without noise (v2 = 0) are returned as they are, negative eigenvalues as 0.
    """
    values, vectors = np.linalg.eigh(estimate.second)
    if estimate.v2 == 0.0:
        return Spectrum(np.maximum(values, 0.0), vectors, 0.0)
    edge = estimate.edge
    above = values > edge
    cleaned = values.copy()
    cleaned[above] = 0.5 * (values[above] + np.sqrt(values[above] ** 2 - edge**2))
    n_below = int(np.count_nonzero(~above))
    rest = max(1.0 - float(cleaned[above].sum()), _LEAST_REST) / max(1, n_below)
    cleaned[~above] = rest
    return Spectrum(cleaned, vectors, rest)


def _complement(u: Array | None, size: int) -> Array:
    if u is None:
        return np.eye(size)
    place = int(np.argmax(np.abs(u)))
    if abs(u[place]) == 1.0:
        return np.delete(np.eye(size), place, axis=1)
    return np.asarray(null_space(u[None]))


def _free_direction(S: Array, layout: Layout) -> tuple[Array | None, float]:
    if layout.free is None:
        return None, 1.0
    if isinstance(layout.free, int):
        u = np.eye(len(S))[layout.free]
        known = S[layout.free, layout.free] if layout.level is None else layout.level**2
        return u, max(float(known), _TINY)
    values, vectors = np.linalg.eigh(S)
    return vectors[:, -1], max(float(values[-1]), _TINY)


def _slope(gain: float, size: float, parts: _Parts, estimate: MomentEstimate, caution: float = 1.0) -> float:
    """Return gain / (size + its standard error): gain / size would be wild where size is lost in its own noise."""
    error = caution * math.sqrt(estimate.v2 / estimate.n) * float(parts.v @ parts.v)
    return max(gain, 0.0) / (max(size, parts.floor, _TINY) + error)
