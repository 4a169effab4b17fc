r"""Every type of message that crosses between the coordinator and a party: listed, sized, validated, never executable.

A message is a frozen dataclass of numbers, vectors of doubles, short strings and bytes, and nothing else. On the wire
it is

====================  ============================================================================================
``b"SVM2"``           the format and its version
u16                   the number of its kind in the closed list below
u64                   length of what follows, in bytes
the fields in order   a float as f64, a whole number as i64, a vector as u64 length and so many f64, a string as
                      u32 length and UTF-8; all little endian. A count (a whole number >= 0) in groups of seven bits,
                      the lowest first, each but the last with its high bit set; bytes as their count and themselves
====================  ============================================================================================

`decode` accepts exactly what `encode` can write: known kind, lengths that add up, finite numbers (an infinite bound
excepted). Nothing is imported by name and nothing is executed.

Requests go from the coordinator to a party, replies the other way. Which of them carry what of whom:

==================  =====================================================================================
`Describe`          -> `Description`: sizes, and the public facts that the party declares of its rows
`Close`             -> `Done`: the session is over, and what it held is forgotten
`Prepare`           penalty and intercept of the training to come -> `Done`
`AdmmStart`         penalty parameter and form -> `Done`
`AdmmStep`          one number a record -> `AdmmReply`: one number a record (the party's part of the prediction),
                    and two sums over its coefficients
`LbfgsStart`        -> `Done`
`LbfgsGradient`     one number a record -> `LbfgsProducts`: inner products of the party's vectors
`LbfgsDirection`    a few coefficients -> `LbfgsScores`: one number a record and three sums
`LbfgsMove`         the last step -> `Done`
`Spectrum`          -> `SpectrumReply`: extreme eigenvalues of the party's Gram matrix (checks of theory only)
`Afford`            an event -> `Done` where the party's budget covers it
`TrainOnLabels`     labels that were released or are public, and a budget -> `Trained`: the event that was spent
`SendFeatures`      a budget -> `Features`: the party's columns plus noise, and the event that was spent
`NoisyStart`        bounds and noise of noisy ADMM -> `Done`
`NoisyStep`         one number a record -> `NoisyScores`: one noisy number a record
`TrainOnBall`       labels that were released or are public, a ball and a budget -> `Chosen`: the signed columns that
                    the party's steps took (the party keeps the model that they make)
`BallStart`         the same, for steps that are taken together -> `Done`
`BallSelect`        one number a record, from released values only -> `BallChoice`: one signed column, and its noisy
                    score
`BallStep`          a step along a chosen column -> `Done`
`ShareColumn`       a chosen column -> `SharedColumn`: its entries, or sums of entries, plus noise
`BallVertex`        one number a record -> `BallChoice`: the steepest signed column and its score, without noise
`ShowColumn`        -> `ShownColumn`: one column without noise
`KeepWeights`       keep the released (or exact) weights under a name -> `Done`
`PublishedStart`    the published noise, for reproduction -> `Done`
`PublishedBallStart`  the published noise of Frank-Wolfe, for reproduction -> `Done`
`PublishedBallStep`   sums of released columns -> `PublishedBallReply`: a signed column, and the column, both with noise
`ShowFeatures`      -> `ShownFeatures`: the party's columns without noise, of people who are scored
`Keep`              keep the present coefficients under a name -> `Done`
`Score`             -> `Scores`: the party's part of the prediction for each of its rows
==================  =====================================================================================

Any request may be answered by `Refused`. A request travels in a frame (`sottovoce.vertical.frames`) that says which
session it belongs to and which step of it it is.
"""

import math
import struct
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Final, Self, get_type_hints

import numpy as np
from numpy.typing import NDArray

from sottovoce.exceptions import MessageError

