"""The forecast as a picture: the score against epsilon, and against the number of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from sottovoce.report.pages._markup import Markup, element
from sottovoce.report.pages.figures import HEIGHT, WIDTH, axes_for, figure, ticks
from sottovoce.report.pages.style import svg_rules

if TYPE_CHECKING:
    from sottovoce.forecasting.forecast import Expected

__all__ = ["picture"]

_CLASS: Final = "sottovoce-forecast"
_LEAST_HEIGHT: Final = 0.05  # of the axis of scores


def picture(metric: str, here: Expected, by_epsilon: Sequence[Expected], by_rows: Sequence[Expected]) -> str:
    """Return both curves with their ranges side by side, the place that was asked for marked."""
    shown = (*by_epsilon, *by_rows)
    # a score below guessing, or an R2 far below 0, says no more than the bottom of the picture
    low = max(min(one.low for one in shown), -0.1)
    high = max(here.without_noise, *(one.high for one in shown))
    scores = (low, max(high, low + _LEAST_HEIGHT))
    panels = (
        _panel("epsilon", metric, scores, here, by_epsilon, lambda one: one.epsilon, lambda value: f"{value:.2g}"),
        _panel("rows", metric, scores, here, by_rows, lambda one: float(one.n_samples), _count),
    )
    return element(
        "svg",
        element("style", Markup(svg_rules(f".{_CLASS}"))),
        element("rect", class_="paper", width=2 * WIDTH, height=HEIGHT),
        *(element("svg", panel, x=k * WIDTH, width=WIDTH, height=HEIGHT) for k, panel in enumerate(panels)),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {2 * WIDTH} {HEIGHT}",
        class_=_CLASS,
        style="width: 100%; height: auto",
        role="img",
        aria_label=f"Expected {metric} against epsilon and against the number of rows",
    )


def _panel(
    name: str,
    metric: str,
    scores: tuple[float, float],
    here: Expected,
    curve: Sequence[Expected],
    place: Callable[[Expected], float],
    label: Callable[[float], str],
) -> Markup:
    places = [math.log(place(one) / place(curve[0])) for one in curve]
    axes, (low, high) = axes_for(places[-1], *scores), scores
    step = ticks(high - low)[1]
    levels = [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
    percent = metric == "accuracy"

    def line(value: Callable[[Expected], float]) -> list[tuple[float, float]]:
        return [(x, min(high, max(low, value(one)))) for x, one in zip(places, curve, strict=True)]

    above, below = line(lambda one: one.high), line(lambda one: one.low)
    x, y = axes.x(math.log(place(here) / place(curve[0]))), axes.y(min(high, max(low, here.score)))
    told = "; ".join(
        f"{label(place(one))}: {one.score:.3f}, range {one.low:.3f} to {one.high:.3f}" for one in curve[::2]
    )
    return figure(
        f"forecast-{name}",
        f"Expected {metric} against {name}",
        f"The band is the range; the dashed line is a model without privacy, {here.without_noise:.3f}. {told}.",
        axes,
        [(x, label(place(one))) for x, one in list(zip(places, curve, strict=True))[::2]],
        [(level, f"{100.0 * level:.3g} %" if percent else f"{level:.3g}") for level in levels],
        (f"{name}, the other things as planned", metric),
        [
            element("path", class_="area", d=axes.path([*above, *reversed(below)]) + " Z"),
            element("path", class_="chance", d=axes.path(line(lambda one: one.without_noise))),
            element("path", class_="curve", d=axes.path(line(lambda one: one.score))),
            element("circle", class_="mark", cx=f"{x:.1f}", cy=f"{y:.1f}", r=5),
        ],
    )


def _count(value: float) -> str:
    for size, unit in ((1e9, " bn"), (1e6, " m"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.0f}"
