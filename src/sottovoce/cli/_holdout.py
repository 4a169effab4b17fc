"""Rows that are set aside by coins before a fit, and never trained on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sottovoce._groups import person_codes
from sottovoce._validation import number
from sottovoce.estimators.reading import UnreadTable
from sottovoce.exceptions import ParameterError
from sottovoce.randomness import Purpose, Streams

__all__ = ["Part", "Split", "split_by_coins"]

Groups = npt.NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class Part:
    """What is trained on, or what is set aside.

    Attributes
    ----------
    rows : UnreadTable
    groups : ndarray or None
        Whose row each is; None for people of the other part, whose rows then count nothing.
    """

    rows: UnreadTable
    groups: Groups | None


@dataclass(frozen=True, eq=False)
class Split:
    """A table in two parts.

    Attributes
    ----------
    training, held_out : Part
    chosen : ndarray of bool
        Which rows of the file are held out.
    """

    training: Part
    held_out: Part
    chosen: npt.NDArray[np.bool_]


def split_by_coins(rows: UnreadTable, groups: Groups | None, share: float, random_state: int | None) -> Split:
    """Hold out each row, or each person with all their rows, with probability ``share``.

    Coins know nothing of the rows. Without persons, the sizes of both parts are therefore public. How many rows the
    people of one part have is not: with persons both parts keep the size of the table, and the rows of the others have
    no person, so that they contribute nothing.

    Raises
    ------
    ParameterError
        If the share is not in (0, 1), or if one part of the rows came out empty.
    """
    share = number("--holdout", share, above=0.0, below=1.0)
    chance = Streams(random_state).generator(Purpose.HOLDING_OUT)
    if groups is not None:
        codes = person_codes(groups, rows.shape[0])
        # one coin more than people: it is the coin of nobody, code -1, who is in neither part
        coins = chance.random(len(codes) + 1) < share
        known, held = codes >= 0, coins[codes]
        return Split(
            training=Part(rows, _only(groups, known & ~held)),
            held_out=Part(rows, _only(groups, known & held)),
            chosen=known & held,
        )
    held = chance.random(rows.shape[0]) < share
    if held.all() or not held.any():
        raise ParameterError(f"--holdout {share:g}: the coins left one part of {len(held)} rows empty. Try again.")
    read = cache(rows.read)
    return Split(_part(rows, read, ~held), _part(rows, read, held), held)


def _only(groups: Groups, chosen: npt.NDArray[np.bool_]) -> Groups:
    kept = groups.copy()
    kept[~chosen] = None
    return kept


def _part(rows: UnreadTable, read: Any, chosen: npt.NDArray[np.bool_]) -> Part:
    def picked() -> tuple[Any, Any]:
        X, y = read()
        return X[chosen], y[chosen]

    return Part(UnreadTable((int(chosen.sum()), rows.shape[1]), picked), None)
