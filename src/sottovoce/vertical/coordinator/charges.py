"""Who may be charged what: shares of the budget, the bounds that noise needs, and what a party says that it spent."""

import json
import math
from collections.abc import Mapping, Sequence

from sottovoce._validation import magnitude, number
from sottovoce.exceptions import AccountingError, ParameterError, PartyError
from sottovoce.privacy.events import Event, event_from_dict
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import PublicFacts
from sottovoce.vertical.protocol import LARGEST_MU, SMALLEST_MU, event_text
from sottovoce.vertical.protocols.general.messages import Afford
from sottovoce.vertical.wire import Done

# so that the rounding of square roots cannot make the parts cost more than the whole
_ROOM = 1.0 - 2.0**-40


def require_row_bounds(facts: PublicFacts, names: Sequence[str], mechanism: str) -> None:
    """Refuse a training in which a party gave no bound on its rows; nothing has been spent by then.

    Raises `ParameterError`: the message names the party.
    """
    for name in names:
        if not math.isfinite(facts.descriptions[name].data_norm):
            raise ParameterError(
                f"mechanism={mechanism!r} needs data_norm of party {name!r}, a public bound on the norm of its rows; "
                f"that party must give it: Party(..., name={name!r}, data_norm=...). Never compute it from the data."
            )


def split_mu(mu: float, names: Sequence[str], shares: Mapping[str, float] | None) -> dict[str, float]:
    """Return the mean shift of each party: mu_m^2 = share_m mu^2, so that all together cost mu.

    Raises `ParameterError` if a share is missing, left over, or not positive.

    ``mu``: > 0.
    ``shares``: by party, positive; divided by their sum. None for equal shares.
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

    Raises `PartyError` if one refuses.
    """
    parties.exchange({name: Afford(event_text(event)) for name, event in events.items()}, Done)


def check_spent(name: str, text: str, planned: Event) -> None:
    """Refuse a reply of party ``name`` whose event is not the planned one.

    Raises `PartyError`: the noise of that party is then not what the plan accounts for.
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
