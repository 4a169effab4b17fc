"""``sottovoce show``: the receipt of a model, for people or as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from sottovoce._plain_data import plain
from sottovoce.cli import _options as cli
from sottovoce.cli._echo import echo
from sottovoce.cli._models import model_rows
from sottovoce.cli._output import print_columns, print_rows, tell, write_page
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.estimators.persistence import load_model
from sottovoce.exceptions import ModelFormatError, ParameterError
from sottovoce.report import read_model_card, read_receipt, receipt_page
from sottovoce.report.reading import open_receipt
from sottovoce.tables import Schema

_SHOWN = 20


@cli.command
def show(
    *,
    path: Path = cli.argument("MODEL_OR_RECEIPT", "A file that `sottovoce fit` wrote, or the page of a receipt."),
    coefficients: bool = cli.flag("--coefficients", "Print all coefficients of a model, and no receipt."),
    as_json: bool = cli.JSON,
    html: Path | None = cli.output("--html", "Write the receipt as a page to read, sign and print; print nothing."),
    model_card: Path | None = cli.MODEL_CARD,
) -> None:
    """Show a model: its coefficients, and its receipt: what was promised, about what, and what it does not cover.

    The event in the file is accounted again: a receipt that promises more than its event gives is refused.
    """
    if html is None:
        cli.refuse_options("is for the page: give --html PAGE.html too", {"--model-card": model_card})
    else:
        printed = {"--json": as_json, "--coefficients": coefficients}
        cli.refuse_options("prints, and --html writes a page: give one of them", printed)
    estimator, schema = load_model(path) if _is_model(path) else (None, None)
    if coefficients:
        if estimator is None:
            raise ParameterError(
                f"--coefficients: {path} is a receipt, or a model of reports, and lists none. Give a model of `fit`."
            )
        told = coefficients_as_json(estimator, schema)
        tell(as_json, told, partial(print_coefficients, estimator, schema, every=True))
        return
    guarantee = read_receipt(path) if estimator is None else estimator.guarantee_
    if html is not None:
        card = None if model_card is None else read_model_card(model_card)
        write_page(html, receipt_page(guarantee, model_card=card))
        return
    if as_json:
        echo(guarantee.to_json(), nl=False)
        return
    print_rows(f"Receipt {path}", guarantee.rows())
    if estimator is not None:
        print_rows(f"Model {path}", model_rows(estimator, schema))
        print_coefficients(estimator, schema, every=False)


def _is_model(path: Path) -> bool:
    """Tell a model, and what is not of ours, which `load_model` reports in full, from all else that holds a receipt.

    A model of reports is all else: its weights are those of moments, and it is written to be read by devices too.
    """
    try:
        return (open_receipt(path).model or {}).get("format") == "sottovoce-model"
    except ModelFormatError:
        return True


def print_coefficients(estimator: DPLinearEstimator, schema: Schema | None, *, every: bool) -> None:
    for scores in _scores(estimator, schema):
        shown = scores["coefficients"] if every else scores["coefficients"][:_SHOWN]
        lines = [
            (one["feature"], f"{one['coefficient']:+.4g}", f"{one['amount']:+.4g}", one["meaning"]) for one in shown
        ]
        intercept = f"{scores['intercept']:+.4g}"
        lines.append(("(intercept)", intercept, intercept, "where every feature is 0"))
        headings = ("feature", "coefficient", "in the table", "")
        print_columns(f"What adds up to {scores['what']}", headings, lines, ends_in_words=True)
        left = len(scores["coefficients"]) - len(shown)
        if left:
            print(f"{left} smaller ones are not shown; --coefficients shows all.\n")


def coefficients_as_json(estimator: DPLinearEstimator, schema: Schema | None) -> Any:
    """Return all coefficients as plain data, and the bounds to which columns are cut before, if they are."""
    told: dict[str, Any] = {"model": type(estimator).__name__, "scores": list(_scores(estimator, schema))}
    if estimator.column_bounds_ is not None:
        names = _features(estimator, schema)
        told["columns are cut to"] = dict(zip(names, np.transpose(estimator.column_bounds_).tolist(), strict=True))
    if estimator.row_bound_ is not None:
        told["rows are shortened to"] = estimator.row_bound_
    return plain(told)


def _features(estimator: DPLinearEstimator, schema: Schema | None) -> list[str]:
    """Return the names of the columns that coefficients are multiplied by."""
    if schema is not None:
        return [name for column in schema.feature_columns for name in column.feature_names]
    known = getattr(estimator, "feature_names_in_", None)
    return [f"feature {k + 1}" for k in range(estimator.n_features_in_)] if known is None else [str(k) for k in known]


def _scores(estimator: DPLinearEstimator, schema: Schema | None) -> Iterator[dict[str, Any]]:
    """Yield what each line of coefficients adds up to, its intercept and its coefficients, the largest first."""
    names, keys = _features(estimator, schema), ("feature", "coefficient", "amount", "meaning")
    for what, line, intercept in zip(
        _names(estimator, schema), np.atleast_2d(estimator.coef_), np.atleast_1d(estimator.intercept_), strict=True
    ):
        values: list[float] = line.tolist()
        if schema is None:
            effects = [(value, f"for each 1 more of {name}") for name, value in zip(names, values, strict=True)]
        else:
            effects, left = [], iter(values)
            for column in schema.feature_columns:
                effects += column.effects(list(islice(left, len(column.feature_names))))
        found: list[dict[str, Any]] = [
            dict(zip(keys, (name, value, *effect), strict=True))
            for name, value, effect in zip(names, values, effects, strict=True)
        ]
        largest_first = sorted(found, key=lambda one: -abs(one["coefficient"]))
        yield {"what": what, "intercept": float(intercept), "coefficients": largest_first}


def _names(estimator: DPLinearEstimator, schema: Schema | None) -> list[str]:
    target = "the label" if schema is None else str(schema.target)
    if not isinstance(estimator, ClassifierMixin):
        return [f"the prediction of {target}"]
    known = estimator.classes_.tolist()
    score = "the log odds of" if hasattr(estimator, "predict_proba") else "the score of"
    return [f"{score} {target} = {name}" for name in (known[1:] if len(known) == 2 else known)]
