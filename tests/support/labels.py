"""Trainings on released labels, by their loss."""

from sottovoce.vertical.protocols.local_models.trainings import TRAININGS


def plan_on_labels(*, loss, **facts):
    """Return the plan of a training with that loss."""
    return TRAININGS[loss.name](**facts)
