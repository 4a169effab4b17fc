"""Is delta small enough for the number of people? Checked from public facts, in one place for every plan.

With probability delta a mechanism may publish anything. One that publishes each row with probability delta is
(0, delta)-DP; on n rows it publishes delta n of them, so delta = 1 / n gives away one person, on average, and is
"private". From 1 / sqrt(n) on it is sqrt(n) people.
"""

import math

from sottovoce._validation import number
from sottovoce._warnings import warn_of_privacy
from sottovoce.exceptions import ParameterError


def is_large_delta(delta: float, n: int) -> bool:
    return delta * n >= 1.0


def refuse_large_delta(delta: float, n: int, accepted: object, *, acceptable: bool = True) -> None:
    """Refuse a ``delta`` of 1 / sqrt(n) or more that was not given a second time, as ``accept_delta``.

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
        warn_of_privacy(
            f"delta={delta:g} is not below 1 / n = {1.0 / n:.2g} for the public n = {n}: a mechanism that publishes a "
            "whole row now and then would satisfy it. Choose delta well below 1 / n, such as "
            f"{10.0 ** math.floor(math.log10(0.1 / n)):.0e}."
        )
