"""Trainings on released labels, by their loss."""

from sottovoce.vertical.protocols.local_models.released_labels import TRAININGS


def plan_on_labels(*, loss, **facts):
    return TRAININGS[loss.name](**facts)
