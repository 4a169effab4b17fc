"""What a missing value becomes: a public rule of its column, so that a row is encoded by itself alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from sottovoce.exceptions import SchemaError
from sottovoce.tables.column import Block

__all__ = ["INDICATOR", "indicated", "indicated_place", "refuse_missing_rule", "with_indicator"]

INDICATOR: Final = "indicator"


def with_indicator(column: str, names: Sequence[str], missing: object) -> tuple[str, ...]:
    return (*names, f"{column} is missing") if missing == INDICATOR else tuple(names)


def indicated_place(column: str, places: Sequence[str], missing: object) -> tuple[str, ...]:
    """Return where the coefficients of a column are added, and where that of its indicator is, if it has one."""
    return (*places, f"where {column} is missing") if missing == INDICATOR else tuple(places)


def indicated(block: Block, absent: npt.NDArray[np.bool_], place: int, missing: object) -> Block:
    """Return the block whose rows without a value have a 1 in the indicator, at ``place``, if there is one.

    Such a row has no other entry in the block, so a row has one entry a column still, and its norm the same bound.
    """
    if missing != INDICATOR:
        return block
    return Block(np.where(absent, np.int64(place), block.positions), np.where(absent, 1.0, block.values))


def refuse_missing_rule(name: str) -> None:
    """Refuse a rule for missing values of the target: a label that is made up would be learnt."""
    raise SchemaError(
        f"column {name!r} is the target and has a rule for missing values: a missing label is refused. Remove missing."
    )
