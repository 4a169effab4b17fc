"""Checks of public arguments: each message names the argument, the value and the remedy, and NaN never passes.

Every comparison is written so that it is true for a good value (``not (value > 0)`` refuses NaN; ``value <= 0`` would
let it through).
"""

import difflib
import math
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AnySet
from contextlib import suppress
from numbers import Integral, Real
from typing import Any

from sottovoce.exceptions import DataError, ParameterError

MAX_EPSILON = 1e6  # more protects nobody, and its noise would drown in rounding
MIN_EPSILON = 1e-9  # less hides everything, and its noise is beyond what can be counted in whole ticks
MIN_DELTA = 1e-300  # less cannot be told from 0 in double precision

# Public numbers that have a unit or a size. Private computations multiply and divide a few of them, and the squares of
# such products must neither overflow nor vanish: a sensitivity that is computed as 0 protects nobody.
SMALLEST = 1e-50
LARGEST = 1e50


def number(
    name: str,
    value: object,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    infinite: bool = False,
    remedy: str = "",
) -> float:
    """Return ``value`` as a float, or refuse it.

    ``above`` and ``below`` are open bounds, ``at_least`` and ``at_most`` closed ones; ``infinite=True`` admits ``inf``
    (it still has to satisfy the bounds). Booleans, strings, None and NaN are refused.
    """
    is_number = type(value) is float or (isinstance(value, Real) and not isinstance(value, bool))
    try:
        out = float(value) if is_number else math.nan  # type: ignore[arg-type]
    except OverflowError:  # a whole number or a fraction beyond the doubles
        out = math.nan
    if (
        (math.isfinite(out) or (infinite and out == math.inf))
        and (above is None or out > above)
        and (at_least is None or out >= at_least)
        and (below is None or out < below)
        and (at_most is None or out <= at_most)
    ):
        return out
    wanted = _describe(above, at_least, below, at_most, infinite)  # in words only now: most numbers are good
    tail = f" {remedy}" if remedy else ""
    if value is None:
        raise ParameterError(f"{name} is missing: give {wanted}.{tail}")
    kind = "" if is_number else f" of type {type(value).__name__}"
    raise ParameterError(f"{name} must be {wanted}; got {value!r}{kind}.{tail}")


def magnitude(name: str, value: object, *, remedy: str = "") -> float:
    """Return a positive number with a unit (a bound, a penalty, a rate) within `SMALLEST` and `LARGEST`, or refuse it.

    Every public number of a private computation that scales data, noise or steps is checked here, by estimators, plans
    and parties alike.
    """
    return number(name, value, at_least=SMALLEST, at_most=LARGEST, remedy=remedy)


def whole_number(
    name: str, value: object, *, at_least: int | None = None, at_most: int | None = None, remedy: str = ""
) -> int:
    """Return ``value`` as an int, or refuse it (booleans and floats are refused, also 3.0)."""
    wanted = "a whole number"
    if at_least is not None:
        wanted += f" >= {at_least}"
    if at_most is not None:
        wanted += f"{' and' if at_least is not None else ''} <= {at_most}"
    tail = f" {remedy}" if remedy else ""
    if value is None:
        raise ParameterError(f"{name} is missing: give {wanted}.{tail}")
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ParameterError(f"{name} must be {wanted}; got {value!r}.{tail}")
    out = int(value)
    if (at_least is not None and out < at_least) or (at_most is not None and out > at_most):
        raise ParameterError(f"{name} must be {wanted}; got {value!r}.{tail}")
    return out


def in_full(value: object) -> Any:
    """Return a number as Python's own: in the precision of another one shares of a budget may add up to more than 1."""
    if not isinstance(value, bool) and isinstance(value, Real):
        with suppress(OverflowError):  # it is refused in words where it is checked
            return int(value) if isinstance(value, Integral) else float(value)
    return value


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `` Did you mean 'x'?`` for the known name nearest to ``name``, or an empty text."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    found = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return f" Did you mean {by_folded[found[0]]!r}?" if found else ""


def choice(name: str, value: object, allowed: Collection[str], *, remedy: str = "") -> str:
    """Return ``value`` if it is one of the strings ``allowed``, or refuse it."""
    if isinstance(value, str) and value in allowed:
        return value
    listed = ", ".join(repr(item) for item in allowed)
    tail = (nearest(value, allowed) if isinstance(value, str) else "") + (f" {remedy}" if remedy else "")
    raise ParameterError(f"{name} must be one of {listed}; got {value!r}.{tail}")


def truth(name: str, value: object) -> bool:
    """Return ``value`` if it is True or False, or refuse it."""
    if not isinstance(value, bool):
        raise ParameterError(f"{name} must be True or False; got {value!r}.")
    return value


def filled_text(name: str, value: object, *, or_none: bool = False) -> str:
    """Return ``value`` if it is a string with more than white space, or refuse it."""
    if not isinstance(value, str) or not value.strip():
        raise ParameterError(f"{name} must be a string that is not empty{', or None' * or_none}; got {value!r}.")
    return value


