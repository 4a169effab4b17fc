"""Whom a guarantee speaks of: one row, or one person with all their rows."""

from typing import Final

from sottovoce._validation import whole_number

__all__ = ["PERSON_UNIT", "ROW_UNIT", "UNITS", "checked_max_rows", "is_of_persons", "unit_of"]

ROW_UNIT: Final = "one row of the table, label included"
_PERSON: Final = "one person: all rows of one group"
PERSON_UNIT: Final = f"{_PERSON}, labels included"  # whatever the number of rows is that a fit uses
UNITS: Final = {"row": ROW_UNIT, "person": PERSON_UNIT}  # of budgets, by the names that users give
_MOST_ROWS: Final = 2**20  # of one person; sums of terms stay exact, and nobody has as many


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