__all__ = [
    "AdmmReply",
    "AdmmStart",
    "AdmmStep",
    "Afford",
    "BallChoice",
    "BallSelect",
    "BallStart",
    "BallStep",
    "BallVertex",
    "Chosen",
    "Close",
    "Count",
    "Describe",
    "Description",
    "Done",
    "Features",
    "Keep",
    "KeepWeights",
    "LbfgsDirection",
    "LbfgsGradient",
    "LbfgsMove",
    "LbfgsProducts",
    "LbfgsScores",
    "LbfgsStart",
    "Message",
    "NoisyScores",
    "NoisyStart",
    "NoisyStep",
    "Prepare",
    "PublishedBallReply",
    "PublishedBallStart",
    "PublishedBallStep",
    "PublishedStart",
    "Refused",
    "Score",
    "Scores",
    "SendFeatures",
    "ShareColumn",
    "SharedColumn",
    "ShowColumn",
    "ShowFeatures",
    "ShownColumn",
    "ShownFeatures",
    "Spectrum",
    "SpectrumReply",
    "TrainOnBall",
    "TrainOnLabels",
    "Trained",
    "Vector",
    "decode",
]

Vector = NDArray[np.float64]
Count = Annotated[int, "a whole number >= 0"]

_HEAD: Final = struct.Struct("<4sHQ")
_MAGIC: Final = b"SVM2"
_MOST_TEXT: Final = 65_536  # bytes of one string
_MOST_BYTES: Final = 2**40


@dataclass(frozen=True, eq=False)
class Message:
    """Base of all messages; the fields of a subclass are its content, checked when it is made."""

    code: ClassVar[int]
    # fields that may be infinite; NaN never passes
    unbounded: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        for name, kind in _layout(type(self)):
            object.__setattr__(self, name, self._checked(name, kind, getattr(self, name)))

    def _checked(self, name: str, kind: Any, value: Any) -> Any:
        where = f"{type(self).__name__}.{name}"
        if kind is str:
            try:
                good = isinstance(value, str) and len(value.encode()) <= _MOST_TEXT
            except UnicodeEncodeError:  # a lone surrogate
                good = False
            if not good:
                raise MessageError(f"{where} must be a string of at most {_MOST_TEXT} bytes of UTF-8.")
            return value
        if kind is int or kind == Count:
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not -(2**63) <= value < 2**63:
                raise MessageError(f"{where} must be a whole number of 64 bits; got {type(value).__name__}.")
            if kind == Count and value < 0:
                raise MessageError(f"{where} must be a whole number >= 0; got {int(value)}.")
            return int(value)
        if kind is bytes:
            if not isinstance(value, bytes) or len(value) > _MOST_BYTES:
                raise MessageError(f"{where} must be bytes; got {type(value).__name__}.")
            return value
        if kind is float:
            if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
                raise MessageError(f"{where} must be a number; got {type(value).__name__}.")
            try:
                number = float(value)
            except OverflowError:  # a whole number beyond the doubles
                number = math.nan
            if math.isnan(number) or (math.isinf(number) and name not in self.unbounded):
                raise MessageError(f"{where} must be finite.")
            return number
        array = np.asarray(value)
        if array.dtype.kind not in "fiu":
            raise MessageError(f"{where} must be a vector of numbers; got {type(value).__name__} of {array.dtype}.")
        if array.ndim != 1:
            raise MessageError(f"{where} must be a vector; got an array of shape {array.shape}.")
        vector = np.ascontiguousarray(array, dtype="<f8")
        if not np.isfinite(vector).all():
            raise MessageError(f"{where} must hold finite numbers only.")
        return vector

    @property
    def n_bytes(self) -> int:
        """Length on the wire, in bytes."""
        return _HEAD.size + sum(_size(kind, getattr(self, name)) for name, kind in _layout(type(self)))

    def encode(self) -> bytes:
        """Return the message as bytes."""
        parts = [_HEAD.pack(_MAGIC, self.code, self.n_bytes - _HEAD.size)]
        for name, kind in _layout(type(self)):
            value = getattr(self, name)
            if kind is str:
                text = value.encode()
                parts += [struct.pack("<I", len(text)), text]
            elif kind is int:
                parts.append(struct.pack("<q", value))
            elif kind is float:
                parts.append(struct.pack("<d", value))
            elif kind == Count:
                parts.append(_pack_count(value))
            elif kind is bytes:
                parts += [_pack_count(len(value)), value]
            else:
                parts += [struct.pack("<Q", len(value)), value.tobytes()]
        return b"".join(parts)

    @classmethod
    def read(cls, body: memoryview) -> Self:
        """Rebuild a message of this kind from its fields on the wire."""
        values: list[Any] = []
        at = 0

        def take(count: int) -> memoryview:
            nonlocal at
            if count > len(body) - at:
                raise MessageError(f"a message of kind {cls.__name__} is cut short.")
            at += count
            return body[at - count : at]

        def take_count(name: str) -> int:
            value = 0
            for place in range(9):
                (group,) = take(1)
                value |= (group & 0x7F) << (7 * place)
                if group < 0x80:
                    if group == 0 and place:
                        break
                    return value
            raise MessageError(f"{cls.__name__}.{name} is a count of more groups than it needs, or than there are.")

        for name, kind in _layout(cls):
            if kind is str:
                (length,) = struct.unpack("<I", take(4))
                if length > _MOST_TEXT:
                    raise MessageError(f"{cls.__name__}.{name} is longer than {_MOST_TEXT} bytes.")
                try:
                    values.append(bytes(take(length)).decode())
                except UnicodeDecodeError:
                    raise MessageError(f"{cls.__name__}.{name} is not UTF-8.") from None
            elif kind is int:
                values.append(struct.unpack("<q", take(8))[0])
            elif kind is float:
                values.append(struct.unpack("<d", take(8))[0])
            elif kind == Count:
                values.append(take_count(name))
            elif kind is bytes:
                values.append(bytes(take(take_count(name))))
            else:
                (length,) = struct.unpack("<Q", take(8))
                values.append(np.frombuffer(take(8 * length), dtype="<f8"))
        if at != len(body):
            raise MessageError(f"a message of kind {cls.__name__} has {len(body) - at} bytes too many.")
        return cls(*values)


