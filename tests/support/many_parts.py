"""Holders for tests: rows in several parts in this process, cut anywhere; and rows with a model begun."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from sottovoce.central.data.labels import BeginModel, Targets, hold
from sottovoce.central.data.operation import Holder, Operation
from sottovoce.central.data.part import Part
from sottovoce.central.data.row_memory import LABEL, LENGTH, TARGET, WEIGHT, RowMemory
from sottovoce.central.parallel import Team


class ManyParts(Holder):
    """Consecutive parts of a table, each with a memory of its own, as they are on a cluster."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = list(parts)
        self.n_samples = sum(part.n_samples for part in parts)
        self.n_features, self.dtype = parts[0].n_features, parts[0].dtype
        self.asked: list[Operation[Any]] = []

    @property
    def constant(self) -> float:  # type: ignore[override]
        """Entry of the intercept's column."""
        return self.parts[0].constant

    def ask(self, operation: Operation[Any]) -> Any:
        """Do an operation on every part, the last one first: order counts for nothing but the merging."""
        self.asked.append(operation)
        answers = [operation.on(part) for part in reversed(self.parts)]
        return operation.merged(answers[::-1])


def cut(
    raw: Any,
    labels: Any,
    ends: Sequence[int],
    team: Team | None = None,
    *,
    weights: Any = None,
    memory: type[RowMemory] = RowMemory,
) -> ManyParts:
    """Return a table in parts that end at some rows and at the last one, each with its labels and weights."""
    team = Team(1, None) if team is None else team
    edges, parts = [0, *ends, raw.shape[0]], []
    for lo, hi in pairwise(edges):
        part = Part(raw[lo:hi], team, memory(hi - lo), first_row=lo)
        if labels is not None:
            part.memory.set(LABEL, np.asarray(labels)[lo:hi])
        if weights is not None:
            part.memory.set(WEIGHT, np.asarray(weights)[lo:hi])
        parts.append(part)
    return ManyParts(parts)


def begun(rows: Any, targets: Any, team: Team | None = None) -> Part:
    """Return a holder of scaled rows, with a model begun on these targets."""
    holder = hold(rows, [np.asarray(targets, np.float64)], Team(1, None) if team is None else team)
    holder.ask(BeginModel(0))
    return holder


def with_labels(labels: Any) -> Part:
    """Return a holder of rows of zeros with these labels."""
    part = Part(np.zeros((len(labels), 1)), Team(1, None))
    part.memory.set(LABEL, np.asarray(labels, np.float64))
    part.targets = Targets()
    return part


def with_targets(targets: Any) -> Part:
    """Return a holder of rows of zeros, whose divisors are 1, with these targets."""
    holder = with_labels(targets)
    holder.memory.set(TARGET, np.asarray(targets, np.float64))
    return holder


def with_lengths(lengths: Any) -> Part:
    """Return a holder of rows whose measured lengths are these."""
    part = Part(np.zeros((len(lengths), 1)), Team(1, None))
    part.memory.set(LENGTH, np.asarray(lengths, np.float64))
    return part
