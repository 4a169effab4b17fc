"""The parties that a user gives: a list or `Parties`, in one order, seeded for one session, with their parts."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce._entries import entries
from sottovoce._validation import choice
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.randomness import Purpose, Streams
from sottovoce.vertical.alignment.aligned import AlignedParties
from sottovoce.vertical.coordinator.parties import InProcessParties, Parties
from sottovoce.vertical.party.party import Party
from sottovoce.vertical.protocol import Part
from sottovoce.vertical.protocols.alignment.identifiers import canonical_identifiers
from sottovoce.vertical.protocols.exact.plan import own_model_name


def as_parties(parties: Any) -> Parties:
    """Return parties as `Parties`; a list of `Party` objects is of this process."""
    if isinstance(parties, Sequence) and parties and all(isinstance(party, Party) for party in parties):
        parties = InProcessParties(parties)
    if not isinstance(parties, Parties):
        raise ParameterError(
            f"parties must be Parties or a non-empty list of Party objects; got {type(parties).__name__}."
        )
    if not isinstance(parties, AlignedParties):
        _check_order(owned(parties))
    return parties


def owned(parties: Parties) -> dict[str, Party]:
    return {name: party for name, party in parties.here.items() if isinstance(party, Party)}


def _check_order(parties: Mapping[str, Party]) -> None:
    """Refuse parties whose identifiers, where they have any, say that row i is not the same person everywhere."""
    first: tuple[str, Any] = ("", None)
    for name, party in parties.items():
        if party.ids is None:
            continue
        ids = canonical_identifiers(f"ids of party {name!r}", party.ids)
        if first[1] is None:
            first = (name, ids)
        elif not ids.equals(first[1]):
            raise DataError(
                f"parties {first[0]!r} and {name!r} hold different identifiers, or in another order: align them first, "
                "with sottovoce.vertical.align."
            )


@contextmanager
def seeded_for_session(parties: Parties, streams: Streams, session: bytes) -> Iterator[bool]:
    """Give every party in this process a seed of its own for one session; tell whether any noise can be repeated."""
    here = list(owned(parties).values())
    if not streams.seeded:
        yield any(party.is_seeded for party in here)
        return
    seeds = streams.generator(Purpose.SHUFFLING).integers(2**63, size=len(here))
    with ExitStack() as stack:
        for party, seed in zip(here, seeds, strict=True):
            stack.enter_context(party.seeded(int(seed), session=session))
        yield True


def kept_parts(parties: Parties, model: str, holder: str) -> tuple[dict[str, Part], Part | None]:
    """Return what each party keeps, in one process, and the label holder's own model; elsewhere both stay there."""
    here = owned(parties)
    parts = {name: party.parts[model] for name, party in here.items() if party.keeps(model)}
    return parts, here[holder].parts.get(own_model_name(model)) if holder in here else None


def hand_out(parties: Parties, model: str, holder: str, parts: Mapping[str, Part], local: Part | None) -> None:
    """Give the parties in this process what `kept_parts` returned."""
    here = owned(parties)
    for name, party in here.items():
        if name in parts:
            party.adopt(model, parts[name])
    if local is not None and holder in here:
        here[holder].adopt(own_model_name(model), local)


def label_holder(given: str | None, parties: Parties) -> str:
    """Return who holds the labels: who is named, else the one party that was made with some, else the first."""
    if given is not None:
        return choice("label_holder", given, parties.names)
    holders = [name for name, party in owned(parties).items() if party.y is not None]
    if len(holders) > 1:
        raise ParameterError(
            f"parties {', '.join(map(repr, holders))} all hold labels: say whose with label_holder=..."
        )
    if holders:
        return holders[0]
    here = owned(parties)
    return next((name for name in parties.names if name not in here or not here[name].is_helper), parties.names[0])


def own_labels(parties: Parties, holder: str, y: ArrayLike | None) -> Any:
    """Return the labels that the party itself holds, or None; refuse a training without any. Nothing is read."""
    party = owned(parties).get(holder)
    own = None if party is None else party.y
    if own is None and y is None:
        raise ParameterError(f"y is missing: give the labels, or make the party {holder!r} with y=...")
    return own


def labels_of(parties: Parties, holder: str, y: ArrayLike | None) -> NDArray[Any]:
    """Return the labels, given or held; where they are both, they must be the same."""
    own = own_labels(parties, holder, y)
    if own is None or y is None:
        return entries(own if y is None else y)
    given = entries(y)
    if not np.array_equal(given, own):
        raise DataError(
            f"y is given twice, and is not the same: party {holder!r} was made with y=... too. Give it once; aligned "
            "parties put their own in order."
        )
    return given


def check_length(y: ArrayLike, n_rows: int) -> None:
    if np.shape(y) != (n_rows,):
        raise DataError(f"y must hold one label for each of {n_rows} rows; got the shape {np.shape(y)}.")
