"""The card of a model for a hub: Markdown, with what programs read of it in front."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from typing import Any, Final

from sottovoce._plain_data import plain
from sottovoce._validation import number
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.report._yaml import yaml_text
from sottovoce.report.model_card import CARD_FIELDS, check_model_card
from sottovoce.report.reading import fingerprint
from sottovoce.report.verdict import verdict_of

__all__ = ["hub_card"]

_REGRESSIONS: Final = ("DPRidge", "DPLasso")
_PRIVACY_ROWS: Final = (
    "statement", "neighbours", "mechanism", "released", "taken as public or true", "not covered", "proof", "made by",
    "model (SHA-256)", "ledger", "signature",
)  # fmt: skip


def hub_card(
    guarantee: Guarantee,
    *,
    model_card: Mapping[str, object] | None = None,
    metrics: Mapping[str, float] | None = None,
    data_set: str | None = None,
) -> str:
    """Return a model card as the Hugging Face Hub reads it: YAML between two lines of dashes, then Markdown.

    Parameters
    ----------
    guarantee : Guarantee
    model_card : mapping or None
        Fields of `CARD_FIELDS`. ``licence`` goes into ``license`` as it is: write an identifier of the Hub, such as
        ``apache-2.0``.
    metrics : mapping or None
        From names of metrics to values, stated by the author and not checked; they make the entry ``model-index``. A
        figure from private rows is one more release about them, which this receipt does not cover.
    data_set : str or None
        Name of the data set that the metrics are about; needed with ``metrics``.

    Returns
    -------
    str

    Raises
    ------
    ParameterError
        If ``model_card`` or ``metrics`` are not of this form, or ``data_set`` is missing.
    """
    card = {} if model_card is None else check_model_card(model_card)
    name = _one(card.get("name")) or f"{guarantee.parameters.get('estimator', 'model')} with differential privacy"
    task = _task(guarantee)
    licence = _one(card.get("licence"))
    front: dict[str, Any] = {
        **({"license": licence} if licence else {}),
        "library_name": "sottovoce",
        "tags": ["differential-privacy", "sottovoce", "linear-model"],
        **({"pipeline_tag": task} if task else {}),
        **_model_index(name, task, metrics, data_set),
        "differential_privacy": _privacy(guarantee),
    }
    rows = dict(guarantee.rows())
    table = "\n".join(f"| {head} | {_cell(rows[head])} |" for head in _PRIVACY_ROWS if head in rows)
    verdict = verdict_of(guarantee)
    return (
        f"---\n{yaml_text(front)}---\n\n# {_text(name)}\n\n{_sections(card)}## Privacy\n\n"
        f"**{_text(verdict.headline)}.** {_text(verdict.explanation)}\n\n| | |\n| --- | --- |\n{table}\n\n"
        "The receipt itself, with its event, is a file of its own (`model.receipt.json`). `sottovoce receipt verify` "
        "checks it. What stands above the heading Privacy is stated by the author and was not checked.\n"
    )


def _privacy(guarantee: Guarantee) -> dict[str, Any]:
    return {
        "private": guarantee.is_private,
        **{name: plain(getattr(guarantee, name)) for name in ("epsilon", "delta", "adjacency", "unit", "mechanism")},
        "accountant": guarantee.accountant,
        "ledger": "none" if guarantee.charge is None else guarantee.charge["ledger"],
        "receipt_sha256": fingerprint(guarantee),
        **({"model_sha256": guarantee.model} if guarantee.model else {}),
    }


def _task(guarantee: Guarantee) -> str | None:
    if "classes" in guarantee.parameters:
        return "tabular-classification"
    return "tabular-regression" if guarantee.parameters.get("estimator") in _REGRESSIONS else None


def _model_index(
    name: str, task: str | None, metrics: Mapping[str, float] | None, data_set: str | None
) -> dict[str, Any]:
    if metrics is None:
        return {}
    if not isinstance(metrics, Mapping) or not metrics:
        raise ParameterError(f"metrics must be a mapping from names to numbers, or None; got {metrics!r}.")
    if not isinstance(data_set, str) or not data_set.strip():
        raise ParameterError(f"data_set must name the data set of the metrics; got {data_set!r}.")
    values = [
        {"type": str(kind), "value": number(f"metrics[{kind!r}]", value, at_least=-math.inf), "verified": False}
        for kind, value in metrics.items()
    ]
    result = {"task": {"type": task or "other"}, "dataset": {"type": data_set, "name": data_set}, "metrics": values}
    return {"model-index": [{"name": name, "results": [result]}]}


def _sections(card: Mapping[str, str | list[str]]) -> str:
    shown = [(CARD_FIELDS[field], value) for field, value in card.items() if field != "name"]
    return "".join(
        f"## {heading}\n\n{_text(value) if isinstance(value, str) else _list(value)}\n\n" for heading, value in shown
    )


def _list(items: list[str]) -> str:
    return "\n".join(f"* {_text(item)}" for item in items)


def _one(value: str | list[str] | None) -> str | None:
    return ", ".join(value) if isinstance(value, list) else value


def _text(value: str) -> str:
    """Return a text that is no markup of HTML; Markdown of the author's stays."""
    return html.escape(value, quote=False)


def _cell(value: str) -> str:
    return _text(value).replace("|", "\\|").replace("\n", "<br>")
