"""What every reply is held against before it is used: its length, and numbers that sums of squares can hold."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.exceptions import PartyError

_LARGEST: Final = 1e140


def checked(name: str, values: Vector, length: int) -> Vector:
    """Return the numbers that party ``name`` sent, if they are as many as were asked for.

    Raises `PartyError` if they are not, or one of them is so large that what is computed from it would not be a number.
    """
    if len(values) != length:
        raise PartyError(
            f"party {name!r} sent {len(values):,} numbers where {length:,} were asked for. Bring all sites to the same "
            "version, and align them."
        )
    if length and not max(-float(values.min()), float(values.max())) <= _LARGEST:
        raise PartyError(
            f"party {name!r} sent a number beyond {_LARGEST:g}: it has diverged, or its columns are out of any "
            "scale. Scale them, or look at what runs there."
        )
    return values


def total(sent: Mapping[str, Vector], length: int) -> Vector:
    """Return the sum of what the parties sent, in their order; see `checked`."""
    return sum((checked(name, values, length) for name, values in sent.items()), np.zeros(length))
