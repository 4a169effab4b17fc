"""What joint training computes on: rows of all parties as whole numbers, none longer than 2^14 with its constant.

A party's part of a row is shortened to the party's public bound and multiplied by the party's weight; the squares of
all weights add up to 1. So no joint row is longer than 1, the constant of the intercept beside it is .3, both are
divided by the length of the two together, multiplied by 2^14, and cut toward zero, which can only shorten them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sottovoce._numerics import PIECE, ROUNDING_SLACK, Vector
from sottovoce.central.data.part import RowUnit
from sottovoce.vertical.engines.engine import Whole
from sottovoce.vertical.table.columns import bounded_pieces

ROW: Final = 2**14  # length of the longest row, in whole numbers
SQUARE: Final = ROW**2
CONSTANT: Final = 0.3  # value of the intercept's column, in units of a row


def row_weights(widths: Sequence[int]) -> tuple[float, ...]:
    """Return the weight of each party's part of a row, from the number of its columns; the squares add up to 1.

    A square follows the root of that number: more columns have more to say, though not each as much. Nothing else is
    looked at, as the unit of a party's table is its own affair. See docs/decisions/0019.
    """
    roots = [math.sqrt(width) for width in widths]
    return tuple(math.sqrt(root / math.fsum(roots)) for root in roots)


def longest(beside: float = 0.0) -> int:
    """Return the largest square of the length of a whole row, ``beside`` units of `SQUARE` added; rounded up."""
    return math.ceil(SQUARE * (1.0 + beside) * ROUNDING_SLACK**2) + 1


@dataclass(frozen=True)
class RowPart:
    """One party's part of a row."""

    n_features: int
    data_norm: float  # public bound on the length of the party's rows
    weight: float
    constant: float  # `CONSTANT`, or 0 for none

    @property
    def factor(self) -> float:
        """What a column is multiplied by, before it becomes whole: weights in the table's unit are larger by it."""
        return self.weight * RowUnit(self.data_norm, self.constant).scale

    def whole(self, table: Any) -> Whole:
        """Return the party's columns as whole numbers, whatever the entries are."""
        rows = np.zeros((table.shape[0], self.n_features), np.int64)
        scale = ROW * self.weight / RowUnit(1.0, self.constant).whole
        for place, piece in bounded_pieces(table, self.data_norm):
            rows[place] = np.clip(np.nan_to_num(piece * scale, nan=0.0), -ROW, ROW)  # the cast cuts toward zero
        return rows


def whole_margins(rows: Whole, point: Vector, constant: float, unit: float, bound: float, used: Any) -> Whole:
    """Return rows times weights, plus ``constant``, in steps of 1 / ``unit``, cut at ``bound`` before the cast.

    ``used``: the columns that ``point`` has weights of.
    """
    margins = np.zeros(len(rows), np.int64)
    for low in range(0, len(rows), PIECE):
        place = slice(low, low + PIECE)
        with np.errstate(all="ignore"):
            exact = (rows[place, used].astype(np.float64) @ point / ROW + constant) * unit
        margins[place] = np.rint(np.clip(np.nan_to_num(exact, nan=0.0), -bound, bound))
    return margins


def upper_of_products(columns: Whole) -> Whole:
    """Return the upper triangle of X'X, in exact arithmetic: pieces whose sums stay below 2^53 in double precision."""
    width = columns.shape[1]
    total = np.zeros((width, width), np.int64)
    for low in range(0, len(columns), 2**16):
        piece = columns[low : low + 2**16].astype(np.float64)  # |entries| <= 2^14: sums stay below 2^44
        total += (piece.T @ piece).astype(np.int64)
    return total[np.triu_indices(width)]
