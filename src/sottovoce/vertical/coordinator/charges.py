"""Who may be charged what: shares of the budget, the bounds that noise needs, and what a party says that it spent."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Final

from sottovoce._validation import magnitude, number
from sottovoce.exceptions import AccountingError, ParameterError, PartyError
from sottovoce.privacy.events import Event, event_from_dict
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import PublicFacts
from sottovoce.vertical.protocols.general.messages import Afford
from sottovoce.vertical.wire import Done

__all__ = [
    "LARGEST_MU", "SMALLEST_MU", "check_affordable", "check_spent", "event_text", "require_row_bounds", "split_mu",
]  # fmt: skip

SMALLEST_MU: Final = 1e-6  # of one party's part: with less its noise says nothing about 10^9 people either
LARGEST_MU: Final = 1e4  # a larger one protects nobody

# so that the rounding of square roots cannot make the parts cost more than the whole
_ROOM = 1.0 - 2.0**-40


def require_row_bounds(facts: PublicFacts, names: Sequence[str], mechanism: str) -> None:
    """Refuse a training in which a party gave no bound on its rows; nothing has been spent by then.

    Raises
    ------
    ParameterError
        The message names the party.
    """
    for name in names:
        if not math.isfinite(facts.descriptions[name].data_norm):
            raise ParameterError(
                f"mechanism={mechanism!r} needs data_norm of party {name!r}, a public bound on the norm of its rows; "
                f"that party must give it: Party(..., name={name!r}, data_norm=...). Never compute it from the data."
            )


def split_mu(mu: float, names: Sequence[str], shares: Mapping[str, float] | None) -> dict[str, float]:
    """Return the mean shift of each party: mu_m^2 = share_m mu^2, so that all together cost mu.

    Parameters
    ----------
    mu : float, > 0
    names : sequence of str
    shares : dict or None
        By party, positive; divided by their sum. None for equal shares.

    Raises
    ------
    ParameterError
        If a share is missing, left over, or not positive.
    """
    if shares is None:
        shares = dict.fromkeys(names, 1.0)
    if not isinstance(shares, Mapping) or set(shares) != set(names):
        wanted = ", ".join(map(repr, names))
        raise ParameterError(f"budget_shares must hold one share for each of {wanted}; got {shares!r}.")
    weights = {name: magnitude(f"budget_shares[{name!r}]", shares[name]) for name in names}
    total = math.fsum(weights.values())
    split = {name: _ROOM * mu * math.sqrt(weight / total) for name, weight in weights.items()}
    for name, part in split.items():
        remedy = "Give it a larger epsilon, or a larger share."
        number(f"mu of party {name!r}", part, at_least=SMALLEST_MU, at_most=LARGEST_MU, remedy=remedy)
    return split


def check_affordable(parties: Parties, events: Mapping[str, Event]) -> None:
    """Ask every party whether its budget covers what is planned, before anything is released or spent.

    Raises
    ------
    PartyError
        If one refuses.
    """
    parties.exchange({name: Afford(event_text(event)) for name, event in events.items()}, Done)


def event_text(event: Event) -> str:
    return json.dumps(event.to_dict())


def check_spent(name: str, text: str, planned: Event) -> None:
    """Refuse a reply of party ``name`` whose event is not the planned one.

    Raises
    ------
    PartyError
        The noise of that party is then not what the plan accounts for.
    """
    try:
        spent: Event | None = event_from_dict(json.loads(text))
    except (ValueError, AccountingError, TypeError, AttributeError, OverflowError, RecursionError):
        spent = None
    if spent != planned:
        raise PartyError(
            f"party {name!r} says that it spent {text[:200]!r}; planned was {event_text(planned)!r}. Its noise is not "
            "what the plan accounts for: bring all parties to the same version."
        )
