"""Labels of rows: read where the rows are, checked, and kept as numbers or as places in the public list of classes.

What each model of a fit is trained on follows from them by a public rule.
"""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sottovoce._entries import listed, numbers_of, places_in
from sottovoce._numerics import Vector
from sottovoce.central.data.operation import Change, Columns, Count, Effect, Operation, Ticks, is_number
from sottovoce.central.data.part import Part, Rows
from sottovoce.central.data.row_memory import DIVISOR, LABEL, SCALE, TARGET, WEIGHT
from sottovoce.central.data.streamed import StreamedTable
from sottovoce.central.parallel import Team
from sottovoce.exceptions import DataError

_AT_ONCE: Final = 1 << 16  # labels that are read at once
_NEAR: Final = 1 << 10  # whole numbers that are so near to each other are counted
NEGLIGIBLE: Final = 1e-100  # of the largest weight: less is 0, and quotients by weights cannot overflow


class BadLabels(NamedTuple):
    """Labels that break a public fact."""

    number: int  # of such rows; 0 where all are good
    row: int  # the first one
    label: Any
    kind: str  # of numpy's types, of all labels


@dataclass(frozen=True)
class NumberLabels:
    """Numbers, clipped to public bounds, around a public middle, in a public unit."""

    model: str  # who asks, for messages
    low: float
    high: float
    middle: float = 0.0
    unit: float = 1.0

    dtype = np.float64

    def read(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return doubles; what is no finite number is bad.

        A refusal of labels outside the bounds would answer an exact question about them, for an analyst who chooses
        the bounds.
        """
        given = numbers_of(values)
        return (np.clip(given, self.low, self.high) - self.middle) / self.unit, ~np.isfinite(given)

    def refuse(self, bad: BadLabels) -> None:
        what = {"inf": "infinity", "-inf": "infinity", "nan": "NaN", "None": "NaN"}.get(str(bad.label))
        what = f"{bad.label!r}, but y must hold numbers for {self.model}" if what is None else what
        raise DataError(
            f"Input y contains {what}: row {bad.row} ({bad.number} row(s) in all). Replace missing labels by a public "
            "constant, or drop those rows, before fit."
        )


@dataclass(frozen=True, eq=False)
class ClassLabels:
    """Classes of a public list; the numbers are the places in it."""

    names: NDArray[Any]  # sorted

    @property
    def dtype(self) -> Any:
        return np.min_scalar_type(len(self.names) - 1)

    def known(self, kind: str) -> NDArray[Any]:
        """Return what labels of a type are looked up in: texts may come as places of the sorted list."""
        return np.arange(len(self.names)) if self.names.dtype.kind == "U" and kind in "iu" else self.names

    def read(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return places; a label that is not in the list is bad, and has place 0."""
        known = self.known(values.dtype.kind)
        kinds = values.dtype.kind, known.dtype.kind
        if kinds == ("U", "U") or all(kind in "biuf" for kind in kinds):
            places = np.minimum(np.searchsorted(known, values), len(known) - 1)
            bad = known[places] != values
        else:
            places = places_in(known.tolist(), values)
            bad = places < 0
        return np.where(bad, 0, places).astype(self.dtype), bad

    def refuse(self, bad: BadLabels) -> None:
        whole = bad.kind in "iu" and self.names.dtype.kind in "iu"
        hint = " Ensembles of scikit-learn number labels 0, 1, ...: give their members such classes." if whole else ""
        a_place = "" if self.known(bad.kind) is self.names else "a place (from 0) "
        raise DataError(
            f"y holds the label {bad.label!r} (row {bad.row}, {bad.number} row(s) in all), which is not "
            f"{a_place}in classes={self.names.tolist()!r}. Add it to the public list, or drop or relabel those rows "
            f"before fit.{hint}"
        )


@dataclass(frozen=True)
class ReadLabels(Operation[BadLabels]):
    """Reads the label of each row into the column `LABEL`."""

    rule: NumberLabels | ClassLabels  # how labels become numbers, in public

    effect = Effect.LASTING

    def on(self, part: Part) -> BadLabels:
        part.memory.new(LABEL, dtype=self.rule.dtype)
        number, row, label, kind = 0, -1, None, ""
        with closing(_given(part)) as given:
            for place, values in given:
                kind = values.dtype.kind
                column, bad = self.rule.read(values)
                part.memory.put(LABEL, place, np.asarray(column, self.rule.dtype))
                wrong = np.flatnonzero(bad)
                if wrong.size and not number:
                    row, label = part.first_row + place.start + int(wrong[0]), values[wrong[:1]].tolist()[0]
                number += wrong.size
        return BadLabels(number, row, label, kind)

    def merged(self, answers: Sequence[BadLabels]) -> BadLabels:
        """Return the first bad label of all, and the number of them."""
        first = next((answer for answer in answers if answer.number), answers[0])
        return first._replace(number=sum(answer.number for answer in answers))

    def allows(self, answer: object, n_rows: int, columns: Columns) -> bool:
        return type(answer) is BadLabels and is_number(answer.number, n_rows) and type(answer.kind) is str


@dataclass(frozen=True)
class FindClasses(Operation[Any]):
    """The labels that there are, sorted."""

    def on(self, part: Part) -> NDArray[Any]:
        found = None
        with closing(_given(part)) as given:
            for _, values in given:
                here = found_classes(values)
                found = here if found is None else np.union1d(found, here)
        assert found is not None
        return found

    def merged(self, answers: Sequence[NDArray[Any]]) -> NDArray[Any]:
        found = answers[0]
        for answer in answers[1:]:
            found = np.union1d(found, answer)
        return found

    def allows(self, answer: object, n_rows: int, columns: Columns) -> bool:
        return type(answer) is np.ndarray and answer.ndim == 1 and len(answer) <= n_rows


def found_classes(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind == "i" and values.size:
        low = int(values.min())
        if int(values.max()) - low < _NEAR:  # counting takes a tenth of sorting
            return (low + np.flatnonzero(np.bincount(values.astype(np.int64) - low))).astype(values.dtype)
    if values.dtype.kind != "O":
        return np.unique(values)
    try:
        return np.unique(listed(dict.fromkeys(values.tolist())))
    except (TypeError, ValueError):
        raise DataError(
            "y must hold labels of one type, numbers or text, and none may be missing. Give the public list: "
            "classes=[...]."
        ) from None


@dataclass(frozen=True)
class WeighRows(Change):
    """Sets the weight of each row over its public bound."""

    constant: float | None  # what all rows have; None: what is in the column `WEIGHT`
    shares: tuple[float, ...] | None  # weight of each class over the largest, which it is multiplied by

    effect = Effect.LASTING

    def on(self, part: Part) -> None:
        if self.constant is not None:
            part.memory.fill(WEIGHT, self.constant)
        if self.shares is None:
            return
        each = np.array(self.shares)
        for _, (codes, weight) in part.columns([LABEL], [WEIGHT]):
            weight *= each[codes]
            weight[weight < NEGLIGIBLE] = 0.0


def _given(part: Part) -> Generator[tuple[slice, NDArray[Any]]]:
    if part.labels is None and isinstance(part.raw, StreamedTable):
        yield from part.raw.label_blocks()
        return
    assert part.labels is not None
    for start in range(0, max(1, part.n_samples), _AT_ONCE):
        place = slice(start, min(start + _AT_ONCE, part.n_samples))
        yield place, np.asarray(part.labels[place])


@dataclass(frozen=True)
class Targets(Change):
    """Tells the rows what each model is trained on: it follows from the labels by a public rule, one model at a time.

    ``against_rest``: how many models tell a class from all others: one for two classes, whose second one is +1, or one
        for each of more; labels are places in the list of classes. None: models are trained on the labels as they are:
        numbers, places for one model of all classes, or a vector for each row with a number for each model.
    """

    against_rest: int | None = None

    effect = Effect.LASTING

    def on(self, part: Part) -> None:
        part.targets = self

    def of(self, labels: NDArray[Any], model: int) -> Vector:
        """Return the targets of some rows for a model, as doubles; what is returned may be ``labels`` itself."""
        if self.against_rest is not None:
            return np.where(labels == (1 if self.against_rest == 1 else model), 1.0, -1.0)
        return np.ascontiguousarray(labels if labels.ndim == 1 else labels[:, model], np.float64)


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
    by_length: bool = False  # whether distances are times a bound on the norm of their row

    reads = (LABEL, DIVISOR)

    def counts(self, part: Part, views: Sequence[NDArray[Any]]) -> Ticks:
        away = np.abs(part.targets.of(views[0], 0) - self.location)
        return _one((away * views[1] if self.by_length else away) <= self.distance)


def _one(inside: NDArray[np.bool_]) -> Ticks:
    return np.array([np.count_nonzero(inside)], np.int64)


def hold(rows: Rows, targets: Sequence[Vector], team: Team) -> Part:
    """Return scaled rows in this process as their own holder, whose labels are the targets themselves (`Targets`).

    ``rows``: their scales are copied, since operations change them.
    ``targets``: of shape (n,); one for each model.
    """
    part = Part(rows.raw, team)
    part.targets = Targets()
    part.constant = rows.constant
    part.memory.set(SCALE, rows.scale.copy())
    part.memory.set(DIVISOR, rows.divisor.copy())
    if targets:
        part.memory.set(LABEL, targets[0] if len(targets) == 1 else np.stack(targets, axis=1))
    return part
