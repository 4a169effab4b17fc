"""From a file to rows and labels through a schema, for the commands that train and predict."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sottovoce.central.data.scratch import check_room
from sottovoce.central.data.streamed import ScratchTable, joined
from sottovoce.cli._echo import echo
from sottovoce.cli._options import Reading
from sottovoce.cli._output import reading_bar
from sottovoce.estimators.reading import UnreadTable
from sottovoce.exceptions import ParameterError, SchemaError
from sottovoce.tables import Layout, Schema, Table
from sottovoce.tables.cells import is_text
from sottovoce.tables.reading import MOST_ROWS
from sottovoce.tables.table import BatchedTable

Mask = npt.NDArray[np.bool_]
Labels = npt.NDArray[Any]

HELD_BYTES: Final = 1 << 25  # of encoded rows: so much is held in memory whatever is done with them

_NAMED = 8
_LABEL: Final = 64  # bytes of a label, at most but for long names of classes
_WRITTEN: Final = {"decimal": ".", "format": None}
_NUMBERS = 1 << 21  # of rows that are worked on at a time


@dataclass(frozen=True)
class OpenedTable:
    """A file of which no value was looked at yet, or some of its rows."""

    schema: Schema
    table: BatchedTable  # the cells as they are in the file
    layout: Layout  # how cells are written
    used: Collection[str]  # columns
    bar: Callable[[], AbstractContextManager[None]]  # draws how many rows were read
    labelled: bool  # whether labels are read
    groups: Callable[[], Any] | None  # returns whose row each is; None where the unit is a row
    chosen: Mask | None = None  # which rows of the file these are; None: all

    @property
    def n_rows(self) -> int:
        return self.table.n_rows if self.chosen is None else int(self.chosen.sum())

    @property
    def row_bytes(self) -> int:
        """What an encoded row takes at most: public."""
        if self.schema.sparse:
            return 12 * len(self.schema.feature_columns) + 4
        return 8 * self.schema.n_features

    @property
    def is_small(self) -> bool:
        """Whether all rows of the file are no more than what is held in memory anyway."""
        return self.table.n_rows * self.row_bytes <= HELD_BYTES

    def check_room(self, copies: int, more: int, n_public: int | None, folder: Path | None) -> None:
        """Refuse a scratch disk without room for the rows, and ``more`` bytes a row.

        It follows from public sizes: where the number of rows is secret, from its stand-in.
        """
        if not self.is_small:
            each = copies * self.row_bytes + more + _LABEL
            check_room((n_public or self.table.n_rows) * each, folder, "the encoded table")

    def unread(self, folder: Path | None) -> UnreadTable:
        """Return what a fit takes: rows that are held in memory, or go to scratch disk when they are read."""
        shape = self.n_rows, self.schema.n_features

        def read() -> tuple[Any, Any]:
            with closing(self.parts()) as parts:
                if not self.is_small:
                    return ScratchTable.write(((X, y) for _, X, y in parts), shape[1], folder=folder), None
                labels = list[Labels]()
                blocks = (labels.append(y) or X for _, X, y in parts)  # type: ignore[func-returns-value]
                return joined(blocks, shape, float, is_sparse=self.schema.sparse), np.concatenate(labels)

        return UnreadTable(shape, read, self.groups)

    def parts(self) -> Generator[tuple[Table, Any, Any]]:
        """Yield cells, rows and labels, some at a time."""
        with self.bar():
            for cells in self.table.batches(self.used):
                X, y = self.schema.features(cells), self.schema.labels(cells) if self.labelled else None
                if self.chosen is not None and y is not None:
                    own = self.chosen[cells.first_row : cells.first_row + cells.n_rows]
                    X, y = X[own], y[own]
                yield cells, X, y

    def refuse_unwritable(self) -> None:
        """Refuse a table whose rows cannot be written as text that reads the same; no value is looked at."""
        self.table.header.text(np.zeros(0, dtype=np.bool_), self.layout)
        for column in self.schema.columns:
            said = next((key for key, usual in _WRITTEN.items() if getattr(column, key, usual) != usual), None)
            if said and column.name in self.table and not is_text(self.table.cells(column.name).kind):
                raise SchemaError(
                    f"[columns.{column.name}] says how texts are written ({said}), and the table has values with a "
                    f"type, which are set aside as texts of another form. Remove {said}, or the column."
                )

    def texts(self, chosen: Mask) -> Iterator[str]:
        """Yield these rows as text, to be read again like the file itself (a Parquet file: as CSV)."""
        for table in self.table:
            layout = replace(self.layout, header=self.layout.header and table.first_row == 0)
            yield table.text(chosen[table.first_row : table.first_row + table.n_rows], layout)


def open_rows(
    schema: Schema, reading: Reading, path: Path, *, quiet: bool, labelled: bool = True,
    beside: Collection[str] = (), n_more: int | None = None, scratch: Path | None = None,
) -> OpenedTable:  # fmt: skip
    """Return the table in a file, of which only lines and columns were looked at, and no value.

    ``quiet``: False says on stderr what is not used, and how much of the file was read, each time that it is.
    ``labelled``: False where labels, and whose row it is, may be absent; they are not read then.
    ``beside``: further columns that are used.
    ``scratch``: the folder for what can be read once.
    ``n_more``: how many numbers come of a row; so few are read at a time that all is small. None counts the rows.
    """
    schema.require_target()
    width = (n_more or 0) + (2 * len(schema.feature_columns) if schema.sparse else schema.n_features)
    table = reading.batches(
        path, schema.layout, names=schema.column_names, may_lack=None if labelled else schema.target,
        most_rows=max(1, min(MOST_ROWS, _NUMBERS // width)), scratch=scratch,
    )  # fmt: skip
    used = [*(column.name for column in schema.feature_columns), *beside]
    if labelled:
        used += [str(schema.target), *([] if schema.unit is None else [schema.unit])]
    for name in used:
        table.cells(name)  # says which columns there are
    schema.refuse_unreadable(table, labelled=labelled)
    if not quiet:
        note_unused(table, {*schema.column_names, *used})
    bar = partial(reading_bar, path, table, shown=not quiet)
    if n_more is None:
        with bar():
            _ = table.n_rows

    def people() -> Any:
        return np.concatenate([schema.groups(part) for part in table.batches([str(schema.unit)])])

    groups = None if schema.unit is None else people
    return OpenedTable(schema, table, reading.layout(schema.layout), used, bar, labelled, groups)


def note_unused(table: Table | BatchedTable, known: Collection[str]) -> None:
    unused = [name for name in table.column_names if name not in known]
    if unused:
        shown = ", ".join(unused[:_NAMED]) + (", ..." if len(unused) > _NAMED else "")
        echo(f"note: columns that are not in the schema are not used ({len(unused)}): {shown}", err=True)


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


def given_schema(path: Path | None, target: str | None, table: object) -> Schema:
    """Read the schema of a table that a command needs; where there is none, say how one is made."""
    if path is None or not path.exists():
        lacking = "--schema is missing" if path is None else f"--schema {path}: there is no such file"
        file = path or "schema.toml"
        raise ParameterError(
            f"{lacking}. It holds the public facts about the columns of a table. Draft one with\n"
            f"    sottovoce schema {table} --target {target or 'NAME'} > {file}\n"
            f"confirm each line from public knowledge, and give --schema {file}."
        )
    schema = confirmed_schema(path, target)
    schema.require_target()
    return schema
