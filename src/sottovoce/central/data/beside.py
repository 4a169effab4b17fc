"""What whoever asks brings to the rows: weights, which rows persons have used, steps before a model."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.central.data.at_hand import at_hand
from sottovoce.central.data.operation import Change, Effect
from sottovoce.central.data.part import Part
from sottovoce.central.data.stepped import SteppedTable, rows_after
from sottovoce.central.data.streamed import StreamedTable

__all__ = ["Remember", "StepRows", "UseRows"]


@dataclass(frozen=True, eq=False)
class Remember(Change):
    """Keeps a number of each row as a column."""

    name: str
    values: NDArray[Any]  # of consecutive rows of the whole table
    first_row: int = 0  # place of the first of them

    effect = Effect.LASTING

    def on(self, part: Part) -> None:
        start = part.first_row - self.first_row
        part.memory.set(self.name, self.values[start : start + part.n_samples])

    def about(self, first: int, stop: int) -> "Remember":
        return replace(self, values=self.values[first - self.first_row : stop - self.first_row], first_row=first)


@dataclass(frozen=True, eq=False)
class UseRows(Change):
    """Leaves out all rows but some, and has these at hand, in an order."""

    places: NDArray[np.intp] | None  # in the whole table, those of a part in their order; None: all rows, as they are
    persons: NDArray[np.int64] | None = None  # where each person begins among them; for a table of one part

    effect = Effect.LASTING

    def on(self, part: Part) -> None:
        own = self.about(part.first_row, part.first_row + part.n_samples).places
        places = None if own is None else own - part.first_row
        raw = at_hand(part.raw, places)
        if raw is not part.raw:
            part.take(raw, places, self.persons)

    def about(self, first: int, stop: int) -> "UseRows":
        if self.places is None:
            return self
        return replace(self, places=self.places[(self.places >= first) & (self.places < stop)])


@dataclass(frozen=True, eq=False)
class StepRows(Change):
    """Has rows go through a step that treats each by itself; those on disk each time that they are read."""

    step: Callable[[Any], Any]
    n_features: int  # from now on

    effect = Effect.LASTING

    @property
    def columns_after(self) -> int:
        return self.n_features

    def on(self, part: Part) -> None:
        raw = part.raw
        part.raw = SteppedTable(raw, self.step) if isinstance(raw, StreamedTable) else rows_after(self.step, raw)
        part.n_features = self.n_features
