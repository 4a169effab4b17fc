r"""What crosses between the coordinator and a party: the format of messages; which ones there are, each protocol says.

A message is a frozen dataclass of numbers, vectors of doubles, short strings and bytes, and nothing else. On the wire
it is

====================  ============================================================================================
``b"SVM3"``           the format and its version
u16                   the number of its kind, which no other message has
u64                   length of what follows, in bytes
the fields in order   a float as f64, little endian; a whole number >= 0 in groups of seven bits, the lowest first,
                      each but the last with its high bit set; bytes, a string in UTF-8, and a vector of such floats as
                      how many there are, written so, and themselves
====================  ============================================================================================

`decode` accepts exactly what `Message.encode` can write of the kinds that are due: lengths that add up, finite numbers
(an infinite bound excepted). Nothing is imported by name and nothing is executed.

Requests go from the coordinator to a party, replies the other way; any request may be answered by `Refused`. A request
travels in a `Frame` that says which session it belongs to. Every message, and what it carries of whom:
``docs/messages.md``.
"""

import hashlib
import math
import secrets
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, NamedTuple, Self, dataclass_transform, get_type_hints

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.exceptions import MessageError

Count = int
"""In a message every whole number is one: at least 0, below 2^63."""

_HEAD: Final = struct.Struct("<4sHQ")
_MAGIC: Final = b"SVM3"
MOST_TEXT: Final = 65_536  # bytes of one string
_MOST_BYTES: Final = 2**40


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
class Message:
    """Base of all messages: ``class Name(Message, code=...)`` with its fields, which are checked when it is made.

    Parameters of a subclass
    ------------------------
    code : int
        The number of its kind on the wire; 0 for what other kinds are made of.
    unbounded : tuple of str
        Fields that may be infinite; NaN never passes.
    """

    code: ClassVar[int]
    unbounded: ClassVar[frozenset[str]]
    _layout: ClassVar[dict[str, "_Kind"] | None] = None

    def __init_subclass__(cls, *, code: int = 0, unbounded: Iterable[str] = ()) -> None:
        dataclass(frozen=True, eq=False)(cls)
        cls.code, cls.unbounded, cls._layout = code, frozenset(unbounded), None

    @classmethod
    def layout(cls) -> "dict[str, _Kind]":
        """Return how each field is written, in order."""
        if cls._layout is None:
            hints = get_type_hints(cls, include_extras=True)
            cls._layout = {each.name: _KINDS[hints[each.name]] for each in fields(cls)}  # type: ignore[arg-type]
        return cls._layout

    def __post_init__(self) -> None:
        for name, how in self.layout().items():
            where = f"{type(self).__name__}.{name}"
            value = how.checked(where, getattr(self, name))
            if isinstance(value, float) and not math.isfinite(value) and (
                math.isnan(value) or name not in self.unbounded
            ):  # fmt: skip
                raise MessageError(f"{where} must be finite.")
            object.__setattr__(self, name, value)

    @property
    def n_bytes(self) -> int:
        return len(self.encode())

    def encode(self) -> bytes:
        parts = [part for name, how in self.layout().items() for part in how.packed(getattr(self, name))]
        return b"".join([_HEAD.pack(_MAGIC, self.code, sum(map(len, parts))), *parts])

    @classmethod
    def read(cls, body: memoryview) -> Self:
        at = 0

        def take(count: int) -> memoryview:
            nonlocal at
            if count > len(body) - at:
                raise MessageError(f"a message of kind {cls.__name__} is cut short.")
            at += count
            return body[at - count : at]

        values = [how.taken(f"{cls.__name__}.{name}", take) for name, how in cls.layout().items()]
        if at != len(body):
            raise MessageError(f"a message of kind {cls.__name__} has {len(body) - at} bytes too many.")
        return cls(*values)


def decode(raw: bytes, kinds: Iterable[type[Message]]) -> Message:
    """Rebuild a message from bytes.

    Raises `MessageError` if the bytes are not exactly one message of these kinds.

    ``kinds``: those that are due here; any other is refused.
    """
    if len(raw) < _HEAD.size:
        raise MessageError(f"a message has at least {_HEAD.size} bytes; got {len(raw)}.")
    magic, code, length = _HEAD.unpack_from(raw)
    if magic != _MAGIC:
        raise MessageError(f"not a message of this version: it starts with {magic!r}, not {_MAGIC!r}.")
    kind = next((kind for kind in kinds if kind.code == code), None)
    if kind is None:
        raise MessageError(f"no message has kind {code} here.")
    if length > _MOST_BYTES or length != len(raw) - _HEAD.size:
        raise MessageError(f"a message says {length} bytes of content and has {len(raw) - _HEAD.size}.")
    return kind.read(memoryview(raw)[_HEAD.size :])


def code_of(raw: bytes) -> int:
    """Return the number of the kind that bytes say they are, or 0; nothing of them is checked."""
    return int(_HEAD.unpack_from(raw)[1]) if len(raw) >= _HEAD.size else 0


# ------------------------------------------------------------------ kinds of fields

Take = Callable[[int], memoryview]


class _Kind(NamedTuple):
    """How fields of one type are checked, written and read; ``where`` is for the error."""

    checked: Callable[[str, Any], Any]
    # in parts, so that a long one is not copied to be put behind its length
    packed: Callable[[Any], tuple[bytes, ...]]
    taken: Callable[[str, Take], Any]


