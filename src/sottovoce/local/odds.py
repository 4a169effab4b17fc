r"""The exact law of a report's index: m indices with a high probability each, K - m with a low one.

The device draws a whole number u, uniform over the 2^64 values that 64 random bits have, and reports one of the top m
indices if u < T, else one of the rest. T is the whole number

.. math:: T = \lfloor 2^{64} \, m e^\epsilon / (m e^\epsilon + K - m) \rfloor,

so an index of the top group has probability T / (2^64 m), any other (2^64 - T) / (2^64 (K - m)), as fractions of whole
numbers; their ratio is at most e^epsilon, by rounding down, and no floating-point number takes part in the draw.
"""

import decimal
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

COINS: Final = 2**64
_DIGITS: Final = 80
_DECIMAL_ERROR: Final = decimal.Decimal("1e-40")  # far above what 80 digits lose of a number below 2^64


@dataclass(frozen=True)
class Odds:
    """The law of the reported index, given which m of the K indices score best."""

    epsilon: float
    K: int  # number of candidates
    m: int  # how many of them are in the top group, 0 < m < K

    @cached_property
    def threshold(self) -> int:
        with decimal.localcontext(decimal.Context(prec=_DIGITS)):
            low = decimal.Decimal(-self.epsilon).exp()
            share = _COINS_DECIMAL * self.m / (self.m + (self.K - self.m) * low)
            # rounded down, and the rest of a huge epsilon keeps one coin
            return min(int((share - _DECIMAL_ERROR).to_integral_value(decimal.ROUND_FLOOR)), COINS - 1)

    @property
    def top(self) -> Fraction:
        return Fraction(self.threshold, COINS * self.m)

    @property
    def rest(self) -> Fraction:
        return Fraction(COINS - self.threshold, COINS * (self.K - self.m))


_COINS_DECIMAL: Final = decimal.Decimal(COINS)
