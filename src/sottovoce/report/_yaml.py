"""Plain data as YAML: nested mappings and lists by indentation, scalars as JSON has them, which YAML reads too."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["yaml_text"]


def yaml_text(data: Mapping[str, Any]) -> str:
    """Return mappings, lists, texts, numbers and None as the text of a YAML file (1.1 and 1.2)."""
    return "".join(f"{line}\n" for line in _lines(data))


def _lines(data: Any) -> Iterator[str]:
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from _entry(f"{key}:", value, indent="  ")
        return
    for value in data:
        first, *others = _lines(value) if _is_nested(value) else [_scalar(value)]
        yield f"- {first}"
        yield from (f"  {line}" for line in others)


def _entry(head: str, value: Any, *, indent: str) -> Iterator[str]:
    if not _is_nested(value) and not _is_block(value):
        yield f"{head} {_scalar(value)}"
        return
    if isinstance(value, str):
        yield f"{head} |-"
        yield from (f"{indent}{line}".rstrip(" ") for line in value.split("\n"))
        return
    yield head
    yield from (f"{indent}{line}" for line in _lines(value))


def _is_nested(value: Any) -> bool:
    return isinstance(value, (Mapping, Sequence)) and not isinstance(value, str) and len(value) > 0


def _is_block(value: Any) -> bool:
    """Return whether a text has several lines that YAML can hold as they are."""
    if not isinstance(value, str) or "\n" not in value or value[0] in " \n" or value[-1] == "\n":
        return False
    return all(line.isprintable() and line == line.rstrip(" ") for line in value.split("\n"))


def _scalar(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and "e" in text and "." not in text:
        return text.replace("e", ".0e")  # without the point YAML 1.1 reads a text
    return "".join(mark if mark.isprintable() else _escaped(mark) for mark in text)


def _escaped(mark: str) -> str:
    return f"\\u{ord(mark):04x}" if ord(mark) < 2**16 else f"\\U{ord(mark):08x}"
