"""Options that are given as a dict."""

from collections.abc import Collection, Mapping
from typing import Any

from sottovoce.exceptions import ParameterError

__all__ = ["given_options", "known_options"]


def given_options(name: str, given: object) -> dict[str, Any]:
    """Return the options of the parameter ``name``, a dict or None, as a dict."""
    if given is not None and not isinstance(given, Mapping):
        raise ParameterError(f"{name} must be a dict or None; got {given!r}.")
    return dict(given or {})


def known_options(name: str, given: object, known: Collection[str], *, place: str = "") -> dict[str, Any]:
    """Return the same, or refuse an entry that is not among the ``known``; ``place`` ends its name in the message."""
    options = given_options(name, given)
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ParameterError(f"{name} has no entry {unknown[0]!r}{place}; there are {', '.join(known) or 'none'}.")
    return options
