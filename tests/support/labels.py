"""Trainings on released labels, by their loss."""

from sottovoce.vertical.requests.local_models import TRAININGS


def plan_on_labels(*, loss, **facts):
    return TRAININGS[loss.name](**facts)