def decode(raw: bytes) -> Message:
    """Rebuild a message from bytes.

    Raises
    ------
    MessageError
        If the bytes are not exactly one message of a kind that this version knows.
    """
    if len(raw) < _HEAD.size:
        raise MessageError(f"a message has at least {_HEAD.size} bytes; got {len(raw)}.")
    magic, code, length = _HEAD.unpack_from(raw)
    if magic != _MAGIC:
        raise MessageError(f"not a message of this version: it starts with {magic!r}, not {_MAGIC!r}.")
    if code not in _KINDS:
        raise MessageError(f"no message has kind {code}.")
    if length > _MOST_BYTES or length != len(raw) - _HEAD.size:
        raise MessageError(f"a message says {length} bytes of content and has {len(raw) - _HEAD.size}.")
    return _KINDS[code].read(memoryview(raw)[_HEAD.size :])


def _layout(kind: type[Message]) -> list[tuple[str, Any]]:
    layout = _LAYOUTS.get(kind)
    if layout is None:
        hints = get_type_hints(kind, include_extras=True)
        layout = _LAYOUTS[kind] = [(field.name, hints[field.name]) for field in fields(kind)]
    return layout


_LAYOUTS: dict[type[Message], list[tuple[str, Any]]] = {}


def _pack_count(value: int) -> bytes:
    groups = bytearray()
    while value >= 0x80:
        groups.append(0x80 | value & 0x7F)
        value >>= 7
    return bytes([*groups, value])


def _size(kind: Any, value: Any) -> int:
    if kind is str:
        return 4 + len(value.encode())
    if kind == Count:
        return len(_pack_count(value))
    if kind is bytes:
        return len(_pack_count(len(value))) + len(value)
    return 8 if kind in (int, float) else 8 + value.nbytes


