"""Tables and the public facts about them: read, describe, encode."""

from typing import TYPE_CHECKING

from sottovoce._lazy import lazy_names
from sottovoce.tables.categorical import CategoricalColumn
from sottovoce.tables.column import Column, IgnoredColumn
from sottovoce.tables.dates import DateColumn
from sottovoce.tables.drafting import draft_schema
from sottovoce.tables.layout import Layout
from sottovoce.tables.numeric import NumericColumn
from sottovoce.tables.parquet import ParquetTable
from sottovoce.tables.reading import read_table
from sottovoce.tables.schema import Schema
from sottovoce.tables.table import Table

if TYPE_CHECKING:
    from sottovoce.tables.transformer import SchemaEncoder

__all__ = [
    "CategoricalColumn", "Column", "DateColumn", "IgnoredColumn", "Layout", "NumericColumn", "ParquetTable", "Schema",
    "SchemaEncoder", "Table", "draft_schema", "read_table",
]  # fmt: skip

__getattr__ = lazy_names(__name__, {"SchemaEncoder": "transformer"})  # which is scikit-learn's, and that takes a while
