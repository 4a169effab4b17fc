"""Which two tables count as neighbours: the first thing that a privacy statement has to say."""

from enum import Enum
from typing import Final

from sottovoce._validation import choice
from sottovoce.privacy.unit import is_of_persons

__all__ = ["Adjacency"]


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
    replaced; see ``docs/privacy/person_unit.md``. Sums then move as `sottovoce.privacy.neighbours` says.

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
