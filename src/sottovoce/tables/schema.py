"""Schema: the public facts about a table, read from a TOML file and embedded in the model."""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from numbers import Real
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse

from sottovoce._files import named_errors
from sottovoce._validation import nearest
from sottovoce.exceptions import ParameterError, SchemaError
from sottovoce.privacy.adjacency import checked_max_rows
from sottovoce.tables._toml import refuse_unknown_keys, said, toml_key, toml_text
from sottovoce.tables.categorical import CategoricalColumn, Level
from sottovoce.tables.column import Block, Column, IgnoredColumn
from sottovoce.tables.dates import DateColumn, is_date
from sottovoce.tables.layout import Layout
from sottovoce.tables.numeric import NumericColumn
from sottovoce.tables.table import BatchedTable, Table

# text: before scipy 1.16 the class takes no subscript at run time
Features: TypeAlias = "npt.NDArray[Any] | scipy.sparse.csr_matrix[Any]"

FORMAT = "sottovoce-schema"
VERSION = 1
_DENSE_FEATURES: Final = 32
_DENSE_SHARE: Final = 0.2
_FACTS: Final = ("confirmed", "target", "unit", "max_rows_per_unit")
_KEYS: Final = ("format", "version", *_FACTS, "table", "columns")
_PART = r"[^\s.=,\[\]{}#]"
_LONG_KEY = re.compile(rf"(?<!{_PART})(?:{_PART}+[ \t]*\.[ \t]*){{100}}")

_COLUMN_TYPES: dict[str, type[Column]] = {
    kind.type_name: kind for kind in (NumericColumn, CategoricalColumn, DateColumn, IgnoredColumn)
}


