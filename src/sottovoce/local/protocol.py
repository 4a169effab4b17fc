"""Protocol: the public parameters that devices and the collector share, and what they make of a record.

Its text is canonical JSON: keys sorted, no white space, ASCII only, floats in the shortest form that reads back to the
same double. Its id is the first 8 bytes of the SHA-256 of that text. Only the canonical text is read, so a program in
another language may hash the text that it was given instead of writing its own.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce._plain_data import canonical_text
from sottovoce._validation import bounds, choice, in_order, number, whole_number
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.local.features import CategoricalFeature, Feature, NumericFeature, feature_from_json, is_text, scaled

if TYPE_CHECKING:
    from sottovoce.local.cap import CapConstants

Array = NDArray[np.float64]
Label = str | int | float

_FORMAT: Final = "sottovoce-local-protocol"
_VERSION: Final = 1
_MOST_CHARACTERS: Final = 20_000_000
MECHANISMS: Final = ("cap",)
TASKS: Final = ("classification", "regression")
COMPLETIONS: Final = ("slack", "normalise")
LOSSES: Final = {"classification": ("logistic", "hinge", "squared"), "regression": ("squared",)}

MOST_CANDIDATES: Final = 65_536  # an index has 16 bits
MOST_COLUMNS: Final = 100_000
MOST_NUMBERS: Final = 2**28  # K d: some seconds of work
MOST_BEND: Final = 16.0
MOST_SCALED: Final = 1e100  # its square, 100,000 times, is a double


@dataclass(frozen=True, init=False, repr=False)
class Protocol:
    """Public parameters of a collection: who reads them knows what leaves a device and what it may reveal.

    Parameters
    ----------
    epsilon : float, in [0.001, 32]
        Privacy loss of one report, pure local differential privacy.
    task : {"classification", "regression"}, optional
        By default what the loss is for.
    loss : {"logistic", "hinge", "squared"}, optional
        A name for programs that fit models of their own: a report does not depend on it, and `Aggregator.fit` is least
        squares. By default "logistic" or "squared".
    n_features : int, optional
        For rows that are vectors of numbers. Exactly one of ``n_features`` and ``features`` is given.
    features : sequence of NumericFeature and CategoricalFeature, optional
        For records, in this order.
    classes : pair of str or numbers, optional
        Public. The two labels of a classification; the second is the positive one. Default -1 and 1.
    label_bounds : pair of float, optional
        Public. Bounds of the label of a regression; a label beyond them is moved to the bound.
    scale : float, optional
        Public bound on the norm of a row of numbers, which is divided by it. By default 1 for ``n_features``, and for
        ``features`` the largest norm there is, the square root of their number.
    completion : {"normalise", "slack"}, optional
        How a row x becomes a unit vector. "normalise" appends the intercept and divides by the norm: short rows are
        read more loudly, and the model is linear in the direction of (x, intercept). "slack" appends the intercept and
        ``sqrt(1 - |x|^2)`` and shortens rows beyond norm 1: the model is linear in x. By default "normalise" for a
        classification and "slack" for a regression, whose level needs a constant coordinate.
    intercept : float in [0, 1), optional
        Weight of the constant column beside the row, 0 for none. Default 0.3.
    degree : {0, 1}, default=1
        1 collects first and second moments, 0 the first alone.
    K, m, b : int, int, float, optional
        Number of candidates, size of the top group, bend of the score. By default the best for epsilon and degree.
    mechanism : {"cap"}, default="cap"

    Examples
    --------
    >>> from sottovoce.local import CategoricalFeature, NumericFeature, Protocol
    >>> age, work = NumericFeature("age", 17, 90), CategoricalFeature("work", ["private", "public"])
    >>> protocol = Protocol(features=[age, work], classes=["no", "yes"], epsilon=1.0)
    >>> Protocol.from_json(protocol.to_json()) == protocol
    True
    >>> protocol.columns
    ('age', 'work=private', 'work=public', '(intercept)')
    """

    mechanism: str
    epsilon: float
    task: str
    loss: str
    n_features: int
    features: tuple[Feature, ...] | None
    classes: tuple[Label, Label] | None
    label_bounds: tuple[float, float] | None
    scale: float
    completion: str
    intercept: float
    degree: int
    K: int
    m: int
    b: float

    def __init__(
        self,
        *,
        epsilon: float,
        task: str | None = None,
        loss: str | None = None,
        n_features: int | None = None,
        features: Sequence[Feature] | None = None,
        classes: Sequence[Label] | None = None,
        label_bounds: Sequence[float] | None = None,
        scale: float | None = None,
        completion: str | None = None,
        intercept: float = 0.3,
        degree: int = 1,
        K: int | None = None,
        m: int | None = None,
        b: float | None = None,
        mechanism: str = "cap",
    ) -> None:
        self._set(mechanism=choice("mechanism", mechanism, MECHANISMS))
        self._set(epsilon=number("epsilon", epsilon, at_least=1e-3, at_most=32.0, remedy="It is the loss of a report."))
        self._set_task(task, loss)
        self._set_labels(classes, label_bounds)
        self._set_features(n_features, features)
        self._set_row(scale, completion, intercept)
        self._set(degree=whole_number("degree", degree, at_least=0, at_most=1))
        self._set_sizes(K, m, b)

    @classmethod
    def create(cls, *, n_expected: int, degree: int | None = None, **rest: Any) -> Self:
        """Return the protocol that suits the number of reports to come.

        Parameters
        ----------
        n_expected : int
            Public. About how many reports will be collected.
        degree : {0, 1}, optional
            By default 1; but 0 for a classification where the second moments of so few reports would be lost in noise.
            (A regression without second moments knows the mean of its labels, and no more.)
        **rest
            As for the class.
        """
        from sottovoce.local import cap

        n = whole_number("n_expected", n_expected, at_least=1)
        if degree is not None:
            return cls(degree=degree, **rest)
        first = cls(degree=1, **rest)
        lost = not cap.planned_edge(n, first.d, first.constants.v2) <= cap.EDGE_OF_DEGREE_0
        return cls(degree=0, **rest) if lost and first.task == "classification" else first

    # --- what follows from the parameters ---------------------------------------------------------------------------

    @property
    def d(self) -> int:
        """Length of the unit vector that a record becomes."""
        return self.n_columns + (self.intercept > 0.0) + (self.completion == "slack")

    @property
    def n_columns(self) -> int:
        """Number of columns of a row, before the intercept and the slack."""
        if self.features is None:
            return self.n_features
        return sum(len(feature.columns) for feature in self.features)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the coordinates of the unit vector."""
        if self.features is None:
            names = [f"x{place}" for place in range(self.n_features)]
        else:
            names = [column for feature in self.features for column in feature.columns]
        ends = ("(intercept)",) * (self.intercept > 0.0) + ("(slack)",) * (self.completion == "slack")
        return (*names, *ends)

    @property
    def constants(self) -> "CapConstants":
        """The law of a report; see `sottovoce.local.cap`."""
        from sottovoce.local import cap  # quadrature: never needed where a protocol is read

        return cap.constants(self.epsilon, self.K, self.m, self.b)

    def __repr__(self) -> str:
        return f"<Protocol {self.id.hex()}: {self.task}, epsilon={self.epsilon:g}, d={self.d}, K={self.K}>"

    # --- encoding ---------------------------------------------------------------------------------------------------

    def encode(self, x: object) -> Array:
        """Return the unit vector of one record.

        Parameters
        ----------
        x : mapping by feature name, or sequence in the order of the features

        Returns
        -------
        ndarray of shape (d,)
        """
        unit: Array = self.complete(self.row(x)[None, :])[0]
        return unit

    def row(self, x: object) -> Array:
        """Return the columns of one record, before scaling and completion, of shape (n_columns,)."""
        if self.features is None:
            return self._numbers(x)
        values = self._values(x)
        out = np.zeros(self.n_columns)
        start = 0
        for feature, value in zip(self.features, values, strict=True):
            for place, entry in feature.encode(value):
                out[start + place] = entry
            start += len(feature.columns)
        return out

    def complete(self, rows: Array) -> Array:
        """Return the unit vectors of many rows of columns: scale, intercept and completion.

        Sums of squares are taken from left to right, so that every program gets the same bits. What is beyond
        1e100 after scaling is moved there, so that no square overflows.
        """
        with np.errstate(over="ignore"):
            x = np.clip(np.asarray(rows, np.float64) / self.scale, -MOST_SCALED, MOST_SCALED)
        c = self.intercept
        constant = np.full((len(x), 1 if c > 0.0 else 0), c)
        if self.completion == "normalise":
            full = np.hstack([x, constant])
            unit: Array = full / np.sqrt(row_sums(full * full))
            return unit
        square = row_sums(x * x)
        x = np.where(square > 1.0, x / np.sqrt(np.maximum(square, 1.0)), x)
        slack = np.sqrt(1.0 - np.minimum(square, 1.0))
        share = math.sqrt(1.0 - c * c)
        return np.hstack([share * x, constant, share * slack])

    def encode_many(self, X: Any) -> Array:
        """Return the unit vectors of many records, of shape (n, d).

        Parameters
        ----------
        X : array of shape (n, n_features), or sequence of records
        """
        if self.features is None:
            rows = np.asarray(X) if hasattr(X, "__array__") else self._rows(X)
            if rows.dtype.kind == "O" and rows.ndim == 2:
                rows = self._rows(rows.tolist())
            if rows.dtype.kind not in "iuf":
                raise DataError(f"X must hold numbers, neither texts nor truth values; got an array of {rows.dtype}.")
            if rows.ndim != 2 or rows.shape[1] != self.n_features:
                raise DataError(f"X must be an array of shape (n, {self.n_features}); got {rows.shape}.")
            if not np.isfinite(rows).all():
                raise DataError("X holds NaN or infinite numbers. Remove or replace them.")
        else:
            rows = np.array([self.row(x) for x in X]).reshape(-1, self.n_columns)
        return self.complete(rows)

    def sign_of_class(self, y: object) -> float:
        """Return -1 or +1 for a label of a classification."""
        if self.classes is None:
            raise ParameterError("a regression has no classes.")
        if isinstance(y, np.generic):
            y = y.item()
        for sign, label in zip((-1.0, 1.0), self.classes, strict=True):
            known = isinstance(y, (str, int, float)) and not isinstance(y, bool)
            if known and y == label and isinstance(y, str) == isinstance(label, str):
                return sign
        raise DataError(f"the label must be one of {self.classes!r}; got {y!r}.")

    def scaled_label(self, y: object) -> float:
        """Return the label of a regression on the scale [-1, 1]."""
        if self.label_bounds is None:
            raise ParameterError("a classification has no label bounds.")
        try:
            return scaled(number("the label", y), *self.label_bounds)
        except ParameterError as error:
            raise DataError(str(error)) from None

    # --- construction -----------------------------------------------------------------------------------------------

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _set_task(self, task: str | None, loss: str | None) -> None:
        if task is None:
            task = "regression" if isinstance(loss, str) and loss == "squared" else "classification"
        task = choice("task", task, TASKS)
        self._set(task=task, loss=choice("loss", LOSSES[task][0] if loss is None else loss, LOSSES[task]))

    def _set_labels(self, classes: Sequence[Label] | None, label_bounds: Sequence[float] | None) -> None:
        if self.task == "regression":
            if classes is not None:
                raise ParameterError("classes are for a classification. Give label_bounds for a regression.")
            low, high = bounds("label_bounds", label_bounds, remedy="They are public bounds of the label.")
            self._set(classes=None, label_bounds=(low + 0.0, high + 0.0))
            return
        if label_bounds is not None:
            raise ParameterError("label_bounds are for a regression. Give classes for a classification.")
        wanted = "two different labels"
        labels = (-1, 1) if classes is None else tuple(map(_label, in_order("classes", classes, wanted)))
        if len(labels) != 2 or labels[0] == labels[1]:
            raise ParameterError(f"classes must be {wanted}; got {classes!r}.")
        self._set(classes=labels, label_bounds=None)

    def _set_features(self, n_features: int | None, features: Sequence[Feature] | None) -> None:
        if (n_features is None) == (features is None):
            raise ParameterError("give exactly one of n_features (rows of numbers) and features (records).")
        if features is None:
            count = whole_number("n_features", n_features, at_least=1, at_most=MOST_COLUMNS)
            self._set(n_features=count, features=None)
            return
        wanted = "a list of one or more of NumericFeature and CategoricalFeature"
        listed = in_order("features", features, wanted)
        if not listed or not all(isinstance(feature, (NumericFeature, CategoricalFeature)) for feature in listed):
            raise ParameterError(f"features must be {wanted}.")
        names = [feature.name for feature in listed]
        if len(set(names)) < len(names):
            raise ParameterError(f"names of features must differ; got {names!r}.")
        self._set(n_features=len(listed), features=listed)
        if self.n_columns > MOST_COLUMNS:
            raise ParameterError(f"the features have {self.n_columns} columns; at most {MOST_COLUMNS} are possible.")

    def _set_row(self, scale: float | None, completion: str | None, intercept: float) -> None:
        if completion is None:
            completion = "slack" if self.task == "regression" else "normalise"
        self._set(completion=choice("completion", completion, COMPLETIONS))
        natural = 1.0 if self.features is None else math.sqrt(self.n_features)
        self._set(scale=number("scale", natural if scale is None else scale, at_least=1e-100, at_most=1e100))
        weight = number("intercept", intercept, at_least=0.0, below=1.0) + 0.0
        if 0.0 < weight < 1e-3:
            raise ParameterError(f"intercept must be 0 or at least 0.001; got {intercept!r}.")
        if self.completion == "normalise" and not weight:
            raise ParameterError(
                "completion 'normalise' needs intercept > 0, or a row of zeros would have no direction."
            )
        self._set(intercept=weight)

    def _set_sizes(self, K: int | None, m: int | None, b: float | None) -> None:
        if K is None and m is None and b is None:
            from sottovoce.local import cap

            sizes = cap.design(self.epsilon, self.degree)
            K, m, b = sizes.K, sizes.m, sizes.b
        remedy = "Leave out all of K, m and b for the best ones."
        count = whole_number("K", K, at_least=2, at_most=MOST_CANDIDATES, remedy=remedy)
        top = whole_number("m", m, at_least=1, at_most=count - 1, remedy=remedy)
        bend = number("b", b, at_least=0.0, at_most=MOST_BEND, remedy=remedy) + 0.0
        if count * self.d > MOST_NUMBERS:
            raise ParameterError(
                f"K {count} candidates of dimension {self.d} are more work than a device should be given (at most "
                f"{MOST_NUMBERS} numbers). Take fewer features or a smaller K."
            )
        self._set(K=count, m=top, b=bend)

    # --- the text ---------------------------------------------------------------------------------------------------

    @cached_property
    def text(self) -> str:
        """The canonical JSON text."""
        return canonical_text({"format": _FORMAT, "version": _VERSION, **self._entries()})

    @cached_property
    def id(self) -> bytes:
        """The first 8 bytes of the SHA-256 of the canonical text."""
        return hashlib.sha256(self.text.encode("ascii")).digest()[:8]

    def to_json(self) -> str:
        """Return the canonical JSON text."""
        return self.text

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a protocol from its canonical text.

        Raises
        ------
        ParameterError
            If the text is not JSON, holds an unknown version or field, a value out of range, or is not canonical.
        """
        source = _decoded(text).strip()
        protocol = cls(**cls._arguments(_entries_of(source)))
        if protocol.text != source:
            raise ParameterError(
                "the protocol's text is not canonical (sorted keys, no white space, ASCII, shortest floats), so its id "
                "would be ambiguous. Pass on the text of to_json() unchanged."
            )
        return protocol

    def _entries(self) -> dict[str, Any]:
        entries = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        if self.features is not None:
            entries |= {"features": [feature.to_json() for feature in self.features], "n_features": None}
        return {name: value for name, value in entries.items() if value is not None}

    @classmethod
    def _arguments(cls, entries: dict[str, Any]) -> dict[str, Any]:
        labels = "label_bounds" if entries.get("task") == "regression" else "classes"
        rows = "features" if "features" in entries else "n_features"
        others = {"label_bounds", "classes", "features", "n_features"} - {labels, rows}
        wanted = {entry.name for entry in fields(cls)} - others
        unknown, absent = sorted(set(entries) - wanted), sorted(wanted - set(entries))
        if unknown or absent:
            raise ParameterError(f"the protocol has unknown fields {unknown!r} and lacks {absent!r}.")
        for key in (labels, rows):
            if key != "n_features" and not isinstance(entries[key], list):
                raise ParameterError(f"{key} of the protocol must be a list; got {entries[key]!r}.")
        if rows == "features":
            return entries | {"features": [feature_from_json(entry) for entry in entries["features"]]}
        return entries

    # --- records ----------------------------------------------------------------------------------------------------

    def _numbers(self, x: object) -> Array:
        wanted = f"x must be {self.n_features} numbers"
        row = np.asarray(x) if hasattr(x, "__array__") else _listed(x, wanted)
        if row.dtype.kind == "O" and row.ndim == 1:
            row = _listed(row.tolist(), wanted)
        if row.dtype.kind not in "iuf":
            raise DataError(f"{wanted}, neither texts nor truth values; got an array of {row.dtype}.")
        if row.shape != (self.n_features,):
            raise DataError(f"{wanted}; got an array of shape {row.shape}.")
        if not np.isfinite(row).all():
            raise DataError("x holds NaN or infinite numbers. Replace them before reporting.")
        return row.astype(np.float64)

    def _rows(self, X: object) -> Array:
        if isinstance(X, (str, bytes)) or not isinstance(X, Sequence):
            raise DataError(f"X must be an array of shape (n, {self.n_features}); got {type(X).__name__}.")
        return np.array([self._numbers(x) for x in X])

    def _values(self, x: object) -> list[object]:
        assert self.features is not None
        if isinstance(x, Mapping):
            unknown = set(x) - {feature.name for feature in self.features}
            absent = [feature.name for feature in self.features if feature.name not in x and not feature.missing]
            if unknown or absent:
                raise DataError(
                    f"the record lacks the features {absent!r} and has unknown ones {sorted(map(str, unknown))!r}."
                )
            return [x.get(feature.name) for feature in self.features]
        is_text, is_table = isinstance(x, (str, bytes)), getattr(x, "ndim", 1) != 1
        if is_text or is_table or not isinstance(x, (Sequence, np.ndarray)) or len(x) != len(self.features):
            raise DataError(f"the record must be a mapping by name, or a sequence of {len(self.features)} values.")
        return list(x)


def _decoded(text: str | bytes) -> str:
    if isinstance(text, bytes):
        try:
            text = text.decode("ascii")
        except UnicodeDecodeError:
            raise ParameterError("the protocol's text holds other than ASCII characters.") from None
    if not isinstance(text, str) or len(text) > _MOST_CHARACTERS:
        raise ParameterError(f"the protocol must be a text of at most {_MOST_CHARACTERS} characters.")
    return text


def _entries_of(text: str) -> dict[str, Any]:
    """Return the entries in the text of a protocol of this version, unchecked."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"the protocol's text is not JSON: {error}.") from None
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ParameterError(f"the text is not a protocol: it has no entry 'format': '{_FORMAT}'.")
    if document.get("version") != _VERSION or isinstance(document["version"], bool):
        raise ParameterError(
            f"the protocol has version {document.get('version')!r}, this program reads version {_VERSION}. Update the "
            "older of the two."
        )
    return {key: value for key, value in document.items() if key not in ("format", "version")}


def _label(value: object) -> Label:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str) and is_text(value):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= 2**53:
        return int(value) if value == int(value) else value
    raise ParameterError(f"a class must be a text or a number; got {value!r}.")


def _listed(x: object, wanted: str) -> Array:
    """Return a list of numbers as an array; texts and truth values are not numbers, whatever numpy makes of them."""
    if isinstance(x, (str, bytes)) or not isinstance(x, Sequence):
        raise DataError(f"{wanted}; got {type(x).__name__}.")
    for value in x:
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
            raise DataError(f"{wanted}; it holds {value!r}.")
    try:
        return np.array([float(value) for value in x])
    except OverflowError:
        raise DataError(f"{wanted}; it holds a whole number beyond the doubles.") from None


def row_sums(terms: Array) -> Array:
    """Sum each row from left to right, of shape (n, 1)."""
    totals: Array = np.cumsum(terms, axis=1)
    return totals[:, -1:]
