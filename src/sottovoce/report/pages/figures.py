"""Figures as inline SVG: how one is made, and the two of a receipt."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sottovoce.report.curve import PrivacyCurve
from sottovoce.report.pages._document import Markup, element
from sottovoce.report.verdict import rounded_up

WIDTH: Final = 640
HEIGHT: Final = 330
_LEFT: Final = 84  # wide enough for figures in the letters of a telephone
_RIGHT: Final = 36
_TOP: Final = 14
_BOTTOM: Final = 56
_FLOOR: Final = -12  # exponent of the least delta that is drawn


@dataclass(frozen=True)
class Axes:
    """From units of the data to the units of the drawing, in which y grows downwards."""

    x: Callable[[float], float]
    y: Callable[[float], float]

    def path(self, points: Sequence[tuple[float, float]]) -> str:
        """Return the points as a line."""
        return "M" + " L".join(f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in points)


def axes_for(most_x: float, least_y: float, most_y: float) -> Axes:
    """Return axes for x from 0 to ``most_x``."""
    width, height = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
    return Axes(lambda x: _LEFT + width * x / most_x, lambda y: _TOP + height * (most_y - y) / (most_y - least_y))


def privacy_figure(curve: PrivacyCurve, promised: tuple[float, float] | None) -> Markup:
    """Return delta against epsilon, on a logarithmic axis; the promised point is marked."""
    most = max(1e-9, curve.points[-1][0])
    axes = axes_for(most, _FLOOR, 0.0)
    drawn = [(epsilon, max(_FLOOR, math.log10(delta))) for epsilon, delta in curve.points if delta > 0.0]
    ticks_x = [(value, f"{value:g}") for value in ticks(most)]
    ticks_y = [(float(power), "1" if power == 0 else f"1e{power}") for power in range(_FLOOR, 1, 3)]
    described = "; ".join(f"epsilon {epsilon:.3g}: delta {rounded_up(delta)}" for epsilon, delta in curve.points[::12])
    marks: list[Markup] = []
    if promised is not None and promised[0] <= most and promised[1] > 0.0:
        x, y = axes.x(promised[0]), axes.y(max(_FLOOR, math.log10(promised[1])))
        left = x > 0.6 * WIDTH
        marks = [
            element("circle", class_="mark", cx=f"{x:.1f}", cy=f"{y:.1f}", r=5),
            element(
                "text", "promised", class_="marked", x=f"{x - 10 if left else x + 10:.1f}",
                y=f"{y + 22 if left else y - 8:.1f}", text_anchor="end" if left else "start",
            ),
        ]  # fmt: skip
    return figure(
        "privacy-curve",
        "Privacy curve: delta against epsilon",
        f"The curve falls from left to right. {described}.",
        axes,
        ticks_x,
        ticks_y,
        ("epsilon", "delta"),
        [element("path", class_="curve", d=axes.path(drawn)), *marks] if drawn else marks,
    )


def detection_figure(curve: PrivacyCurve) -> Markup:
    """Return the largest true-positive rate against the false-positive rate, with the line of pure chance."""
    axes = axes_for(1.0, 0.0, 1.0)
    rates = sorted({step / 80 for step in range(81)} | {0.001, 0.005})
    drawn = [(0.0, 0.0), *((rate, curve.detection(rate)) for rate in rates)]
    shares = [(value / 4, f"{25 * value} %") for value in range(5)]
    x, y = axes.x(0.01), axes.y(curve.detection(0.01))
    return figure(
        "detection-curve",
        "The best detector: share found against share wrongly accused",
        "No attacker is above the curve; the dashed line is pure chance. "
        + "; ".join(
            f"{rate:.0%} wrongly accused: at most {curve.detection(rate):.1%} found" for rate in (0.01, 0.1, 0.5)
        )
        + ".",
        axes,
        shares,
        shares,
        ("wrongly accused", "found"),
        [
            element("path", class_="area", d=axes.path([*drawn, (1.0, 0.0), (0.0, 0.0)]) + " Z"),
            element("path", class_="chance", d=axes.path([(0.0, 0.0), (1.0, 1.0)])),
            element("path", class_="curve", d=axes.path(drawn)),
            element("circle", class_="mark", cx=f"{x:.1f}", cy=f"{y:.1f}", r=4),
        ],
    )


def figure(
    name: str,
    title: str,
    description: str,
    axes: Axes,
    ticks_x: Sequence[tuple[float, str]],
    ticks_y: Sequence[tuple[float, str]],
    labels: tuple[str, str],
    content: Sequence[Markup],
) -> Markup:
    """Return a figure with its frame, grid, labels and a description for those who cannot see it."""
    left, right, top, bottom = _LEFT, WIDTH - _RIGHT, _TOP, HEIGHT - _BOTTOM
    lines: list[Markup] = []
    for value, label in ticks_x:
        x = f"{axes.x(value):.1f}"
        lines.append(element("line", class_="grid", x1=x, x2=x, y1=top, y2=bottom))
        lines.append(element("text", label, x=x, y=bottom + 23, text_anchor="middle"))
    for value, label in ticks_y:
        y = axes.y(value)
        lines.append(element("line", class_="grid", x1=left, x2=right, y1=f"{y:.1f}", y2=f"{y:.1f}"))
        lines.append(element("text", label, x=left - 8, y=f"{y + 4:.1f}", text_anchor="end"))
    middle_y = (top + bottom) / 2
    return element(
        "svg",
        element("title", title, id=f"{name}-title"),
        element("desc", description, id=f"{name}-desc"),
        *lines,
        *content,
        element("rect", class_="frame", x=left, y=top, width=right - left, height=bottom - top),
        element("text", labels[0], x=(left + right) / 2, y=HEIGHT - 8, text_anchor="middle"),
        element("text", labels[1], transform=f"translate(13 {middle_y}) rotate(-90)", text_anchor="middle"),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
    )


def ticks(most: float) -> list[float]:
    """Return about five round values from 0 to ``most``."""
    rough = most / 5.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * power >= rough)
    return [step * count for count in range(int(most / step * (1.0 + 1e-9)) + 1)]
