"""What a vertical training leaves: its files, and its receipt again, from its own parameters."""

import csv
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from sottovoce._plain_data import decode, plain
from sottovoce._validation import number, truth
from sottovoce.exceptions import ModelFormatError, ParameterError
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.privacy.receipts import stated_arguments
from sottovoce.vertical.coordinator.plan import History, SumOfScores, Term, VerticalSolution, check_possible
from sottovoce.vertical.estimators.base import VerticalEstimator
from sottovoce.vertical.estimators.choices import checked_engines
from sottovoce.vertical.estimators.dense import VerticalLinearSVC, VerticalLogisticRegression, VerticalRidge
from sottovoce.vertical.estimators.sparse import VerticalLasso, VerticalSparseLogisticRegression
from sottovoce.vertical.requests.general import Description
from sottovoce.vertical.secure.training import LEAST_ALPHA

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


ESTIMATORS: Final[Mapping[str, type[VerticalEstimator]]] = {
    "logistic": VerticalLogisticRegression,
    "svm": VerticalLinearSVC,
    "ridge": VerticalRidge,
    "lasso": VerticalLasso,
    "sparse-logistic": VerticalSparseLogisticRegression,
}


# what a vertical training tells of itself without any rule behind it, and what that can be
_TOLD: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "converged": truth,
    LEAST_ALPHA: partial(number, above=0.0),
}
_KINDS: Final = {kind.__name__: kind for kind in ESTIMATORS.values()}


def receipt_again(receipt: Guarantee, parameters: Mapping[str, Any]) -> Guarantee:
    """Return the receipt that a training with these parameters gets, as a whole or for one party."""
    estimator = _KINDS[parameters["estimator"]](**stated_arguments(parameters))
    if "classes" in parameters:
        given = parameters["classes"] if estimator.classes is None else estimator.classes
        estimator.classes_ = np.array(given, dtype=object)
    described = {name: Description(**decode({"dict": facts})) for name, facts in parameters["described"].items()}
    stated = parameters.get("computing", {"helpers": (), "engines": {}})
    described |= {name: Description(0, 0, math.inf, 0) for name in stated["helpers"]}
    check_possible(described)
    engines = {str(name): checked_engines(name, each) for name, each in stated["engines"].items()}
    if engines.keys() != described.keys() and (engines or "engine" in parameters):
        raise ParameterError("computing does not say of each party which engines it has.")
    estimator._check_parameters()
    holder = parameters["label_holder"] if estimator.label_holder is None else estimator.label_holder
    plan = estimator._plan_for(described, engines, holder)
    told = {name: checked(name, parameters[name]) for name, checked in _TOLD.items() if name in parameters}
    party = parameters.get("party")
    event = plan.event if party is None else plan.party_events[party]
    run = VerticalSolution(scorer=None, event=event, n_rounds=0, chosen=told)  # type: ignore[arg-type]
    promised = plan.promised_epsilon if party is None else None
    return estimator._receipt(plan, run, event, promised, receipt.seeded, party)
