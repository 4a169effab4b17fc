"""The one place where receipts are made, of every mechanism."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from sottovoce._plain_data import canonical_text, decode, digest, encode
from sottovoce._version import __version__
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import Event
from sottovoce.privacy.guarantee import FURTHER_LIMITS, PREPROCESSING, Guarantee

if TYPE_CHECKING:
    from sottovoce.ledger.ledger import Charge

_PAIRS: Final = ("label_bounds", "coef_bounds")


def make_receipt(
    *,
    epsilon: float,
    delta: float,
    adjacency: str | Adjacency,
    unit: str,
    mechanism: str,
    releases: Sequence[str],
    event: Event,
    assumptions: Sequence[str],
    not_covered: Sequence[str],
    parameters: Mapping[str, object],
    seeded: bool,
    proof: str,
    private: bool = True,
    preprocessing: bool = True,
    accountant: str | None = None,
    charge: Charge | None = None,
    model: str | None = None,
    fits: int | None = None,
) -> Guarantee:
    """Return a receipt; day, version, accountant and the exceptions that every receipt has are filled in here.

    What is not said here: see `Guarantee`.
    ``assumptions``, ``not_covered``: of this mechanism. A run without noise takes nothing for granted.
    ``private``: False for a run without noise, or one whose promise is infinite.
    ``preprocessing``: whether somebody had the table in hand before the mechanism; False for devices that encode their
        own record.
    ``accountant``: None takes the name of the one that is in charge of ``event``.
    ``charge``: entry of the ledger.
    """
    source = "a given random_state" if seeded else "the operating system's generator"
    exceptions = (*not_covered, *((PREPROCESSING,) if preprocessing else ()), FURTHER_LIMITS)
    if accountant is None:
        accountant = accountant_for(event).name if private else "none"
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        adjacency=Adjacency.parse(adjacency).value,
        unit=unit,
        mechanism=mechanism,
        releases=tuple(releases),
        event=event,
        assumptions=tuple(assumptions) if private else (),
        not_covered=exceptions if private else tuple(not_covered) or ("everything: no noise was added",),
        parameters={"noise from": source if private else "nowhere: none was added", **parameters},
        seeded=seeded and private,
        accountant=accountant,
        proof=proof,
        version=__version__,
        day=datetime.now(UTC).date().isoformat(),
        charge=None
        if charge is None
        else {"ledger": charge.ledger, "dataset": charge.dataset, "charge": charge.charge, "entry": charge.hash},
        model=model,
        fits=fits,
    )


def stated_arguments(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constructor arguments that a receipt names, as they were given."""
    given = {name: decode(value) for name, value in parameters["arguments"].items()}
    return {name: tuple(one) if name in _PAIRS and isinstance(one, list) else one for name, one in given.items()}


def releases(event: Event) -> Counter[str]:
    """Return how often an event has each of its releases, to nine digits, whatever their order and nesting."""
    counted: Counter[str] = Counter()
    for release, times in event.releases():
        counted[canonical_text(_to_nine_digits(release.to_dict()))] += times
    return counted


def _to_nine_digits(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _to_nine_digits(value) for key, value in data.items()}
    return f"{data:.9g}" if isinstance(data, float) else data


def digest_of_parts(parts: Mapping[str, Any], scorer: object = None) -> str | None:
    """Return the digest of the parties' parts of a model, and of what adds up their scores; None for nothing at all."""
    return digest({"parts": _plain(parts), "scorer": _plain(scorer)}) if parts or scorer is not None else None


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    try:
        return encode(value)
    except ParameterError:  # a receipt must not fail after the noise was drawn
        return repr(type(value))
