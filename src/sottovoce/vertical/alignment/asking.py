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

    def setup(self) -> bytes:
        """Return its set as encrypted points."""
        ...

    def respond(self, request: bytes) -> bytes:
        """Answer the client's request."""
        ...


def held_by_all(
    identifiers: list[str], servers: Iterable[Server]
) -> tuple[npt.NDArray[np.int64], list[tuple[int, int]]]:
    """Find the client's identifiers that all servers hold.

    Each server is asked about those that are left, under new keys; once none is left, the others are not asked.

    Parameters
    ----------
    identifiers : list of str
        Private. The client's set in canonical form, without repetitions.
    servers : iterable of Server

    Returns
    -------
    places : ndarray of int64
        Of the common identifiers, in the order of their texts.
    sizes : list of (int, int)
        For each server that was asked the size of its set, and how many identifiers were left after it.
    """
    common = np.arange(len(identifiers))
    sizes = []
    for server in servers:
        client = PsiClient([identifiers[place] for place in common])
        setup = server.setup()
        response = server.respond(client.request())
        try:
            common = common[client.intersect(setup, response)]
        except DataError as error:
            raise PartyError(f"party {server.name!r} sent what is no part of an intersection: {error}") from None
        sizes.append((client.n_server, len(common)))
        if common.size == 0:
            break
    return np.array(sorted(common, key=lambda place: identifiers[place]), np.int64), sizes
