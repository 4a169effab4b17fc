"""From a file to rows and labels, for the commands that train and predict: with a schema, or from LIBSVM text."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import typer

from sottovoce.cli._options import Reading
from sottovoce.estimators.reading import UnreadTable
from sottovoce.exceptions import SchemaError, TableError
from sottovoce.tables import BatchedTable, Encoder, Layout, LibsvmTable, LibsvmText, Schema, Table
from sottovoce.tables.batches import MOST_ROWS
from sottovoce.tables.text import Reported

__all__ = [
    "Labels",
    "OpenedTable",
    "ReadRows",
    "RowReader",
    "SchemaRows",
    "SparseRows",
    "confirmed_schema",
    "note_unused",
]

Labels = npt.NDArray[Any]

_NAMED = 8
_NUMBERS = 1 << 21  # of rows that are worked on at a time


@dataclass(frozen=True)
class OpenedTable:
    """A file of which no value was looked at yet.

    Attributes
    ----------
    rows : UnreadTable
        What a fit takes.
    table : Table or LibsvmText
        The cells as they are in the file.
    layout : Layout
        How they are written there.
    """

    rows: UnreadTable
    table: Table | LibsvmText
    layout: Layout = field(default_factory=Layout)

    def text(self, chosen: npt.NDArray[np.bool_]) -> str:
        """Return these rows as text, to be read again like the file itself (a Parquet file: as CSV)."""
        return self.table.text(chosen) if isinstance(self.table, LibsvmText) else self.table.text(chosen, self.layout)


@dataclass(frozen=True)
class ReadRows:
    """Some rows of a file.

    Attributes
    ----------
    X : ndarray or csr_matrix
    y : ndarray or None
        None where labels were not asked for.
    table : Table or LibsvmTable
        The cells as they are in the file.
    """

    X: Any
    y: Labels | None
    table: Table | LibsvmTable


@dataclass(frozen=True, kw_only=True)
class RowReader:
    """What turns a file into rows and labels, by public facts alone.

    Attributes
    ----------
    n_features : int
        Of a row.
    reading : Reading
        How files are written.
    data_norm, data_bound : float or None
        Public bounds on the Euclidean norm of a row and on the absolute value of an entry; prediction needs none.
    schema : Schema or None
        What a model must remember to read such files again.
    classes, label_bounds : tuple or None
        The public list of classes, for a classifier; the public bounds of the labels, for a regression.
    """

    n_features: int
    reading: Reading
    data_norm: float | None = None
    data_bound: float | None = None
    schema: Schema | None = None
    classes: tuple[Any, ...] | None = None
    label_bounds: tuple[float, float] | None = None

    def open(self, path: Path, *, labelled: bool = True, beside: Collection[str] = ()) -> OpenedTable:
        """Return the table in a file, of which only lines and columns were looked at, and no value.

        Parameters
        ----------
        path : Path
        labelled : bool, default=True
            False where labels, and whose row it is, may be absent; they are not read then.
        beside : collection of str, default=()
            Further columns that are used.
        """
        raise NotImplementedError

    def stream(
        self, path: Path, *, labelled: bool, beside: Collection[str], n_more: int, report: Reported
    ) -> Iterator[ReadRows]:
        """Return the rows of a file, some after others; so few at a time that they and what comes of them is small.

        Parameters
        ----------
        path, labelled, beside
            As for `open`.
        n_more : int
            How many numbers come of a row.
        report : callable
            See `open_table`.
        """
        raise NotImplementedError

    def read(self, path: Path) -> tuple[Any, Labels]:
        """Return rows and labels of a file; every label must be there and be what is publicly known of it."""
        return self.open(path).rows.read()


@dataclass(frozen=True, kw_only=True)
class SchemaRows(RowReader):
    """Reads CSV and Parquet through a schema: numbers are in [-1, 1], bins and categories 0 or 1."""

    encoder: Encoder

    @classmethod
    def of(cls, schema: Schema, reading: Reading) -> SchemaRows:
        """Return the reader of tables that a schema describes."""
        encoder = Encoder(schema)
        return cls(
            n_features=encoder.n_features, reading=reading, data_norm=encoder.data_norm, data_bound=1.0, schema=schema,
            classes=schema.classes, label_bounds=schema.label_bounds, encoder=encoder,
        )  # fmt: skip

    def open(self, path: Path, *, labelled: bool = True, beside: Collection[str] = ()) -> OpenedTable:
        """Return the table in a file; its columns are there."""
        encoder, schema = self.encoder, self.encoder.schema
        table = self.reading.table(
            path, schema.layout, names=schema.column_names, may_lack=None if labelled else schema.target
        )
        self._refuse_lacking(table, labelled, beside)
        rows = UnreadTable(
            (table.n_rows, self.n_features),
            lambda: (encoder.features(table), encoder.labels(table) if labelled else None),
            groups=None if schema.unit is None or not labelled else lambda: encoder.groups(table),
        )
        return OpenedTable(rows, table, self.reading.layout(schema.layout))

    def stream(
        self, path: Path, *, labelled: bool, beside: Collection[str], n_more: int, report: Reported
    ) -> Iterator[ReadRows]:
        """Return the rows of a file; its columns are there."""
        encoder, schema = self.encoder, self.encoder.schema
        may_lack = None if labelled else schema.target
        width = n_more + (2 * len(schema.feature_columns) if encoder.sparse else self.n_features)
        opened = self.reading.batches(
            path, schema.layout, names=schema.column_names, may_lack=may_lack, once=True, report=report,
            most_rows=_most_rows(width),
        )  # fmt: skip
        self._refuse_lacking(opened, labelled, beside)
        return (
            ReadRows(encoder.features(table), encoder.labels(table) if labelled else None, table) for table in opened
        )

    def _refuse_lacking(self, table: Table | BatchedTable, labelled: bool, beside: Collection[str]) -> None:
        """Refuse a table without a column that is used; tell which columns are not."""
        schema = self.encoder.schema
        used = [*(column.name for column in schema.feature_columns), *beside]
        if labelled:
            used += [str(schema.target), *([] if schema.unit is None else [schema.unit])]
        for name in used:
            table.cells(name)  # says which columns there are
        if labelled and schema.unit is not None:
            table.cells(schema.unit).refuse_as_names()
        note_unused(table, {*schema.column_names, *used})


@dataclass(frozen=True, kw_only=True)
class SparseRows(RowReader):
    """Reads LIBSVM text, in which there are no columns to describe."""

    def open(self, path: Path, *, labelled: bool = True, beside: Collection[str] = ()) -> OpenedTable:
        """Return the table in a file: rows as CSR, and labels: the classes as they were given, or numbers."""
        text = LibsvmText.open(path, skip_rows=self.reading.skip_rows)
        return OpenedTable(UnreadTable((text.n_rows, self.n_features), lambda: self._read(text, labelled)), text)

    def stream(
        self, path: Path, *, labelled: bool, beside: Collection[str], n_more: int, report: Reported
    ) -> Iterator[ReadRows]:
        """Return the rows of a file."""
        text = LibsvmText.open(path, skip_rows=self.reading.skip_rows, once=True, report=report)
        return (
            ReadRows(table.X, self._labels(table) if labelled else None, table)
            for table in text.tables(self.n_features, most_rows=_most_rows(n_more))
        )

    def _read(self, text: LibsvmText, labelled: bool) -> tuple[Any, Labels | None]:
        table = text.table(self.n_features)
        return table.X, self._labels(table) if labelled else None

    def _labels(self, table: LibsvmTable) -> Labels:
        if self.classes is None:
            return table.y
        classes = np.asarray(self.classes)
        order = np.argsort(classes)
        places = np.minimum(np.searchsorted(classes, table.y, sorter=order), len(classes) - 1)
        labels = classes[order[places]]
        _refuse(table, labels != table.y, f"is not among the classes {', '.join(map(str, self.classes))}")
        return labels


def note_unused(table: Table | BatchedTable, known: Collection[str]) -> None:
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


def _most_rows(width: int) -> int:
    return max(1, min(MOST_ROWS, _NUMBERS // width))


def _refuse(table: LibsvmTable, bad: npt.NDArray[np.bool_], what: str) -> None:
    rows = np.flatnonzero(bad)
    if rows.size:
        row = int(rows[0])
        raise TableError(
            f"{table.source}, {table.line(row)}: the label {table.y[row]:g} {what}. Correct the label, or what was "
            "said about the labels if public knowledge allows it."
        )
