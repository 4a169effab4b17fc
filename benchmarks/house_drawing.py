"""The drawing of the house: rooms as boxes in layers, arrows from above to below."""

import itertools
from typing import Any

from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path

SWEEPS = 24  # of the order within layers, down and up
WIDE, HIGH, STEP = 0.86, 0.5, 1.15  # of a box; from layer to layer
BLUE = ("#e8eef7", "#dbe7f3", "#cfe0ef", "#c3d9eb", "#b7d2e7", "#abcbe3", "#9fc4df", "#93bddb", "#87b6d7")
GREEN, SAND, INK, RED = "#d5ead3", "#f3efe6", "#34495e", "#d81b1b"

Pair = tuple[str, str]


class Floor:
    """Places for the boxes of one drawing: layers from below, few crossings, long arrows led between the boxes."""

    def __init__(self, layer: dict[str, int], shown: set[Pair]) -> None:
        self.rows: list[list[Any]] = [[] for _ in range(max(layer.values()) + 1)]
        for name in sorted(layer):
            self.rows[layer[name]].append(name)
        self.links: list[tuple[Any, Any]] = []
        self.paths: dict[Pair, list[Any]] = {}
        for a, b in sorted(shown):
            stops: list[Any] = [(a, b, height) for height in range(layer[a] - 1, layer[b], -1)]
            for stop in stops:
                self.rows[stop[2]].append(stop)
            path = [a, *stops, b]
            self.paths[a, b] = path
            self.links += itertools.pairwise(path)
        self.height = {thing: place for place, row in enumerate(self.rows) for thing in row}
        self.x: dict[Any, float] = {}
        self._spread()
        self._order()
        self._pull()

    def _near(self, thing: Any, row: list[Any]) -> list[float]:
        inside = set(row)
        return [self.x[other] for pair in self.links if thing in pair for other in pair if other in inside]

    @staticmethod
    def _room(thing: Any) -> float:
        return 1.0 if isinstance(thing, str) else 0.35

    def _spread(self) -> None:
        """Put the things of each row side by side, around 0."""
        for row in self.rows:
            whole, at = sum(map(self._room, row)), 0.0
            for thing in row:
                self.x[thing] = at + self._room(thing) / 2 - whole / 2
                at += self._room(thing)

    def _crossings(self) -> int:
        height, count = self.height, 0
        for (a, b), (c, d) in itertools.combinations(self.links, 2):
            if height[a] == height[c] and height[b] == height[d]:
                count += (self.x[a] - self.x[c]) * (self.x[b] - self.x[d]) < 0
        return count

    def _order(self) -> None:
        """Order each row by the mean place of its neighbours, down and up, then swap neighbours while that helps."""
        for sweep in range(SWEEPS):
            rows = range(len(self.rows))
            for place in rows if sweep % 2 == 0 else reversed(rows):
                beside = place - 1 if sweep % 2 == 0 else place + 1
                if 0 <= beside < len(self.rows):
                    near = {thing: self._near(thing, self.rows[beside]) for thing in self.rows[place]}
                    mean = {t: sum(v) / len(v) if v else self.x[t] for t, v in near.items()}
                    self.rows[place].sort(key=lambda thing, mean=mean: mean[thing])
                    self._spread()
        least, improved = self._crossings(), True
        while improved:
            improved = False
            for row in self.rows:
                for i, j in itertools.combinations(range(len(row)), 2):
                    row[i], row[j] = row[j], row[i]
                    self._spread()
                    if self._crossings() < least:
                        least, improved = self._crossings(), True
                    else:
                        row[i], row[j] = row[j], row[i]
                        self._spread()

    def _pull(self) -> None:
        """Move everything toward its neighbours as far as those beside it allow."""
        for _ in range(60):
            for row in self.rows:
                wish = {}
                for thing in row:
                    near = [self.x[o] for pair in self.links if thing in pair for o in pair if o != thing]
                    wish[thing] = sum(near) / len(near) if near else self.x[thing]
                for place, thing in enumerate(row):
                    low = max((self.x[o] + self._apart(o, thing) for o in row[:place][-1:]), default=-9e9)
                    high = min((self.x[o] - self._apart(o, thing) for o in row[place + 1 :][:1]), default=9e9)
                    self.x[thing] = min(max((self.x[thing] + wish[thing]) / 2, low), high)

    def _apart(self, one: Any, other: Any) -> float:
        return (self._room(one) + self._room(other)) / 2

    def sides(self) -> tuple[float, float]:
        """Return where the drawing begins and ends."""
        return min(self.x.values()) - WIDE / 2, max(self.x.values()) + WIDE / 2

    def spot(self, thing: Any) -> tuple[float, float]:
        """Return the middle of a box, or of a place that a long arrow passes."""
        return self.x[thing], STEP * self.height[thing]


