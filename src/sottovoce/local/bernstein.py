"""The name of `sottovoce.published.bernstein` before it moved."""

from typing import Any

from sottovoce.published import bernstein
from sottovoce.published.bernstein import __all__ as __all__


def __getattr__(name: str) -> Any:
    return getattr(bernstein, name)
