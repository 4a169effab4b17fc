"""Candidates in compiled loops, for a server that reads millions of reports: the same bits as `candidates`.

No fast-math flag is set, so that products and sums stay separate and in order; a test compares every bit.
"""

import math

import numpy as np

from sottovoce._compiling import ALLOCATING, JIT, njit
from sottovoce.local import candidates as portable


@njit(**ALLOCATING)
def fill(seeds, indices, out):  # type: ignore[no-untyped-def]
    d = out.shape[1]
    u = np.empty(d)
    for i in range(out.shape[0]):
        first = indices[i] * np.uint64(d) + np.uint64(1)
        for j in range(d):
            x = seeds[i] + (first + np.uint64(j)) * portable.GOLDEN
            x = (x ^ (x >> np.uint64(30))) * portable.MIX_1
            x = (x ^ (x >> np.uint64(27))) * portable.MIX_2
            x = x ^ (x >> np.uint64(31))
            u[j] = (np.float64(np.int64(x >> np.uint64(12))) + 0.5) * 2.0**-52
        row = out[i]
        for j in range(d):  # no branches: this loop runs on the vector units
            q = u[j] - 0.5
            r = 0.180625 - q * q
            row[j] = q * (_polynomial(portable.CENTRE_TOP, r) / _polynomial(portable.CENTRE_BOTTOM, r))
        for j in range(d):
            if abs(u[j] - 0.5) > 0.425:
                row[j] = _tail(u[j])


@njit(**JIT)
def _tail(p):  # type: ignore[no-untyped-def]
    r = math.sqrt(-_logarithm(min(p, 1.0 - p)))
    if r > 5.0:
        r -= 5.0
        value = _polynomial(portable.FAR_TOP, r) / _polynomial(portable.FAR_BOTTOM, r)
    else:
        r -= 1.6
        value = _polynomial(portable.NEAR_TOP, r) / _polynomial(portable.NEAR_BOTTOM, r)
    return -value if p < 0.5 else value


@njit(**JIT)
def _logarithm(x):  # type: ignore[no-untyped-def]
    m, e = math.frexp(x)
    exponent = np.float64(e)
    if m < portable.SQRT_HALF:
        m += m
        exponent -= 1.0
    f = (m - 1.0) / (m + 1.0)
    return exponent * portable.LN2 + f * _polynomial(portable.LOG_SERIES, f * f)


@njit(**JIT, inline="always")
def _polynomial(coefficients, x):  # type: ignore[no-untyped-def]
    total = coefficients[-1] * x + coefficients[-2]
    for k in range(len(coefficients) - 3, -1, -1):
        total = total * x + coefficients[k]
    return total
