"""What ``sottovoce local`` reads: people's records from a table, and reports from a collector's database or files."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from sottovoce.exceptions import TableError
from sottovoce.local import CategoricalFeature, Protocol
from sottovoce.local.server.exports import read_reports

Record = tuple[Any, Any]


def read_records(
    path: Path, protocol: Protocol, *, label: str | None, missing: Collection[str] | None
) -> Iterator[Record]:
    """Yield a record and its label for each line of a CSV file with a header.

    ``protocol``: its features are columns by name; without named features all columns but the label are its numbers, in
      order.
    ``label``: column of the label; None yields None for each.
    ``missing``: cells that hold no value; by default empty ones.

    Raises TableError if a column or a value is missing, or a cell is not a number; the message names file, line and
    column.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, skipinitialspace=True)
            names = next(reader, [])
            wanted = _wanted(path, names, protocol, label)
            for cells in reader:
                if not cells:
                    continue
                where = f"{path}, line {reader.line_num}"
                if len(cells) != len(names):
                    raise TableError(f"{where}: {len(cells)} cells, but the header names {len(names)} columns.")
                line = dict(zip(names, cells, strict=True))
                yield (
                    _features(where, line, wanted, protocol, missing or ("",)),
                    None if label is None else _label(where, line[label], label, protocol),
                )
    except OSError as error:
        raise TableError(f"{path}: cannot read the table: {error.strerror}.") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise TableError(f"{path}: this is not CSV file in UTF-8: {error}.") from None


def stream(source: str, protocol: Protocol) -> Iterator[bytes]:
    """Yield the reports of a database (``sqlite:///...``, ``postgresql://...``) or of a file, by the thousands."""
    if "://" not in source:
        yield from read_reports(Path(source), protocol)
        return
    from sottovoce.local.collector.storage import ReportStore

    with ReportStore(source, protocol) as store:
        yield from store.reports()


def _wanted(path: Path, names: Sequence[str], protocol: Protocol, label: str | None) -> list[str]:
    if len(set(names)) < len(names):
        raise TableError(f"{path}: two columns have the same name.")
    if protocol.features is None:
        wanted = [name for name in names if name != label]
        if len(wanted) != protocol.n_features:
            raise TableError(f"{path}: {len(wanted)} columns beside the label; the protocol has {protocol.n_features}.")
    else:
        wanted = [feature.name for feature in protocol.features]
    absent = [name for name in [*wanted, *([] if label is None else [label])] if name not in names]
    if absent:
        raise TableError(f"{path}: there is no column {absent[0]!r}. It has {', '.join(names)}.")
    return wanted


def _features(
    where: str, line: dict[str, str], wanted: Sequence[str], protocol: Protocol, missing: Collection[str]
) -> Any:
    if protocol.features is None:
        return [_number(where, name, line[name]) for name in wanted]
    cells = {name: line[name].strip() for name in wanted}
    texts = {feature.name for feature in protocol.features if isinstance(feature, CategoricalFeature)}
    return {
        name: None if cell in missing else cell if name in texts else _number(where, name, cell)
        for name, cell in cells.items()
    }


def _label(where: str, cell: str, label: str, protocol: Protocol) -> Any:
    cell = cell.strip()
    return cell if cell in (protocol.classes or ()) else _number(where, label, cell)


def _number(where: str, name: str, cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise TableError(f"{where}, column {name!r}: {cell!r} is not a number, or no known class.") from None
