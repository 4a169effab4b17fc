r"""Linear regression from the noisy matrix of its second moments; post-processing only, nothing here sees a row.

Released is :math:`\sum_i u_i u_i' + E` with u_i = (x_i, c t_i), d weights and label t_i, where E is symmetric with
independent N(0, s^2) on the diagonal and N(0, s^2 / 2) beside it. So the moments of the weights, A + E_A and b + e,
come with noise whose law is known: with v = s^2 / 2 and any fixed weights w,

.. math:: \mathrm{Cov}(e - E_A w) = N(w) = (v / c^2 + v |w|^2) I + v w w'.

*Point estimate*: adaptive ridge after AdaSSP [1]_. The norm of E_A is within r = sqrt(2) s (sqrt(d) + 1) with high
probability (the edge of its spectrum is sqrt(2 d) s); the penalty is max(alpha n, r / 2 - lambda_min), with the
smallest noisy eigenvalue (0 when negative) in place of AdaSSP's separate release of it, and negative eigenvalues count
as 0.

*Intervals*: let t = x'beta + epsilon, with epsilon of variance q. The least-squares weights w = (A + E_A)^-1 (b + e)
satisfy exactly

.. math:: (A + E_A)(w - \beta) = X'\varepsilon + e - E_A \beta,

hence, with M = (A + E_A)^-1, the noise-aware sandwich M (q A + N(w)) M for their covariance. To second order E[M] turns
the noise of the matrix into a bias v (tr(M) M + M^2) w, which is subtracted. The residual sum of squares t't - b'w of
the noisy moments has the expectation n q - tr(M (q A + N)), which gives q, kept above one standard deviation of its own
noise. All of it is an expansion in E_A M, so it is only used while the smallest eigenvalue of A + E_A is above r;
below, the data do not determine the weights under this noise, and every interval is infinite (as any honest one must
then be with positive probability [2]_).

References
----------
.. [1] Wang (2018). Revisiting differentially private linear regression: optimal and adaptive prediction & estimation in
   unbounded domain. UAI 2018, arXiv:1803.02596; algorithm AdaSSP.
.. [2] Dufour (1997). Some Impossibility Theorems in Econometrics with Applications to Structural and Dynamic Models.
   Econometrica 65.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import eigh

from sottovoce._numerics import Vector
from sottovoce.central.plan import Unpenalised


@dataclass(frozen=True)
class NoisyMoments:
    """The released matrix and the law of its noise."""

    matrix: Vector  # of shape (d + 1, d + 1); sum of u_i u_i' plus noise, symmetric
    label_weight: float  # > 0; c, the factor of the label in u_i
    noise_std: float  # > 0; s, of an entry of the diagonal; the others have s / sqrt(2)

    @property
    def gram(self) -> Vector:
        return self.matrix[:-1, :-1]

    @property
    def cross(self) -> Vector:
        """Noisy X't."""
        return self.matrix[:-1, -1] / self.label_weight

    @property
    def radius(self) -> float:
        """What the norm of the noise in X'X hardly ever exceeds."""
        return radius_of_noise(self.noise_std, len(self.gram))

    @cached_property
    def _spectrum(self) -> tuple[Vector, Vector]:
        """Eigenvalues of noisy X'X, the smallest first, and eigenvectors."""
        values, vectors = eigh(self.gram)
        return values, vectors

    def ridge(self, penalty: float) -> tuple[Vector, float]:
        """Return the weights, and the penalty that they were found with: at least ``penalty`` (alpha n)."""
        values, vectors = self._spectrum
        chosen = max(penalty, 0.5 * self.radius - max(0.0, float(values[0])))
        return vectors @ ((vectors.T @ self.cross) / (np.maximum(values, 0.0) + chosen)), chosen

    def ridge_by_weight(self, penalties: Vector) -> tuple[Vector, float]:
        """Return the weights where each has a penalty of its own, and what every penalty was raised to at least."""
        values, vectors = self._spectrum
        floor = max(0.0, 0.5 * self.radius - max(0.0, float(values[0])))
        penalized = (vectors * np.maximum(values, 0.0)) @ vectors.T + np.diag(np.maximum(penalties, floor))
        return np.asarray(np.linalg.solve(penalized, self.cross)), floor

    def least_squares(self, n_rows: float) -> Unpenalised:
        """Return unpenalised weights with noise-aware standard errors."""
        d = len(self.gram)
        values, vectors = self._spectrum
        if not (values[0] > self.radius and n_rows > d):
            return Unpenalised(np.zeros(d), np.full(d, np.inf))
        inverse = (vectors / values) @ vectors.T
        raw = inverse @ self.cross
        v = 0.5 * self.noise_std**2
        estimates = raw - v * inverse @ (np.trace(inverse) * raw + inverse @ raw)
        square = float(estimates @ estimates)
        noise = (v / self.label_weight**2 + v * square) * np.eye(d) + v * np.outer(estimates, estimates)
        label_square = float(self.matrix[-1, -1]) / self.label_weight**2
        residual = label_square - float(self.cross @ raw) + float(np.sum(inverse * noise))
        floor = self.noise_std * (1.0 / self.label_weight**2 + square)
        variance = max(residual / (n_rows - d), floor / n_rows)
        # M (variance A + N) M with the noisy A: the first part is variance M
        covariance = variance * inverse + inverse @ noise @ inverse
        return Unpenalised(estimates, np.sqrt(np.diag(covariance)))


def radius_of_noise(noise_std: float, width: int) -> float:
    """Return what the norm of a noisy matrix's noise hardly ever exceeds, for that of an entry of its diagonal."""
    return math.sqrt(2.0) * noise_std * (math.sqrt(width) + 1.0)