def _count(where: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value >= 2**63:
        raise MessageError(f"{where} must be a whole number of 63 bits; got {type(value).__name__}.")
    if value < 0:
        raise MessageError(f"{where} must be a whole number >= 0; got {value}.")
    return int(value)


def _packed_count(value: int) -> bytes:
    groups = bytearray()
    while value >= 0x80:
        groups.append(0x80 | value & 0x7F)
        value >>= 7
    return bytes([*groups, value])


def _taken_count(where: str, take: Take) -> int:
    value = 0
    for place in range(9):
        (group,) = take(1)
        value |= (group & 0x7F) << (7 * place)
        if group < 0x80:
            if group == 0 and place:
                break
            return value
    raise MessageError(f"{where} is a count of more groups than it needs, or than there are.")


def _bytes(where: str, value: Any) -> bytes:
    if not isinstance(value, bytes) or len(value) > _MOST_BYTES:
        raise MessageError(f"{where} must be bytes; got {type(value).__name__}.")
    return value


def _text(where: str, value: Any) -> str:
    with suppress(UnicodeEncodeError):  # a lone surrogate
        if isinstance(value, str) and len(value.encode()) <= MOST_TEXT:
            return value
    raise MessageError(f"{where} must be a string of at most {MOST_TEXT} bytes of UTF-8.")


def _taken_text(where: str, take: Take) -> str:
    try:
        # of one that is too long as much as shows it
        return str(take(min(_taken_count(where, take), MOST_TEXT + 1)), "utf-8")
    except UnicodeDecodeError:
        raise MessageError(f"{where} is not UTF-8.") from None


def _real(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
        raise MessageError(f"{where} must be a number; got {type(value).__name__}.")
    try:
        return float(value)
    except OverflowError:  # a whole number beyond the doubles
        return math.nan


def _vector(where: str, value: Any) -> Vector:
    array = np.asarray(value)
    if array.dtype.kind not in "fiu":
        raise MessageError(f"{where} must be a vector of numbers; got {type(value).__name__} of {array.dtype}.")
    if array.ndim != 1:
        raise MessageError(f"{where} must be a vector; got an array of shape {array.shape}.")
    vector = np.ascontiguousarray(array, dtype="<f8")
    if not np.isfinite(vector).all():
        raise MessageError(f"{where} must hold finite numbers only.")
    return vector


_KINDS: Final[dict[Any, _Kind]] = {
    int: _Kind(_count, lambda value: (_packed_count(value),), _taken_count),
    float: _Kind(_real, lambda value: (struct.pack("<d", value),), lambda _, take: struct.unpack("<d", take(8))[0]),
    bytes: _Kind(
        _bytes,
        lambda value: (_packed_count(len(value)), value),
        lambda where, take: bytes(take(_taken_count(where, take))),
    ),
    str: _Kind(_text, lambda value: (_packed_count(len(raw := value.encode())), raw), _taken_text),
    Vector: _Kind(
        _vector,
        lambda value: (_packed_count(len(value)), value.tobytes()),
        lambda where, take: np.frombuffer(take(8 * _taken_count(where, take)), dtype="<f8"),
    ),
}


# ------------------------------------------------------------------ replies


class Done(Message, code=4):
    """It is done, and there is nothing to tell."""


MOST_REASON: Final = 1000  # letters that are told of a reason: it may quote a name that somebody made up


class Refused(Message, code=5):
    """It was not done; ``reason`` tells nothing about the data."""

    reason: str


def refusal(raw: object) -> str:
    """Return the reason in what should be a `Refused`, whoever made it; empty where it is none."""
    if isinstance(raw, bytes):
        with suppress(MessageError):
            found = decode(raw, (Refused,))
            return found.reason[:MOST_REASON] if isinstance(found, Refused) else ""
    return ""


class Payload(Message, code=16):
    """What was asked for, in numbers and in bytes; each request says what they are, and how many."""

    numbers: Vector = field(default_factory=lambda: np.zeros(0))
    octets: bytes = b""


# ------------------------------------------------------------------ frames of requests

SESSION_BYTES: Final = 16
_FRAMED: Final = b"SVF3"
FRAME_BYTES: Final = len(_FRAMED) + SESSION_BYTES  # what a frame adds to its request


class Frame(NamedTuple):
    """A request, and which session it belongs to.

    ``b"SVF3"``, 16 bytes of the session, which the coordinator drew when it began, and the request. A carrier that does
    not know whether a request arrived sends the same bytes again: a party answers them as it did before. Replies are
    messages without a frame.
    """

    session: bytes  # 16 of them
    body: bytes  # the request

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(self.body).digest()

    def encode(self) -> bytes:
        return b"".join((_FRAMED, self.session, self.body))

    @classmethod
    def read(cls, raw: bytes) -> "Frame":
        """Rebuild a frame; its request is not looked at.

        Raises `MessageError` if the bytes do not begin like a frame of this version.
        """
        if raw[:4] != _FRAMED:
            raise MessageError(
                f"not a request of this version: it starts with {raw[:4]!r}, not {_FRAMED!r}. Bring the coordinator "
                "and all parties to the same version"
            )
        if len(raw) < FRAME_BYTES:
            raise MessageError(f"a request has at least {FRAME_BYTES} bytes; got {len(raw)}")
        return cls(raw[4:FRAME_BYTES], raw[FRAME_BYTES:])


def new_session() -> bytes:
    """Return a name that no other session has, and that nobody can guess."""
    return secrets.token_bytes(SESSION_BYTES)
