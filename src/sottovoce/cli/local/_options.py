"""Arguments and options that commands of ``sottovoce local`` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sottovoce.exceptions import ParameterError
from sottovoce.local import Protocol
from sottovoce.local.stored import named_errors

__all__ = [
    "DatabaseOption",
    "MayBeMissingOption",
    "MissingOption",
    "ProtocolArgument",
    "SchemaOption",
    "TargetOption",
    "read_protocol",
]

ProtocolArgument = Annotated[
    Path, typer.Argument(metavar="PROTOCOL", help="The public parameters (JSON), of `sottovoce local protocol`.")
]
DatabaseOption = Annotated[
    str,
    typer.Option(
        "--database",
        envvar="SOTTOVOCE_DATABASE",
        help="sqlite:///FILE, or postgresql://USER:PASSWORD@HOST/NAME. A password is safer in the variable than here.",
    ),
]
MissingOption = Annotated[
    list[str] | None,
    typer.Option("--missing", metavar="TEXT", help="A cell that holds no value. Default: an empty one."),
]

SchemaOption = Annotated[
    Path | None, typer.Option("--schema", help="Public facts about the features and the label (TOML).")
]
TargetOption = Annotated[
    str | None, typer.Option("--target", help="With --schema: the column to predict. Default: that of the schema.")
]
MayBeMissingOption = Annotated[
    bool, typer.Option("--missing", help="With --schema: features may be missing; each gets a column that says so.")
]


def read_protocol(path: Path) -> Protocol:
    """Read a protocol file.

    Raises ParameterError if it cannot be read or is not a protocol; the message names the file.
    """
    with named_errors(path, "protocol", ParameterError):
        return Protocol.from_json(path.read_bytes())
