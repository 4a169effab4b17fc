"""``sottovoce predict``: apply a stored model to a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin

from sottovoce._files import whole_file
from sottovoce.cli import _options as cli
from sottovoce.cli._echo import is_terminal, write_data
from sottovoce.cli._output import say_how_good
from sottovoce.cli._rows import open_rows
from sottovoce.estimators.persistence import load_model
from sottovoce.estimators.remote import count_right, r_squared_of, sum_squares
from sottovoce.exceptions import ParameterError, SottovoceError


@cli.command
def predict(
    *,
    model: Path = cli.argument("MODEL", "A model that `sottovoce fit` wrote."),
    table: Path = cli.TABLE,
    out: Path | None = cli.output("--out", "Where to write the predictions (CSV). Default: stdout."),
    proba: bool = cli.flag("--proba", "Add the probability of each class (logistic models)."),
    ids: list[str] = cli.option(
        "--id",
        "A column of TABLE to write beside the predictions, as it is; may be repeated.",
        default=[],
    ),
    score: bool = cli.flag("--score", "Compare with the labels in TABLE; the result goes to stderr."),
    reading: cli.Reading,
) -> None:
    """Predict each row of TABLE with MODEL, as CSV with one line a row."""
    estimator, schema = load_model(model)
    if proba and not hasattr(estimator, "predict_proba"):
        raise ParameterError(f"--proba: a {type(estimator).__name__} gives no probabilities; train --model logistic.")
    if schema is None:
        raise without_schema(model)
    # nobody's row is asked for
    schema = replace(schema, unit=None, max_rows_per_unit=None)
    ids = list(dict.fromkeys(ids))
    classes = [] if not proba else [f"probability of {name}" for name in estimator.classes_]
    names = ["prediction", *classes]
    for name in ids:
        if name in names:
            raise ParameterError(f"--id {name}: the predictions have a column of this name. Rename it in TABLE.")
    rated = count_right if isinstance(estimator, ClassifierMixin) else sum_squares
    n_rows, parts = 0, []
    # bars and predictions do not share a terminal
    quiet = out is None and is_terminal()
    opened = open_rows(schema, reading, table, labelled=score, beside=ids, n_more=1 + len(classes), quiet=quiet)
    with _written(out) as write, closing(opened.parts()) as stream:
        for number, (cells, X, y) in enumerate(stream):
            predicted = estimator.predict(X)
            columns = [cells.column(name) for name in ids]
            columns.append(_cells(predicted))
            if proba:
                columns += [_cells(shares) for shares in estimator.predict_proba(X).T]
            write(_csv([] if number else [[*ids, *names]], columns))
            if y is not None:
                n_rows += len(y)
                parts.append(rated(predicted, y))
    if score:
        say_how_good(how_good(parts), n_rows)


def without_schema(model: Path) -> ParameterError:
    return ParameterError(
        f"{model}: the model was trained without a schema, and commands read named columns. Load it in Python, with "
        "sottovoce.load_model, and give it the rows there; or train with `sottovoce fit --schema`."
    )


@contextmanager
def _written(out: Path | None) -> Iterator[Callable[[str], object]]:
    """Yield what takes the text of the predictions, to be written to a file as a whole or to stdout as it comes."""
    if out is None:
        yield write_data
        return
    try:
        with whole_file(out, private=True) as file:
            yield lambda text: file.write(text.encode())
    except OSError as error:
        raise SottovoceError(f"{out}: cannot write the predictions: {error.strerror}.") from None


def _csv(heading: list[list[str]], columns: list[list[Any]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerows(heading)
    writer.writerows(zip(*columns, strict=True))
    return buffer.getvalue()


def _cells(values: npt.NDArray[Any]) -> list[Any]:
    if values.dtype.kind == "b":
        return ["true" if value else "false" for value in values]
    cells: list[Any] = values.tolist()
    return cells


def how_good(parts: list[Any]) -> str:
    """Return a figure of what was counted of each part of a table."""
    if len(parts[0]) == 2:
        right, rows = np.sum(parts, axis=0)
        return f"accuracy {right / rows:.4f}"
    rows, _, _, missed = np.array(parts).T
    text = f"mean squared error {missed.sum() / rows.sum():.6g}"
    return text if rows.sum() < 2 else f"{text}, R^2 {r_squared_of(parts):.4f}"
