"""RemoteTable: a table whose rows are in other processes, as X of `fit`."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from sottovoce.central.data.holder import Holder
from sottovoce.central.data.outside import OutsideTable

__all__ = ["RemoteTable"]


class RemoteTable(OutsideTable):
    """Rows, and their labels, that stay where they are: a fit asks their holder.

    There is no y beside it, and no other value for each row: a row's label is in the same place as the row.
    """

    @abstractmethod
    def opened(self, fit: Mapping[str, object]) -> AbstractContextManager[Holder]:
        """Open the table for one fit: its parts have raw labels (`Part.labels`), and nothing else is remembered yet.

        Parameters
        ----------
        fit : mapping
            What is asked of the rows: the estimator and its arguments, as plain data.
        """

    @abstractmethod
    def predicted(self, model: Any, method: str) -> Any:
        """Return what a method of a fitted model says of each row, as an array that is made when it is asked for."""

    @abstractmethod
    def counted(self, model: Any, method: str) -> Sequence[Any]:
        """Return what a method of a fitted model says of each part of the rows and of their labels together, now."""
