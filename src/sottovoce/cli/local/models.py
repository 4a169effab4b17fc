"""``sottovoce local fit`` and ``predict``: a model from reports, and what it says of records."""

from __future__ import annotations

import math
from pathlib import Path

from sottovoce._files import write_whole
from sottovoce.cli._echo import write_data
from sottovoce.cli._options import JSON, REQUIRED, ForceOption, argument, option
from sottovoce.cli._output import check_output, check_outputs, print_json, print_rows, say_how_good, write_or_keep
from sottovoce.cli._parse import whole_or_auto
from sottovoce.cli.local._options import MISSING, PROTOCOL, read_protocol
from sottovoce.cli.local._records import read_records, stream
from sottovoce.exceptions import ParameterError
from sottovoce.local import Aggregator, LocalModel
from sottovoce.local.server.exports import refuse_repeated

_CLEAR = 10  # times less than the largest signal must the noise in the squared length of the first moment be


def fit(
    *,
    protocol: Path = PROTOCOL,
    sources: list[str] = argument(
        "SOURCE...", "A database (sqlite:///FILE, postgresql://...), or files .parquet and .reports."
    ),
    out: Path = option("--out", "Where to write the model (JSON).", default=REQUIRED),
    receipt: Path | None = option("--receipt", "Where to write the receipt. Default: beside the model."),
    degree: str = option(
        "--degree", "Of the gradient: 0 uses the first moment only, 1 the second too; auto decides by the noise.",
        default="auto", parser=whole_or_auto, metavar="DEGREE",
    ),
    alpha: float | None = option("--alpha", "Penalty of least squares. Default: half the noise edge."),
    force: ForceOption = False,
    as_json: bool = JSON,
) -> None:  # fmt: skip
    """Fit a model to the reports of PROTOCOL and write it with its receipt; as often as you like, at no cost."""
    described = read_protocol(protocol)
    receipt = receipt or out.with_name(f"{out.stem}.receipt.json")
    check_outputs({"--out": out, "--receipt": receipt}, inputs=(protocol, *map(Path, sources)), overwrite=force)
    if [source for source in sources if "://" not in source] or len(sources) > 1:
        # within one database the tokens are unique
        refuse_repeated((piece for source in sources for piece in stream(source, described)), described)
    aggregator = Aggregator(described)
    for source in sources:
        aggregator.add(stream(source, described))
    if not aggregator.n_reports:
        raise ParameterError("SOURCE: there are no reports of this protocol.")
    model = aggregator.fit(degree=degree, alpha=alpha)
    write_or_keep({out: model.to_json(), receipt: model.guarantee_.to_json()})
    health = aggregator.health()
    least = math.ceil(_CLEAR * described.d * described.constants.v1)
    if as_json:
        print_json({
            "model": str(out), "receipt": str(receipt), "guarantee": model.guarantee_.to_dict(), "loss": model.loss,
            "degree": model.degree, "reports": health.n, "refused": sum(health.rejected.values()),
            "is_plausible": health.is_plausible, "is_lost_in_noise": health.n < least,
            "squared_error": None if model.quality_ is None else model.quality_.squared_error,
        })  # fmt: skip
        return
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
    print_rows(f"Model {out}", rows)
    print_rows(f"Receipt {receipt}", model.guarantee_.rows())


def predict(
    *,
    model: Path = argument("MODEL", "A model of `sottovoce local fit`."),
    table: Path = argument("TABLE", "Records as CSV with a header, or as Parquet."),
    out: Path | None = option("--out", "Where to write the predictions. Default: stdout."),
    score: str | None = option("--score", "Compare with this column; the result goes to stderr.", metavar="LABEL"),
    missing: list[str] | None = MISSING,
    force: ForceOption = False,
) -> None:
    """Predict each record of TABLE with MODEL, one a line."""
    if out is not None:
        check_output("--out", out, inputs=[model, table], overwrite=force)
    read = LocalModel.load(model)
    records, labels = [], []
    for record, label in read_records(table, read.protocol, label=score, missing=missing):
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