def in_order(name: str, value: object, wanted: str = "a list") -> tuple[Any, ...]:
    """Return what is in a list, or refuse what has no order, is gone once it was looked at, or is one text."""
    unordered = isinstance(value, (str, bytes, Mapping, AnySet)) or getattr(value, "ndim", 1) != 1
    if unordered or not isinstance(value, Collection):
        raise ParameterError(f"{name} must be {wanted}; got {value!r}.")
    return tuple(value)


def bounds(name: str, value: object, *, remedy: str = "") -> tuple[float, float]:
    """Return ``value`` as a pair (low, high) with low < high, of a size and a width that `magnitude` takes."""
    tail = f" {remedy}" if remedy else ""
    if value is None:
        raise ParameterError(f"{name} is missing: give a pair (low, high).{tail}")
    try:
        first, second = in_order(name, value)
    except ValueError:
        raise ParameterError(f"{name} must be a pair (low, high); got {value!r}.{tail}") from None
    low = number(f"{name}[0]", first, at_least=-LARGEST, at_most=LARGEST, remedy=remedy)
    high = number(f"{name}[1]", second, at_least=-LARGEST, at_most=LARGEST, remedy=remedy)
    if not low < high:
        raise ParameterError(f"{name} must satisfy low < high; got ({low!r}, {high!r}).{tail}")
    magnitude(f"{name}[1] - {name}[0]", high - low, remedy=remedy)
    return low, high


def privacy_budget(epsilon: object, delta: object) -> tuple[float, float]:
    """Return epsilon and delta of a training; an infinite epsilon is one without noise, and needs no delta."""
    usual = "1 is a usual budget, 0.1 protects strongly, and 10 or more promises little."
    if epsilon is None:
        raise ParameterError(f"epsilon is missing: give the privacy budget, a number > 0. {usual}")
    budget = number("epsilon", epsilon, above=0.0, infinite=True, remedy=usual)
    if not (MIN_EPSILON <= budget <= MAX_EPSILON or math.isinf(budget)):
        raise ParameterError(
            f"epsilon must be within [{MIN_EPSILON:g}, {MAX_EPSILON:g}], or infinite (no privacy); got {epsilon!r}. "
            f"{usual}"
        )
    if math.isinf(budget):
        return budget, 0.0 if delta is None else number("delta", delta, at_least=0.0, below=1.0)
    return budget, number("delta", delta, at_least=MIN_DELTA, below=1.0, remedy="Choose it well below 1 / n_samples.")


def _describe(
    above: float | None, at_least: float | None, below: float | None, at_most: float | None, infinite: bool
) -> str:
    parts = [
        f"{sign} {bound:g}"
        for sign, bound in ((">", above), (">=", at_least), ("<", below), ("<=", at_most))
        if bound is not None
    ]
    return ("a number" if infinite else "a finite number") + (f" {' and '.join(parts)}" if parts else "")


def refuse_masked(name: str, values: object) -> None:
    """Refuse a masked array that hides entries: what lies under the mask would be read as if it were data."""
    mask = getattr(values, "mask", None)
    hidden = getattr(mask, "any", None)
    if type(values).__name__ == "MaskedArray" and hidden is not None and hidden():
        raise DataError(
            f"{name} is a masked array that hides entries, and what lies under the mask would be read. Fill them with "
            "a public constant: values.filled(...)."
        )


def is_large_delta(delta: float, n: int) -> bool:
    return delta * n >= 1.0


def refuse_large_delta(delta: float, n: int, accepted: object, *, acceptable: bool = True) -> None:
    """Refuse a ``delta`` of 1 / sqrt(n) or more that was not given a second time, as ``accept_delta``.

    With probability delta a mechanism may publish anything. One that publishes each row with probability delta is
    (0, delta)-DP; on n rows it publishes delta n of them, so delta = 1 / n gives away one person, on average, and is
    "private". From 1 / sqrt(n) on it is sqrt(n) people.

    ``acceptable`` is False where nothing is spent at this delta, and another one can be had for nothing. The
    message of the ParameterError gives both numbers and the remedy.
    """
    again = None if accepted is None else number("accept_delta", accepted, above=0.0, below=1.0)
    if n > 1 and delta * math.sqrt(n) >= 1.0 and again != delta:
        raise ParameterError(
            f"delta={delta:g} is 1 / sqrt(n) or more for the public n = {n}: a mechanism that publishes "
            f"{delta * n:.3g} of the {n} rows as they are would satisfy it. Choose it well below 1 / n = {1.0 / n:.2g}."
            + (f" If it must be, say it twice: accept_delta={delta!r}." if acceptable else "")
        )


def warn_of_large_delta(delta: float, n: int) -> None:
    """Warn of a ``delta`` of 1 / n or more; refusing is done elsewhere, when the plan is made."""
    if n > 1 and is_large_delta(delta, n):
        from sottovoce._warnings import warn_of_privacy  # a device that randomises has no use for it

        warn_of_privacy(
            f"delta={delta:g} is not below 1 / n = {1.0 / n:.2g} for the public n = {n}: a mechanism that publishes a "
            "whole row now and then would satisfy it. Choose delta well below 1 / n, such as "
            f"{10.0 ** math.floor(math.log10(0.1 / n)):.0e}."
        )