def draw(
    axes: Any, title: str, floor: Floor, against: dict[Pair, int], notes: dict[str, str], ground: str = ""
) -> None:
    """Draw boxes, arrows from above to below, red ones from below to above, and the ground under all."""
    for path in floor.paths.values():
        (x0, y0), *middle, (x1, y1) = map(floor.spot, path)
        _curve(axes, [(x0, y0 - HIGH / 2), *middle, (x1, y1 + HIGH / 2 + 0.03)])
    for (a, b), n in against.items():
        _against(axes, floor.spot(a), floor.spot(b), n)
    left, right = floor.sides()
    for name, height in floor.height.items():
        if not isinstance(name, str):
            continue
        x, y = floor.spot(name)
        colour = GREEN if "/" in name else BLUE[min(height, len(BLUE) - 1)]
        _box(axes, x, y, WIDE, colour)
        short = name.rpartition("/")[2]
        size = 10.0 if len(short) < 18 else 8.0
        axes.text(x, y + 0.07, short, ha="center", va="center", fontsize=size, weight="bold", zorder=4)
        axes.text(x, y - 0.13, notes[name], ha="center", va="center", fontsize=8, color=INK, zorder=4)
    low = -HIGH / 2
    if ground:
        low -= STEP
        _box(axes, (left + right) / 2, -STEP, right - left, SAND)
        axes.text((left + right) / 2, -STEP, ground, ha="center", va="center", fontsize=10, zorder=4)
    axes.set(xlim=(left - 0.1, right + 0.1), ylim=(low - 0.1, STEP * (len(floor.rows) - 1) + HIGH / 2 + 0.1))
    axes.set_title(title, fontsize=13, weight="bold", pad=10)
    axes.set_axis_off()


def _box(axes: Any, x: float, y: float, wide: float, colour: str) -> None:
    box = FancyBboxPatch((x - wide / 2, y - HIGH / 2), wide, HIGH, boxstyle="round,pad=0,rounding_size=0.06")
    box.set(facecolor=colour, edgecolor=INK, linewidth=0.9, zorder=3)
    axes.add_patch(box)


def _curve(axes: Any, points: list[tuple[float, float]]) -> None:
    corners, codes = [points[0]], [Path.MOVETO]
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        corners += [(x0, (y0 + y1) / 2), (x1, (y0 + y1) / 2), (x1, y1)]
        codes += [Path.CURVE4] * 3
    tail = FancyArrowPatch(
        path=Path(corners, codes), arrowstyle="-", color="#66717f", lw=1.1, zorder=1, capstyle="butt"
    )
    axes.add_patch(tail)
    x, y = points[-1]
    axes.add_patch(
        FancyArrowPatch((x, y + 0.12), (x, y - 0.04), arrowstyle="-|>", mutation_scale=11,
                        color="#66717f", lw=1.1, zorder=1)
    )  # fmt: skip


def _against(axes: Any, start: tuple[float, float], end: tuple[float, float], n: int) -> None:
    (x0, y0), (x1, y1) = start, end
    toward = (x1 > x0) - (x1 < x0)
    x0, x1 = x0 + 0.32 * WIDE * (toward or 1), x1 + 0.32 * WIDE * (-toward or 1)
    axes.add_patch(
        FancyArrowPatch((x0, y0 + HIGH / 2), (x1, y1 - HIGH / 2), connectionstyle="arc3,rad=0.12",
                        arrowstyle="-|>", mutation_scale=12, color=RED, lw=1.6, zorder=2)
    )  # fmt: skip
    axes.text((x0 + x1) / 2 + 0.12, (y0 + y1) / 2, f"{n}", color=RED, fontsize=10, weight="bold", va="center")