@dataclass(frozen=True, slots=True)
class Schema:
    """The public facts about a table: what each column is, which one is the target, how the file is written.

    Everything in a schema must be known without looking at the private data: from the documentation of the data, the
    form that was filled in, the law. A model is trained on what the schema says, and the schema travels with the model.

    Parameters
    ----------
    columns : tuple of Column
        One description a column, in the order of the file where that has no header.
    target : str or None, default=None
        Name of the column to predict: its categories are the classes, its bounds the bounds of the labels.
    layout : Layout, optional
        How a text file is written.
    confirmed : bool, default=True
        False in a draft that was made from data and that nobody has confirmed yet.
    unit : str or None, default=None
        Name of the column that says whose row it is, where one person can have several; it is never a feature.
    max_rows_per_unit : int or None, default=None
        Public. How many rows of one person are used; of those with more, so many are drawn at random.

    Raises
    ------
    SchemaError
        If the columns repeat a name, none of them becomes a feature, or the target is not one of them.

    Examples
    --------
    >>> schema = Schema((NumericColumn("age", bounds=(17, 90)), CategoricalColumn("sick", categories=("no", "yes"))))
    >>> print(schema.with_target("sick").to_toml())
    format = "sottovoce-schema"
    version = 1
    target = "sick"
    <BLANKLINE>
    [columns.age]
    type = "numeric"
    bounds = [17, 90]
    <BLANKLINE>
    [columns.sick]
    type = "categorical"
    categories = ["no", "yes"]
    <BLANKLINE>
    """

    columns: tuple[Column, ...]
    target: str | None = None
    layout: Layout = field(default_factory=Layout)
    confirmed: bool = True
    unit: str | None = None
    max_rows_per_unit: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.columns, (list, tuple)) or not all(isinstance(one, Column) for one in self.columns):
            raise SchemaError(f"columns must be a list of columns; got {self.columns!r}.")
        object.__setattr__(self, "columns", tuple(self.columns))
        repeated = [name for name, count in Counter(self.column_names).items() if count > 1]
        if repeated:
            raise SchemaError(f"two columns are named {repeated[0]!r}.")
        if not isinstance(self.confirmed, bool):
            raise SchemaError(f"confirmed must be true or false; got {self.confirmed!r}.")
        if self.target is not None:
            if not isinstance(self.target, str):
                raise SchemaError(f"target must be the name of a column; got {self.target!r}.")
            self[self.target].refuse_as_target()
        self._check_unit()
        if not any(column.feature_names for column in self.feature_columns):
            raise SchemaError(
                "no column becomes a feature: describe at least one column of numbers, categories or dates."
            )

    def _check_unit(self) -> None:
        if self.unit is None:
            if self.max_rows_per_unit is not None:
                raise SchemaError('max_rows_per_unit needs unit = "COLUMN", the column that says whose row it is.')
            return
        if not isinstance(self.unit, str) or self.unit != self.unit.strip() or not self.unit:
            raise SchemaError(f"unit must be the name of a column, without outer white space; got {self.unit!r}.")
        if self.unit == self.target:
            raise SchemaError(f"unit {self.unit!r} is the target: name the column that says whose row it is.")
        if self.unit in self.column_names and self[self.unit].feature_names:
            raise SchemaError(
                f"unit {self.unit!r} is described as a feature, and says whose row it is: a model would learn people "
                f'by heart. Write type = "ignore" in [columns.{toml_key(self.unit)}], or leave the section out.'
            )
        if self.max_rows_per_unit is not None:
            try:
                checked_max_rows(self.max_rows_per_unit)
            except ParameterError as error:
                raise SchemaError(str(error).replace("max_rows_per_group", "max_rows_per_unit")) from None

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def feature_columns(self) -> tuple[Column, ...]:
        """The columns that become features: neither the target nor ignored."""
        return tuple(column for column in self.columns if column.name != self.target and column.feature_names)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features, in order."""
        return tuple(name for column in self.feature_columns for name in column.feature_names)

    @property
    def n_features(self) -> int:
        """The number of features."""
        return len(self.feature_names)

    @property
    def data_norm(self) -> float:
        """The public bound on the norm of an encoded row: the square root of the number of feature columns.

        Each of them becomes a block of the row with at most one entry that is not zero, and that within [-1, 1].
        """
        return math.sqrt(len(self.feature_columns))

    @property
    def nonnegative(self) -> bool:
        """Whether no entry of an encoded row can be negative, whatever the data."""
        return all(column.nonnegative for column in self.feature_columns)

    @property
    def sparse(self) -> bool:
        """Whether rows are encoded as CSR: when they are wide, and less than a fifth of a row can be filled."""
        return self.n_features > _DENSE_FEATURES and (len(self.feature_columns) < _DENSE_SHARE * self.n_features)

    @property
    def classes(self) -> tuple[Level, ...] | None:
        """The classes of a categorical target; None for another one, or none."""
        column = None if self.target is None else self[self.target]
        return column.categories if isinstance(column, CategoricalColumn) else None

    @property
    def label_bounds(self) -> tuple[float, float] | None:
        """The bounds of a numeric target; None for another one, or none."""
        column = None if self.target is None else self[self.target]
        return column.bounds if isinstance(column, NumericColumn) else None

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise SchemaError(
            f"the schema has no column {name!r}.{nearest(name, self.column_names)} "
            f"Add a section [columns.{toml_key(name)}] for it."
        )

    def with_target(self, name: str) -> Schema:
        """Return this schema with the column ``name`` as the target."""
        return replace(self, target=name)

    def require_target(self) -> Column:
        """Return the column to predict; raises SchemaError if there is none."""
        if self.target is None:
            raise SchemaError('the schema names no target. Write target = "NAME" at its start, or give target="NAME".')
        return self[self.target]

    def features(self, table: Table, *, dtype: npt.DTypeLike = np.float64) -> Features:
        """Encode the feature columns of a table, as `SchemaEncoder.transform` does.

        Raises TableError if a column is missing, or a cell breaks what the schema says.
        """
        columns = self.feature_columns
        cells = [table.cells(column.name) for column in columns]
        blocks = (column.encode(some, self.layout.missing) for column, some in zip(columns, cells, strict=True))
        *starts, n_features = accumulate((len(column.feature_names) for column in columns), initial=0)
        if self.sparse:
            return _sparse((table.n_rows, n_features), zip(starts, blocks, strict=True), len(columns), dtype)
        rows: npt.NDArray[Any] = np.zeros((table.n_rows, n_features), dtype)
        for start, (places, values) in zip(starts, blocks, strict=True):
            present = np.flatnonzero(places >= 0)
            if len(present) == table.n_rows and not places.any():
                rows[:, start] = values
            else:
                rows[present, start + places[present]] = values[present]
        return rows

    def labels(self, table: Table) -> npt.NDArray[Any]:
        """Return the target column of a table: classes with the type they have in the schema, or float64 numbers.

        Raises TableError if the column is missing, or a label is missing, unknown or out of bounds.
        """
        column = self.require_target()
        return column.labels(table.cells(column.name), self.layout.missing)

    def groups(self, table: Table) -> npt.NDArray[np.object_]:
        """Return whose row each is, None where that is missing; raises SchemaError if the schema names no unit.

        Raises TableError if the column is not in the table, or holds neither texts nor numbers.
        """
        if self.unit is None:
            raise SchemaError('the schema names no unit. Write unit = "COLUMN", the column that says whose row it is.')
        return table.cells(self.unit).named(self.layout.missing)

    def refuse_unreadable(self, table: Table | BatchedTable, *, labelled: bool) -> None:
        """Refuse a table that lacks a column, or has one whose type cannot be read by its description.

        No value is looked at: it is told before a charge. ``labelled``: whether labels, and whose row it is, are read.

        Raises TableError naming the column.
        """
        for column in (*self.feature_columns, *([self.require_target()] if labelled else [])):
            cells = table.cells(column.name)  # says which columns there are
            if not (cells.is_dated and isinstance(column, DateColumn)):
                cells.plain()
        if labelled and self.unit is not None:
            table.cells(self.unit).refuse_as_names()

    def require_confirmed(self) -> None:
        """Refuse a draft.

        Raises
        ------
        SchemaError
            If ``confirmed`` is false.
        """
        if not self.confirmed:
            raise SchemaError(
                "the schema is a draft that was made from the data, and says confirmed = false. Check every line that "
                "is marked 'from the data' against public knowledge, correct it, then write confirmed = true: what a "
                "schema takes from private data is not covered by the privacy guarantee."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as nested dicts and lists, as in its file."""
        facts = {name: getattr(self, name) for name in _FACTS} | {"table": said(self.layout) or None}
        if self.confirmed:
            del facts["confirmed"]
        return {
            "format": FORMAT,
            "version": VERSION,
            **{name: value for name, value in facts.items() if value is not None},
            "columns": {column.name: column.to_dict() for column in self.columns},
        }

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any]) -> Schema:
        """Build a schema from nested dicts and lists; every unknown key is refused with the nearest known one.

        Raises
        ------
        SchemaError
            If an entry is missing, unknown or wrong; the message names it.
        """
        refuse_unknown_keys("the schema", entries, _KEYS)
        if entries.get("format") != FORMAT:
            raise SchemaError(
                f'this is not a schema: it must start with format = "{FORMAT}"; got format = {entries.get("format")!r}.'
            )
        version = entries.get("version")
        if version != VERSION or isinstance(version, bool):
            raise SchemaError(
                f"the schema has version {version!r}; this release of sottovoce reads version {VERSION}. "
                f"Update sottovoce, or write the schema anew with version = {VERSION}."
            )
        columns = entries.get("columns")
        if not isinstance(columns, Mapping) or not columns:
            raise SchemaError("the schema describes no column: add a section [columns.NAME] for each one.")
        facts = {name: fact for name, fact in entries.items() if name in _FACTS}
        described = tuple(_column_from_dict(name, section) for name, section in columns.items())
        table = entries.get("table", {})
        refuse_unknown_keys("[table]", table, [one.name for one in fields(Layout)])
        return cls(described, layout=Layout(**table), **facts)

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any], **facts: Any) -> Schema:
        """Build a schema from what one writes down in Python: bounds in a tuple, categories in a list.

        Parameters
        ----------
        columns : mapping
            By the name of the column: ``(17, 90)`` are the bounds of a number, ``(date(2020, 1, 1), date(2024, 12,
            31))`` those of a date, ``["F", "M"]`` the categories of a text, a number or a bool; a dict has the keys of
            a schema file, such as ``{"bounds": (0, 1e6), "scale": "log"}``. Of categories that are given as a list, an
            unknown value becomes 0 in all features. Empty texts, nulls and NaN are missing.
        **facts
            ``target``, ``unit``, ``max_rows_per_unit`` or ``layout`` of the class.

        Raises
        ------
        SchemaError
            If an entry is none of these; the message names it.

        Examples
        --------
        >>> columns = {"age": (17, 90), "sex": ["F", "M"], "income": {"bounds": (0, 1e6), "scale": "log", "missing": 0}}
        >>> [name for column in Schema.from_columns(columns).columns for name in column.feature_names]
        ['age', 'sex=F', 'sex=M', 'income']
        """
        if not isinstance(columns, Mapping) or not columns:
            raise SchemaError(
                f'columns must be a dict such as {{"age": (17, 90), "sex": ["F", "M"]}}; got {columns!r}.'
            )
        described = tuple(_column_from_dict(name, section_of(name, entry)) for name, entry in columns.items())
        return cls(described, **{"layout": Layout(missing=("", "nan")), **facts})

    def to_toml(self) -> str:
        """Return the schema as the text of a TOML file."""
        return toml_text(self.to_dict())

    @classmethod
    def from_toml(cls, path: str | Path) -> Schema:
        """Read a schema file.

        Raises
        ------
        SchemaError
            If the file cannot be read, is not TOML, or is not a schema; the message names the file and the entry.
        """
        if "\n" in str(path):
            raise SchemaError("path must be that of a schema file; got its text. Write the text to a file first.")
        with named_errors(path, "schema", SchemaError):
            return cls.from_text(Path(path).read_text(encoding="utf-8-sig"))

    @classmethod
    def from_text(cls, text: str) -> Schema:
        """Read the text of a schema file, which may come from anybody; raises SchemaError as `from_toml` does."""
        if found := _LONG_KEY.search(text):  # such as a.a.a, which the parser reads in quadratic time
            place = text.count("\n", 0, found.start()) + 1
            raise SchemaError(f"line {place} has a key of more than 100 parts: this is not a schema.")
        try:
            return cls.from_dict(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise SchemaError(f"not valid TOML: {error}.") from None
        except RecursionError:
            raise SchemaError("not a schema: its entries are nested too deeply.") from None


def _sparse(shape: tuple[int, int], blocks: Iterable[tuple[int, Block]], width: int, dtype: npt.DTypeLike) -> Features:
    positions, values = np.empty((shape[0], width), np.int32), np.empty((shape[0], width), dtype)
    for number, (start, (places, entries)) in enumerate(blocks):
        absent = places < 0
        positions[:, number] = start + np.where(absent, 0, places)
        values[:, number] = np.where(absent, 0.0, entries)
    ends = np.arange(0, values.size + 1, width, dtype=np.int32 if values.size < 2**31 else np.int64)
    parts: Any = (values.ravel(), positions.ravel(), ends)
    rows: scipy.sparse.csr_matrix[Any] = scipy.sparse.csr_matrix(parts, shape=shape)
    rows.eliminate_zeros()
    return rows


def _column_from_dict(name: str, entries: object) -> Column:
    if not isinstance(entries, Mapping):
        raise SchemaError(f"columns.{name} must be a section [columns.{toml_key(name)}]; got {entries!r}.")
    kind = entries.get("type")
    if not isinstance(kind, str) or kind not in _COLUMN_TYPES:
        hint = nearest(kind, _COLUMN_TYPES) if isinstance(kind, str) else ""
        allowed = ", ".join(f'"{known}"' for known in _COLUMN_TYPES)
        raise SchemaError(f"[columns.{toml_key(name)}] needs a type, one of {allowed}; got {kind!r}.{hint}")
    return _COLUMN_TYPES[kind].from_dict(name, entries)


def section_of(name: object, entry: object) -> Mapping[str, Any]:
    """Return the section of a schema file for ``(low, high)``, a list of categories, or a dict of a section's keys."""
    if isinstance(entry, Mapping):
        bounds = entry.get("bounds")
        dated = isinstance(bounds, (list, tuple)) and any(map(is_date, bounds))
        kinds = dict.fromkeys(("period", "part", "format"), "date") | {
            "bounds": "date" if dated else "numeric", "categories": "categorical",
        }  # fmt: skip
        kind = next((kind for key, kind in kinds.items() if key in entry), None)
        if kind is None and "type" not in entry:
            near = "".join(nearest(str(key), kinds) for key in entry)
            raise SchemaError(f"columns[{name!r}] = {entry!r} needs one of the keys {', '.join(kinds)}.{near}")
        return entry if "type" in entry or kind is None else {"type": kind, **entry}
    if isinstance(entry, (list, tuple)):
        if isinstance(entry, tuple) and entry and all(map(is_date, entry)):
            return {"type": "date", "bounds": entry}
        if len(entry) != 2 or not all(map(_is_number, entry)):
            return {"type": "categorical", "categories": list(entry), "unknown": "ignore"}
        if isinstance(entry, tuple):
            return {"type": "numeric", "bounds": entry}
        raise SchemaError(
            f"columns[{name!r}] = {entry!r} could be bounds or two categories. Write a tuple, {tuple(entry)!r}, for "
            f"the bounds of a number, or {{'categories': {entry!r}}} for two codes."
        )
    raise SchemaError(
        f"columns[{name!r}] must be bounds such as (17, 90), a list of categories such as ['F', 'M'], or a dict with "
        f"the keys of a schema file; got {entry!r}."
    )


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
