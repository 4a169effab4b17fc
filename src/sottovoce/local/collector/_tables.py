"""The tables of a collector's database."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, String, Table, Text

__all__ = ["METADATA", "PROTOCOLS", "REFUSALS", "REPORTS", "SCHEMA", "SCHEMA_VERSION"]

SCHEMA_VERSION: Final = 1

METADATA: Final = MetaData()

# one row: the version of everything below
SCHEMA: Final = Table("collector_schema", METADATA, Column("version", Integer, primary_key=True, autoincrement=False))

PROTOCOLS: Final = Table(
    "collector_protocols",
    METADATA,
    Column("id", LargeBinary(8), primary_key=True),
    Column("json", Text, nullable=False),
)

# The key is the rule "one report per device token", kept by the database itself. No time, no address, no serial number:
# nothing here tells when a report came or from where. SQLite stores the rows in the order of the key.
REPORTS: Final = Table(
    "collector_reports",
    METADATA,
    Column("protocol", LargeBinary(8), primary_key=True),
    Column("token_hash", LargeBinary(32), primary_key=True),
    Column("report", LargeBinary(22), nullable=False),
    sqlite_with_rowid=False,
)

REFUSALS: Final = Table(
    "collector_refusals",
    METADATA,
    Column("protocol", LargeBinary(8), primary_key=True),
    Column("reason", String(40), primary_key=True),
    Column("count", BigInteger, nullable=False),
)
