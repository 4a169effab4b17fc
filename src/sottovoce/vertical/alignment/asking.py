"""The client of private set intersection asks one server after the other, wherever they are."""

from collections.abc import Iterable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sottovoce.exceptions import DataError, PartyError
from sottovoce.vertical.protocols.alignment.psi import PsiClient

__all__ = ["Server", "held_by_all"]


class Server(Protocol):
    """A server that is asked once."""

    @property
    def name(self) -> str:
        """Of the party."""
        ...

    @property
    def most(self) -> int:
        """Rows of its whole table, as it said."""
        ...

    def setup(self) -> bytes:
        """Return its set as encrypted points."""
        ...

    def respond(self, request: bytes) -> bytes:
        """Answer the client's request."""
        ...


def held_by_all(
    identifiers: list[str], servers: Iterable[Server], least: int = 1
) -> tuple[npt.NDArray[np.int64], list[tuple[int, int]]]:
    """Find the client's identifiers that all servers hold.

    Each server is asked about those that are left, under new keys; once fewer than ``least`` are left, or a server
    holds fewer, nobody is asked about them any more.

    Parameters
    ----------
    identifiers : list of str
        Private. The client's set in canonical form, without repetitions.
    servers : iterable of Server
    least : int

    Returns
    -------
    places : ndarray of int64
        Of the common identifiers, in the order of their texts.
    sizes : list of (int, int)
        For each server that was asked the size of its set, and how many identifiers were left after it.

    Raises
    ------
    PartyError
        If a server does not follow the protocol, as far as that can be seen; it was told of nobody.
    """
    common = np.arange(len(identifiers))
    sizes = []
    for server in servers:
        if common.size < least:
            break
        client = PsiClient([identifiers[place] for place in common])
        setup = server.setup()
        try:
            client.read_setup(setup, server.most)
            enough = client.n_server >= least
            common = common[client.intersect(setup, server.respond(client.request()))] if enough else common[:0]
        except DataError as error:
            raise PartyError(f"party {server.name!r} sent what is no part of an intersection: {error}") from None
        sizes.append((client.n_server, len(common)))
    return np.array(sorted(common, key=lambda place: identifiers[place]), np.int64), sizes
