"""Tables that are no matrix in this process's memory: what is public of them, and rows that stay where they are."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sottovoce.central.data.holder import Holder


class OutsideTable(ABC):
    """Rows on disk or in other processes: sizes, type and names are known, values come when a fit asks."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Public numbers of rows and of columns."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Type of the entries: float32 or float64."""

    @property
    @abstractmethod
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns, in order; none where columns have no names."""

    @property
    @abstractmethod
    def has_labels(self) -> bool:
        """Whether the table names its target."""

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]


class RemoteTable(OutsideTable):
    """Rows, and their labels, that stay where they are: a fit asks their holder.

    There is no y beside it, and no other value for each row: a row's label is in the same place as the row.
    """

    @property
    def groups(self) -> "Callable[[], Any] | None":
        """What returns the person of each row, where the table can tell."""
        return None

    @abstractmethod
    def opened(self) -> "AbstractContextManager[Holder]":
        """Open the table for one fit: its parts have raw labels (`Part.labels`), and nothing else is remembered yet."""

    @abstractmethod
    def predicted(self, model: Any, method: str) -> Any:
        """Return what a method of a fitted model says of each row, as an array that is made when it is asked for."""

    @abstractmethod
    def counted(self, model: Any, method: str) -> Sequence[Any]:
        """Return what a method of a fitted model says of each part of the rows and of their labels together, now."""
