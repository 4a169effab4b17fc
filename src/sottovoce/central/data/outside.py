"""OutsideTable: a table that is not a matrix in this process's memory; what is public of it."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

__all__ = ["OutsideTable"]


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
