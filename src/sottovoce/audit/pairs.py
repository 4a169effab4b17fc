"""Neighbouring tables on which a broken mechanism shows: canary rows at the bounds that the user declared.

The canary is one row at the very bound. The rows beside it are as quiet as they can be: zeros, one of each class at
least, few of them where the mechanism does not divide its noise by n. On real data a violation hides behind the other
rows; the promise is about all tables.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce._validation import bounds, choice, number, whole_number
from sottovoce.exceptions import ParameterError

Array = NDArray[np.float64]

_ADJACENCIES = ("replace-one", "add-remove")


@dataclass(frozen=True)
class Pair:
    """Two tables that differ in one row, the last of the first.

    Attributes
    ----------
    name : str
        What differs, in words.
    X, y : ndarray
        The first table.
    X_neighbour, y_neighbour : ndarray
        The second: as many rows (replace-one), or one fewer (add-remove).
    direction : ndarray of shape (n_features,)
        The canary's row: the coefficients move along it.
    """

    name: str
    X: Array
    y: NDArray[Any]
    X_neighbour: Array
    y_neighbour: NDArray[Any]
    direction: Array

    def __post_init__(self) -> None:
        for X, y in ((self.X, self.y), (self.X_neighbour, self.y_neighbour)):
            if X.ndim != 2 or len(X) != len(y) or X.shape[1] != self.X.shape[1]:
                raise ParameterError(f"pair {self.name!r}: X and y must have as many rows, and both X as many columns.")
        shared = min(len(self.X), len(self.X_neighbour))
        differ = [
            row
            for row in range(shared)
            if (self.X[row] != self.X_neighbour[row]).any() or self.y[row] != self.y_neighbour[row]
        ]
        if len(differ) + abs(len(self.X) - len(self.X_neighbour)) != 1:
            raise ParameterError(f"pair {self.name!r}: the tables must differ in exactly one row.")


def worst_case_pairs(
    *,
    n_rows: int = 8,
    n_features: int = 24,
    data_norm: float | None = None,
    data_bound: float | None = None,
    classes: Any = None,
    label_bounds: Any = None,
    adjacency: str = "replace-one",
) -> list[Pair]:
    """Return pairs of tables at the bounds that an estimator was told.

    Parameters
    ----------
    n_rows : int, >= 3
        Rows of the first table.
    n_features : int, default 24
        Wide enough for the kernels that most tables use, which take whole vectors of entries; 1 is the narrow form.
    data_norm, data_bound : float
        Exactly one: the declared bound on the norm of a row, or on an entry.
    classes, label_bounds
        Exactly one: the two classes, or the bounds of a numeric label.
    adjacency : {"replace-one", "add-remove"}

    Returns
    -------
    list of Pair

    Raises
    ------
    ParameterError
        If a fact is missing, given twice, or out of range.
    """
    n_rows = whole_number("n_rows", n_rows, at_least=3)
    n_features = whole_number("n_features", n_features, at_least=1)
    choice("adjacency", adjacency, _ADJACENCIES)
    if (data_norm is None) == (data_bound is None):
        raise ParameterError("give exactly one of data_norm and data_bound, as the estimator was told.")
    if (classes is None) == (label_bounds is None):
        raise ParameterError("give exactly one of classes and label_bounds, as the estimator was told.")
    if classes is not None and len(np.unique(np.asarray(list(classes)))) != 2:
        raise ParameterError(f"classes must list two classes; got {list(classes)!r}.")
    zero = np.zeros(n_features)
    long: dict[str, Array] = {}
    if data_norm is not None:
        norm = number("data_norm", data_norm, above=0.0)
        long["in one column"] = np.eye(n_features)[0] * norm
        if n_features > 1:
            long["in all columns"] = np.full(n_features, norm / math.sqrt(n_features))
    else:
        long["in all columns"] = np.full(n_features, number("data_bound", data_bound, above=0.0))
    low, high = bounds("label_bounds", label_bounds) if classes is None else np.unique(np.asarray(list(classes)))
    quiet_labels = np.array([low, high] * n_rows)[: n_rows - 1]
    pairs = []
    for where, row in long.items():
        backgrounds = {"zeros": np.zeros((n_rows - 1, n_features)), "rows against it": np.tile(-row, (n_rows - 1, 1))}
        for name, quiet in backgrounds.items():
            for what, canary, other in _changes(row, zero, low, high, adjacency):
                X, y = np.vstack([quiet, canary[0]]), np.append(quiet_labels, canary[1])
                if other is None:
                    X_other, y_other = quiet, quiet_labels
                else:
                    X_other, y_other = np.vstack([quiet, other[0]]), np.append(quiet_labels, other[1])
                pairs.append(Pair(f"{what}, {where}, beside {name}", X, y, X_other, y_other, row))
    return pairs


def _changes(row: Array, zero: Array, low: Any, high: Any, adjacency: str) -> list[tuple[str, Any, Any]]:
    """Return (what, canary, its replacement or None), each a row with its label."""
    if adjacency == "add-remove":
        return [("a long row or none", (row, high), None), ("a long row of the other label or none", (row, low), None)]
    return [
        ("the label of a long row", (row, high), (row, low)),
        ("a long row or a zero one", (row, high), (zero, high)),
        ("a long row or its opposite", (row, high), (-row, high)),
        ("a long row or a zero one of the other label", (row, high), (zero, low)),
    ]
