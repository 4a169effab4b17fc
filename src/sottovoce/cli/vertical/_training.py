"""How to train: the options that ``simulate`` and ``train`` share, and the estimator's parameters that follow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sottovoce.cli._options import (
    ALPHA,
    INTERCEPT,
    N_STEPS,
    RADIUS,
    RANDOM_STATE,
    TRAINING,
    ModelKind,
    option,
    refuse_fields,
    require,
)
from sottovoce.cli._parse import parse_number_or_auto, parse_sizes
from sottovoce.exceptions import ParameterError
from sottovoce.vertical.estimators.computing import CHOICES
from sottovoce.vertical.mechanisms import MECHANISMS
from sottovoce.vertical.protocols.frank_wolfe.exact import AGGREGATIONS

__all__ = ["REGRESSIONS", "SPARSE", "HowToTrain", "estimator_parameters"]

SPARSE: Final = (ModelKind.LASSO, ModelKind.SPARSE_LOGISTIC)
_JOINT: Final = ("secure", "auto")  # mechanisms that may compute with helpers and engines
REGRESSIONS: Final = (ModelKind.RIDGE, ModelKind.LASSO)


@dataclass(frozen=True)
class HowToTrain:
    """How to train."""

    mechanism: str | None = option(
        "--mechanism",
        f"With a finite epsilon: {', '.join(MECHANISMS)}, or auto: secure where it can be had and pays. Default: "
        f"{next(iter(MECHANISMS))}. lasso and sparse-logistic have --aggregation instead.",
        TRAINING,
    )
    engine: str | None = option(
        "--engine",
        f"What computes with --mechanism secure or auto, or --aggregation secure: {', '.join(CHOICES)}. Default: auto.",
        TRAINING,
    )
    aggregation: str | None = option(
        "--aggregation", f"lasso, sparse-logistic: {', '.join(AGGREGATIONS)}. Default: {AGGREGATIONS[0]}.", TRAINING
    )
    radius: float | None = RADIUS
    n_steps: int | None = N_STEPS
    alpha: str | None = ALPHA
    fit_intercept: bool = INTERCEPT
    solver: str | None = option("--solver", "With epsilon inf: lbfgs or admm. Default: auto.", TRAINING)
    loss: str | None = option(
        "--loss",
        "With epsilon inf. svm: hinge, or sigmoid, which wrong labels cannot pull far. ridge: squared, or huber and "
        "absolute, which far labels cannot. Default: hinge, squared.",
        TRAINING,
    )
    threshold: float | None = option(
        "--threshold",
        "--loss huber: the residual beyond which it is a straight line, in units of the labels.",
        TRAINING,
    )
    l1_ratio: float | None = option(
        "--l1-ratio", "With epsilon inf: share of the penalty that is L1, 0 to 1. Default: 0.", TRAINING
    )
    groups: list[str] = option(
        "--groups",
        "With --l1-ratio: columns whose coefficients are 0 all or none: party, for all columns of each party; or "
        "NAME=N,N,..., sizes of runs of its columns, once for each party.",
        TRAINING,
        default=[],
    )
    coef_set: list[str] = option(
        "--coef-set",
        "With epsilon inf: ball in which the coefficients of each party stay, such as l1:2 or l2:0.5; NAME=l1:2 for "
        "one party.",
        TRAINING,
        default=[],
    )
    max_iter: int | None = option("--max-iter", "With epsilon inf, or a mechanism in rounds: rounds at most.", TRAINING)
    tol: float | None = option("--tol", "With epsilon inf: when to stop.", TRAINING)
    random_state: int | None = RANDOM_STATE

    @property
    def may_be_joint(self) -> bool:
        """Whether engines, and helpers, may compute."""
        return self.mechanism in _JOINT or self.aggregation == "secure"


def _groups(given: Sequence[str]) -> Any:
    """Return ``groups`` of an estimator from ``party``, or from ``NAME=3,1,4`` for each party."""
    if not given:
        return None
    if list(given) == ["party"]:
        return "party"
    by_party = _by_party("--groups", given, "party, or NAME=N,N,... once for each party")
    return {name: list(parse_sizes("--groups", text)) for name, text in by_party.items()}


def _coef_set(given: Sequence[str]) -> Any:
    """Return ``coef_set`` of an estimator from ``l1:2``, or from ``NAME=l1:2`` for each party."""
    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        return _ball(given[0])
    wanted = "NORM:RADIUS for all parties, or NAME=NORM:RADIUS once for each"
    return {name: _ball(text) for name, text in _by_party("--coef-set", given, wanted).items()}


def _by_party(option_name: str, given: Sequence[str], wanted: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals) or name in values:
            raise ParameterError(f"{option_name} must be {wanted}; got {text!r}.")
        values[name] = value
    return values


def _ball(text: str) -> list[Any]:
    norm, _, radius = text.partition(":")
    try:
        return [norm, float(radius)]
    except ValueError:
        raise ParameterError(f"--coef-set must be NORM:RADIUS, such as l1:2; got {text!r}.") from None


def estimator_parameters(kind: ModelKind, epsilon: float, training: HowToTrain) -> dict[str, Any]:
    """Return what the estimator is made with; refuse what its kind, or a training with or without noise, lacks."""
    chosen = {
        **vars(training),
        "alpha": parse_number_or_auto("--alpha", training.alpha),
        "groups": _groups(training.groups),
        "coef_set": _coef_set(training.coef_set),
    }
    if kind in SPARSE:
        why = f"is not for --model {kind}, whose coefficients are bounded by --radius"
        refuse_fields(why, training, "alpha", "solver", "mechanism", "l1_ratio", "groups", "coef_set")
        require("--radius", training.radius, (
            f"--model {kind} needs --radius R, a public bound on the sum of the absolute coefficients of all parties "
            "(of features in [-1, 1], with a schema). Small is sparse, large fits closely."
        ))  # fmt: skip
    else:
        why = f"is for --model lasso and sparse-logistic, not for {kind}"
        refuse_fields(why, training, "aggregation", "radius", "n_steps")
    if kind not in (ModelKind.SVM, ModelKind.RIDGE):
        refuse_fields(f"is for --model svm and ridge, not for {kind}", training, "loss")
    if training.loss != "huber":
        refuse_fields("is for --loss huber", training, "threshold")
    if epsilon == math.inf:
        why = "is for a private training, with a finite --epsilon"
        refuse_fields(f"{why}; without noise give --max-iter", training, "n_steps")
        refuse_fields(why, training, "mechanism", "engine")
        return chosen
    refuse_fields("is for a training without noise, --epsilon inf", training, "l1_ratio", "groups", "coef_set")
    if not training.may_be_joint:
        refuse_fields("is for --mechanism secure or auto, or --aggregation secure", training, "engine")
    mechanism = MECHANISMS.get(training.mechanism or next(iter(MECHANISMS)))
    in_rounds = kind not in SPARSE and mechanism is not None and "max_iter" in mechanism.options
    if in_rounds and chosen["max_iter"] is not None:
        chosen["mechanism_options"] = {"max_iter": chosen.pop("max_iter")}
    without_noise = ("solver", "tol") if in_rounds else ("solver", "max_iter", "tol")
    refuse_fields("is for a training without noise, --epsilon inf", training, *without_noise)
    return chosen
