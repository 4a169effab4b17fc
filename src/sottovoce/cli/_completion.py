"""What the shell proposes for an option: the names of the columns of a table that is on the line already."""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path
from typing import Any

import typer

__all__ = ["complete_column"]

_MOST_BYTES = 1 << 16


def complete_column(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the columns that begin so, of the table or schema that the line names; nothing if they cannot be told."""
    try:
        # an option without its value stops the parser before it names the arguments: the table is the last one
        names = _columns(ctx.params.get("schema"), ctx.params.get("table") or ctx.args[-1])
    except Exception:  # a proposal that fails is none: an error would be printed into the line that is being written
        return []
    return [name for name in names if name.startswith(incomplete)]


def _columns(schema: Any, table: Any) -> list[str]:
    if schema is not None:
        return list(tomllib.loads(Path(schema).read_text(encoding="utf-8"))["columns"])
    path = Path(table)
    if path.suffix in (".parquet", ".pq"):
        import pyarrow.parquet

        return list(pyarrow.parquet.read_schema(path).names)
    with path.open(encoding="utf-8-sig", newline="") as file:
        line = file.readline(_MOST_BYTES)
    return [name.strip() for name in next(csv.reader([line], delimiter="\t" if path.suffix == ".tsv" else ","))]
