"""``sottovoce show``: the receipt of a model, for people or as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sottovoce.cli._models import model_rows
from sottovoce.cli._output import print_rows
from sottovoce.estimators.persistence import load_model
from sottovoce.exceptions import ModelFormatError, SottovoceError
from sottovoce.privacy.guarantee import Guarantee

__all__ = ["show"]


def show(
    path: Annotated[Path, typer.Argument(metavar="MODEL_OR_RECEIPT", help="A file that `sottovoce fit` wrote.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the receipt as JSON.")] = False,
) -> None:
    """Show the receipt of a model: what was promised, about what, and what it does not cover.

    The event in the file is accounted again: a receipt that promises more than its event gives is refused.
    """
    if _format_of(path) == "sottovoce-receipt":
        model = None
        guarantee = _read_receipt(path)
    else:
        estimator, schema = load_model(path)
        model, guarantee = model_rows(estimator, schema), estimator.guarantee_
    if as_json:
        typer.echo(guarantee.to_json(), nl=False)
        return
    if model is not None:
        print_rows(f"Model {path}", model)
    print_rows(f"Receipt {path}", guarantee.rows())


def _format_of(path: Path) -> object:
    """Return what the file says it is; None if it says nothing, which `load_model` reports in full."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return content.get("format") if isinstance(content, dict) else None


def _read_receipt(path: Path) -> Guarantee:
    try:
        return Guarantee.from_json(path.read_text(encoding="utf-8"))
    except SottovoceError as error:
        raise ModelFormatError(f"{path}: {error}") from None
