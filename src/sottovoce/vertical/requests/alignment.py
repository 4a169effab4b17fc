"""Whose rows a party takes: private set intersection, of which it is the server, and the people who are announced.

The intersection is by Diffie-Hellman on an elliptic curve. From the announcement on the party's table has the rows of
these people.

The client and the server each hold a set of identifiers. Both raise points of the curve P-256, into which SHA-256 maps
the identifiers, to secret powers::

    client -> server   request    H(x)^c for each x of the client and for decoys, shuffled
    server -> client   setup      H(y)^s for each y of the server, sorted (which shuffles them)
    server -> client   response   H(x)^cs, in the order of the request
    client             takes the power 1/c of the response and looks the H(x)^s up in the setup; a decoy that is there
                       shows that the server lies, and nothing is announced
    client -> server   announcement   the identifiers that shall be common, when all parties have been asked

**Who learns what**, if both follow the protocol (decisional Diffie-Hellman on the curve, H as a random oracle): the
client learns the intersection and the size of the server's set. The server learns the size of the client's set, and the
announced identifiers. Neither learns anything else about the identifiers that the other holds.

**A server that lies** can let a point of the request be found that it does not hold. Decoys are texts that the client
made up for this request and nobody can guess: of m points that are found so, none is a decoy with a chance of at most
(1 - m / points of the request)^decoys, and `decoys_for` makes the expected number of people whom a liar is told of
falsely less than two.

**Not covered**: a client that asks for identifiers it does not hold (it learns which of its guesses the server holds);
sizes; timing. Each object draws a new key from the operating system: make one
for each run and each pair of parties. Proof and limits: docs/privacy/alignment.md.

The sets are compared as full points: there is no false-positive rate. Two identifiers are taken for one only if SHA-256
collides, and then the announcement is refused by the party that does not hold what is announced.

References
----------
.. [1] Meadows (1986). A more efficient cryptographic matchmaking protocol. IEEE Symposium on Security and Privacy.
.. [2] Angelou, Benaissa, Cebere, et al. (2020). Asymmetric Private Set Intersection with Applications to Contact
   Tracing and Private Vertical Federated Machine Learning. arXiv:2011.09350 (what openmined-psi implements).
"""

import json
import secrets
import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sottovoce.exceptions import DataError, ParameterError
from sottovoce.vertical.protocol import Answered, PartyFacts, RefusalError, Request
from sottovoce.vertical.wire import Done, Payload

POINT_BYTES: Final = 35  # of a point in a message
_HEAD_BYTES: Final = 64  # of a message beside its points, at most
_REMEDY: Final = "Run the alignment again; both sides need the same version of sottovoce."


def decoys_for(n_people: int) -> int:
    """Return how many decoys a request about so many people has; whoever answers it can tell neither from the other.

    A liar that lets m points be found is caught but for a chance of (1 - m / (n + d))^d, so that it is told of at most
    (n + d) / (d + 1) (1 + 1 / d)^-d people falsely, in expectation, whatever m: below 2 for every n.
    """
    return 128 + n_people // 4


class PsiClient:
    """The party that learns the intersection of its own set.

    ``identifiers``: those of `usable_identifiers`, or what `read_announcement` has returned: texts, each once.
    ``n_server`` is the size of the server's set, once its setup has been read.
    """

    n_server: int = 0

    def __init__(self, identifiers: Sequence[str]) -> None:
        self._psi = library()
        self._identifiers = list(identifiers)
        self._asked = [*self._identifiers, *(secrets.token_hex(32) for _ in range(decoys_for(len(self._identifiers))))]
        self._order = list(range(len(self._asked)))
        secrets.SystemRandom().shuffle(self._order)  # or the order of the request would tell the order of the rows
        self._cipher = self._psi.client.CreateWithNewKey(True)

    def request(self) -> bytes:
        """Return the message that `PsiServer.respond` answers."""
        message = self._cipher.CreateRequest([self._asked[place] for place in self._order])
        return bytes(message.SerializeToString())

    def read_setup(self, setup: bytes, most: int | None = None) -> Any:
        """Return the server's set; a `DataError` if it is none, repeats a point, or has more points than ``most``."""
        if most is not None and len(setup) > most * POINT_BYTES + _HEAD_BYTES:
            raise DataError(f"the setup message has {len(setup):,} bytes, more than {most:,} people need.")
        server_set = _read("setup", setup, self._psi.ServerSetup)
        if server_set.WhichOneof("data_structure") != "raw":
            raise DataError(f"the setup message holds no full points, so it would admit false positives. {_REMEDY}")
        self.n_server = len(server_set.raw.encrypted_elements)
        _check_distinct("setup", server_set.raw.encrypted_elements)
        return server_set

    def intersect(self, setup: bytes, response: bytes) -> npt.NDArray[np.int64]:
        """Return which of the client's identifiers the server holds: places in the client's sequence, ascending.

        A `DataError` says that a message cannot be read or is not for this request, or that the server says that it
        holds a decoy.
        """
        server_set = self.read_setup(setup)
        if isinstance(response, bytes) and len(response) > len(self._order) * POINT_BYTES + _HEAD_BYTES:
            raise DataError(f"the response has {len(response):,} bytes, more than {len(self._order):,} points need.")
        answer = _read("response", response, self._psi.Response)
        if len(answer.encrypted_elements) != len(self._order):
            raise DataError(
                f"the response is for {len(answer.encrypted_elements)} points, the request had {len(self._order)}. "
                f"{_REMEDY}"
            )
        _check_distinct("response", answer.encrypted_elements)
        try:
            found = self._cipher.GetIntersection(server_set, answer)
        except RuntimeError:
            raise DataError(f"the response holds what is not a point of the curve. {_REMEDY}") from None
        places = np.sort(np.array(self._order, np.int64)[np.array(found, np.int64)])
        if places.size and places[-1] >= len(self._identifiers):
            raise DataError(
                "it says that it holds people who were made up for this request and whom nobody knows, so it does not "
                "follow the protocol. It was told of nobody; do not run the alignment again before you know why."
            )
        return places


