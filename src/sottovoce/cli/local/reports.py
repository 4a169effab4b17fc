"""``sottovoce local randomize``, ``export``, ``fit`` and ``predict``: from records to reports, and to a model."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from sottovoce._files import write_whole
from sottovoce.cli._echo import write_data
from sottovoce.cli._options import REQUIRED, Told, argument, command, option, output, refuse_options
from sottovoce.cli._output import print_rows, say_how_good, write_or_keep
from sottovoce.cli._parameters import whole_or_auto
from sottovoce.cli.local._shared import DATABASE, MISSING, PROTOCOL, read_protocol
from sottovoce.exceptions import ParameterError, TableError
from sottovoce.local import CategoricalFeature, Protocol, Randomizer
from sottovoce.local.server.exports import SUFFIXES, read_reports, refuse_repeated, write_reports
from sottovoce.local.wire import is_token
from sottovoce.tables.cells import Cells, shown
from sottovoce.tables.reading import open_table
from sottovoce.tables.table import BatchedTable

_PARQUET = (".parquet", ".pq")
_CLEAR = 10  # times less than the largest signal must the noise in the squared length of the first moment be


@command
def randomize(
    *,
    protocol: Path = PROTOCOL,
    table: Path = argument("TABLE", "Records as CSV with a header, or as Parquet: one person a row."),
    label: str = option("--label", "Column of the label.", default=REQUIRED),
    out: Path = output(
        "--out", "NAME.jsonl to send to a collector; NAME.reports or NAME.parquet to fit.", default=REQUIRED
    ),
    tokens: Path | None = option("--tokens", "Device tokens, one a line, for the people in the same order."),
    missing: list[str] | None = MISSING,
    max_epsilon: float | None = option("--max-epsilon", "Refuse a protocol that asks for more."),
) -> Told:
    """Make one report a line of TABLE. Run it once: each further run costs every person epsilon again.

    With NAME.jsonl each line is what POST /reports takes; it needs --tokens. Nothing is sent.
    """
    described = read_protocol(protocol)
    if out.suffix not in (".jsonl", *SUFFIXES):
        raise ParameterError(
            f"--out {out}: the name ends in .jsonl to send reports, in {' or '.join(SUFFIXES)} to fit."
        )
    if out.suffix == ".jsonl" and tokens is None:
        raise ParameterError("--tokens is missing: a collector takes a report with its token. Ask whoever collects.")
    device = Randomizer(described, max_epsilon=max_epsilon)
    records = list(_records(table, described, label=label, missing=missing))
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
    return Told(told, f"{len(reports)} reports of {described.epsilon:g}-LDP in {out}")


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


@command
def export(
    *,
    protocol: Path = PROTOCOL,
    database: str = DATABASE,
    out: Path = output("--out", "NAME.parquet, or NAME.reports for their bytes.", default=REQUIRED),
) -> Told:
    """Write all reports of PROTOCOL to a file, without anything of their tokens and in no order of arrival."""
    described = read_protocol(protocol)
    source = database if "://" in database else f"sqlite:///{database}"
    count = write_reports(out, _stream(source, described), described)
    return Told({"reports": count, "file": str(out)}, f"{count} reports in {out}")


@command
def fit(
    *,
    protocol: Path = PROTOCOL,
    sources: list[str] = argument(
        "SOURCE...", "A database (sqlite:///FILE, postgresql://...), or files .parquet and .reports."
    ),
    out: Path = output("--out", "Where to write the model (JSON).", default=REQUIRED),
    receipt: Path | None = output(
        "--receipt", "Where to write the receipt. Default: beside the model.", beside=".receipt.json"
    ),
    degree: str = option(
        "--degree", "Of the gradient: 0 uses the first moment only, 1 the second too; auto decides by the noise.",
        default="auto", parser=whole_or_auto, metavar="DEGREE",
    ),
    alpha: float | None = option("--alpha", "Penalty of least squares. Default: half the noise edge."),
) -> Told:  # fmt: skip
    """Fit a model to the reports of PROTOCOL and write it with its receipt; as often as you like, at no cost."""
    from sottovoce.local import Aggregator

    assert receipt is not None
    described = read_protocol(protocol)
    if [source for source in sources if "://" not in source] or len(sources) > 1:
        # within one database the tokens are unique
        refuse_repeated((piece for source in sources for piece in _stream(source, described)), described)
    aggregator = Aggregator(described)
    for source in sources:
        aggregator.add(_stream(source, described))
    if not aggregator.n_reports:
        raise ParameterError("SOURCE: there are no reports of this protocol.")
    model = aggregator.fit(degree=degree, alpha=alpha)
    write_or_keep({out: model.to_json(), receipt: model.guarantee_.to_json()})
    health = aggregator.health()
    least = math.ceil(_CLEAR * described.d * described.constants.v1)
    rows = [
        ("reports", f"{health.n}, and {sum(health.rejected.values())} refused"),
        ("fitted by", f"{model.loss}, degree {model.degree}"),
    ]
    if model.quality_ is not None:
        error = model.quality_.squared_error
        rows.append(("held-out squared error", f"{error.value:.4f} +- {error.standard_error:.4f} (1: learnt nothing)"))
    if not health.is_plausible:
        rows.append(("WARNING", "these reports do not look like those of honest devices; see the guide"))
    if health.n < least:
        few = f"so few reports are mostly noise: {least:,} are needed at least; see sottovoce local plan"
        rows.append(("WARNING", few))
    told = {
        "model": str(out), "receipt": str(receipt), "guarantee": model.guarantee_.to_dict(), "loss": model.loss,
        "degree": model.degree, "reports": health.n, "refused": sum(health.rejected.values()),
        "is_plausible": health.is_plausible, "is_lost_in_noise": health.n < least,
        "squared_error": None if model.quality_ is None else model.quality_.squared_error,
    }  # fmt: skip
    return Told(
        told,
        lambda: print_rows(f"Model {out}", rows),
        lambda: print_rows(f"Receipt {receipt}", model.guarantee_.rows()),
    )


@command
def predict(
    *,
    model: Path = argument("MODEL", "A model of `sottovoce local fit`."),
    table: Path = argument("TABLE", "Records as CSV with a header, or as Parquet."),
    out: Path | None = output("--out", "Where to write the predictions. Default: stdout."),
    score: str | None = option("--score", "Compare with this column; the result goes to stderr.", metavar="LABEL"),
    missing: list[str] | None = MISSING,
) -> None:
    """Predict each record of TABLE with MODEL, one a line."""
    from sottovoce.local import LocalModel

    read = LocalModel.load(model)
    records, labels = [], []
    for record, label in _records(table, read.protocol, label=score, missing=missing):
        records.append(record)
        labels.append(label)
    text = "prediction\n" + "".join(f"{value}\n" for value in (read.predict(records) if records else ()))
    if out is None:
        write_data(text)
    else:
        write_whole(out, text, private=True)
    if score is not None and records:
        name = "accuracy" if read.classes_ is not None else "R^2"
        say_how_good(f"{name} {read.score(records, labels):.4f}", len(records))


# ------------------------------------------------------------------ what is read


def _records(
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


def _stream(source: str, protocol: Protocol) -> Iterator[bytes]:
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
