"""The version that is installed, as its metadata say; its three numbers as one, which is short on the wire."""

import re
from importlib.metadata import version

_BITS = 7

__version__ = version("sottovoce")


def _packed(text: str) -> int:
    numbers = [int(number) for number in re.findall(r"\d+", text)[:3]]
    return sum(number << _BITS * place for place, number in enumerate(reversed(numbers)))


def release_name(packed: int) -> str:
    """Return the version that a packed one stands for."""
    low, middle, high = (packed >> _BITS * place for place in range(3))
    return f"{high}.{middle % 2**_BITS}.{low % 2**_BITS}"


RELEASE = _packed(__version__)