# ------------------------------------------------------------------ general


@dataclass(frozen=True, eq=False)
class Describe(Message):
    """Ask for the public facts of a party."""

    code = 1


@dataclass(frozen=True, eq=False)
class Description(Message):
    """Sizes of the party's table, and what it declares publicly of its rows.

    ``data_norm`` bounds the length of a row, ``data_bound`` the size of an entry; ``inf`` when the party gave none.
    ``nonnegative`` is 0 or 1.
    """

    n_rows: Count
    n_features: Count
    data_norm: float
    nonnegative: Count
    data_bound: float = math.inf
    code = 2
    unbounded = frozenset({"data_norm", "data_bound"})


@dataclass(frozen=True, eq=False)
class Prepare(Message):
    """Open a training: penalties for the *sum* of losses, bounds of the coefficients, 1 for an intercept here."""

    l2: float
    l1: float
    low: float
    high: float
    intercept: int
    code = 3
    unbounded = frozenset({"low", "high"})


@dataclass(frozen=True, eq=False)
class Done(Message):
    """It is done, and there is nothing to tell."""

    code = 4


@dataclass(frozen=True, eq=False)
class Refused(Message):
    """It was not done; ``reason`` tells nothing about the data."""

    reason: str
    code = 5


@dataclass(frozen=True, eq=False)
class Keep(Message):
    """Keep the present coefficients under the name ``model``."""

    model: str
    code = 6


@dataclass(frozen=True, eq=False)
class Score(Message):
    """Ask for the party's part of the prediction of the model ``model`` for each of its rows."""

    model: str
    code = 7


@dataclass(frozen=True, eq=False)
class Scores(Message):
    """One number a row."""

    scores: Vector
    code = 8


@dataclass(frozen=True, eq=False)
class Spectrum(Message):
    """Ask for the extreme eigenvalues of the Gram matrix."""

    code = 9


@dataclass(frozen=True, eq=False)
class SpectrumReply(Message):
    """Smallest and largest eigenvalue of D'D."""

    smallest: float
    largest: float
    code = 10


@dataclass(frozen=True, eq=False)
class Close(Message):
    """End the session: free what the party holds for it."""

    code = 11


# ------------------------------------------------------------------ ADMM


@dataclass(frozen=True, eq=False)
class AdmmStart(Message):
    """Penalty parameter rho, proximal weight tau and relaxation of the updates to come; the sharing form where set."""

    rho: float
    proximal: float
    relaxation: float
    sharing: int
    code = 20


@dataclass(frozen=True, eq=False)
class AdmmStep(Message):
    """One number a record: what the coordinator's residual and dual variable come down to for this update."""

    shift: Vector
    code = 21


@dataclass(frozen=True, eq=False)
class AdmmReply(Message):
    """D x, the party's term of the Lyapunov function before the update, and its penalty after it."""

    scores: Vector
    stationarity: float
    penalty: float
    code = 22


# ------------------------------------------------------------------ L-BFGS


@dataclass(frozen=True, eq=False)
class LbfgsStart(Message):
    """Number of pairs to remember; 1 to precondition with the party's own second moments."""

    memory: int
    precondition: int
    code = 30


@dataclass(frozen=True, eq=False)
class LbfgsGradient(Message):
    """Move by ``step`` along the last direction; then the derivative of the loss, one number a record.

    ``curvature`` makes the preconditioner anew: one number, or the second derivative of the loss for each record; empty
    keeps it.
    """

    step: float
    slopes: Vector
    curvature: Vector
    code = 31


@dataclass(frozen=True, eq=False)
class LbfgsProducts(Message):
    """Inner products within the party, in the order of `sottovoce.vertical.protocols.exact.lbfgs.ProductTable.read`."""

    products: Vector
    code = 32


