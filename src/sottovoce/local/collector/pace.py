"""How exactly, and how often, numbers of reports and requests are told."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sottovoce._validation import number, whole_number

__all__ = ["Pace"]


@dataclass(frozen=True, slots=True)
class Pace:
    """Numbers are told rounded down to a multiple of ``step``, and change at set moments, ``seconds`` apart.

    An exact number that follows every report is a list of arrival times: whoever reads it each second, or stores it in
    a monitoring system, has written down what the collector never stores. This is thrift, not differential privacy:
    who sends nine reports and waits sees when the tenth has come, to within ``seconds``.

    Parameters
    ----------
    seconds : float
        Between two moments. They are whole multiples of it since 1970, so that several collectors on one database tell
        new numbers at the same time, and nobody learns more by asking them in turn.
    step : int
        1 tells exact numbers.
    """

    seconds: float = 300.0
    step: int = 10

    def __post_init__(self) -> None:
        number("seconds", self.seconds, above=0.0)
        whole_number("step", self.step, at_least=1)

    @property
    def is_coarse(self) -> bool:
        """Whether at least ten reports, and a minute, lie behind each change."""
        return self.step >= 10 and self.seconds >= 60.0

    def rounded(self, count: int) -> int:
        """Return what is told of a count."""
        return count - count % self.step

    def next_moment(self, now: float, *, not_before: float = 0.0) -> float:
        """Return the first moment after ``now`` that is not before another time, in seconds since 1970."""
        return self.seconds * max(math.floor(now / self.seconds) + 1, math.ceil(not_before / self.seconds))
