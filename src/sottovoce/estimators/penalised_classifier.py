"""The classifiers with an L2 penalty: classes may have public weights."""

from typing import Any

import numpy as np

from sottovoce._parameters import estimator, parameter
from sottovoce._shown import quoted
from sottovoce.estimators.classifier import DPLinearClassifier
from sottovoce.estimators.penalised import DPPenalisedEstimator
from sottovoce.estimators.weights import checked_class_weights

__all__ = ["DPPenalisedClassifier"]


@estimator
class DPPenalisedClassifier(DPPenalisedEstimator, DPLinearClassifier):
    """Base of the classifiers with an L2 penalty."""

    class_weight: Any = parameter(
        "dict or None",
        default=None,
        text="""Public weights of rows by their class, one for each class: ``{"no": 1, "yes": 3}``. ``"balanced"`` is
        refused: it would count rows. Weights need ``solver="scd"``, which ``"auto"`` then takes, one-vs-rest for more
        than two classes. Clip and noise are for a row of the largest weight, so weights far apart cost accuracy.""",
    )

    def _class_weights(self) -> dict[Any, float] | None:
        return checked_class_weights(self.class_weight, self.public_classes())

    def _shares_of_classes(self) -> tuple[float, ...] | None:
        weights = checked_class_weights(self.class_weight, self.class_names())
        if weights is None:
            return None
        each = np.array(list(weights.values()))
        return tuple((each / each.max()).tolist())

    def _weight_assumptions(self) -> tuple[str, ...]:
        weights = checked_class_weights(self.class_weight, self.class_names())
        if weights is None:
            return super()._weight_assumptions()
        listed = ", ".join(f"{quoted(name)}: {weight!r}" for name, weight in weights.items())
        return f"class_weight = {listed} (public, chosen without counting rows)", *super()._weight_assumptions()
