"""Column: the public facts about one column of a table, and how its cells become a block of the encoded row."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from sottovoce._validation import choice
from sottovoce.exceptions import SchemaError
from sottovoce.tables._toml import refuse_unknown_keys, said, schema_errors
from sottovoce.tables.cells import Cells, Codes, Mask

INDICATOR: Final = "indicator"

# the encoded cells of one column: where the entry of each row stands within its features, -1 where the row has none,
# and the entries, within [-1, 1]. One such entry a column is what makes the norm of a whole row a public fact: with k
# encoded columns it is at most sqrt(k), whatever the data
Block: TypeAlias = tuple[Codes, npt.NDArray[np.float64]]


@dataclass(frozen=True)
class Column(ABC):
    """One column of a schema.

    Parameters
    ----------
    name : str
        Name of the column in the table.
    """

    type_name: ClassVar[str]
    needed: ClassVar[tuple[str, str]] = ("type", "")  # an entry that each section has, and what to write where it lacks
    choices: ClassVar[Mapping[str, Collection[str]]] = {}  # what entries may be, beside their defaults

    name: str

    @schema_errors()
    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.name != self.name.strip():
            raise SchemaError(f"a column name must be a text without outer white space; got {self.name!r}.")
        where, defaults = f"columns.{self.name}", {one.name: one.default for one in fields(self)}
        for name, allowed in self.choices.items():
            if getattr(self, name) != defaults[name]:
                choice(f"{where}.{name}", getattr(self, name), allowed)
        for name, value in self._checked(where).items():
            object.__setattr__(self, name, value)

    def _checked(self, where: str) -> dict[str, Any]:
        """Return entries as they are kept, or refuse one; ``where``: the section, for messages."""
        return {}

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features that the column becomes, in order; empty if it becomes none."""
        return (*self._value_names(), *([f"{self.name} is missing"] if self._has_indicator else []))

    @property
    def _has_indicator(self) -> bool:
        return getattr(self, "missing", None) == INDICATOR

    def _value_names(self) -> tuple[str, ...]:
        return ()

    def effects(self, coefficients: Sequence[float]) -> list[tuple[float, str]]:
        """Return what coefficients of the features mean in the units of the table: an amount, and where it is added.

        Parameters
        ----------
        coefficients : sequence of float
            One for each feature.
        """
        if self._scale is None:
            return [(value, f"where {name}") for value, name in zip(coefficients, self.feature_names, strict=True)]
        unit, place = self._scale
        missing = [(value, f"where {self.name} is missing") for value in coefficients[1:]]
        return [(coefficients[0] * unit, place), *missing]

    @property
    def _scale(self) -> tuple[float, str] | None:
        """What one more of the feature is in the units of the table, and where; None if features are 0 or 1."""
        return None

    @property
    def nonnegative(self) -> bool:
        """Whether no feature of the column can be negative, whatever the data."""
        return self._scale is None

    def encode(self, cells: Cells, missing: Collection[str]) -> Block:
        """Encode the cells as features.

        Raises
        ------
        TableError
            If a cell breaks what the schema says about it.
        """
        (places, values), absent = self._encoded(cells, missing)
        if not absent.any():
            return places, values
        if self._has_indicator:
            # a row without a value has no other entry: one entry a column still, and its norm the same bound
            return np.where(absent, np.int64(len(self._value_names())), places), np.where(absent, 1.0, values)
        return np.where(absent, np.int64(-1), places), values

    def _encoded(self, cells: Cells, missing: Collection[str]) -> tuple[Block, Mask]:
        """Return the block as if no row lacked a value, and which rows do."""
        raise NotImplementedError

    def refuse_as_target(self) -> None:
        """Raise a SchemaError if a column of this description cannot be the target."""
        if getattr(self, "missing", None) is not None:  # a label that is made up would be learnt
            raise SchemaError(
                f"column {self.name!r} is the target and has a rule for missing values: a missing label is refused. "
                "Remove missing."
            )

    def labels(self, cells: Cells, missing: Collection[str]) -> npt.NDArray[Any]:
        """Read the cells as labels.

        Raises
        ------
        TableError
            If a label is missing, or breaks what the schema says about it.
        """
        self.refuse_as_target()
        labels, absent = self._labels(cells, missing)
        if absent.any():
            raise cells.error(int(np.argmax(absent)), "the label is missing", "Remove the row or give it a label.")
        return labels

    def _labels(self, cells: Cells, missing: Collection[str]) -> tuple[npt.NDArray[Any], Mask]:
        """Return labels, and which rows have none."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the section of the column: ``type`` and what differs from the defaults."""
        return {"type": self.type_name, **said(self)}

    @classmethod
    def from_dict(cls, name: str, entries: Mapping[str, Any]) -> Column:
        """Build the column ``name`` from its section; an unknown key is refused with the nearest known one."""
        keys = [one.name for one in fields(cls)][1:]
        refuse_unknown_keys(f"[columns.{name}]", entries, ("type", *keys))
        if cls.needed[0] not in entries:
            raise SchemaError(f"[columns.{name}] has no {cls.needed[0]}. {cls.needed[1]}")
        return cls(name, **{key: value for key, value in entries.items() if key != "type"})


@dataclass(frozen=True)
class IgnoredColumn(Column):
    """A column that is in the table and not in the model."""

    type_name: ClassVar[str] = "ignore"

    def refuse_as_target(self) -> None:
        raise SchemaError(
            f'column {self.name!r} is the target, but the schema says type = "ignore". Describe it: '
            'type = "categorical" with its classes as categories, or type = "numeric" with the bounds of the labels.'
        )


def within(
    cells: Cells, values: npt.NDArray[Any], absent: Mask, bounds: tuple[float, float], outside: str,
    shown: Callable[[Any], object],
) -> npt.NDArray[Any]:  # fmt: skip
    """Return values moved onto the public bounds; where ``outside`` is "error", refuse the first that is beyond them.

    ``shown``: returns a value as a message has it.
    """
    low, high = bounds
    beyond = np.flatnonzero(~absent & ((values < low) | (values > high))) if outside == "error" else absent[:0]
    if beyond.size:
        raise cells.error(
            int(beyond[0]),
            f"{shown(values[beyond[0]])} lies outside the bounds [{shown(low)}, {shown(high)}]",
            'Widen the bounds in the schema, or write outside = "clip" to move such values onto the bound.',
        )
    return np.asarray(np.clip(values, low, high))


def scaled(values: npt.NDArray[Any], low: float, high: float) -> npt.NDArray[np.float64]:
    """Return values from ``low`` to ``high`` as numbers from -1 to 1."""
    shares: npt.NDArray[np.float64] = 2.0 * ((values - low) / (high - low)) - 1.0
    return np.clip(shares, -1.0, 1.0)
