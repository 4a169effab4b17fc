"""What commands of ``sottovoce local`` share: options, the protocol, people's records from a table, and reports."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from sottovoce._files import named_errors
from sottovoce.cli._options import REQUIRED, argument, flag, option, refuse_options
from sottovoce.exceptions import ParameterError, TableError
from sottovoce.local import CategoricalFeature, Protocol
from sottovoce.local.server.exports import read_reports
from sottovoce.tables.reading import BatchedTable, open_table
from sottovoce.tables.table import Cells, shown

_PARQUET = (".parquet", ".pq")
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


def read_records(
    path: Path, protocol: Protocol, *, label: str | None, missing: Collection[str] | None
) -> Iterator[tuple[Any, Any]]:
    """Yield a record and its label for each row of a table: CSV with a header, or Parquet.

    Features are columns by name; without named features all columns but the label are its numbers, in order.

    ``label``: column of the label; None yields None for each.
    ``missing``: cells that hold no value; by default empty ones.
    """
    if protocol.features is None:
        refuse_options("is for protocols with features: in this one all columns are numbers", {"--missing": missing})
    table = open_table(path, format="parquet" if path.suffix in _PARQUET else "csv")
    wanted = _wanted(table, protocol, label)
    texts = {feature.name for feature in protocol.features or () if isinstance(feature, CategoricalFeature)}
    gone = () if protocol.features is None else missing or ("",)
    for part in table.batches([*wanted, *([] if label is None else [label])]):
        columns = [_column(part.cells(name), gone, name in texts) for name in wanted]
        labels = [None] * part.n_rows if label is None else _labels(part.cells(label), protocol)
        for values, own in zip(zip(*columns, strict=True), labels, strict=True):
            yield list(values) if protocol.features is None else dict(zip(wanted, values, strict=True)), own


def stream(source: str, protocol: Protocol) -> Iterator[bytes]:
    """Yield the reports of a database (``sqlite:///...``, ``postgresql://...``) or of a file, by the thousands."""
    if "://" not in source:
        yield from read_reports(Path(source), protocol)
        return
    from sottovoce.local.collector.storage import ReportStore

    with ReportStore(source, protocol) as store:
        yield from store.reports()


def _wanted(table: BatchedTable, protocol: Protocol, label: str | None) -> list[str]:
    if protocol.features is None:
        wanted = [name for name in table.column_names if name != label]
        if len(wanted) != protocol.n_features:
            raise TableError(
                f"{table.source}: {len(wanted)} columns beside the label; the protocol has {protocol.n_features}."
            )
    else:
        wanted = [feature.name for feature in protocol.features]
    for name in (*wanted, *([] if label is None else [label])):
        table.cells(name)  # says which columns there are
    return wanted


def _column(cells: Cells, missing: Collection[str], is_text: bool) -> list[Any]:
    if is_text:
        texts, places = cells.spelled()
        values = [None if text in missing else text for text in texts]
        return [values[place] for place in places.tolist()]
    numbers, absent = cells.numbers(missing)
    return [None if gone else number for number, gone in zip(numbers.tolist(), absent.tolist(), strict=True)]


def _labels(cells: Cells, protocol: Protocol) -> list[Any]:
    texts, places = cells.spelled()
    values: list[Any] = []
    for place, text in enumerate(texts):
        try:
            values.append(text if text in (protocol.classes or ()) else float(text or ""))
        except ValueError:
            row = places.tolist().index(place)
            raise cells.error(row, f"{shown(text)} is not a number, or no known class", "Correct the cell.") from None
    return [values[place] for place in places.tolist()]
