"""Reports in files: one after the other (``.reports``), or as a Parquet table of seeds and indices (``.parquet``)."""

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._files import whole_file
from sottovoce._optional import pa
from sottovoce.exceptions import DataError, ParameterError, TableError
from sottovoce.local.protocol import Protocol
from sottovoce.local.wire import REPORT_BYTES, pack_many, parse_many

SUFFIXES: Final = (".parquet", ".reports")

_KEY: Final = b"sottovoce.protocol"
_AT_ONCE: Final = 100_000


def write_reports(path: Path, pieces: Iterable[bytes], protocol: Protocol) -> int:
    """Write reports to a file, whole or not at all, and return how many.

    ``path``: its suffix says how: ``.reports`` or ``.parquet``. A Parquet file carries the text of the protocol.
    ``pieces``: each of them whole reports, one after the other.

    Raises ParameterError if the suffix is another.
    Raises DataError if something is not a report of the protocol.
    """
    _check_suffix(path)
    count = 0
    with (
        whole_file(path) as file,
        _parquet_writer(file, protocol) if path.suffix == ".parquet" else nullcontext() as writer,
    ):
        for piece in pieces:
            seeds, indices, rejected = parse_many(piece, protocol)
            if rejected:
                raise DataError(f"{sum(rejected.values())} of the reports are none of protocol {protocol.id.hex()}.")
            if writer is None:
                file.write(piece)
            else:
                writer.write_table(pa.table({"seed": seeds, "index": indices}, schema=writer.schema))
            count += len(seeds)
    return count


def read_reports(path: Path, protocol: Protocol) -> Iterator[bytes]:
    """Yield the reports of a file by the thousands.

    Raises ParameterError if the suffix is neither ``.reports`` nor ``.parquet``.
    Raises TableError if the file cannot be read, is a table of something else, or was made for another protocol.
    """
    _check_suffix(path)
    try:
        yield from _raw(path) if path.suffix == ".reports" else _parquet(path, protocol)
    except OSError as error:
        raise TableError(f"{path}: cannot read the reports: {error.strerror or 'no Parquet file'}.") from None


def refuse_repeated(pieces: Iterable[bytes], protocol: Protocol) -> None:
    """Refuse reports with a seed that came before: a device's seed follows from its token, and a token has one report.

    Raises DataError if there are any.
    """
    seeds = [parse_many(piece, protocol)[0] for piece in pieces]
    every: NDArray[np.uint64] = np.concatenate(seeds) if seeds else np.zeros(0, np.uint64)
    repeated = len(every) - len(np.unique(every))
    if repeated:
        raise DataError(
            f"{repeated} of the {len(every)} reports have the seed of another one: they came twice, or a token was "
            "used twice. Give each file once, and take reports of one collection from one database."
        )


def _check_suffix(path: Path) -> None:
    if path.suffix not in SUFFIXES:
        raise ParameterError(
            f"{path}: the name of a file with reports ends in {' or '.join(SUFFIXES)}. Those in .jsonl are sent to a "
            "collector, whose database is fitted."
        )


def _raw(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_AT_ONCE * REPORT_BYTES):
            yield piece


def _parquet_writer(file: Any, protocol: Protocol) -> Any:
    schema = pa.schema(
        [pa.field("seed", pa.uint64(), nullable=False), pa.field("index", pa.uint16(), nullable=False)],
        metadata={_KEY: protocol.to_json()},
    )
    return pa.parquet.ParquetWriter(file, schema, compression="zstd")


def _parquet(path: Path, protocol: Protocol) -> Iterator[bytes]:
    try:
        with pa.parquet.ParquetFile(path) as table:
            if (table.schema_arrow.metadata or {}).get(_KEY) != protocol.to_json().encode():
                raise TableError(f"{path}: these are not reports of protocol {protocol.id.hex()}. Give their protocol.")
            found = {name: table.schema_arrow.field(name).type for name in table.schema_arrow.names}
            if found != {"seed": pa.uint64(), "index": pa.uint16()}:
                raise TableError(f"{path}: these are not reports: the columns are not seed and index. Export again.")
            for batch in table.iter_batches(_AT_ONCE, columns=["seed", "index"]):
                if batch["seed"].null_count or batch["index"].null_count:
                    raise TableError(f"{path}: the file is damaged: a report is missing. Take an intact copy.")
                yield pack_many(protocol, batch["seed"].to_numpy(), batch["index"].to_numpy())
    except TableError:
        raise
    except (pa.ArrowException, KeyError, ValueError) as error:  # a damaged file can also repeat or mangle a name
        raise TableError(f"{path}: cannot read the table: {error}") from None
