r"""The stochastic gradient that the server computes from one report, its mean and its second moment.

With weights w and the noisy copies (x_k, y_k), k = 0..p(p+1), of one report, let v_k = a + b y_k <w, x_k>. Term j of
the polynomial takes the p copies jp + 1, ..., jp + p:

.. math:: G(w) = \Big[ D \sum_{j=0}^{p} c_j \binom{p}{j} \prod_{k=1}^{j} v_{jp+k} \prod_{k=j+1}^{p} (1 - v_{jp+k})
          + e \Big] \, y_0 x_0.

Algorithm 1 (hinge at 1/2): c_j = f_beta'(2j/p - 1), a = b = 1/2, D = 1, e = 0. Algorithm 2 (general loss): with one
s of Lemma 4.8 for the whole report, c_j = h_beta'(2j/p - 1), a = 1/2 - s/4, b = 1/4, D = f'(1) - f'(-1), e = f'(-1).
Losses of a residual, with v_k = a + b (<w, x_k> - y_k) and x_0 in place of y_0 x_0: `losses`.

All factors are independent and unbiased, and so is G for Q'(u) y x, where Q' = D P + e: the derivative of a *convex*
function of u, because the Bernstein polynomial of a nondecreasing function is nondecreasing (its iterates need not be).
So the server minimises a convex surrogate without bias, and no theory of inexact oracles is needed for that.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce._validation import number, whole_number
from sottovoce.papers.ldp.losses import Loss
from sottovoce.papers.ldp.noise import CopyNoise
from sottovoce.papers.ldp.polynomial import (
    bernstein_at,
    bernstein_coefficients,
    binomials,
    smoothed_hinge_derivative,
    smoothed_step,
)

__all__ = ["Oracle"]

Array = NDArray[np.float64]

_SHARES: Array = (np.arange(400, dtype=np.float64) + 0.5) / 400.0  # midpoints for means over U


@dataclass(frozen=True)
class Oracle:
    """The polynomial surrogate of a loss.

    Parameters
    ----------
    degree : int, >= 1
    beta : float, > 0
        Width of the smoothing.
    loss : Loss, optional
        None is the hinge at 1/2 by Algorithm 1; a loss of u goes by Algorithm 2, one of a residual by Remark 4.14.
    order : int, default 1
        h of the iterated Bernstein operator. From 2 on the surrogate need not be convex.
    """

    degree: int
    beta: float
    loss: Loss | None = None
    order: int = 1

    def __post_init__(self) -> None:
        whole_number("degree", self.degree, at_least=1)
        number("beta", self.beta, above=0.0, at_most=1.0)
        whole_number("order", self.order, at_least=1)
        if self.loss is not None:
            self.loss.check()

    @property
    def reach(self) -> float:
        """How far from 0 a prediction, or a residual, can be."""
        return 1.0 if self.loss is None else self.loss.reach

    @property
    def residual(self) -> bool:
        """Whether the loss is one of a residual."""
        return self.reach > 1.0

    @property
    def mixture(self) -> Loss | None:
        """The loss, if it goes by Algorithm 2."""
        return None if self.residual else self.loss

    @property
    def coefficients(self) -> Array:
        """c_0, ..., c_p."""
        if self.loss is not None and self.residual:
            slopes = self.loss.derivative
            return bernstein_coefficients(lambda t: slopes(2.0 * t), self.degree, order=self.order)
        function = smoothed_hinge_derivative if self.loss is None else smoothed_step
        return bernstein_coefficients(lambda u: function(u, self.beta), self.degree, order=self.order)

    @property
    def weighted(self) -> Array:
        """c_j C(p, j)."""
        return self.coefficients * binomials(self.degree)

    @property
    def scale(self) -> float:
        """The number D of the module."""
        return 1.0 if self.mixture is None else self.mixture.ends[1] - self.mixture.ends[0]

    @property
    def offset(self) -> float:
        """The number e of the module: 0, or f'(-1)."""
        return 0.0 if self.mixture is None else self.mixture.ends[0]

    @property
    def slope(self) -> float:
        """The number b of the module."""
        return 0.5 if self.loss is None else 0.25

    def shifts(self, shares: Array) -> Array:
        """Return a for each report, from one uniform number a report."""
        if self.mixture is None:
            return np.full(shares.shape, 0.5)
        return 0.5 - 0.25 * self.mixture.thresholds(shares)

    @property
    def smoothness(self) -> float:
        """Bound on the second derivative of the surrogate on [-1, 1], at most 1/(2 beta) times D.

        The derivative of a Bernstein polynomial is one again, of the differences p (c_{j+1} - c_j).
        """
        return float(self.scale * self.slope * self.degree * np.abs(np.diff(self.coefficients)).max())

    def derivative(self, u: Array) -> Array:
        """Return Q'(u), the mean of the bracket in G at the exact prediction or residual u (over s to 1/400)."""
        u = np.asarray(u, dtype=np.float64)
        v = self.shifts(self._shares) + self.slope * u[..., None]
        mean: Array = bernstein_at(self.coefficients, v).mean(axis=-1)
        return self.scale * mean + self.offset

    def second_moment(
        self, u: Array, noise: CopyNoise, n_features: int, *, w_norm: float = 1.0, x_norm: float = 1.0
    ) -> Array:
        r"""Return E |G|^2 for a report on (x, y), y = -1 or 1, at exact prediction u = y <w, x>; s is averaged.

        A factor has E v = a + b u =: m and E v^2 = m^2 + b^2 t, t = (1 + s_1^2)(u^2 + s_1^2 |w|^2) - u^2. Terms are
        independent of each other and of y_0 x_0, for which E |y_0 x_0|^2 = (1 + s_0^2)(|x|^2 + d s_0^2). For a
        residual u, t = s_1^2 (|w|^2 + 1), and E |x_0|^2 = |x|^2 + d s_0^2.
        """
        u = np.asarray(u, dtype=np.float64)[..., None]
        ahead = self.shifts(self._shares) + self.slope * u
        behind = 1.0 - ahead
        other = noise.other_std**2
        if self.residual:
            spread = np.full(u.shape, self.slope**2 * other * (w_norm**2 + 1.0))
        else:
            spread = self.slope**2 * ((1.0 + other) * (u**2 + other * w_norm**2) - u**2)
        j = np.arange(self.degree + 1)
        one, two = ahead[..., None], behind[..., None]
        first = one**j * two ** (self.degree - j)
        second = (one**2 + spread[..., None]) ** j * (two**2 + spread[..., None]) ** (self.degree - j)
        variance = (self.weighted**2 * (second - first**2)).sum(axis=-1)
        bracket = (self.scale * bernstein_at(self.coefficients, ahead) + self.offset) ** 2 + self.scale**2 * variance
        label = 1.0 if self.residual else 1.0 + noise.first_std**2
        direction = label * (x_norm**2 + n_features * noise.first_std**2)
        total: Array = direction * bracket.mean(axis=-1)
        return total

    def gradient_std(self, noise: CopyNoise, n_features: int) -> float:
        """Return a bound on sqrt(E |G|^2) over all |w| <= 1, |x| <= 1 and labels: what scales SIGM's steps.

        It follows from public parameters alone. The largest is at norm 1, the prediction is searched on a grid.
        """
        return float(np.sqrt(self.second_moment(self.reach * np.linspace(-1.0, 1.0, 401), noise, n_features).max()))

    @property
    def _shares(self) -> Array:
        return _SHARES[:1] if self.mixture is None else _SHARES
