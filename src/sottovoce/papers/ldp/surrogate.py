r"""What the server minimises: losses, their Bernstein polynomials, and the gradient that one report gives.

*Polynomials.* The degree-p Bernstein polynomial of a function g, evaluated at v = (1 + u)/2 in [0, 1], is

.. math:: P(u) = \sum_{j=0}^{p} c_j \binom{p}{j} v^j (1 - v)^{p-j}, \qquad c_j = g(2j/p - 1).

Each of its terms is a product of p factors, and a product of independent unbiased estimates is unbiased: this is why
the algorithm wants polynomials. (As printed they diverge on [-1, 0): erratum 1.) The iterated operator of order h,
I - (I - B)^h (Micchelli 1973), has the same form with other coefficients.

*The hinge at 1/2 and the step function*, smoothed over a width beta:

.. math::

    f(u) &= [1/2 - u]_+, & f_\beta(u) &= \tfrac12 \big(t + \sqrt{t^2 + \beta^2}\big), \quad t = 1/2 - u, \\
    h(u) &= [u]_+, & h_\beta(u) &= \tfrac12 \big(u + \sqrt{u^2 + \beta^2}\big).

Facts, each tested: 0 <= f_beta - f <= beta/2; -1 <= f_beta' <= 0; 0 <= f_beta'' <= 1/(2 beta), attained at u = 1/2
(the paper says 1/beta); |f_beta'''| <= 0.43 / beta^2. The same holds for h_beta with 0 <= h_beta' <= 1.

*Other losses* of u (Lemma 4.8). For convex 1-Lipschitz f on [-1, 1] let D = f'(1) - f'(-1), draw U uniformly on
[f'(-1), f'(1)], and let s be the largest point with U in the subdifferential of f at s. Then

.. math:: f(u) = \tfrac{D}{2} \, \mathbb{E} |u - s| + \tfrac12 (f'(1) + f'(-1)) u + \text{const}, \qquad
          f'(u) = f'(-1) + D \, \mathbb{P}(s < u).

One s serves for *all* factors of a report (erratum 3).

*The gradient.* With weights w and the noisy copies (x_k, y_k), k = 0..p(p+1), of one report, let
v_k = a + b y_k <w, x_k>. Term j of the polynomial takes the p copies jp + 1, ..., jp + p:

.. math:: G(w) = \Big[ D \sum_{j=0}^{p} c_j \binom{p}{j} \prod_{k=1}^{j} v_{jp+k} \prod_{k=j+1}^{p} (1 - v_{jp+k})
          + e \Big] \, y_0 x_0.

Algorithm 1 (hinge at 1/2): c_j = f_beta'(2j/p - 1), a = b = 1/2, D = 1, e = 0. Algorithm 2 (general loss): with one
s for the whole report, c_j = h_beta'(2j/p - 1), a = 1/2 - s/4, b = 1/4, D = f'(1) - f'(-1), e = f'(-1).

Losses of a residual r = <w, x> - y in [-2, 2], for numeric labels y in [-1, 1] (Remark 4.14, "a method similar to
Algorithm 1"): the report is the same, v_k = 1/2 + (<w, x_k> - y_k)/4, c_j = f'(4j/p - 2), and the direction is x_0
alone. Below degree 3 every such loss is least squares, as f' of a loss that is even is odd.

All factors are independent and unbiased, and so is G for Q'(u) y x, where Q' = D P + e: the derivative of a *convex*
function of u, because the Bernstein polynomial of a nondecreasing function is nondecreasing (its iterates need not be).
"""

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sottovoce._validation import number, whole_number
from sottovoce.papers.ldp.noise import CopyNoise

Array = NDArray[np.float64]
Function = Callable[[Array], Array]

# max |f'''| beta^2 = max_t (3/2) t / (1 + t^2)^(5/2), at t = 1/2
THIRD_DERIVATIVE: Final = 0.75 / math.sqrt(1.25**5)
_SHARES: Array = (np.arange(400, dtype=np.float64) + 0.5) / 400.0  # midpoints for means over U


def hinge_half(u: Array) -> Array:
    return np.maximum(0.5 - u, 0.0)


def smoothed_hinge_derivative(u: Array, beta: float) -> Array:
    """Return f_beta'(u) = -(1 + t / sqrt(t^2 + beta^2)) / 2."""
    gap = 0.5 - u
    return -0.5 * (1.0 + gap / np.hypot(gap, beta))


def smoothed_step(u: Array, beta: float) -> Array:
    """Return h_beta'(u) = (1 + u / sqrt(u^2 + beta^2)) / 2: the smoothed indicator of u > 0."""
    return 0.5 * (1.0 + u / np.hypot(u, beta))


def bernstein_coefficients(function: Function, degree: int, *, order: int = 1) -> Array:
    """Return c_0, ..., c_p of the (iterated) Bernstein polynomial of a function of predictions in [-1, 1]."""
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
    terms: Array = coefficients * _binomials(degree) * v[..., None] ** j * (1.0 - v[..., None]) ** (degree - j)
    return np.asarray(terms.sum(axis=-1))


