"""Half of a product of cases in which every choice still meets every other one; the other half is slow."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

__all__ = ["by_pairs"]


def by_pairs(*axes: Sequence[Any]) -> list[Any]:
    """Return all cases of ``axes``, of which those whose places add up to an odd number are slow.

    With an axis of two choices, each choice of all other axes together is among the fast ones.
    """
    cases = []
    for chosen in product(*map(enumerate, axes)):
        names = [getattr(one, "__name__", None) or getattr(one, "name", None) or str(one) for _, one in chosen]
        slow = sum(place for place, _ in chosen) % 2
        cases.append(pytest.param(*(one for _, one in chosen), id="-".join(names), marks=[pytest.mark.slow] * slow))
    return cases
