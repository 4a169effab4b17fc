"""A table that workers of a cluster read: the options, and the connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce._validation import whole_number
from sottovoce.cli._echo import echo
from sottovoce.cli._models import is_sparse
from sottovoce.cli._options import Format, ModelKind, flag, option, refuse_options
from sottovoce.cli._rows import RowReader
from sottovoce.exceptions import ParameterError, SottovoceError
from sottovoce.tables import file_format
from sottovoce.tables.reading import refuse_libsvm

if TYPE_CHECKING:
    from sottovoce.cluster.holder import ClusterHolder

_PANEL = "On a cluster"


@dataclass(frozen=True)
class Cluster:
    """Where a cluster is, and how it is spoken to."""

    cluster: str | None = option(
        "--cluster",
        "A scheduler of Dask's, tls://HOST:PORT or tcp://HOST:PORT, or the file that it wrote: its workers read TABLE, "
        "which is Parquet that all of them reach, such as s3://BUCKET/FOLDER, and keep the rows.",
        _PANEL,
    )
    tls_ca: Path | None = option(
        "--tls-ca", "The authority's certificate (PEM). Default: as Dask's configuration says.", _PANEL
    )
    tls_cert: Path | None = option(
        "--tls-cert", "This machine's certificate (PEM). Default: as Dask's configuration says.", _PANEL
    )
    tls_key: Path | None = option("--tls-key", "Its key (PEM). Default: in the file of --tls-cert.", _PANEL)
    in_clear: bool = flag(
        "--in-clear",
        "Accept a network without TLS: exact sums of private rows cross it in clear, and whoever reaches the "
        "scheduler runs code where the rows are.",
        _PANEL,
    )
    partitions: int | None = option(
        "--partitions", "Parts into which the table is cut; the model is the same for any. Default: some a worker.",
        _PANEL,
    )  # fmt: skip

    @property
    def given(self) -> bool:
        return self.cluster is not None

    def check(self, table: str | Path, model: ModelKind | None, /, **others: object) -> None:
        """Refuse options that do not go together; ``others`` are those that only a table read here can have."""
        if not self.given:
            if isinstance(table, str):
                raise ParameterError(
                    f"TABLE {table}: workers of a cluster read such an address. Give --cluster ADDRESS, or copy the "
                    "table to a file."
                )
            refuse_options("is for a cluster: give --cluster ADDRESS too", vars(self))
            return
        if table == Path("/dev/stdin"):
            raise ParameterError("TABLE -: workers cannot read this machine's pipe. Give Parquet that all can reach.")
        if not isinstance(table, str | Path) or _is_text(table):
            raise ParameterError(
                f"TABLE {table}: workers read Parquet. Write the table as Parquet first, or train on one machine, "
                "without --cluster."
            )
        if is_sparse(model):
            raise ParameterError(
                f"--model {model} is not for a table on a cluster: its solver holds all rows. Use logistic, svm or "
                "ridge, or train on one machine."
            )
        for name, path in (("--tls-ca", self.tls_ca), ("--tls-cert", self.tls_cert), ("--tls-key", self.tls_key)):
            if path is not None and not path.is_file():
                raise ParameterError(f"{name} {path}: there is no such file. Give one in PEM format.")
        if self.partitions is not None:
            whole_number("--partitions", self.partitions, at_least=1)
        refuse_options("is not for a table on a cluster, whose rows stay in its workers", others)

    @contextmanager
    def table(self, table: str | Path, reader: RowReader, *, quiet: bool = False) -> Iterator[Any]:
        from sottovoce.cluster.connecting import connected
        from sottovoce.cluster.encoded import EncodedTable

        address = table if isinstance(table, str) else str(table.resolve())
        with ExitStack() as held:
            client = held.enter_context(connected(
                str(self.cluster), tls_ca=self.tls_ca, tls_cert=self.tls_cert, tls_key=self.tls_key,
                in_clear=self.in_clear,
            ))  # fmt: skip
            rows = EncodedTable.of(client, address, reader.encoder, partitions=self.partitions)
            if not quiet:
                rows.told = _tell_losses()
            yield held.enter_context(rows)


def _tell_losses() -> Callable[[ClusterHolder], None]:
    """Return what is called after each operation, and writes a line where partitions were rebuilt since."""
    known = 0

    def told(holder: ClusterHolder) -> None:
        nonlocal known
        n_rebuilt = holder.partitions.n_rebuilt
        if n_rebuilt > known:
            echo(f"note: a worker was lost, and its partitions were rebuilt: now {holder.status()}", err=True)
        known = n_rebuilt

    return told


def _is_text(table: str | Path) -> bool:
    refuse_libsvm(Path(table))
    try:
        return file_format(Path(table)) != Format.PARQUET
    except SottovoceError:  # a folder, or a pattern
        return False
