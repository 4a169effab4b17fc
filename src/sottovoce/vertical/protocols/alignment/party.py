"""The party's side of an alignment: the server of private set intersection, and whose rows its table has."""

from typing import Final, Generic, TypeVar

from sottovoce.exceptions import DataError
from sottovoce.vertical.protocol import Desk, Handler, PartyFacts, RefusalError, Training, Uncharged
from sottovoce.vertical.protocols.alignment.messages import (
    AlignAgain,
    AlignRespond,
    AlignResponse,
    AlignSet,
    AlignSetup,
    AlignTo,
    AllRows,
)
from sottovoce.vertical.protocols.alignment.psi import (
    POINT_BYTES,
    PsiServer,
    decoys_for,
    library,
    n_asked,
    read_announcement,
)
from sottovoce.vertical.wire import Done, Message

__all__ = ["AlignAgainHandler", "AlignRespondHandler", "AlignSetupHandler", "AlignToHandler", "AllRowsHandler"]

MOST_ASKED: Final = 5_000_000  # points of one request: each costs the party 0.1 ms
_LACKING: Final = "the announcement holds people whom it lacks. Run the alignment again"  # the same for one and for all

Request = TypeVar("Request", bound=Message)


class _OfPeople(Handler[Request], Generic[Request]):
    """A request to a party that knows who its rows are; none of them costs anything."""

    def plan(self, facts: PartyFacts, training: Training, request: Request) -> None:
        if not facts.has_ids:
            raise RefusalError("it was given no identifiers to be aligned by: its rows are aligned already")


class AlignSetupHandler(_OfPeople[AlignSetup]):
    """The server's set, under a new key."""

    request = AlignSetup

    def plan(self, facts: PartyFacts, training: Training, request: AlignSetup) -> None:
        super().plan(facts, training, request)
        library()

    def run(self, desk: Desk, request: AlignSetup) -> AlignSet:
        server = PsiServer(desk.people.identifiers.texts.to_pylist())
        desk.training = Training(worker=server)
        return AlignSet(server.setup())


class AlignRespondHandler(_OfPeople[AlignRespond]):
    """The one answer of a server: its key is forgotten then."""

    request = AlignRespond

    def plan(self, facts: PartyFacts, training: Training, request: AlignRespond) -> None:
        super().plan(facts, training, request)
        training.open(PsiServer, request)
        if len(request.points) > MOST_ASKED * POINT_BYTES:
            raise RefusalError(f"it is asked about at most {MOST_ASKED:,} people at once; this is more")
        least = facts.least_people + decoys_for(facts.least_people)
        points = n_asked(request.points)
        if points < least:
            raise RefusalError(
                f"it is asked about at least {facts.least_people:,} people at once, {least:,} points with the decoys; "
                f"these are {points:,}"
            )

    def run(self, desk: Desk, request: AlignRespond) -> AlignResponse:
        server = desk.training.open(PsiServer, request)
        desk.training = Training()
        try:
            return AlignResponse(server.respond(request.points))
        except DataError as error:  # it follows from the request
            raise RefusalError(str(error)) from None


class AlignToHandler(_OfPeople[AlignTo]):
    """The announced people, in their order."""

    request = AlignTo

    def plan(self, facts: PartyFacts, training: Training, request: AlignTo) -> None:
        super().plan(facts, training, request)
        self._people = read_announcement(request.people)
        if len(self._people) < facts.least_people:
            raise RefusalError(
                f"it is aligned to at least {facts.least_people:,} people; these are {len(self._people):,}"
            )

    def run(self, desk: Desk, request: AlignTo) -> Done:
        return _take(desk, self._people)


class AlignAgainHandler(_OfPeople[AlignAgain]):
    """The people of an earlier alignment, in their order."""

    request = AlignAgain

    def run(self, desk: Desk, request: AlignAgain) -> Done:
        people = desk.people.kept(request.digest.hex())
        if people is None or len(people) < desk.facts.least_people:
            raise RefusalError("it keeps no alignment of that digest. Run the intersection")
        return _take(desk, people)


class AllRowsHandler(Uncharged[AllRows]):
    """The whole table; a party without identifiers has no other one."""

    request = AllRows

    def run(self, desk: Desk, request: AllRows) -> Done:
        desk.training = Training()
        desk.aligned = None, None
        return Done()


def _take(desk: Desk, people: list[str]) -> Done:
    """Align to these people, whom the coordinator knows by name: whether all are there is all that it is told."""
    rows = desk.people.identifiers.rows_of(people)
    if rows is None:
        raise RefusalError(_LACKING)
    desk.training = Training()
    desk.aligned = people, rows
    return Done()
