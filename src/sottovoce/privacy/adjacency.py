"""Which tables are neighbours, whom a guarantee speaks of, and how far sums over rows can move between neighbours."""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final

from sottovoce._validation import choice, whole_number

ROW_UNIT: Final = "one row of the table, label included"
_PERSON: Final = "one person: all rows of one group"
PERSON_UNIT: Final = f"{_PERSON}, labels included"  # whatever the number of rows is that a fit uses
UNITS: Final = {"row": ROW_UNIT, "person": PERSON_UNIT}  # of budgets, by the names that users give
_MOST_ROWS: Final = 2**20  # of one person; sums of terms stay exact, and nobody has as many


class Adjacency(Enum):
    """The relation between neighbouring tables; the unit is one row of the table, label included, or one person.

    ==============  ====================================================  =====================  ====================
    value           one row is ...                                        number of rows n       sum of rows within c
    ==============  ====================================================  =====================  ====================
    zero-out        replaced by an all-zero row that contributes nothing  public                 moves by at most c
    add-remove      added or removed                                      secret; a public       moves by at most c
                                                                          stand-in is given
    replace-one     replaced by any other row                             public                 moves by at most 2c
    ==============  ====================================================  =====================  ====================

    Zeroing a row out is stronger than it sounds: the row leaves every sum, with its label and its part of the
    intercept. The relation in which a row keeps label and intercept and only its features become zero is another one.
    A guarantee for zero-out does not cover it: between such neighbours a sum moves by up to 2c, as for replace-one,
    which does cover it.

    Where the unit is a person, "row" reads as "person": all rows of one person are zeroed out, added or removed, or
    replaced; see ``docs/privacy/person_unit.md``. Sums then move as `sottovoce.privacy.adjacency` says.

    Replacing a row is zeroing it out and then filling it in, so a guarantee (epsilon, delta) for zero-out gives
    (2 epsilon, (1 + e^epsilon) delta) for replace-one; asking for replace-one gives a tighter one.
    """

    ZERO_OUT = "zero-out"
    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"

    @classmethod
    def parse(cls, value: "str | Adjacency") -> "Adjacency":
        """Return the member named ``value``, or refuse it with the list of names."""
        return cls(value if isinstance(value, Adjacency) else choice("adjacency", value, [each.value for each in cls]))

    @property
    def sum_factor(self) -> float:
        """How far a sum of per-row terms, each of norm at most 1, can move between neighbours."""
        return 2.0 if self is Adjacency.REPLACE_ONE else 1.0

    def statement(self, unit: str) -> str:
        """Return one sentence for the receipt, for rows or for persons, as the ``unit`` in words says."""
        row, person = _CHANGES[self]
        rows = "is secret and a public stand-in for it was used" if self is Adjacency.ADD_REMOVE else "is public"
        change = person if is_of_persons(unit) else row
        return f"Two tables are neighbours when {change}; the number of rows {rows}."


# what happens to one row, and to the rows of one person
_CHANGES: Final = {
    Adjacency.ZERO_OUT: (
        "one row of the one is replaced by an all-zero row that contributes nothing",
        "all rows of one person in the one are replaced by rows that belong to nobody and contribute nothing",
    ),
    Adjacency.ADD_REMOVE: (
        "the one has one row more than the other",
        "the one has all rows of one person more than the other",
    ),
    Adjacency.REPLACE_ONE: (
        "one row of the one is replaced by any other row",
        "all rows of one person in the one are replaced by any rows of one person, some of which may belong to nobody",
    ),
}


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


def unit_of(max_rows_per_group: int | None) -> str:
    """Return the unit in words; None is one row."""
    if max_rows_per_group is None:
        return ROW_UNIT
    rows = "row is" if max_rows_per_group == 1 else "rows are"
    return f"{_PERSON}, of which at most {max_rows_per_group} {rows} used, labels included"


def is_of_persons(unit: str) -> bool:
    """Tell whether a unit in words is a person, as `unit_of` and `PERSON_UNIT` say it."""
    return unit.startswith(_PERSON)


def checked_max_rows(value: object) -> int:
    """Return the public bound on the rows of a person, or refuse it."""
    remedy = (
        "It is the public number of rows that are used of one person; of those who have more, so many are drawn at "
        "random. Never compute it from the data."
    )
    return whole_number("max_rows_per_group", value, at_least=1, at_most=_MOST_ROWS, remedy=remedy)
