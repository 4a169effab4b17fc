"""What a vertical training leaves in a folder: receipts, the coordinator's share of the model, its parts, rounds."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sottovoce._plain_data import plain
from sottovoce.exceptions import ModelFormatError
from sottovoce.vertical.coordinator.plan import History, SumOfScores, Term
from sottovoce.vertical.estimators.base import VerticalEstimator

GUARANTEE: Final = "guarantee.json"
COORDINATOR: Final = "coordinator.json"
_VERSION: Final = 1


def result_texts(estimator: VerticalEstimator, features: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the content of the files of a fitted estimator, by name.

    ``features``: names of the columns of each party whose part of the model is here.
    """
    holder = estimator.plan_.facts.label_holder
    common = {"version": _VERSION, "model": estimator.model_, "estimator": type(estimator).__name__}
    texts = {GUARANTEE: estimator.guarantee_.to_json()}
    for name, receipt in estimator.party_guarantees_.items():
        texts[f"{name}.receipt.json"] = receipt.to_json()
    for name, part in estimator.parts_.items():
        texts[f"{name}.part.json"] = _json({
            "format": "sottovoce-vertical-part", **common, "party": name, "intercept": part.intercept,
            "coefficients": dict(zip(features[name], part.coef.tolist(), strict=True)),
        })  # fmt: skip
    labels = {"label_holder": holder} | {
        name: plain(getattr(estimator, name)) for name in ("classes", "label_bounds") if hasattr(estimator, name)
    }
    scorer: Any = estimator.scorer_
    texts[COORDINATOR] = _json({
        "format": "sottovoce-vertical-coordinator", **common, **labels, "scorer": type(scorer).__name__,
        **plain(scorer),
    })  # fmt: skip
    if estimator.history_ is not None:
        texts["history.csv"] = _history_text(estimator.history_)
    return texts


def scorer_from(content: Mapping[str, Any]) -> SumOfScores:
    """Return the scorer of a `COORDINATOR` file, as it was.

    Raises `ModelFormatError` if the content is not one.
    """
    if content.get("version") != _VERSION:
        raise ModelFormatError(
            f"the coordinator's share of the model has version {content.get('version')!r}, this version of sottovoce "
            f"reads {_VERSION}: use the version that trained it."
        )
    try:
        if content["scorer"] != SumOfScores.__name__:
            raise ValueError(content["scorer"])
        terms = {name: Term(float(term["weight"]), float(term["centre"])) for name, term in content["terms"].items()}
        return SumOfScores(terms, frozenset(content["optional"]), float(content["constant"]))
    except (KeyError, TypeError, ValueError):
        raise ModelFormatError("this is no coordinator's share of a vertical model: damaged file.") from None


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _history_text(history: History) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(("step", "objective", "stationarity"))
    lines = zip(history.objective, history.stationarity, strict=True)
    writer.writerows((step, *line) for step, line in enumerate(lines, start=1))
    return buffer.getvalue()
