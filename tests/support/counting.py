"""Operations with a state a row, by which a row that is left out, or counted twice, is seen at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.central.data.operation import Columns, Effect, Operation, RowSum, is_number
from sottovoce.central.data.part import Part


class Rows(Operation[int]):
    """Answers with a number of rows."""

    def allows(self, answer: object, n_rows: int, columns: Columns) -> bool:
        """Allow as many as there are."""
        return is_number(answer, n_rows)


@dataclass(frozen=True)
class Begin(Rows):
    """Begin a run: every row has the state ``start``."""

    start: float
    effect: ClassVar[Effect] = Effect.FIRST

    def on(self, part: Part) -> int:
        """Return the number of rows."""
        part.memory.set("state", np.full(part.n_samples, self.start))
        return part.n_samples


@dataclass(frozen=True)
class Move(RowSum):
    """Add a released number to the state of each row, twice the state; the sum of all states comes back."""

    step: float
    effect: ClassVar[Effect] = Effect.STEP
    writes: ClassVar[tuple[str, ...]] = ("state",)

    def shape(self, columns: Columns) -> tuple[int, ...]:
        """One sum a column."""
        return (columns.n_weights,)

    def add(self, rows: Any, views: Sequence[NDArray[Any]], lo: int, hi: int, total: NDArray[np.int64]) -> None:
        """Move the states, and add them up times the entries of their rows."""
        state = views[0][lo:hi]
        state[...] = (2.0 * state + self.step) % 1009.0
        total += (state[:, None] * rows.X[lo:hi]).sum(axis=0).astype(np.int64)


@dataclass(frozen=True)
class CountRows(Rows):
    """Count rows."""

    def on(self, part: Part) -> int:
        """Return their number."""
        return part.n_samples


@dataclass(frozen=True)
class FirstRows(Operation[list[int]]):
    """List where parts begin: an answer that is no sum, and has an order."""

    def on(self, part: Part) -> list[int]:
        """Return the place of the first row."""
        return [part.first_row]

    def allows(self, answer: object, n_rows: int, columns: Columns) -> bool:
        """Allow a list."""
        return isinstance(answer, list)


@dataclass(frozen=True)
class Pause(Rows):
    """Count rows; the first part waits to be let go, the first time that it is asked in this process."""

    token: str
    asked: ClassVar[set[str]] = set()
    go: ClassVar[Event] = Event()

    def on(self, part: Part) -> int:
        """Return the number of rows, some time later."""
        if part.first_row == 0 and self.token not in self.asked:
            self.asked.add(self.token)
            assert self.go.wait(30.0)
            self.go.clear()
        return part.n_samples


@dataclass(frozen=True)
class Refuse(Rows):
    """Refuse rows of these places in the table."""

    rows: tuple[int, ...]

    def on(self, part: Part) -> int:
        """Raise what operations on data raise."""
        from sottovoce.exceptions import DataError

        for row in self.rows:
            if part.first_row <= row < part.first_row + part.n_samples:
                raise DataError(f"row {row} is not wanted")
        return 0
