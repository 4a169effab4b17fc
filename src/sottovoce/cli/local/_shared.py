"""What commands of ``sottovoce local`` share: options, and the protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sottovoce._files import named_errors
from sottovoce.cli._options import REQUIRED, argument, flag, option
from sottovoce.exceptions import ParameterError
from sottovoce.local import Protocol

PROTOCOL: Any = argument("PROTOCOL", "The public parameters (JSON), of `sottovoce local protocol`.")
DATABASE: Any = option(
    "--database",
    "sqlite:///FILE, or postgresql://USER:PASSWORD@HOST/NAME. A password is safer in the variable than here.",
    default=REQUIRED,
    envvar="SOTTOVOCE_DATABASE",
)
MISSING: Any = option("--missing", "A cell that holds no value. Default: an empty one.", metavar="TEXT")
SCHEMA: Any = option("--schema", "Public facts about the features and the label (TOML).")
TARGET: Any = option("--target", "With --schema: the column to predict. Default: that of the schema.")
MAY_BE_MISSING: Any = flag("--missing", "With --schema: features may be missing; each gets a column that says so.")


def read_protocol(path: Path) -> Protocol:
    """Read a protocol file.

    Raises ParameterError if it cannot be read or is not a protocol; the message names the file.
    """
    with named_errors(path, "protocol", ParameterError):
        return Protocol.from_json(path.read_bytes())
