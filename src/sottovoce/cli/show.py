"""``sottovoce show``: the receipt of a model, for people or as JSON."""

from __future__ import annotations

import json
from pathlib import Path

from sottovoce.cli._coefficients import coefficients_as_json, print_coefficients
from sottovoce.cli._echo import echo
from sottovoce.cli._models import model_rows
from sottovoce.cli._options import MODEL_CARD, ForceOption, argument, flag, option, refuse_options
from sottovoce.cli._output import check_output, print_rows, write_page
from sottovoce.estimators.persistence import load_model
from sottovoce.exceptions import ParameterError
from sottovoce.report import read_model_card, read_receipt, receipt_page

__all__ = ["show"]


def show(
    path: Path = argument("MODEL_OR_RECEIPT", "A file that `sottovoce fit` wrote, or the page of a receipt."),
    coefficients: bool = flag("--coefficients", "Print all coefficients of a model, and no receipt."),
    as_json: bool = flag("--json", "Print the receipt, or the coefficients, as JSON."),
    html: Path | None = option("--html", "Write the receipt as a page to read, sign and print; print nothing."),
    model_card: Path | None = MODEL_CARD,
    force: ForceOption = False,
) -> None:
    """Show a model: its coefficients, and its receipt: what was promised, about what, and what it does not cover.

    The event in the file is accounted again: a receipt that promises more than its event gives is refused.
    """
    if html is None:
        refuse_options("is for the page: give --html PAGE.html too", {"--model-card": model_card})
    else:
        printed = {"--json": as_json, "--coefficients": coefficients}
        refuse_options("prints, and --html writes a page: give one of them", printed)
        check_output("--html", html, inputs=(path, model_card), overwrite=force)
    estimator, schema = load_model(path) if _is_model(path) else (None, None)
    if coefficients:
        if estimator is None:
            raise ParameterError(f"--coefficients: {path} is a receipt, which has none. Give the model's own file.")
        if as_json:
            echo(json.dumps(coefficients_as_json(estimator, schema), indent=2, allow_nan=False))
        else:
            print_coefficients(estimator, schema, every=True)
        return
    guarantee = read_receipt(path) if estimator is None else estimator.guarantee_
    if html is not None:
        card = None if model_card is None else read_model_card(model_card)
        write_page(html, receipt_page(guarantee, model_card=card))
        return
    if as_json:
        echo(guarantee.to_json(), nl=False)
        return
    if estimator is not None:
        print_rows(f"Model {path}", model_rows(estimator, schema))
        print_coefficients(estimator, schema, every=False)
    print_rows(f"Receipt {path}", guarantee.rows())


def _is_model(path: Path) -> bool:
    """Tell a model, and what is not of ours, which `load_model` reports in full, from receipts and their pages."""
    try:
        text = path.read_text(encoding="utf-8")
        if text[:15].lower() == "<!doctype html>":
            return False
        content = json.loads(text)
    except (OSError, ValueError, RecursionError):
        return True
    return not (isinstance(content, dict) and content.get("format") == "sottovoce-receipt")
