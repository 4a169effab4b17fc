"""A part of many cases for `make test`, such that every choice still meets every other one; the rest is slow."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import pytest


def by_pairs(*axes: Sequence[Any]) -> list[Any]:
    """Return the cases of ``axes`` whose places add up to an even number; of two axes the others too, which are slow.

    Of three axes or more, with two choices or more each, every pair of choices is among them, so the others go: none
    of them brings two choices together that do not meet before.
    """
    cases = []
    for chosen in product(*map(enumerate, axes)):
        names = [getattr(one, "__name__", None) or getattr(one, "name", None) or str(one) for _, one in chosen]
        odd = sum(place for place, _ in chosen) % 2
        if not odd or len(axes) == 2:
            cases.append(pytest.param(*(one for _, one in chosen), id="-".join(names), marks=[pytest.mark.slow] * odd))
    return cases


def every_second(cases: Iterable[Any]) -> list[Any]:
    """Return all cases, of which the second, the fourth and so on are slow."""
    return [pytest.param(case, marks=[pytest.mark.slow] * (k % 2)) for k, case in enumerate(cases)]


def by_turns(cases: Sequence[Any], forms: Sequence[Any]) -> list[Any]:
    """Return all pairs, of which a case with its own form is fast, in turn, so that all forms are met by its like."""
    found = []
    for (k, case), (n, form) in product(enumerate(cases), enumerate(forms)):
        names = [getattr(one, "__name__", str(one)) for one in form]
        marks = [pytest.mark.slow] * (k % len(forms) != n)
        found.append(pytest.param(case, form, id="-".join([case.name, *names]), marks=marks))
    return found
