r"""The candidates of a report: standard Gaussian vectors that a 64-bit seed and an index define, the same everywhere.

Coordinate i of candidate j of dimension d is made from number c = j d + i + 1 of the SplitMix64 stream of the seed:
its top 52 bits k give the odd multiple u = (2k + 1) 2^-53 of (0, 1), exactly, and the value is the inverse normal
distribution function at u. That function is computed here with nothing but the correctly rounded + - * / and sqrt of
doubles, in a fixed order, never contracted: every platform, and JavaScript, gets the same bits (rational functions of
Wichura 1988, algorithm AS 241, and a logarithm of our own). Relative error: below 1e-14 in the tests.

Specification, with all constants: ``docs/guide/local_format.md``.
"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
MIX_2: Final = np.uint64(0x94D049BB133111EB)

# AS 241 (PPND16): coefficients of ascending powers, numerator and denominator of each region
CENTRE_TOP: Final = np.array([
    3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
    4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3,
])  # fmt: skip
CENTRE_BOTTOM: Final = np.array([
    1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
    2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3,
])  # fmt: skip
NEAR_TOP: Final = np.array([
    1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
    1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4,
])  # fmt: skip
NEAR_BOTTOM: Final = np.array([
    1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
    1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9,
])  # fmt: skip
FAR_TOP: Final = np.array([
    6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
    2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7,
])  # fmt: skip
FAR_BOTTOM: Final = np.array([
    1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
    7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15,
])  # fmt: skip
# log m = 2 f (1 + w/3 + w^2/5 + ...), f = (m - 1)/(m + 1), w = f^2 <= 0.0295 for m in [1/sqrt(2), sqrt(2))
LOG_SERIES: Final = np.array([2.0 / (2 * k + 1) for k in range(12)])
LN2: Final = 0.6931471805599453
SQRT_HALF: Final = 0.7071067811865476


def uniforms(seeds: ArrayLike, counters: ArrayLike) -> Array:
    """Return numbers ``counters`` of the SplitMix64 streams of ``seeds`` as odd multiples of 2^-53 in (0, 1)."""
    x = np.asarray(counters, np.uint64) * GOLDEN
    x += np.asarray(seeds, np.uint64)
    x ^= x >> np.uint64(30)
    x *= MIX_1
    x ^= x >> np.uint64(27)
    x *= MIX_2
    x ^= x >> np.uint64(31)
    x >>= np.uint64(12)
    u = x.astype(np.float64)
    u += 0.5  # exact: k < 2^52
    u *= 2.0**-52
    return u


def normal_quantile(u: ArrayLike) -> Array:
    """Return the inverse normal distribution function at odd multiples of 2^-53, with the same bits everywhere."""
    p = np.asarray(u, np.float64)
    q = p - 0.5
    r = 0.180625 - q * q
    out: Array = q * (_polynomial(CENTRE_TOP, r) / _polynomial(CENTRE_BOTTOM, r))
    tail = np.abs(q) > 0.425
    if tail.any():
        out[tail] = _tails(p[tail], q[tail])
    return out


def table(seed: int, first: int, count: int, d: int) -> Array:
    """Return the ``count`` candidates of one seed from index ``first`` on, as an array of shape (count, d)."""
    counters = np.arange(first * d + 1, (first + count) * d + 1, dtype=np.uint64).reshape(count, d)
    return normal_quantile(uniforms(np.uint64(seed), counters))


def _tails(p: Array, q: Array) -> Array:
    r = np.sqrt(-_logarithm(np.minimum(p, 1.0 - p)))
    far = r > 5.0
    value = r - 1.6
    value = _polynomial(NEAR_TOP, value) / _polynomial(NEAR_BOTTOM, value)
    if far.any():
        beyond = r[far] - 5.0
        value[far] = _polynomial(FAR_TOP, beyond) / _polynomial(FAR_BOTTOM, beyond)
    return np.where(q < 0.0, -value, value)


def _logarithm(x: Array) -> Array:
    m, e = np.frexp(x)  # x = m 2^e, m in [1/2, 1): exact
    low = m < SQRT_HALF
    m = np.where(low, m + m, m)
    exponent = e.astype(np.float64) - low
    f = (m - 1.0) / (m + 1.0)
    out: Array = exponent * LN2 + f * _polynomial(LOG_SERIES, f * f)
    return out


def _polynomial(coefficients: Array, x: Array) -> Array:
    """Horner's rule: one product and one sum a coefficient, each rounded."""
    total: Array = coefficients[-1] * x
    total += coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        total *= x
        total += coefficient
    return total
