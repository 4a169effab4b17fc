"""The mechanisms that users choose from, and options that are given as a dict."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from sottovoce._validation import in_full
from sottovoce.exceptions import ParameterError
from sottovoce.vertical.coordinator.plan import VerticalPlan
from sottovoce.vertical.protocols.local_models.plan import LocalModelsPlan
from sottovoce.vertical.protocols.secure.plan import SecurePlan

MECHANISMS: Final[dict[str, type[VerticalPlan]]] = {plan.name: plan for plan in (LocalModelsPlan, SecurePlan)}
"""The plan of each ``mechanism=...`` of the dense estimators."""


def plan_class(mechanism: object) -> type[VerticalPlan] | None:
    """Return what an estimator was given in the place of a mechanism's name, a class of plans; None for a name.

    Raises `ParameterError` if it is a class that is none of plans, or one that takes the name of a mechanism that has a
    line here.
    """
    if not isinstance(mechanism, type):
        return None
    if not issubclass(mechanism, VerticalPlan):
        raise ParameterError(f"mechanism must be a name or a subclass of VerticalPlan; got {mechanism!r}.")
    if MECHANISMS.get(mechanism.name, mechanism) is not mechanism:
        raise ParameterError(
            f"mechanism={mechanism.__name__} is called {mechanism.name!r}, as another one is: receipts could not tell "
            "them apart. Give the plan a name of its own."
        )
    return mechanism


def given_options(name: str, given: object) -> dict[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise ParameterError(f"{name} must be a dict or None; got {given!r}.")
    return dict(given or {})


def known_options(name: str, given: object, known: Collection[str], *, place: str = "") -> dict[str, Any]:
    """Return the same, or refuse an entry that is not among the ``known``; ``place`` ends its name in the message."""
    options = given_options(name, given)
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ParameterError(f"{name} has no entry {unknown[0]!r}{place}; there are {', '.join(known) or 'none'}.")
    return {entry: in_full(value) for entry, value in options.items()}
