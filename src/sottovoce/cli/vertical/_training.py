"""How to train: the options that ``simulate`` and ``train`` share, and the estimator's parameters that follow."""

from __future__ import annotations

import math
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
from sottovoce.cli._parse import parse_number_or_auto
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
    loss: str | None = option(
        "--loss",
        "With epsilon inf. svm: hinge, or sigmoid, which wrong labels cannot pull far. ridge: squared, or huber, "
        "which far labels cannot. Default: hinge, squared.",
        TRAINING,
    )
    threshold: float | None = option(
        "--threshold",
        "--loss huber: the residual beyond which it is a straight line, in units of the labels.",
        TRAINING,
    )
    max_iter: int | None = option("--max-iter", "With epsilon inf: rounds at most.", TRAINING)
    tol: float | None = option("--tol", "With epsilon inf: when to stop.", TRAINING)
    random_state: int | None = RANDOM_STATE

    @property
    def may_be_joint(self) -> bool:
        """Whether engines, and helpers, may compute."""
        return self.mechanism in _JOINT or self.aggregation == "secure"


def estimator_parameters(kind: ModelKind, epsilon: float, training: HowToTrain) -> dict[str, Any]:
    """Return what the estimator is made with; refuse what its kind, or a training with or without noise, lacks."""
    chosen = {**vars(training), "alpha": parse_number_or_auto("--alpha", training.alpha)}
    if kind in SPARSE:
        why = f"is not for --model {kind}, whose coefficients are bounded by --radius"
        refuse_fields(why, training, "alpha", "mechanism")
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
    if not training.may_be_joint:
        refuse_fields("is for --mechanism secure or auto, or --aggregation secure", training, "engine")
    refuse_fields("is for a training without noise, --epsilon inf", training, "max_iter", "tol")
    return chosen
