"""``sottovoce local predict``: apply a model from reports to records."""

from __future__ import annotations

from pathlib import Path

from sottovoce._files import check_writable, write_whole
from sottovoce.cli._echo import echo, write_data
from sottovoce.cli._options import ForceOption, argument, option
from sottovoce.cli.local._options import MISSING
from sottovoce.cli.local._records import read_records

__all__ = ["predict"]


def predict(
    *,
    model: Path = argument("MODEL", "A model of `sottovoce local fit`."),
    table: Path = argument("TABLE", "Records as CSV with a header."),
    out: Path | None = option("--out", "Where to write the predictions. Default: stdout."),
    score: str | None = option("--score", "Compare with this column; the result goes to stderr.", metavar="LABEL"),
    missing: list[str] | None = MISSING,
    force: ForceOption = False,
) -> None:
    """Predict each record of TABLE with MODEL, one a line."""
    from sottovoce.local import LocalModel

    if out is not None:
        check_writable("--out", out, overwrite=force)
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
        echo(
            f"{name} {read.score(records, labels):.4f} on {len(records)} rows. NOT PRIVATE: computed from these labels "
            "without noise; if they are private, so is this figure.",
            err=True,
        )
