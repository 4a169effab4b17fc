r"""Gumbel noise in whole ticks: N = floor(b G), P(G <= g) = exp(-exp(-g)), with the law of the real variable, exactly.

G = -log(-log(1 - V)) for a uniform V, and N is found by looking at ever more binary digits of V. After 53 of them V is
within a short interval. Both ends are followed in double precision, with room for 8 units in the last place in each
logarithm; where both give the same tick, no further digit can change it. Elsewhere, about one draw in a thousand, more
digits are drawn and the ends followed in decimal arithmetic of as many places as it takes. So no probability depends on
rounding; what is assumed is that logarithms in double precision are right to 8 units in the last place.

Proof of what it is for: ``docs/privacy/secure_frank_wolfe.md``.
"""

import decimal
import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._validation import whole_number

LARGEST_SCALE: Final = 2**48
"""Draws are then below 2^61, but for a chance of exp(-8192)."""

_BITS: Final = 53
_MORE: Final = 32
_ROOM: Final = 2.0**-48  # of scale (2 + |G|): 8 units in the last place of both logarithms, and the roundings beside


def whole_gumbel(scale: int, size: int, noise: np.random.Generator) -> NDArray[np.int64]:
    """Draw floor(``scale`` G) ``size`` times.

    Parameters
    ----------
    scale : int, in [1, LARGEST_SCALE]
        Ticks to a unit.
    size : int
    noise : numpy.random.Generator
    """
    whole_number("scale", scale, at_least=1, at_most=LARGEST_SCALE)
    digits = noise.integers(2**_BITS, size=size)
    with np.errstate(divide="ignore", invalid="ignore"):
        # the larger V, the smaller G: -log(1 - V) grows
        high = -np.log(-np.log1p(-np.ldexp(digits.astype(np.float64), -_BITS)))
        low = -np.log(-np.log1p(-np.ldexp((digits + 1).astype(np.float64), -_BITS)))
        least = np.floor(scale * low - scale * _ROOM * (2.0 + np.abs(low)))
        most = np.floor(scale * high + scale * _ROOM * (2.0 + np.abs(high)))
        settled = np.isfinite(least) & np.isfinite(most) & (least == most)
    drawn = np.zeros(size, np.int64)
    drawn[settled] = least[settled].astype(np.int64)
    for place in np.flatnonzero(~settled).tolist():
        drawn[place] = _settle(scale, int(digits[place]), noise)
    return drawn


def _settle(scale: int, digits: int, noise: np.random.Generator) -> int:
    """Return the draw whose V begins with these digits."""
    bits = _BITS
    while True:
        digits = digits * 2**_MORE + int(noise.integers(2**_MORE))
        bits += _MORE
        least, most = _tick(scale, digits + 1, bits, down=True), _tick(scale, digits, bits, down=False)
        if least is not None and least == most:
            return least


def _tick(scale: int, digits: int, bits: int, down: bool) -> int | None:
    """Return floor(scale G) at V = ``digits`` / 2^``bits``, surely not too large or not too small; None at 0 and 1."""
    rest = 2**bits - digits
    if not 0 < digits < 2**bits:
        return None
    sure = 20 + bits // 8  # decimal places of G: more with every digit that is drawn
    with decimal.localcontext() as context:
        # logarithms are rounded to the last place; V is at least 2^-bits, and so is what 1 - V is away from 1
        context.prec = math.ceil(0.302 * bits) + sure + 8
        gumbel = -(-(decimal.Decimal(rest) / 2**bits).ln()).ln()
        room = scale * (2 + abs(gumbel)) * decimal.Decimal(10) ** -sure
        return int((scale * gumbel + (-room if down else room)).to_integral_value(decimal.ROUND_FLOOR))
