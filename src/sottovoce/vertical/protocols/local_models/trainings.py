"""The trainings on released labels, by the name of their loss."""

from typing import Final

from sottovoce.vertical.protocols.local_models.logistic_on_labels import LogisticOnLabelsPlan
from sottovoce.vertical.protocols.local_models.released_labels import ReleasedLabelsPlan
from sottovoce.vertical.protocols.local_models.squared_on_labels import SquaredOnLabelsPlan

__all__ = ["TRAININGS"]

TRAININGS: Final[dict[str, type[ReleasedLabelsPlan]]] = {
    plan.loss.name: plan for plan in (LogisticOnLabelsPlan, SquaredOnLabelsPlan)
}
