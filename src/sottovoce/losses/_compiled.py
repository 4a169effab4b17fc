"""What kernels take of losses: the steps and slopes of each, and a sigmoid that is compiled to vector instructions."""

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, overload

from sottovoce._compiling import INSIDE
from sottovoce.losses.base import SLOPES, STEPS
from sottovoce.losses.base import dual_step as dual_step
from sottovoce.losses.base import slope as slope

_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # ln 2 in two parts (Cody and Waite)
_ROUND = 1.5 * 2.0**52  # adding it leaves the nearest whole number in the low bits of the sum
_LOWEST = -708.0  # exp of less is below the normal doubles


@intrinsic
def _bits(typingctx: Any, value: Any) -> Any:
    """Return the bits of a double as a whole number."""
    return types.int64(types.float64), lambda context, builder, signature, args: builder.bitcast(
        args[0], ir.IntType(64)
    )


@intrinsic
def _double(typingctx: Any, bits: Any) -> Any:
    """Return the double with these bits."""
    return types.float64(types.int64), lambda context, builder, signature, args: builder.bitcast(
        args[0], ir.DoubleType()
    )


@njit(inline="always")
def exp_below_zero(x: float) -> float:
    """Return exp(x) for x <= 0 to about 2 units in the last place; exp(-708) below that.

    exp(x) = 2^k exp(r), |r| <= ln 2 / 2, with the Taylor series of exp(r) to r^13 (its remainder is below 5e-18).
    """
    x = _LOWEST if x < _LOWEST else x
    shifted = x * _LOG2_E + _ROUND
    k = shifted - _ROUND
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return _double(_bits(p) + (_bits(shifted) << 52))  # type: ignore[call-arg]


@njit(error_model="numpy")  # the other model would check each division, by a branch
def sigmoid(u: float) -> float:
    """Return 1 / (1 + exp(-u)), without overflow, branch and call; NaN for NaN."""
    e = exp_below_zero(-abs(u))
    p = 1.0 / (1.0 + e)
    return p if u >= 0.0 else e * p


@overload(dual_step, jit_options=INSIDE)
def _overload_dual_step(loss, a, y, m, r):  # type: ignore[no-untyped-def]
    step = getattr(STEPS.get(getattr(loss, "instance_class", object)), "made", None)
    return step and (lambda loss, a, y, m, r: step(loss, a, y, m, r))


@overload(slope, jit_options=INSIDE)
def _overload_slope(loss, y, m):  # type: ignore[no-untyped-def]
    function = getattr(SLOPES.get(getattr(loss, "instance_class", object)), "made", None)
    return function and (lambda loss, y, m: function(loss, y, m))
