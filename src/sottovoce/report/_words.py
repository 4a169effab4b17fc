"""Numbers as words and digits for people; a bound is never rounded in its own favour."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal


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
    many = Context(prec=3, rounding=ROUND_FLOOR).divide(Decimal(1), Decimal(repr(float(probability))))
    return f"1 in {int(many):,}" if many < 10**15 else f"1 in {many:.3g}".replace("e+", "e")


def digits(value: object) -> str:
    """Return a value of a receipt as it is stored, with all digits."""
    return repr(value) if isinstance(value, float) else str(value)


def flat_parameters(parameters: Mapping[str, object]) -> dict[str, object]:
    """Return parameters with those of a group by its name and theirs: "arguments: alpha"."""
    flat: dict[str, object] = {}
    for name, value in parameters.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}: {inner}": item for inner, item in value.items()}
        else:
            flat[name] = value
    return flat
