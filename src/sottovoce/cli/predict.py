"""``sottovoce predict``: apply a stored model to a table."""

from __future__ import annotations

import csv
import io
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy.typing as npt
import typer
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score, mean_squared_error, r2_score

from sottovoce._files import write_whole
from sottovoce.cli._completion import complete_column
from sottovoce.cli._options import TABLE, ForceOption, Reading, argument, flag, option, refuse_options, with_groups
from sottovoce.cli._output import check_output
from sottovoce.cli._rows import RowReader, SchemaRows, SparseRows
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.estimators.persistence import load_model
from sottovoce.exceptions import ParameterError, SottovoceError
from sottovoce.tables import Table

__all__ = ["predict", "sparse_rows"]


@with_groups
def predict(
    *,
    model: Path = argument("MODEL", "A model that `sottovoce fit` wrote."),
    table: Path = TABLE,
    out: Path | None = option("--out", "Where to write the predictions (CSV). Default: stdout."),
    proba: bool = flag("--proba", "Add the probability of each class (logistic models)."),
    ids: list[str] = option(
        "--id",
        "A column of TABLE to write beside the predictions, as it is; may be repeated.",
        default=[],
        autocompletion=complete_column,
    ),
    score: bool = flag("--score", "Compare with the labels in TABLE; the result goes to stderr."),
    reading: Reading,
    force: ForceOption = False,
) -> None:
    """Predict each row of TABLE with MODEL, as CSV with one line a row."""
    if out is not None:
        check_output("--out", out, inputs=(model, table), overwrite=force)
    estimator, schema = load_model(model)
    if proba and not hasattr(estimator, "predict_proba"):
        raise ParameterError(f"--proba: a {type(estimator).__name__} gives no probabilities; train --model logistic.")
    if schema is not None and reading.is_libsvm(table):
        raise ParameterError(
            f"{table}: the model reads named columns, which LIBSVM text has not. Give CSV or Parquet with the columns "
            "of its schema."
        )
    if reading.is_libsvm(table):
        refuse_options("is for named columns, which LIBSVM text has not", {"--id": ids})
    reader = (
        sparse_rows(estimator, table, reading)
        if schema is None
        else SchemaRows.of(replace(schema, unit=None, max_rows_per_unit=None), reading)  # nobody's row is asked for
    )
    opened = reader.open(table, labelled=score, beside=ids)
    X, y = opened.rows.read()
    predicted = estimator.predict(X)
    columns: dict[str, Any] = {"prediction": _cells(predicted)}
    if proba:
        shares = estimator.predict_proba(X)
        columns |= {f"probability of {name}": _cells(shares[:, place]) for place, name in enumerate(estimator.classes_)}
    beside = {name: opened.table.column(name) for name in ids if isinstance(opened.table, Table)}
    for name in beside.keys() & columns.keys():
        raise ParameterError(f"--id {name}: the predictions have a column of this name. Rename it in TABLE.")
    columns = {**beside, **columns}
    _write(columns, out, force=force)
    if y is not None:
        typer.echo(_score(estimator, predicted, y), err=True)


def sparse_rows(estimator: DPLinearEstimator, table: Path, reading: Reading) -> RowReader:
    """Return the reader of LIBSVM text for a model without a schema."""
    if not reading.is_libsvm(table):
        raise ParameterError(
            f"{table}: the model was trained without a schema and reads LIBSVM text only. Give such a file (with "
            "--format libsvm if its name does not tell), or train with --schema."
        )
    classes = tuple(estimator.classes_.tolist()) if isinstance(estimator, ClassifierMixin) else None
    return SparseRows(n_features=estimator.n_features_in_, reading=reading, classes=classes)


def _write(columns: dict[str, list[Any]], out: Path | None, *, force: bool) -> None:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    text = buffer.getvalue()
    if out is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        write_whole(out, text)
    except OSError as error:
        raise SottovoceError(f"{out}: cannot write the predictions: {error.strerror}.") from None


def _cells(values: npt.NDArray[Any]) -> list[Any]:
    """Return the cells of a column, true and false as in a schema file."""
    if values.dtype.kind == "b":
        return ["true" if value else "false" for value in values]
    cells: list[Any] = values.tolist()
    return cells


def _score(estimator: DPLinearEstimator, predicted: npt.NDArray[Any], y: npt.NDArray[Any]) -> str:
    if not isinstance(estimator, ClassifierMixin):
        figures = f"mean squared error {mean_squared_error(y, predicted):.6g}"
        if len(y) > 1:
            figures += f", R^2 {r2_score(y, predicted):.4f}"
    else:
        figures = f"accuracy {accuracy_score(y, predicted):.4f}"
    return (
        f"{figures} on {len(y)} rows. NOT PRIVATE: computed from these labels without noise; if they are private, "
        "so is this figure."
    )