class PsiServer:
    """The party that answers, and learns only the size of the client's set and what is announced."""

    def __init__(self, identifiers: Sequence[str]) -> None:
        self._psi = library()
        self._identifiers = list(identifiers)
        self._cipher = self._psi.server.CreateWithNewKey(True)

    def setup(self) -> bytes:
        # full points have no false-positive rate, nor do they depend on the client's number: both are formalities
        message = self._cipher.CreateSetupMessage(0.0, 1, self._identifiers, self._psi.DataStructure.RAW)
        return bytes(message.SerializeToString())

    def respond(self, request: bytes) -> bytes:
        """Return the answer to `PsiClient.request`; a `DataError` if that cannot be read."""
        message = _read("request", request, self._psi.Request)
        try:
            return bytes(self._cipher.ProcessRequest(message).SerializeToString())
        except RuntimeError:
            raise DataError(f"the request is damaged, or asks for a size only. {_REMEDY}") from None


def announce(identifiers: Sequence[str]) -> bytes:
    """Return the message that tells every party the common identifiers, sorted: a JSON list of texts in UTF-8."""
    return json.dumps(sorted(identifiers), ensure_ascii=False, separators=(",", ":")).encode()


def read_announcement(announcement: bytes) -> list[str]:
    """Return the identifiers that `announce` wrote.

    A `DataError` says that it is no list of texts, or one that is not sorted; it follows from the message alone.
    """
    try:
        common = json.loads(announcement)
    except (ValueError, TypeError, RecursionError):
        common = None
    if not isinstance(common, list) or not all(isinstance(text, str) for text in common) or not _has_bytes(common):
        raise DataError(f"the announcement is not a list of texts. {_REMEDY}")
    if not all(first < second for first, second in pairwise(common)):
        raise DataError(f"the announcement is not sorted, or repeats an identifier. {_REMEDY}")
    return common


def n_asked(request: bytes) -> int:
    """Return how many points `PsiServer.respond` is asked about; one that repeats counts once."""
    return len(set(_read("request", request, library().Request).encrypted_elements))


def _check_distinct(name: str, points: Sequence[bytes]) -> None:
    if len(set(points)) < len(points):
        raise DataError(f"the {name} message repeats a point. {_REMEDY}")


def _has_bytes(texts: Sequence[str]) -> bool:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True


def _read(name: str, message: bytes, kind: Any) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return kind.FromString(message)
    except (DecodeError, TypeError):
        raise DataError(f"the {name} message cannot be read. {_REMEDY}") from None


def library() -> Any:
    """Return the package behind the roles; it is optional, and where it is missing this is a `ParameterError`."""
    try:
        with warnings.catch_warnings(action="ignore"):  # protobuf's remarks about its age help no caller
            import private_set_intersection.python as psi
    except ImportError:
        raise ParameterError(
            "private set intersection needs the package openmined-psi: install sottovoce[vertical]. It exists for "
            "Python 3.11 to 3.13, on Linux (x86_64, glibc 2.35 or newer) and macOS (arm64)."
        ) from None
    return psi


# ------------------------------------------------------------------ the requests

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
