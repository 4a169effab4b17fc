"""Where partitions may live. A pool starts keepers on workers, calls them, and says which are lost."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

from sottovoce.cluster.keeper import Answer


class Worker(NamedTuple):
    """A process that may hold partitions."""

    name: str
    threads: int
    memory_limit: int = 0  # bytes; 0 where there is none


class Call(NamedTuple):
    """A method of `sottovoce.cluster.keeper.Keeper`, and its arguments."""

    method: str
    arguments: tuple[Any, ...]


class Lost(Exception):  # noqa: N818 - it is no error: partitions are rebuilt elsewhere
    """A keeper is gone, or has not answered for so long that it is held to be gone. Its name is never used again."""


class Pool(ABC):
    """Workers, and the keepers that were started on them. A keeper has a name that is used once: its incarnation."""

    @abstractmethod
    def workers(self) -> list[Worker]:
        """Return the workers that are alive now, in an order that does not change.

        Raises ClusterError if nobody can say: there is no scheduler any more.
        """

    @abstractmethod
    def start(self, worker: str) -> str:
        """Start a `Keeper` on a worker, and return its name.

        Raises Lost if the worker is gone.
        """

    @abstractmethod
    def call(self, calls: Mapping[str, Call]) -> dict[str, Answer | Lost]:
        """Call several keepers at once; return what each answered, or that it is lost.

        A call may be delivered twice, and a keeper that is said to be lost may still be at work: whoever calls numbers
        what must be done once, and never calls a lost one again.
        """

    @abstractmethod
    def forget(self, keeper: str) -> None:
        """Let go of a keeper; whatever it says later is heard by nobody."""