@dataclass(frozen=True, eq=False)
class LbfgsDirection(Message):
    """Coefficients of the next direction: those of the steps, then those of the gradient differences."""

    coefficients: Vector
    code = 33


@dataclass(frozen=True, eq=False)
class LbfgsScores(Message):
    """D p for the new direction p; x'Rp, p'Rp and x'Rx / 2 for the penalty R."""

    scores: Vector
    slope: float
    square: float
    penalty: float
    code = 34


@dataclass(frozen=True, eq=False)
class LbfgsMove(Message):
    """Move by ``step`` along the last direction, and end."""

    step: float
    code = 35


# ------------------------------------------------------------------ private mechanisms


@dataclass(frozen=True, eq=False)
class Afford(Message):
    """Ask whether the party's budget covers an event (JSON) about its columns; nothing is spent yet."""

    event: str
    code = 39


@dataclass(frozen=True, eq=False)
class TrainOnLabels(Message):
    """Train a private model of the party's own columns on labels that are no secret.

    ``flip_probability`` is that of the randomised response behind labels of -1 and +1 (0 for public ones),
    ``label_bound`` a bound on labels that are other numbers (0 for none), ``mu`` the mean shift of the equivalent
    Gaussian release that the training may spend.
    """

    labels: Vector
    loss: str
    flip_probability: float
    label_bound: float
    alpha: float
    mu: float
    code = 40


@dataclass(frozen=True, eq=False)
class Trained(Message):
    """The event that was spent, as JSON."""

    event: str
    code = 41


@dataclass(frozen=True, eq=False)
class SendFeatures(Message):
    """Release columns and their second moments with noise, at a cost of at most ``mu``."""

    mu: float
    code = 42


@dataclass(frozen=True, eq=False)
class Features(Message):
    """Noisy columns (row by row), noisy Gram matrix, the standard deviations of the noise in both, and the event.

    In units of the party's bound on its rows, and of its square.
    """

    rows: Vector
    gram: Vector
    rows_noise_std: float
    gram_noise_std: float
    event: str
    code = 43


@dataclass(frozen=True, eq=False)
class NoisyStart(Message):
    """Bounds of noisy ADMM (scores, coefficients, targets), for rows of norm at most 1; the budget of each release."""

    rho: float
    score_bound: float
    norm_bound: float
    target_bound: float
    mu: float
    code = 44


@dataclass(frozen=True, eq=False)
class NoisyStep(Message):
    """One number a record, from released values only; ``release`` 0 updates without sending, once, as the last step."""

    shift: Vector
    release: int
    code = 45


@dataclass(frozen=True, eq=False)
class NoisyScores(Message):
    """Clipped D x plus noise, one number a record (none on the last update), and the event."""

    scores: Vector
    event: str
    code = 46


@dataclass(frozen=True, eq=False)
class PublishedStart(Message):
    """Add the published noise to the replies of ADMM: its claimed epsilon and delta a round, and its bounds."""

    epsilon: float
    delta: float
    norm_bound: float
    n_parties: int
    code = 47


@dataclass(frozen=True, eq=False)
class ShowFeatures(Message):
    """Ask for the columns of people who are to be scored, without noise."""

    code = 48


@dataclass(frozen=True, eq=False)
class ShownFeatures(Message):
    """Columns as they are, row by row."""

    rows: Vector
    code = 49


# ------------------------------------------------------------------ Frank-Wolfe on the l1 ball


@dataclass(frozen=True, eq=False)
class TrainOnBall(Message):
    """Take ``n_steps`` private steps of Frank-Wolfe alone, and keep the model under the name ``model``.

    Labels are in multiples of ``unit``; ``vertex`` is the size of a vertex of the party's ball
    for entries within [-1, 1]; ``clip`` bounds a record's slope;
    ``selection`` is the bounded range of each choice.
    """

    loss: str
    labels: Vector
    vertex: float
    clip: float
    n_steps: Count
    selection: float
    intercept: Count
    unit: float
    model: str
    code = 60


