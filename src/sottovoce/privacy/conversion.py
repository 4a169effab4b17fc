r"""What an event costs under another adjacency, where that is proved.

A replaced row is one that is taken out and another that is put in: two neighbours by zero-out, or two by add-remove. A
release that is mu-Gaussian DP for one of them is therefore 2 mu-Gaussian DP for replace-one (Dong, Roth, Su 2019,
Theorem 2.14, group privacy), which is the release with half the noise multiplier. Other conversions are refused: a
guarantee for replaced rows says nothing of a row that contributes nothing, and other releases than Gaussian ones lose
so much that the right adjacency should be asked for in the first place.
"""

from sottovoce.exceptions import AccountingError
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.event import Event, flatten, offered
from sottovoce.privacy.events import ComposedEvent, GaussianEvent, RepeatedEvent


def event_under(wanted: Adjacency, event: Event, made_for: Adjacency) -> Event:
    """Return an event that covers ``event``, made for one adjacency, under another.

    Parameters
    ----------
    wanted : Adjacency
    event : Event
    made_for : Adjacency

    Returns
    -------
    Event
        The same where the two agree.

    Raises
    ------
    AccountingError
        If no conversion is proved; the message names both.
    """
    counts = flatten(event)
    if wanted is made_for or not counts:
        return event
    if wanted is not Adjacency.REPLACE_ONE:
        raise AccountingError(
            f"a release made for adjacency {made_for.value!r} gives no guarantee for {wanted.value!r}. Fit with "
            f"adjacency={wanted.value!r}."
        )
    for basic in counts:
        if basic.offers.noise is None:
            raise AccountingError(
                f"a release made for adjacency {made_for.value!r} is converted to {wanted.value!r} only if it is all "
                f"Gaussian; this one holds {basic!r}. Fit with adjacency={wanted.value!r}."
            )
    noises = offered(counts, "noise").items()
    return ComposedEvent(tuple(RepeatedEvent(GaussianEvent(0.5 * noise), times) for noise, times in noises))
