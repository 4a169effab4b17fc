"""Which two tables count as neighbours: the first thing that a privacy statement has to say."""

from enum import Enum

from sottovoce.exceptions import ParameterError
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
        if isinstance(value, Adjacency):
            return value
        for member in cls:
            if isinstance(value, str) and value == member.value:
                return member
        listed = ", ".join(repr(member.value) for member in cls)
        raise ParameterError(f"adjacency must be one of {listed}; got {value!r}.")

    @property
    def sum_factor(self) -> float:
        """How far a sum of per-row terms, each of norm at most 1, can move between neighbours."""
        return 2.0 if self is Adjacency.REPLACE_ONE else 1.0

    def statement(self, unit: str) -> str:
        """Return one sentence for the receipt, for rows or for persons, as the ``unit`` in words says."""
        if is_of_persons(unit):
            return {
                Adjacency.ZERO_OUT: (
                    "Two tables are neighbours when all rows of one person in the one are replaced by rows that belong "
                    "to nobody and contribute nothing; the number of rows is public."
                ),
                Adjacency.ADD_REMOVE: (
                    "Two tables are neighbours when the one has all rows of one person more than the other; the number "
                    "of rows is secret and a public stand-in for it was used."
                ),
                Adjacency.REPLACE_ONE: (
                    "Two tables are neighbours when all rows of one person in the one are replaced by any rows of one "
                    "person, some of which may belong to nobody; the number of rows is public."
                ),
            }[self]
        return {
            Adjacency.ZERO_OUT: (
                "Two tables are neighbours when one row of the one is replaced by an all-zero row that contributes "
                "nothing; the number of rows is public."
            ),
            Adjacency.ADD_REMOVE: (
                "Two tables are neighbours when the one has one row more than the other; the number of rows is secret "
                "and a public stand-in for it was used."
            ),
            Adjacency.REPLACE_ONE: (
                "Two tables are neighbours when one row of the one is replaced by any other row; the number of rows "
                "is public."
            ),
        }[self]
