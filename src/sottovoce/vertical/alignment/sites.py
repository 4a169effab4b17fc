"""Alignment of parties in different places: private set intersection over the messages of `protocols.alignment`."""

from collections.abc import Mapping, Sequence

from sottovoce.exceptions import DataError, ParameterError, PartyError
from sottovoce.vertical.alignment.aligned import AlignmentReport, AskedParty, PartyCounts
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import checked, helpers_among, read_public_facts
from sottovoce.vertical.party.party import Party
from sottovoce.vertical.protocols.alignment.messages import AlignTo, Intersect
from sottovoce.vertical.protocols.alignment.psi import PsiClient, announce
from sottovoce.vertical.wire import Done, Payload


def align_over(parties: Parties, *, client: str | None = None, people: Sequence[str] | None = None) -> AlignmentReport:
    """Align parties where they are: afterwards every one of them is the people in common, in one order.

    The client, who lives where the coordinator runs, asks the others one after the other by private set intersection
    (extra ``[vertical]``), and announces the people in common. Each party then has their rows only, for all sessions,
    until it is aligned anew; trainings on other rows end. The client's own rows follow last, so that its ``alignment``
    is set only when all are aligned. Rows without an identifier, and those whose identifier repeats, are left out, by
    each party at home.

    The keys are new in each run. A run that is to be resumed does this before what it repeats, keeps the people, and
    gives them the next time: they are announced again, without an intersection.

    Parameters
    ----------
    parties : Parties
        Each with identifiers.
    client : str or None
        A party in ``parties.here``. None takes the first one there.
    people : sequence of str or None
        Of an earlier alignment, in their canonical form, sorted.

    Returns
    -------
    AlignmentReport
        The rows of other parties are not known to the client: of them it has what the intersection tells.

    Raises
    ------
    DataError
        If nobody is in common, or fewer than the client's ``least_people``; nobody is announced then.
    PartyError
        If a party refuses or fails. Parties before it may be aligned already: run it again.
    ParameterError
        If there is no client with identifiers, or nobody else.
    """
    home = _client(parties, client)
    others = {name: rows for name, rows in _with_tables(parties).items() if name != home.name}
    if not others:
        raise ParameterError(f"an alignment needs at least two parties; there is {home.name!r} alone.")
    held = home.identifiers
    with parties.session() as talk:
        common, asked = list(people or ()), list[AskedParty]()
        if people is None:
            common, asked = _held_by_all(held.texts.to_pylist(), talk, others, home.least_people)
            if len(common) < home.least_people:
                raise _too_few(home, len(common), asked)
        announcement = announce(common)
        for name in others:
            talk.ask(name, AlignTo(announcement), Done)
        home.align(common)  # last of all
        sent = talk.uplink_bytes + talk.downlink_bytes
    counts = PartyCounts(home.name, held.n_rows, held.missing, held.repeated, len(held.rows) - len(common))
    return AlignmentReport("psi" if people is None else "kept", len(common), (counts,), tuple(asked), sent)


def _held_by_all(
    common: list[str], talk: Parties, others: Mapping[str, int], least: int
) -> tuple[list[str], list[AskedParty]]:
    """Return those of the client's identifiers that all servers hold, sorted, and what each server told.

    ``others``: the servers, with the rows of their whole tables.

    Each server is asked about those that are left, under new keys; once fewer than ``least`` are left nobody is asked
    about them any more. Raises `PartyError` if a server does not follow the protocol, as
    far as that can be seen; it was told of nobody.
    """
    asked = []
    for name, most in others.items():
        if len(common) < least:
            break
        client = PsiClient(common)
        told = talk.ask(name, Intersect(client.request()), Payload)
        setup = told.octets[: int(checked(name, told.numbers, 1)[0])]
        try:
            client.read_setup(setup, most)
            common = [common[place] for place in client.intersect(setup, told.octets[len(setup) :])]
        except DataError as error:
            raise PartyError(f"party {name!r} sent what is no part of an intersection: {error}") from None
        asked.append(AskedParty(name, client.n_server, len(common)))
    return sorted(common), asked


def _with_tables(parties: Parties) -> dict[str, int]:
    """Return all parties but the helpers, who have no people, with the rows of their whole tables, as they say."""
    with parties.session() as talk:
        facts = read_public_facts(talk)
    helpers = helpers_among(facts)
    return {name: facts[name].n_rows + facts[name].other_rows for name in parties.names if name not in helpers}


def _client(parties: Parties, name: str | None) -> Party:
    here = {each: party for each, party in parties.here.items() if isinstance(party, Party)}
    if not here:
        raise ParameterError("no party lives where the coordinator runs; one must, to ask the others about its people.")
    if name is None:
        name = next(each for each in parties.names if each in here)
    if name not in here:
        raise ParameterError(
            f"client must be a party that lives here, out of {', '.join(map(repr, here))}; got {name!r}."
        )
    if here[name].ids is None:
        raise ParameterError(f"party {name!r} has no identifiers to be aligned by: Party(..., ids=...).")
    return here[name]


def _too_few(home: Party, n_common: int, asked: Sequence[AskedParty]) -> DataError:
    steps = ", ".join(f"{each.left:,} after {each.name!r} with {each.identifiers:,} identifiers" for each in asked)
    steps = steps or f"{home.name!r} itself has no more that are there and do not repeat, and asked nobody"
    if n_common == 0:
        what = "nobody is in common"
    else:
        what = (
            f"{n_common:,} people are in common, and party {home.name!r} is aligned to at least {home.least_people:,}"
        )
    return DataError(
        f"{what} (left: {steps}). Check that the parties write identifiers alike: leading zeros, case and spaces count."
    )
