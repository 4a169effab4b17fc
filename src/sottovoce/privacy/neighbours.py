"""How far sums over rows can move between neighbours: the one place where the rows of a person are counted."""

import math
from dataclasses import dataclass

from sottovoce._validation import whole_number
from sottovoce.privacy.adjacency import Adjacency

__all__ = ["Neighbours"]


@dataclass(frozen=True)
class Neighbours:
    """Which tables are neighbours, where the unit is a row, or a person of whom at most so many rows are used.

    A value is *additive* when it is a sum of one term for each used row. Each property below bounds what one unit does
    to such a value: the bound of one row, ``rows`` times (the triangle inequality through tables that differ in one
    row). Under replace-one the persons before and after may have different numbers of used rows: each row of the one is
    replaced by one of the other, or added, or taken away, ``rows`` times in all.
    Proof: ``docs/privacy/person_unit.md``.
    """

    adjacency: Adjacency
    # Public. Rows of one unit that are used, at most.
    rows: int = 1

    def __post_init__(self) -> None:
        whole_number("rows", self.rows, at_least=1, at_most=2**53)

    @property
    def sum_factor(self) -> float:
        """How far a sum of terms, each of norm at most 1, can move."""
        return self.rows * self.adjacency.sum_factor

    @property
    def count(self) -> float:
        """How far a number of rows can move, or the largest eigenvalue of a sum of x x' with rows at most 1 long."""
        return float(self.rows)

    @property
    def square_factor(self) -> float:
        """How far (L2) a histogram, or a sum of x x' with rows at most 1 long (Frobenius), can move."""
        return self.rows * math.sqrt(self.adjacency.sum_factor)
