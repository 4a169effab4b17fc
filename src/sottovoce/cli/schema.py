"""``sottovoce schema``: draft a schema file from a table."""

from __future__ import annotations

from pathlib import Path

from sottovoce._files import write_whole
from sottovoce.cli import _options as cli
from sottovoce.cli._echo import echo
from sottovoce.cli._output import reading_bar
from sottovoce.tables import Layout, draft_schema


@cli.command
def schema(
    *,
    table: Path = cli.TABLE,
    target: str | None = cli.option("--target", "The column to predict."),
    out: Path | None = cli.output("--out", "Where to write the draft. Default: stdout."),
    reading: cli.Reading,
) -> None:
    """Draft a schema from TABLE: a start, private until every line is confirmed from public knowledge.

    The draft is made by looking at the data. `sottovoce fit` refuses it until it says confirmed = true.
    """
    rows = reading.batches(table, Layout())
    with reading_bar(table, rows):
        draft = draft_schema(rows, target=target, layout=reading.layout(Layout()))
    if out is None:
        echo(draft, nl=False)
    else:
        write_whole(out, draft, private=True)
    echo("note: a draft, made from the data. Confirm each line, then write confirmed = true.", err=True)
