"""Values as plain data for strict JSON and back, and the one text that stands for them."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from numbers import Real
from typing import Any, Final

from sottovoce.exceptions import ModelFormatError, ParameterError

OBJECT: Final = "solver object"  # the entry of a description that says which class it is of


def encode(value: Any) -> Any:
    """Return plain data for strict JSON; a float that JSON lacks becomes ``{"float": "inf"}``, a dict ``{"dict": {}}``.

    Python writes the shortest text that reads back as the same double, so numbers survive exactly.
    """
    if hasattr(value, "tolist"):  # numpy and pandas
        value = value.tolist()
    if hasattr(value, "plain_data"):  # a solver object
        value = value.plain_data()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Real):
        number = float(value)
        return number if math.isfinite(number) else {"float": str(number)}
    if isinstance(value, Mapping):
        return {"dict": {str(key): encode(item) for key, item in value.items()}}
    if isinstance(value, (Sequence, Set)):  # lists, tuples, ranges, sets
        return [encode(item) for item in value]
    raise ParameterError(f"a value of type {type(value).__name__} cannot be stored in a model file: {value!r}.")


def encode_or_write(value: Any) -> Any:
    """Return plain data; what has none is written out, because a receipt must not fail after the noise was drawn."""
    try:
        return encode(value)
    except ParameterError:
        return repr(value)


def decode(value: Any) -> Any:
    """Undo `encode`; lists come back as lists."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if isinstance(value, Mapping):
        if set(value) == {"float"} and value["float"] in ("inf", "-inf", "nan"):
            return float(value["float"])
        if set(value) == {"dict"} and isinstance(value["dict"], Mapping):
            return {key: decode(item) for key, item in value["dict"].items()}
        raise ModelFormatError(f"the entry {dict(value)!r} is neither a number nor a dict: damaged file.")
    return value


def plain(value: Any) -> Any:
    """Return a result as plain data for JSON: fields and mappings as dicts, sequences as lists, infinity as ``"inf"``.

    Unlike `encode` it is for readers, not to be undone: a tuple and a list look the same.
    """
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Set):
        return sorted(map(plain, value))
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # numpy
        return plain(value.tolist())
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def parsed(text: str | bytes) -> Any:
    """Return what a text in strict JSON says.

    Raises ValueError, or RecursionError where it is nested too deep, for what is not JSON and for all that readers
    would disagree about: a name that is given twice, NaN, and numbers beyond the doubles, which would read back as
    infinity.
    """
    return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a name is given twice")
    return out


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not allowed")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number is too large")
    return number


def scalar(value: Any) -> Any:
    """Return a scalar of numpy as what it reads back as from a file; anything else as it is."""
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


def canonical_text(data: object) -> str:
    """Return the one text that stands for ``data``: sorted keys, no spaces, ASCII, floats that read back exactly."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(data: object) -> str:
    """Return the SHA-256 of the canonical text as hexadecimal digits."""
    return hashlib.sha256(canonical_text(data).encode("ascii")).hexdigest()
