"""``sottovoce local randomize`` and ``export``: files of reports."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path

from sottovoce._files import check_writable, write_whole
from sottovoce.cli._options import JSON, REQUIRED, ForceOption, argument, option
from sottovoce.cli._output import check_output, tell
from sottovoce.cli.local._options import DATABASE, MISSING, PROTOCOL, read_protocol
from sottovoce.cli.local._records import read_records, stream
from sottovoce.exceptions import ParameterError
from sottovoce.local import Randomizer
from sottovoce.local.server.exports import SUFFIXES, write_reports
from sottovoce.local.wire import is_token


def randomize(
    *,
    protocol: Path = PROTOCOL,
    table: Path = argument("TABLE", "Records as CSV with a header, or as Parquet: one person a row."),
    label: str = option("--label", "Column of the label.", default=REQUIRED),
    out: Path = option(
        "--out", "NAME.jsonl to send to a collector; NAME.reports or NAME.parquet to fit.", default=REQUIRED
    ),
    tokens: Path | None = option("--tokens", "Device tokens, one a line, for the people in the same order."),
    missing: list[str] | None = MISSING,
    max_epsilon: float | None = option("--max-epsilon", "Refuse a protocol that asks for more."),
    force: ForceOption = False,
    as_json: bool = JSON,
) -> None:
    """Make one report a line of TABLE. Run it once: each further run costs every person epsilon again.

    With NAME.jsonl each line is what POST /reports takes; it needs --tokens. Nothing is sent.
    """
    described = read_protocol(protocol)
    check_output("--out", out, inputs=[protocol, table, tokens], overwrite=force)
    if out.suffix not in (".jsonl", *SUFFIXES):
        raise ParameterError(
            f"--out {out}: the name ends in .jsonl to send reports, in {' or '.join(SUFFIXES)} to fit."
        )
    if out.suffix == ".jsonl" and tokens is None:
        raise ParameterError("--tokens is missing: a collector takes a report with its token. Ask whoever collects.")
    device = Randomizer(described, max_epsilon=max_epsilon)
    records = list(read_records(table, described, label=label, missing=missing))
    given: Sequence[bytes | None] = [None] * len(records)
    if tokens is not None:
        given = _read_tokens(tokens, len(records))
    reports = [device.report(x, y, token=token) for (x, y), token in zip(records, given, strict=True)]
    if out.suffix == ".jsonl":
        lines = (f"{_posted(token, each)}\n" for token, each in zip(given, reports, strict=True))
        write_whole(out, lines, private=True)
    else:
        write_reports(out, reports, described)
    told = {"reports": len(reports), "epsilon": described.epsilon, "file": str(out)}
    tell(as_json, told, f"{len(reports)} reports of {described.epsilon:g}-LDP in {out}")


def _posted(token: bytes | None, report: bytes) -> str:
    assert token is not None
    return json.dumps({"token": token.decode("ascii"), "report": base64.b64encode(report).decode("ascii")})


def _read_tokens(path: Path, count: int) -> list[bytes]:
    try:
        given = path.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError):
        raise ParameterError(f"--tokens {path}: cannot read the tokens; a file with one a line, in ASCII.") from None
    usable = len(set(filter(is_token, given)))
    if len(given) < count or usable < len(given):
        form = "of 16 to 128 letters, digits or -._~"
        raise ParameterError(f"--tokens {path}: needs {count} different tokens {form}; got {usable} of {len(given)}.")
    return [token.encode("ascii") for token in given[:count]]


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
