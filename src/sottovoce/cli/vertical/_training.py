"""What ``simulate``, ``train`` and ``predict`` share: how to train, and what is printed of it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sottovoce.cli._echo import echo
from sottovoce.cli._models import refuse_foreign
from sottovoce.cli._options import REQUIRED, ModelKind, refuse_fields
from sottovoce.cli._output import print_columns, print_rows
from sottovoce.cli._parameters import Models, Parameters
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.vertical.estimators.receipts import ESTIMATORS

MODELS: Final = Models(ESTIMATORS)
_JOINT: Final = ("secure", "auto")  # mechanisms that may compute with helpers and engines
EPSILON: Any = MODELS.option("epsilon", default=REQUIRED)


@MODELS.options(
    hidden=(
        "epsilon", "ledger", "dataset", "label_holder", "classes", "label_bounds", "mechanism_options",
        "smoothing", "radius_shares", "label_share", "residual_bound",
    ),
    tol={"text": "Without noise: when to stop."},
)  # fmt: skip
class HowToTrain(Parameters):
    """How to train."""

    @property
    def may_be_joint(self) -> bool:
        """Whether engines, and helpers, may compute."""
        return self.mechanism in _JOINT or self.aggregation == "secure"


def estimator_parameters(kind: ModelKind, epsilon: float, training: HowToTrain) -> dict[str, Any]:
    """Return what the estimator is made with; refuse what its kind, or a training with or without noise, lacks."""
    chosen = vars(training) | {"labels_public": training.labels_public or None}
    refuse_foreign(MODELS, kind, chosen, of="of all parties ")
    if epsilon == math.inf:
        why = "is for a private training, with a finite --epsilon"
        refuse_fields(f"{why}; without noise give --max-iter", training, "n_steps")
        refuse_fields(why, training, "mechanism", "engine")
        return chosen
    if not training.may_be_joint:
        refuse_fields("is for --mechanism secure or auto, or --aggregation secure", training, "engine")
    refuse_fields("is for a training without noise, --epsilon inf", training, "max_iter", "tol")
    return chosen


def print_training(
    facts: Sequence[tuple[str, str]], rounds: int, up: int, down: int, guarantee: Guarantee,
    given_away: Mapping[str, str],
) -> None:  # fmt: skip
    """Print what a training was, its receipt, and what each party gives away."""
    print_rows("Training", [
        *facts, ("rounds", f"{rounds:,}"), ("bytes up, from the parties", f"{up:,}"),
        ("bytes down, to the parties", f"{down:,}"),
    ])  # fmt: skip
    print_rows("Receipt", guarantee.rows())
    print_rows("What each party gives away by itself", list(given_away.items()))


def print_comparison(
    title: str, local: Mapping[str, float], joint: Mapping[str, float], name: str, *verdict: str
) -> None:
    """Print how good the joint model is, beside that of the label holder where one was trained."""
    print_columns(title, ["", f"{name} alone", "joint"] if local else ["", "joint"], [
        (measure, *([f"{local[measure]:.4f}"] if local else []), f"{value:.4f}") for measure, value in joint.items()
    ])  # fmt: skip
    for text in verdict:
        echo(text)
    echo("NOT PRIVATE: these figures are computed from the labels of these people, without noise.")