def _binomials(degree: int) -> Array:
    return np.array([math.comb(degree, j) for j in range(degree + 1)], dtype=np.float64)


class Loss(NamedTuple):
    """A convex 1-Lipschitz function f of u = y <w, x> in [-1, 1], or of a residual r = <w, x> - y in [-2, 2]."""

    name: str
    value: Function
    derivative: Function  # a subgradient where f' jumps
    reach: float = 1.0  # how far from 0 the argument can be: 1 for u, 2 for a residual

    @property
    def ends(self) -> tuple[float, float]:
        low, high = (float(v) for v in np.asarray(self.derivative(np.array([-1.0, 1.0])), dtype=np.float64))
        return low, high

    def thresholds(self, shares: Array) -> Array:
        """Return s for U = f'(-1) + D ``shares``, shares in (0, 1): the largest point with f'(s) <= U, by bisection."""
        low_slope, high_slope = self.ends
        levels = low_slope + (high_slope - low_slope) * shares
        found = np.full(levels.shape, -1.0)
        for step in 0.5 ** np.arange(54):  # in whole multiples of the last step, so that nothing is rounded
            found += step * (np.asarray(self.derivative(found + step), dtype=np.float64) <= levels)
        return found


GENERAL_LOSSES: Final = {
    loss.name: loss
    for loss in (
        Loss("logistic", lambda u: np.logaddexp(0.0, -u), lambda u: -expit(-u)),
        Loss("hinge by mixture", hinge_half, lambda u: np.where(u < 0.5, -1.0, 0.0)),
        Loss("absolute", lambda u: np.abs(0.5 - u), lambda u: np.where(u < 0.5, -1.0, 1.0)),
    )
}


def huber_residual(delta: float) -> Loss:
    """Return Huber's loss over delta: r^2 / (2 delta) where abs(r) is at most ``delta``, abs(r) - delta/2 beyond."""
    return Loss(
        "huber residual",
        lambda r: np.where(np.abs(r) <= delta, 0.5 * r**2 / delta, np.abs(r) - 0.5 * delta),
        lambda r: np.clip(r / delta, -1.0, 1.0),
        2.0,
    )


def absolute_residual(beta: float) -> Loss:
    """Return the absolute residual, its derivative smoothed over a width of 2 beta as the paper smooths the hinge."""
    return Loss("absolute residual", np.abs, lambda r: r / np.hypot(r, 2.0 * beta), 2.0)


RESIDUAL_LOSSES: Final[dict[str, Callable[[float], Loss]]] = {
    "absolute residual": absolute_residual,
    "huber residual": lambda beta: huber_residual(2.0 * beta),
}


class Oracle:
    """The polynomial surrogate of a loss, and the gradient of it that a report gives.

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

    def __init__(self, degree: int, beta: float, loss: Loss | None = None, order: int = 1) -> None:
        self.degree = whole_number("degree", degree, at_least=1)
        self.beta = number("beta", beta, above=0.0, at_most=1.0)
        self.order = whole_number("order", order, at_least=1)
        self.loss = loss
        self.reach = 1.0 if loss is None else loss.reach  # how far from 0 a prediction, or a residual, can be
        self.residual = self.reach > 1.0
        self._mixture = None if self.residual else loss
        low, high = (0.0, 1.0) if self._mixture is None else self._mixture.ends
        self.scale, self.offset, self.slope = high - low, low, 0.5 if loss is None else 0.25  # D, e and b

        def derivative(u: Array) -> Array:
            if loss is None:
                return smoothed_hinge_derivative(u, beta)
            return loss.derivative(2.0 * u) if self.residual else smoothed_step(u, beta)

        self.coefficients = bernstein_coefficients(derivative, degree, order=order)
        self.weighted = self.coefficients * _binomials(degree)
        # a bound on the second derivative of the surrogate, at most D / (2 beta): the derivative of a Bernstein
        # polynomial is one again, of the differences p (c_{j+1} - c_j)
        self.smoothness = float(self.scale * self.slope * degree * np.abs(np.diff(self.coefficients)).max())
        self._shares = _SHARES[:1] if self._mixture is None else _SHARES

    def shifts(self, shares: Array) -> Array:
        """Return a for each report, from one uniform number a report."""
        if self._mixture is None:
            return np.full(shares.shape, 0.5)
        return 0.5 - 0.25 * self._mixture.thresholds(shares)

    def value(self, u: Array) -> Array:
        return hinge_half(u) if self.loss is None else np.asarray(self.loss.value(u), dtype=np.float64)

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
        return np.asarray(label * (x_norm**2 + n_features * noise.first_std**2) * bracket.mean(axis=-1))

    def gradient_std(self, noise: CopyNoise, n_features: int) -> float:
        """Return a bound on sqrt(E |G|^2) over all |w| <= 1, |x| <= 1 and labels: what scales SIGM's steps.

        It follows from public parameters alone. The largest is at norm 1, the prediction is searched on a grid.
        """
        return float(np.sqrt(self.second_moment(self.reach * np.linspace(-1.0, 1.0, 401), noise, n_features).max()))
