"""Messages by which a party takes the people whom all parties hold, in their common order.

The party is the server of private set intersection; from then on its table has the rows of these people.
"""

from typing import Any, Final

import numpy as np

from sottovoce.exceptions import DataError
from sottovoce.vertical.protocol import Answered, PartyFacts, RefusalError, Request
from sottovoce.vertical.protocols.alignment.psi import (
    POINT_BYTES,
    PsiServer,
    decoys_for,
    library,
    n_asked,
    read_announcement,
)
from sottovoce.vertical.wire import Done, Payload

MOST_ASKED: Final = 5_000_000  # points of one request: each costs the party 0.1 ms
_LACKING: Final = "the announcement holds people whom it lacks. Run the alignment again"  # the same for one and for all


class Intersect(Request, code=109):
    """The coordinator's points, of a private set intersection whose server the party is, under a new key.

    The answer is the party's set, sorted, as points under its key, and then the coordinator's points under its key too,
    in their order; and as a number how many bytes the first of both has.
    """

    points: bytes

    def answer(self, facts: PartyFacts, worker: Any) -> Answered[Payload]:
        _need_people(facts)
        library()
        if len(self.points) > MOST_ASKED * POINT_BYTES:
            raise RefusalError(f"it is asked about at most {MOST_ASKED:,} people at once; this is more")
        least = facts.least_people + decoys_for(facts.least_people)
        points = n_asked(self.points)
        if points < least:
            raise RefusalError(
                f"it is asked about at least {facts.least_people:,} people at once, {least:,} points with the decoys; "
                f"these are {points:,}"
            )
        desk = yield None
        server = PsiServer(desk.identifiers().texts.to_pylist())
        try:
            response = server.respond(self.points)
        except DataError as error:  # it follows from the request
            raise RefusalError(str(error)) from None
        setup = server.setup()
        return Payload(np.array([len(setup)]), setup + response)


class AlignTo(Request, code=84):
    """Announce the people in common (a JSON list of texts, sorted): the party has their rows only, in that order."""

    people: bytes

    def answer(self, facts: PartyFacts, worker: Any) -> Answered[Done]:
        _need_people(facts)
        people = read_announcement(self.people)
        if len(people) < facts.least_people:
            raise RefusalError(f"it is aligned to at least {facts.least_people:,} people; these are {len(people):,}")
        desk = yield None
        rows = desk.identifiers().rows_of(people)
        if rows is None:  # the coordinator knows them by name: whether all are there is all that it is told
            raise RefusalError(_LACKING)
        desk.aligned = people, rows
        return Done()


def _need_people(facts: PartyFacts) -> None:
    if not facts.has_ids:
        raise RefusalError("it was given no identifiers to be aligned by: its rows are aligned already")
