"""A pool of keepers in this process, whose workers die, hang and answer late when a test says so."""

import pickle
from collections.abc import Callable, Mapping
from itertools import count

from sottovoce.cluster.keeper import Answer, Call, Keeper, Lost, Worker

# what happens to a call: it is done; the worker dies before it, or after it and before its answer; the answer gets lost
# on the way and the call is made again; the worker hangs and does it after all, when it is lost for everybody
FATES = ("done", "before", "after", "again", "late")


class PartsPool:
    """Workers in this process; everything goes through pickle, as over a network.

    Parameters
    ----------
    n_workers : int
    fate : callable or None
        Says what happens to a call, from keeper and call: one of `FATES`.
    restart : bool
        Whether a new worker comes for one that died.
    """

    def __init__(
        self, n_workers: int = 2, fate: Callable[[str, Call], str] | None = None, *, restart: bool = True
    ) -> None:
        self._names = (f"worker-{k}" for k in count())
        self._alive = [next(self._names) for _ in range(n_workers)]
        self._keepers: dict[str, tuple[str, Keeper]] = {}
        self._fate = fate or (lambda keeper, call: "done")
        self._restart = restart
        self._numbers = count()
        self.late: list[tuple[Keeper, Call]] = []
        self.calls: list[tuple[str, Call]] = []

    def workers(self) -> list[Worker]:
        """Return the workers that are alive."""
        return [Worker(name, 1) for name in self._alive]

    def start(self, worker: str) -> str:
        """Start a keeper."""
        if worker not in self._alive:
            raise Lost("it is gone")
        name = f"{worker}/{next(self._numbers)}"
        self._keepers[name] = (worker, Keeper(1))
        return name

    def call(self, calls: Mapping[str, Call]) -> dict[str, Answer | Lost]:
        """Call keepers one by one."""
        return {keeper: self._one(keeper, call) for keeper, call in calls.items()}

    def forget(self, keeper: str) -> None:
        """Let go of a keeper."""
        self._keepers.pop(keeper, None)

    def kill(self, worker: str) -> None:
        """Let a worker die, with all that it holds."""
        if worker in self._alive:
            self._alive.remove(worker)
            if self._restart:
                self._alive.append(next(self._names))

    def worker_of(self, keeper: str) -> str:
        """Return where a keeper is."""
        return self._keepers[keeper][0]

    def _one(self, name: str, call: Call) -> Answer | Lost:
        worker, keeper = self._keepers[name]
        if worker not in self._alive:
            return Lost("it is gone")
        self.calls.append((name, call))
        call = pickle.loads(pickle.dumps(call))
        fate = self._fate(name, call)
        if fate == "before":
            self.kill(worker)
            return Lost("it died before")
        if fate == "late":  # it is still at work when it is held to be gone
            self.late.append((keeper, call))
            self.kill(worker)
            return Lost("it hangs")
        answer = getattr(keeper, call.method)(*call.arguments)
        if fate == "after":
            self.kill(worker)
            return Lost("it died after")
        if fate == "again":
            answer = getattr(keeper, call.method)(*call.arguments)
        sent: Answer = pickle.loads(pickle.dumps(answer))
        return sent
