"""A part of many cases for `make test`, such that every choice still meets every other one; the rest is slow."""

from collections.abc import Iterable
from itertools import combinations, product
from typing import Any

import pytest


def by_pairs(*axes: Iterable[Any]) -> list[Any]:
    """Return the cases of two ``axes`` whose places add up to an even number, and the others, which are slow.

    Of three axes or more only so many cases that every two choices meet; the others go.
    """
    named = [list(axis) for axis in axes]
    places = list(product(*(range(len(axis)) for axis in named)))
    fast = _meeting(places) if len(axes) > 2 else {one for one in places if sum(one) % 2 == 0}
    cases = []
    for one in places if len(axes) == 2 else sorted(fast):
        chosen = [axis[place] for axis, place in zip(named, one, strict=True)]
        names = [getattr(each, "__name__", None) or getattr(each, "name", None) or str(each) for each in chosen]
        cases.append(pytest.param(*chosen, id="-".join(names), marks=[pytest.mark.slow] * (one not in fast)))
    return cases


def _meeting(places: list[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """Return few places such that every two choices of two axes are together in one: ever the one with the most."""
    pairs = {one: set(combinations(enumerate(one), 2)) for one in places}
    left, found = set().union(*pairs.values()), set()
    while left:
        best = max(places, key=lambda one: len(pairs[one] & left))
        left -= pairs[best]
        found.add(best)
    return found


def every_second(cases: Iterable[Any]) -> list[Any]:
    """Return all cases, of which the second, the fourth and so on are slow."""
    return [pytest.param(case, marks=[pytest.mark.slow] * (k % 2)) for k, case in enumerate(cases)]
