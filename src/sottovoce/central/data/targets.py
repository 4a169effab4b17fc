"""What each model of a fit is trained on: it follows from the labels by a public rule, one model at a time."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce.central.data.operation import Change, Count, Effect, Ticks
from sottovoce.central.data.part import Part
from sottovoce.central.data.row_memory import DIVISOR, LABEL, SCALE, TARGET
from sottovoce.central.data.rows import Rows
from sottovoce.central.parallel import Team


@dataclass(frozen=True)
class Targets(ABC):
    """A rule that makes the target of each model from the column of labels."""

    n_models: int

    @abstractmethod
    def of(self, labels: NDArray[Any], model: int) -> Vector:
        """Return the targets of some rows for a model, as doubles; what is returned may be ``labels`` itself."""


@dataclass(frozen=True)
class Numbers(Targets):
    """One model is trained on the labels as they are: numbers, or for one model of all classes places in their list."""

    n_models: int = 1

    def of(self, labels: NDArray[Any], model: int) -> Vector:
        return np.asarray(labels, np.float64)


@dataclass(frozen=True)
class OneAgainstRest(Targets):
    """The labels are places in the list of classes: +1 for the class of a model, -1 for the others.

    One model for two classes, whose second one is +1; else one for each.
    """

    def of(self, labels: NDArray[Any], model: int) -> Vector:
        """Return -1 and +1."""
        return np.where(labels == (1 if self.n_models == 1 else model), 1.0, -1.0)


@dataclass(frozen=True)
class Given(Targets):
    """The column holds the targets themselves: a vector for each row where there are several models."""

    def of(self, labels: NDArray[Any], model: int) -> Vector:
        return labels if labels.ndim == 1 else np.ascontiguousarray(labels[:, model])


@dataclass(frozen=True)
class TakeTargets(Change):
    """Tells the rows by which rule targets follow from their labels."""

    targets: Targets

    effect = Effect.LASTING

    def on(self, part: Part) -> None:
        part.targets = self.targets


@dataclass(frozen=True)
class BeginModel(Change):
    """Sets the target of a model, and begins its dual variables at zero."""

    model: int
    location: float = 0.0  # released; it is taken off the targets
    # Names of the columns of dual variables, and how many numbers each has for a row; None for one.
    fresh: tuple[tuple[str, int | None], ...] = ()

    effect = Effect.FIRST

    def on(self, part: Part) -> None:
        part.memory.new(TARGET)
        for _, (labels, target) in part.columns([LABEL], [TARGET]):
            target[:] = part.targets.of(labels, self.model)
            if self.location:
                target -= self.location
        for name, width in self.fresh:
            part.memory.new(name, width=width)


@dataclass(frozen=True)
class CountBelow(Count):
    """The number of targets of the first model up to a level."""

    level: float

    reads = (LABEL,)

    def counts(self, part: Part, views: Sequence[NDArray[Any]]) -> Ticks:
        return _one(part.targets.of(views[0], 0) <= self.level)


@dataclass(frozen=True)
class CountNear(Count):
    """The number of targets of the first model within a distance of a location."""

    location: float
    distance: float

    reads = (LABEL,)

    def counts(self, part: Part, views: Sequence[NDArray[Any]]) -> Ticks:
        return _one(np.abs(part.targets.of(views[0], 0) - self.location) <= self.distance)


def _one(inside: NDArray[np.bool_]) -> Ticks:
    return np.array([np.count_nonzero(inside)], np.int64)


def hold(rows: Rows, targets: Sequence[Vector], team: Team) -> Part:
    """Return scaled rows in this process as their own holder, whose labels are the targets themselves (`Given`).

    ``rows``: their scales are copied, since operations change them.
    ``targets``: of shape (n,); one for each model.
    """
    part = Part(rows.raw, team)
    part.targets = Given(len(targets))
    part.constant = rows.constant
    part.memory.set(SCALE, rows.scale.copy())
    part.memory.set(DIVISOR, rows.divisor.copy())
    if targets:
        part.memory.set(LABEL, targets[0] if len(targets) == 1 else np.stack(targets, axis=1))
    return part
