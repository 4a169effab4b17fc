"""``sottovoce schema``: draft a schema file from a table."""

from __future__ import annotations

from pathlib import Path

from sottovoce._files import check_writable, write_whole
from sottovoce.cli._echo import echo
from sottovoce.cli._options import TABLE, ForceOption, Reading, complete_column, option, with_groups
from sottovoce.cli._reading_bar import reading_bar
from sottovoce.exceptions import ParameterError
from sottovoce.tables import Layout, draft_schema

__all__ = ["schema"]


@with_groups
def schema(
    *,
    table: Path = TABLE,
    target: str | None = option("--target", "The column to predict.", autocompletion=complete_column),
    out: Path | None = option("--out", "Where to write the draft. Default: stdout."),
    reading: Reading,
    force: ForceOption = False,
) -> None:
    """Draft a schema from TABLE: a start, private until every line is confirmed from public knowledge.

    The draft is made by looking at the data. `sottovoce fit` refuses it until it says confirmed = true.
    """
    reading.refuse_unknown(table)
    if out is not None:
        if out.resolve() == table.resolve():
            raise ParameterError(f"--out {out}: this is the table itself. Choose another path.")
        check_writable("--out", out, overwrite=force)
    with reading_bar(table) as report:
        rows = reading.batches(table, Layout(), once=True, report=report)
        draft = draft_schema(rows, target=target, layout=reading.layout(Layout()))
    if out is None:
        echo(draft, nl=False)
    else:
        write_whole(out, draft)
    echo("note: a draft, made from the data. Confirm each line, then write confirmed = true.", err=True)
