"""From a file to rows and labels, for the commands that train and predict: with a schema, or from LIBSVM text."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import typer

from sottovoce.estimators.reading import UnreadTable
from sottovoce.exceptions import SchemaError, TableError
from sottovoce.tables import Encoder, Layout, LibsvmTable, LibsvmText, Schema, Table, read_libsvm, read_table

__all__ = ["Labels", "RowReader", "SchemaRows", "SparseRows", "confirmed_schema", "note_unused"]

Labels = npt.NDArray[Any]

_NAMED = 8


class RowReader(Protocol):
    """What turns a file into rows and labels, by public facts alone."""

    @property
    def n_features(self) -> int:
        """The number of features of a row."""

    @property
    def data_norm(self) -> float | None:
        """The public bound on the Euclidean norm of a row; None at prediction, which needs none."""

    @property
    def data_bound(self) -> float | None:
        """The public bound on the absolute value of an entry; None at prediction, which needs none."""

    @property
    def schema(self) -> Schema | None:
        """What a model must remember to read such files again."""

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The public list of classes, for a classifier."""

    @property
    def label_bounds(self) -> tuple[float, float] | None:
        """The public bounds of the labels, for a regression."""

    def open(self, path: Path) -> UnreadTable:
        """Return the table in a file, of which only lines and columns were looked at, and no value."""

    def read(self, path: Path) -> tuple[Any, Labels]:
        """Return rows and labels of a file; every label must be there and be what is publicly known of it."""

    def read_features(self, path: Path) -> Any:
        """Return the rows of a file, which may lack the labels."""


@dataclass(frozen=True, slots=True)
class SchemaRows:
    """Reads CSV and Parquet through a schema."""

    encoder: Encoder
    layout: Layout
    format: str
    skip_rows: int

    @property
    def n_features(self) -> int:
        """The number of features of an encoded row."""
        return self.encoder.n_features

    @property
    def data_norm(self) -> float:
        """The public bound on the norm of an encoded row."""
        return self.encoder.data_norm

    @property
    def data_bound(self) -> float:
        """The public bound on an encoded entry: numbers are in [-1, 1], bins and categories 0 or 1."""
        return 1.0

    @property
    def schema(self) -> Schema:
        """The schema that describes the columns."""
        return self.encoder.schema

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The categories of the target."""
        return self.encoder.schema.classes

    @property
    def label_bounds(self) -> tuple[float, float] | None:
        """The bounds of the target."""
        return self.encoder.schema.label_bounds

    def open(self, path: Path) -> UnreadTable:
        """Return the table in a file; its columns are there."""
        table, schema = self._open(path, may_lack=None), self.encoder.schema
        for name in (*(column.name for column in schema.feature_columns), str(schema.target)):
            table.cells(name)  # says which columns there are
        note_unused(table, schema.column_names)
        return UnreadTable(
            (table.n_rows, self.n_features), lambda: (self.encoder.features(table), self.encoder.labels(table))
        )

    def read(self, path: Path) -> tuple[Any, Labels]:
        """Return encoded rows, and labels."""
        return self.open(path).read()

    def read_features(self, path: Path) -> Any:
        """Return encoded rows."""
        table = self._open(path, may_lack=self.encoder.schema.target)
        X = self.encoder.features(table)
        note_unused(table, self.encoder.schema.column_names)
        return X

    def _open(self, path: Path, may_lack: str | None) -> Table:
        names = self.encoder.schema.column_names
        return read_table(
            path, layout=self.layout, format=self.format, names=names, may_lack=may_lack, skip_rows=self.skip_rows
        )


@dataclass(frozen=True, slots=True)
class SparseRows:
    """Reads LIBSVM text."""

    n_features: int
    data_norm: float | None
    data_bound: float | None
    classes: tuple[Any, ...] | None
    label_bounds: tuple[float, float] | None
    skip_rows: int

    @property
    def schema(self) -> None:
        """None: there are no columns to describe."""
        return

    def open(self, path: Path) -> UnreadTable:
        """Return the table in a file."""
        text = LibsvmText.open(path, skip_rows=self.skip_rows)
        return UnreadTable((text.n_rows, self.n_features), lambda: self._read(text))

    def read(self, path: Path) -> tuple[Any, Labels]:
        """Return rows as CSR, and labels: the classes as they were given, or numbers."""
        return self.open(path).read()

    def read_features(self, path: Path) -> Any:
        """Return rows as CSR."""
        return read_libsvm(path, n_features=self.n_features, skip_rows=self.skip_rows).X

    def _read(self, text: LibsvmText) -> tuple[Any, Labels]:
        table = text.table(self.n_features)
        return table.X, self._labels(table)

    def _labels(self, table: LibsvmTable) -> Labels:
        if self.classes is not None:
            classes = np.asarray(self.classes)
            order = np.argsort(classes)
            places = np.minimum(np.searchsorted(classes, table.y, sorter=order), len(classes) - 1)
            labels = classes[order[places]]
            _refuse(table, labels != table.y, f"is not among the classes {', '.join(map(str, self.classes))}")
            return labels
        return table.y


def note_unused(table: Table, known: Collection[str]) -> None:
    """Tell on stderr which columns of a table are not used."""
    unused = [name for name in table.column_names if name not in known]
    if unused:
        shown = ", ".join(unused[:_NAMED]) + (", ..." if len(unused) > _NAMED else "")
        typer.echo(f"note: not in the schema, not used: {len(unused)} column(s): {shown}", err=True)


def confirmed_schema(path: Path, target: str | None = None) -> Schema:
    """Read a schema file that somebody has confirmed, with another target if one is given.

    Raises
    ------
    SchemaError
        If it is wrong, a draft, or has no such column; the message names the file.
    """
    schema = Schema.from_toml(path)
    try:
        schema.require_confirmed()
        return schema if target is None else schema.with_target(target)
    except SchemaError as error:
        raise SchemaError(f"{path}: {error}") from None


def _refuse(table: LibsvmTable, bad: npt.NDArray[np.bool_], what: str) -> None:
    rows = np.flatnonzero(bad)
    if rows.size:
        row = int(rows[0])
        raise TableError(
            f"{table.source}, {table.line(row)}: the label {table.y[row]:g} {what}. Correct the label, or what was "
            "said about the labels if public knowledge allows it."
        )
