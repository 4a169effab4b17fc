"""``sottovoce schema``: draft a schema file from a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sottovoce._files import check_writable, write_whole
from sottovoce.cli._options import (
    DelimiterOption,
    ForceOption,
    Format,
    FormatOption,
    HeaderOption,
    SkipRowsOption,
    TableArgument,
    layout_with,
)
from sottovoce.exceptions import ParameterError
from sottovoce.tables import Layout, draft_schema, file_format, read_table

__all__ = ["schema"]


def schema(
    table: TableArgument,
    target: Annotated[str | None, typer.Option("--target", help="The column to predict.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Where to write the draft. Default: stdout.")] = None,
    format: FormatOption = None,  # noqa: A002
    header: HeaderOption = None,
    delimiter: DelimiterOption = None,
    skip_rows: SkipRowsOption = 0,
    force: ForceOption = False,
) -> None:
    """Draft a schema from TABLE: a start, private until every line is confirmed from public knowledge.

    The draft is made by looking at the data. `sottovoce fit` refuses it until it says confirmed = true.
    """
    kind = file_format(table, chosen=format)
    if kind == Format.LIBSVM:
        raise ParameterError(
            f"{table}: LIBSVM text needs no schema: give --n-features, --data-norm, and --classes or --label-bounds to "
            "sottovoce fit."
        )
    if out is not None:
        if out.resolve() == table.resolve():
            raise ParameterError(f"--out {out}: this is the table itself. Choose another path.")
        check_writable("--out", out, overwrite=force)
    layout = layout_with(Layout(), header, delimiter)
    draft = draft_schema(
        read_table(table, layout=layout, format=kind, skip_rows=skip_rows), target=target, layout=layout
    )
    if out is None:
        typer.echo(draft, nl=False)
    else:
        write_whole(out, draft)
    typer.echo("note: a draft, made from the data. Confirm each line, then write confirmed = true.", err=True)
