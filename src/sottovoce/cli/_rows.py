"""From a file to rows and labels through a schema, for the commands that train and predict."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sottovoce.cli._echo import echo
from sottovoce.cli._options import Reading
from sottovoce.cli._output import ReadingBar
from sottovoce.estimators.reading import UnreadTable
from sottovoce.exceptions import SchemaError
from sottovoce.tables import BatchedTable, Encoder, Layout, Schema, Table
from sottovoce.tables.reading import MOST_ROWS
from sottovoce.tables.text import Reported

Labels = npt.NDArray[Any]
Pieces: TypeAlias = "Generator[tuple[Any, Any]]"  # rows and labels, some at a time

HELD_BYTES: Final = 1 << 25  # of encoded rows: so much is held in memory whatever is done with them

_NAMED = 8
_NUMBERS = 1 << 21  # of rows that are worked on at a time


@dataclass(frozen=True)
class OpenedTable:
    """A file of which no value was looked at yet."""

    rows: UnreadTable  # what a fit takes that holds all rows in memory
    pieces: Callable[[], Pieces]  # returns an iterator over rows and labels, some at a time
    table: BatchedTable  # the cells as they are in the file
    is_small: bool  # whether all rows are no more than what is held in memory anyway
    row_bytes: int  # public: what an encoded row takes at most
    layout: Layout  # how cells are written

    def refuse_unwritable(self) -> None:
        """Refuse a table whose rows cannot be written as text, before anything is charged; no value is looked at."""
        self.table.header.text(np.zeros(0, dtype=np.bool_), self.layout)

    def texts(self, chosen: npt.NDArray[np.bool_]) -> Iterator[str]:
        """Yield these rows as text, to be read again like the file itself (a Parquet file: as CSV)."""
        start, layout = 0, self.layout
        for table in self.table:
            yield table.text(chosen[start : start + table.n_rows], layout)
            start, layout = start + table.n_rows, replace(layout, header=False)


@dataclass(frozen=True)
class RowReader:
    """What turns CSV and Parquet into rows and labels: numbers are in [-1, 1], bins and categories 0 or 1."""

    encoder: Encoder  # of the schema, which says what is public
    reading: Reading  # how files are written

    @property
    def schema(self) -> Schema:
        return self.encoder.schema

    def open(self, path: Path, *, quiet: bool) -> OpenedTable:
        """Return the table in a file, of which only lines and columns were looked at, and no value.

        ``quiet``: False draws on stderr how much of the file was read, each time that it is.
        """
        encoder, schema = self.encoder, self.schema
        bar = ReadingBar(path, shown=not quiet)
        row_bytes = 12 * len(schema.feature_columns) + 4 if encoder.sparse else 8 * encoder.n_features
        table = self.reading.batches(
            path, schema.layout, names=schema.column_names, most_rows=_most_rows(row_bytes // 8), report=bar
        )
        used = self._refuse_lacking(table, True, ())
        with bar.drawn():
            shape = table.n_rows, encoder.n_features

        def pieces() -> Pieces:
            with bar.drawn():
                for part in table.batches(used):
                    bar.rows(part.n_rows)
                    yield encoder.features(part), encoder.labels(part)

        groups = None
        if schema.unit is not None:
            groups = lambda: np.concatenate(  # noqa: E731
                [encoder.groups(part) for part in table.batches([str(schema.unit)])]
            )
        return OpenedTable(
            UnreadTable(shape, lambda: _joined(pieces(), shape), groups=groups), pieces, table,
            is_small=shape[0] * row_bytes <= HELD_BYTES, row_bytes=row_bytes,
            layout=self.reading.layout(schema.layout),
        )  # fmt: skip

    def stream(
        self, path: Path, *, labelled: bool, beside: Collection[str], n_more: int, report: Reported
    ) -> Iterator[tuple[Table, Any, Labels | None]]:
        """Return cells, rows and labels of a file; so few at a time that they and what comes of them is small.

        ``labelled``: False where labels, and whose row it is, may be absent; they are not read then.
        ``beside``: further columns that are used.
        ``n_more``: how many numbers come of a row.
        ``report``: see `open_table`.
        """
        encoder, schema = self.encoder, self.schema
        may_lack = None if labelled else schema.target
        width = n_more + (2 * len(schema.feature_columns) if encoder.sparse else encoder.n_features)
        opened = self.reading.batches(
            path, schema.layout, names=schema.column_names, may_lack=may_lack, once=True, report=report,
            most_rows=_most_rows(width),
        )  # fmt: skip
        opened.only(self._refuse_lacking(opened, labelled, beside))
        return ((cells, encoder.features(cells), encoder.labels(cells) if labelled else None) for cells in opened)

    def _refuse_lacking(self, table: Table | BatchedTable, labelled: bool, beside: Collection[str]) -> list[str]:
        """Refuse a table without a column that is used, tell which columns are not, and return those that are."""
        schema = self.schema
        used = [*(column.name for column in schema.feature_columns), *beside]
        if labelled:
            used += [str(schema.target), *([] if schema.unit is None else [schema.unit])]
        for name in used:
            table.cells(name)  # says which columns there are
        if labelled and schema.unit is not None:
            table.cells(schema.unit).refuse_as_names()
        note_unused(table, {*schema.column_names, *used})
        return used


def note_unused(table: Table | BatchedTable, known: Collection[str]) -> None:
    unused = [name for name in table.column_names if name not in known]
    if unused:
        shown = ", ".join(unused[:_NAMED]) + (", ..." if len(unused) > _NAMED else "")
        echo(f"note: not in the schema, not used: {len(unused)} column(s): {shown}", err=True)


def confirmed_schema(path: Path, target: str | None = None) -> Schema:
    """Read a schema file that somebody has confirmed, with another target if one is given.

    Raises SchemaError if it is wrong, a draft, or has no such column; the message names the file.
    """
    schema = Schema.from_toml(path)
    try:
        schema.require_confirmed()
        return schema if target is None else schema.with_target(target)
    except SchemaError as error:
        raise SchemaError(f"{path}: {error}") from None


def _most_rows(width: int) -> int:
    return max(1, min(MOST_ROWS, _NUMBERS // width))


def _joined(pieces: Pieces, shape: tuple[int, int]) -> tuple[Any, Labels]:
    with closing(pieces):
        X, y = next(pieces)
        if X.shape[0] == shape[0]:
            next(pieces, None)  # to the end, where a file that changed is refused
            return X, y
        labels, parts, start = [y], [X], X.shape[0]
        rows: Any = None if sp.issparse(X) else np.empty(shape, X.dtype)
        if rows is not None:
            rows[:start] = parts.pop()
        for X, y in pieces:
            labels.append(y)
            if rows is None:
                parts.append(X)
            else:
                rows[start : start + len(X)] = X
                start += len(X)
    if rows is None:
        rows = sp.csr_matrix(sp.vstack(parts, format="csr"))
    return rows, np.concatenate(labels)