@dataclass(frozen=True, eq=False)
class Chosen(Message):
    """Signed columns in order, as one number (see its ``places``); the range of each choice."""

    places: bytes
    selection: float
    code = 61


@dataclass(frozen=True, eq=False)
class BallStart(Message):
    """Open steps of Frank-Wolfe that are taken together with other parties.

    ``score_noise`` and ``column_noise`` are noise multipliers; a choice has no score where the former is ``inf``, and
    at most ``n_columns`` columns will be asked for. ``sketch`` is empty for raw columns, else the kind of a public
    sketch with ``sketch_rows`` rows from the public ``sketch_seed``.
    """

    loss: str
    labels: Vector
    vertex: float
    clip: float
    n_steps: Count
    selection: float
    intercept: Count
    score_noise: float
    column_noise: float
    n_columns: Count
    sketch: str
    sketch_rows: Count
    sketch_seed: Count
    code = 62
    unbounded = frozenset({"score_noise"})


@dataclass(frozen=True, eq=False)
class BallSelect(Message):
    """What the released columns of all other parties predict, one number a record; choose a signed column."""

    others: Vector
    code = 63


@dataclass(frozen=True, eq=False)
class BallChoice(Message):
    """Twice the column, plus 1 for a step down; its score (0 where none was asked for)."""

    place: Count
    score: float
    code = 64


@dataclass(frozen=True, eq=False)
class BallStep(Message):
    """Step along ``place``, as chosen before, by one step of the plan."""

    place: Count
    code = 65


@dataclass(frozen=True, eq=False)
class ShareColumn(Message):
    """Release a column that was chosen, with noise."""

    column: Count
    code = 66


@dataclass(frozen=True, eq=False)
class SharedColumn(Message):
    """Whole ticks, of as many bytes each as the plan says, and the noise multiplier."""

    ticks: bytes
    noise_multiplier: float
    code = 67


@dataclass(frozen=True, eq=False)
class BallVertex(Message):
    """Derivative of the loss, one number a record: ask for the steepest signed column, without noise.

    ``intercept`` is the entry of a column behind the last one, which counts too; 0 for none.
    """

    slopes: Vector
    intercept: float
    code = 68


@dataclass(frozen=True, eq=False)
class ShowColumn(Message):
    """Ask for a column without noise."""

    column: Count
    code = 69


@dataclass(frozen=True, eq=False)
class ShownColumn(Message):
    """The entries of a column."""

    entries: Vector
    code = 70


@dataclass(frozen=True, eq=False)
class KeepWeights(Message):
    """Keep a model of these columns' weights (the last column may be that of ones) under the name ``model``."""

    model: str
    columns: Vector
    weights: Vector
    code = 71


@dataclass(frozen=True, eq=False)
class PublishedBallStart(Message):
    """Open steps of Frank-Wolfe with the published noise.

    ``clip`` bounds a record's slope, ``selection`` is the scale of the Laplace noise on a mean of slopes times entries,
    ``column_noise`` the noise multiplier of a shared column. Of ``sampled`` columns, drawn anew for each step, one is
    chosen. ``sketch_rows`` is 0 for raw columns.
    """

    loss: str
    labels: Vector
    clip: float
    selection: float
    column_noise: float
    n_steps: Count
    sampled: Count
    intercept: Count
    sketch_rows: Count
    sketch_seed: Count
    code = 72


@dataclass(frozen=True, eq=False)
class PublishedBallStep(Message):
    """What the released columns predict: one number a record, or a row of the sketch; take one step."""

    predicted: Vector
    code = 73


@dataclass(frozen=True, eq=False)
class PublishedBallReply(Message):
    """Twice the column, plus 1 for a step down; the noisy column in whole ticks; pure epsilon and noise multiplier."""

    place: Count
    ticks: bytes
    selection_epsilon: float
    column_noise: float
    code = 74


_KINDS: Final = {kind.code: kind for kind in Message.__subclasses__()}
