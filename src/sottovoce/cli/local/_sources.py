"""Where ``sottovoce local`` reads reports from: a collector's database, or files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sottovoce.local import Protocol
from sottovoce.local.server.exports import read_reports

__all__ = ["stream"]


def stream(source: str, protocol: Protocol) -> Iterator[bytes]:
    """Yield the reports of a database (``sqlite:///...``, ``postgresql://...``) or of a file, by the thousands."""
    if "://" not in source:
        yield from read_reports(Path(source), protocol)
        return
    from sottovoce.local.collector.storage import ReportStore

    with ReportStore(source, protocol) as store:
        yield from store.reports()
