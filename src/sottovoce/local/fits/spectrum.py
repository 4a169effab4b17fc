r"""Cleaning the eigenvalues of a noisy second moment.

The noise of the estimate is close to a symmetric Gaussian matrix whose entries off the diagonal have variance
:math:`\sigma^2 = v_2 / (2n)`: its eigenvalues fill a semicircle with edge :math:`E = 2 \sigma \sqrt d`. An eigenvalue
l of the truth above E/2 shows as e = l + E^2/(4 l) [1]_; inverted, l = (e + sqrt(e^2 - E^2))/2. What lies below the
edge is noise: those directions share what is left of the trace, which is 1 because every vector has norm 1.

References
----------
.. [1] Benaych-Georges, Nadakuditi (2011). The eigenvalues and eigenvectors of finite, low rank perturbations of large
   random matrices. Advances in Mathematics 227(1); section 3.1.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sottovoce.local.fits.moments import MomentEstimate

_LEAST_REST: Final = 0.02  # of the trace: the other directions are never taken for empty


class Spectrum(NamedTuple):
    """A second moment by its cleaned eigenvalues, its eigenvectors (columns), and the value below the edge."""

    values: NDArray[np.float64]
    vectors: NDArray[np.float64]
    rest: float

    @property
    def matrix(self) -> NDArray[np.float64]:
        return np.asarray((self.vectors * self.values) @ self.vectors.T)


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
