"""How to train: the options that ``simulate`` and ``train`` share, and the estimator's parameters that follow."""

import math
from typing import Any, Final

from sottovoce.cli._models import refuse_foreign
from sottovoce.cli._options import REQUIRED, ModelKind, refuse_fields
from sottovoce.cli._parameters import Models, Parameters
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
