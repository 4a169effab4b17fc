"""``sottovoce local export``: the reports of a database as a file."""

from __future__ import annotations

from pathlib import Path

from sottovoce._files import check_writable
from sottovoce.cli._options import JSON, REQUIRED, ForceOption, option
from sottovoce.cli._output import tell
from sottovoce.cli.local._options import DATABASE, PROTOCOL, read_protocol
from sottovoce.cli.local._records import stream
from sottovoce.local.server.exports import write_reports

__all__ = ["export"]


def export(
    *,
    protocol: Path = PROTOCOL,
    database: str = DATABASE,
    out: Path = option("--out", "NAME.parquet, or NAME.reports for their bytes.", default=REQUIRED),
    force: ForceOption = False,
    as_json: bool = JSON,
) -> None:
    """Write all reports of PROTOCOL to a file, without anything of their tokens and in no order of arrival."""
    described = read_protocol(protocol)
    check_writable("--out", out, overwrite=force)
    source = database if "://" in database else f"sqlite:///{database}"
    count = write_reports(out, stream(source, described), described)
    tell(as_json, {"reports": count, "file": str(out)}, f"{count} reports in {out}")
