"""What users say of coefficients that are tied to each other: groups of columns, balls; checked against the parties."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sottovoce._validation import choice, number, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.vertical.protocols.general.messages import Description
from sottovoce.vertical.table.penalty import BALLS

__all__ = ["balls_by_party", "groups_by_party"]


def groups_by_party(given: Any, descriptions: Mapping[str, Description]) -> dict[str, tuple[int, ...]]:
    """Return the sizes of the groups of each party that has some.

    Parameters
    ----------
    given : "party", mapping or None
    descriptions : mapping
        Public facts by party.
    """
    if given is None:
        return {}
    if isinstance(given, str) and given == "party":
        return {name: (facts.n_features,) for name, facts in descriptions.items()}
    if not isinstance(given, Mapping):
        raise ParameterError(
            "groups must be 'party', or the sizes of the groups by party, such as {'bank': [3, 1, 4]}; got "
            f"{given!r}."
        )
    _check_known("groups", given, tuple(descriptions))
    return {name: _sizes(name, sizes, descriptions[name].n_features) for name, sizes in given.items()}


def balls_by_party(given: Any, names: Sequence[str]) -> dict[str, tuple[str, float]]:
    """Return norm and radius of the ball of each party that has one.

    Parameters
    ----------
    given : (norm, radius), mapping or None
    names : sequence of str
        The parties.
    """
    if given is None:
        return {}
    if isinstance(given, Mapping):
        _check_known("coef_set", given, names)
        return {name: _ball(f"coef_set[{name!r}]", ball) for name, ball in given.items()}
    return dict.fromkeys(names, _ball("coef_set", given))


def _check_known(what: str, given: Mapping[str, Any], names: Sequence[str]) -> None:
    for name in given:
        if name not in names:
            raise ParameterError(f"{what} names {name!r}; the parties are {', '.join(map(repr, names))}.")


def _sizes(name: str, given: Any, n_features: int) -> tuple[int, ...]:
    if isinstance(given, str) or not isinstance(given, (Sequence, np.ndarray)):
        raise ParameterError(f"groups[{name!r}] must be a list of sizes, such as [3, 1, 4]; got {given!r}.")
    sizes = tuple(whole_number(f"groups[{name!r}][{place}]", size, at_least=1) for place, size in enumerate(given))
    if sum(sizes) != n_features:
        raise ParameterError(
            f"groups[{name!r}] must add up to the {n_features} columns of that party; got {list(sizes)!r}, which is "
            f"{sum(sizes)}. A column by itself is a group of 1."
        )
    return sizes


def _ball(what: str, given: Any) -> tuple[str, float]:
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 2:
        raise ParameterError(f"{what} must be (norm, radius), such as ('l1', 2.0); got {given!r}.")
    norm, radius = given
    return choice(f"{what}[0]", norm, BALLS), number(f"{what}[1]", radius, above=0.0)
