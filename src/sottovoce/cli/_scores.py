"""How predictions compare with labels, added up some rows at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Scored", "ScoredClasses", "ScoredNumbers"]


class Scored(ABC):
    """What is left of the rows that were compared."""

    def __init__(self) -> None:
        self.n_rows = 0

    @abstractmethod
    def add(self, labels: npt.NDArray[Any], predicted: npt.NDArray[Any]) -> None:
        """Compare some rows."""

    @abstractmethod
    def __str__(self) -> str: ...


class ScoredClasses(Scored):
    """The share of predictions that are the label."""

    def __init__(self) -> None:
        super().__init__()
        self._right = 0

    def add(self, labels: npt.NDArray[Any], predicted: npt.NDArray[Any]) -> None:
        self.n_rows += len(labels)
        self._right += int(np.sum(labels == predicted))

    def __str__(self) -> str:
        return f"accuracy {self._right / self.n_rows:.4f}"


class ScoredNumbers(Scored):
    """Mean squared error and R^2; the spread of the labels is added up around a mean that moves."""

    def __init__(self) -> None:
        super().__init__()
        self._error = self._mean = self._spread = 0.0

    def add(self, labels: npt.NDArray[Any], predicted: npt.NDArray[Any]) -> None:
        count = len(labels)
        mean = float(np.mean(labels))
        both = self.n_rows + count
        self._error += float(np.sum((labels - predicted) ** 2))
        self._spread += float(np.sum((labels - mean) ** 2)) + (mean - self._mean) ** 2 * self.n_rows * count / both
        self._mean += (mean - self._mean) * count / both
        self.n_rows = both

    def __str__(self) -> str:
        text = f"mean squared error {self._error / self.n_rows:.6g}"
        return text if self.n_rows < 2 else f"{text}, R^2 {self._r2():.4f}"

    def _r2(self) -> float:
        if self._spread == 0.0:
            return 1.0 if self._error == 0.0 else 0.0
        return 1.0 - self._error / self._spread
