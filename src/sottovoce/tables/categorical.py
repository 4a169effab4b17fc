"""CategoricalColumn: a value from a public list, encoded one-hot as a feature or taken as it is as a label."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sottovoce._validation import nearest, number
from sottovoce.exceptions import SchemaError
from sottovoce.tables.cells import SHOWN, Cells, Codes, Mask, number_of, shown
from sottovoce.tables.column import INDICATOR, Block, Column

Level = str | int | float | bool

_MISSING, _UNKNOWN = -1, -2


@dataclass(frozen=True)
class CategoricalColumn(Column):
    """A value from a public list.

    As a feature the value becomes one feature a category, of which the one that holds the value is 1. A missing value
    is 0 in all of them, unless the list of categories holds its marker, which makes it a category like the others, or
    ``missing`` says else.

    Parameters
    ----------
    name : str
        Name of the column in the table.
    categories : tuple of str, tuple of numbers, or tuple of bool
        Public. All values; they are the ``classes_`` of a classifier when the column is the target. Cells are compared
        with texts without outer white space, with numbers by value (``1``, ``1.0`` and ``+1`` are the same), and with
        ``true`` and ``false`` in any case.
    aliases : dict, or tuple of (str, category), default=()
        Public. Further spellings, each with the category that it stands for.
    unknown : {"error", "ignore"}, default="error"
        What happens to a value that is not in the list: it is refused, or becomes 0 in all features. A label is
        refused in any case.
    missing : category, "indicator" or None, default=None
        Public. What a missing value becomes: this category; or one more feature, ``"NAME is missing"``, which is 1 for
        it. None: 0 in all features.

    Raises
    ------
    SchemaError
        If the list is empty, repeats itself or mixes texts with numbers, or an alias is wrong.

    Notes
    -----
    Privacy: the list is a public fact. It is never completed from the data.

    Examples
    --------
    >>> CategoricalColumn("sex", categories=("Female", "Male")).feature_names
    ('sex=Female', 'sex=Male')
    """

    type_name: ClassVar[str] = "categorical"
    choices = {"unknown": ("error", "ignore")}  # noqa: RUF012 - of the base, a ClassVar
    needed = "categories", "Write categories = [...] with every value that can occur, from public knowledge."

    _: KW_ONLY
    categories: tuple[Level, ...]
    aliases: tuple[tuple[str, Level], ...] = ()
    unknown: str = "error"
    missing: Level | None = None

    def _checked(self, where: str) -> dict[str, Any]:
        if not isinstance(self.categories, (list, tuple)) or not self.categories:
            raise SchemaError(f"{where}.categories must be a list with at least one value; got {self.categories!r}.")
        object.__setattr__(self, "categories", tuple(self.categories))
        self._check_kind(where)
        for place, category in enumerate(self.categories):
            if isinstance(category, str) and category != category.strip():
                raise SchemaError(
                    f"{where}.categories holds {category!r}: cells are compared without outer white space; "
                    f"write {category.strip()!r}."
                )
            if self._places[category] != place:
                raise SchemaError(f"{where}.categories holds {category!r} twice.")
        if not isinstance(self.aliases, (Mapping, list, tuple)):
            raise SchemaError(f'{where}.aliases must be a table such as {{"yes." = "yes"}}; got {self.aliases!r}.')
        object.__setattr__(self, "aliases", tuple(dict(self.aliases).items()))
        for spelling, level in self.aliases:
            if not isinstance(spelling, str) or spelling != spelling.strip():
                raise SchemaError(f"{where}.aliases must be texts without outer white space; got {spelling!r}.")
            if level not in self._places:
                known = [category for category in self.categories if isinstance(category, str)]
                hint = nearest(level, known) if isinstance(level, str) else ""
                raise SchemaError(f"{where}.aliases: {spelling!r} stands for {level!r}, which is not a category.{hint}")
            if self._places.get(self._value(spelling)) not in (None, self._places[level]):
                raise SchemaError(f"{where}.aliases: {spelling!r} is a category itself and cannot stand for {level!r}.")
        if self.missing == INDICATOR and INDICATOR in self.categories:
            raise SchemaError(
                f'{where}.missing = "{INDICATOR}" could be the category or the rule. Use aliases for the category: '
                f'aliases = {{"" = "{INDICATOR}"}}.'
            )
        if self.missing not in (None, INDICATOR, *self.categories):
            raise SchemaError(f'{where}.missing must be one of the categories, or "{INDICATOR}"; got {self.missing!r}.')
        return {}

    def _check_kind(self, where: str) -> None:
        kinds = {type(category) if isinstance(category, (str, bool)) else float for category in self.categories}
        if len(kinds) > 1:
            raise SchemaError(
                f"{where}.categories must be all texts, all numbers, or all true and false; got "
                f"{list(self.categories)!r}."
            )
        for category in self.categories if kinds == {float} else ():
            number(f"{where}.categories", category)

    def _value_names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}={_text(category)}" for category in self.categories)

    def _encoded(self, cells: Cells, missing: Collection[str]) -> tuple[Block, Mask]:
        positions = self._positions(cells, missing)
        if self.unknown == "error":
            self._refuse_unknown(cells, positions, 'or write unknown = "ignore" to encode such values as zeros')
        absent = positions == _MISSING
        if self.missing not in (None, INDICATOR):
            positions = np.where(absent, self._places[self.missing], positions)
            absent = np.zeros_like(absent)
        return (np.maximum(positions, _MISSING), np.ones(len(positions))), absent

    def refuse_as_target(self) -> None:
        """Refuse fewer than two classes, fractions, which scikit-learn takes for regression, and a rule for missing."""
        super().refuse_as_target()
        if len(self.categories) < 2:
            raise SchemaError(
                f"column {self.name!r} is the target and has the one class {self.categories[0]!r}: a classifier needs "
                "two or more. List every class that can occur."
            )
        for category in self.categories:
            if isinstance(category, float) and not category.is_integer():
                raise SchemaError(
                    f"column {self.name!r} is the target and has the class {category!r}: classes are texts, whole "
                    f'numbers, or true and false. Write it as a text, "{category}", or describe the column as numeric.'
                )

    def _labels(self, cells: Cells, missing: Collection[str]) -> tuple[npt.NDArray[Any], Mask]:
        positions = self._positions(cells, missing)
        self._refuse_unknown(cells, positions, "or list its spelling under aliases")
        return np.asarray(self.categories)[positions], positions == _MISSING

    def _positions(self, cells: Cells, missing: Collection[str]) -> Codes:
        """Return the place of the category in each row, ``_MISSING`` or ``_UNKNOWN``."""
        texts, numbers = cells.spelled()
        return np.array([self._place(text, missing) for text in texts], dtype=np.int64)[numbers] if texts else numbers

    def _place(self, text: str | None, missing: Collection[str]) -> int:
        if text is None:
            return _MISSING
        value = self._value(text)
        if value not in self._places:
            value = self._alias.get(text)
        return self._places.get(value, _MISSING if text in missing else _UNKNOWN)

    def _value(self, text: str) -> Level | None:
        """Return the value that a text spells, of the kind that the categories are of."""
        kind = type(self.categories[0])
        if kind is bool:
            return {"true": True, "false": False}.get(text.lower())
        return text if kind is str else number_of(text)

    @cached_property
    def _places(self) -> dict[Level | None, int]:
        return {category: place for place, category in reversed([*enumerate(self.categories)])}

    @cached_property
    def _alias(self) -> dict[str, Level]:
        return dict(self.aliases)

    def _refuse_unknown(self, cells: Cells, positions: Codes, remedy: str) -> None:
        """Raise a TableError that lists the first few unknown values, each with the line where it first occurs."""
        rows = np.flatnonzero(positions == _UNKNOWN)
        if not rows.size:
            return
        texts, numbers = cells.spelled()
        first_rows = rows[np.unique(numbers[rows], return_index=True)[1]]
        listed = ", ".join(f"{shown(texts[numbers[row]])} ({cells.line(int(row))})" for row in first_rows[1:SHOWN])
        if len(first_rows) > SHOWN:
            listed += ", ..."
        others = f" (and {listed})" if listed else ""
        value = texts[numbers[first_rows[0]]]
        hint = nearest(value or "", [category for category in self.categories if isinstance(category, str)])
        raise cells.error(
            int(first_rows[0]),
            f"{shown(value)} is not among the {len(self.categories)} categories of the schema{others}",
            f"Correct the cell, add the category to the schema if it is public knowledge, {remedy}.{hint}",
        )


def _text(category: Level) -> str:
    if isinstance(category, bool):
        return "true" if category else "false"
    return str(category)
