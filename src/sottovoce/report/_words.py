"""Numbers as words and digits for people; a bound is never rounded in its own favour."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal

__all__ = ["digits", "one_in", "percent", "rounded_up"]


def rounded_up(value: float, significant: int = 3) -> str:
    """Return an upper bound in few digits, rounded up."""
    if not math.isfinite(value):
        return "∞" if value == math.inf else str(value)
    return (
        f"{float(Context(prec=significant, rounding=ROUND_CEILING).plus(Decimal(repr(float(value))))):.{significant}g}"
    )


def percent(value: float) -> str:
    """Return an upper bound on a probability as a percentage, rounded up; never above 100 %."""
    return f"{rounded_up(min(100.0, 100.0 * value))} %"


def one_in(probability: float) -> str:
    """Return a small probability as "1 in N", with N rounded down: the probability is not understated."""
    if probability <= 0.0:
        return "never"
    if probability > 0.5:
        return percent(probability)
    many = 1.0 / probability
    if many >= 1e15:
        return f"1 in {many:.0e}".replace("e+", "e")
    scale = 10 ** max(0, math.floor(math.log10(many)) - 2)
    return f"1 in {math.floor(many * (1.0 + 1e-12) / scale) * scale:,}"


def digits(value: object) -> str:
    """Return a value of a receipt as it is stored, with all digits."""
    return repr(value) if isinstance(value, float) else str(value)
