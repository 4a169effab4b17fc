"""Figures as inline SVG: what is drawn, and the two figures of a receipt."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from sottovoce._shown import rounded_up
from sottovoce.report.curve import PrivacyCurve

Points = Sequence[tuple[float, float]]

_FLOOR: Final = -12  # exponent of the least delta that is drawn


@dataclass(frozen=True)
class Drawing:
    """A figure in units of its data, with x from 0 on: the macro ``svg`` of ``parts.html`` draws it."""

    name: str
    title: str
    description: str  # for those who cannot see it
    labels: tuple[str, str]
    ticks_x: Sequence[tuple[float, str]]
    ticks_y: Sequence[tuple[float, str]]
    most_x: float
    y_range: tuple[float, float]
    lines: Sequence[tuple[str, Points]]  # classes of the style sheet: curve, chance, area
    marks: Points = ()
    mark: str = ""  # what stands beside a mark

    width: ClassVar[int] = 640
    height: ClassVar[int] = 330
    left: ClassVar[int] = 84  # wide enough for figures in the letters of a telephone
    right: ClassVar[int] = 604
    top: ClassVar[int] = 14
    bottom: ClassVar[int] = 274

    def x(self, value: float, off: float = 0.0) -> str:
        return f"{self.left + (self.right - self.left) * value / self.most_x + off:.1f}"

    def y(self, value: float, off: float = 0.0) -> str:
        least, most = self.y_range
        return f"{self.top + (self.bottom - self.top) * (most - value) / (most - least) + off:.1f}"

    def path(self, points: Points) -> str:
        """Return the points as a line."""
        return "M" + " L".join(f"{self.x(x)} {self.y(y)}" for x, y in points)


DIAGONAL: Final = ("chance", ((0.0, 0.0), (1.0, 1.0)))
QUARTERS: Final = [(value / 4, f"{25 * value} %") for value in range(5)]


def privacy_figure(curve: PrivacyCurve, promised: tuple[float, float] | None) -> Drawing:
    """Return delta against epsilon, on a logarithmic axis; the promised point is marked."""
    most = max(1e-9, curve.points[-1][0])
    described = "; ".join(f"epsilon {epsilon:.3g}: delta {rounded_up(delta)}" for epsilon, delta in curve.points[::12])
    is_drawn = promised is not None and promised[0] <= most
    return Drawing(
        name="privacy-curve",
        title="Privacy curve: delta against epsilon",
        description=f"The curve falls from left to right. {described}.",
        labels=("epsilon", "delta"),
        ticks_x=[(value, f"{value:g}") for value in ticks(most)],
        ticks_y=[(float(power), "1" if power == 0 else f"1e{power}") for power in range(_FLOOR, 1, 3)],
        most_x=most,
        y_range=(_FLOOR, 0.0),
        lines=[("curve", _logarithms(curve.points))],
        marks=_logarithms([promised]) if promised is not None and is_drawn else (),
        mark="promised",
    )


def _logarithms(points: Points) -> Points:
    return [(epsilon, max(_FLOOR, math.log10(delta))) for epsilon, delta in points if delta > 0.0]


def detection_figure(curve: PrivacyCurve) -> Drawing:
    """Return the largest true-positive rate against the false-positive rate, with the line of pure chance."""
    rates = sorted({step / 80 for step in range(81)} | {0.001, 0.005})
    drawn = [(0.0, 0.0), *((rate, curve.detection(rate)) for rate in rates)]
    told = (f"{rate:.0%} wrongly accused: at most {curve.detection(rate):.1%} found" for rate in (0.01, 0.1, 0.5))
    return Drawing(
        name="detection-curve",
        title="The best detector: share found against share wrongly accused",
        description=f"No attacker is above the curve; the dashed line is pure chance. {'; '.join(told)}.",
        labels=("wrongly accused", "found"),
        ticks_x=QUARTERS,
        ticks_y=QUARTERS,
        most_x=1.0,
        y_range=(0.0, 1.0),
        lines=[("area", [*drawn, (1.0, 0.0), (0.0, 0.0)]), DIAGONAL, ("curve", drawn)],
        marks=[(0.01, curve.detection(0.01))],
    )


def ticks(most: float) -> list[float]:
    """Return about five round values from 0 to ``most``."""
    rough = most / 5.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * power >= rough)
    return [step * count for count in range(int(most / step * (1.0 + 1e-9)) + 1)]
