"""Which partitions a table has, and which keeper has them now: placed, and rebuilt elsewhere when a worker is lost."""

import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from types import NoneType

from sottovoce.cluster.dask_pool import DaskPool
from sottovoce.cluster.keeper import Answer, Call, Lost, Places, Worker, raise_first
from sottovoce.cluster.sources import Source
from sottovoce.exceptions import ClusterError, DataError

_PAUSE = 0.2  # seconds between two looks for a worker


class Partitions:
    """The partitions of a table, in the order of their rows.

    ``sources``: one for each partition.
    ``max_rebuilds``: how often in a row a partition may be lost with its worker before it gives an answer.
    ``wait_for_workers``: seconds to wait for a worker when there is none.
    ``n_rebuilt``: partitions that were rebuilt so far.
    """

    def __init__(
        self, pool: DaskPool, sources: Sequence[Source], *, max_rebuilds: int = 5, wait_for_workers: float = 60.0
    ) -> None:
        self.pool, self.sources = pool, list(sources)
        self.max_rebuilds, self.wait_for_workers = max_rebuilds, wait_for_workers
        self._keepers: dict[str, str] = {}  # the worker of each
        self._homes: dict[int, str] = {}  # the keeper of each partition
        self._digests: dict[int, str] = {}  # from the first reading on
        self._losses = dict.fromkeys(range(len(self.sources)), 0)  # in a row
        self._why = ""  # the last keeper was lost
        self.n_rebuilt = 0

    @property
    def places(self) -> Places:
        return tuple(range(len(self.sources)))

    @property
    def n_workers(self) -> int:
        return len({self._keepers[keeper] for keeper in self._homes.values()})

    @property
    def first_rows(self) -> list[int]:
        return [0, *accumulate(source.n_rows for source in self.sources[:-1])]

    def settle(self, places: Iterable[int] | None = None) -> None:
        """See to it that partitions are held by somebody; read those that are not.

        Raises ClusterError if there is no worker, or a partition is lost again and again.
        Raises DataError if rows cannot be read, or are not those that were read at first.
        """
        wanted = self.places if places is None else tuple(places)
        while homeless := [place for place in wanted if place not in self._homes]:
            self._refuse_endless(homeless)
            placed = self._placed(homeless)
            answers = self._called({
                keeper: Call("load", ({place: self.sources[place] for place in own},)) for keeper, own in placed.items()
            })  # fmt: skip
            raise_first(answer for answer in answers.values() if isinstance(answer, Answer))
            for keeper, answer in answers.items():
                if isinstance(answer, Lost):
                    self.lost(keeper, answer, placed[keeper])
                    continue
                for place in placed[keeper]:
                    self._take(place, keeper, answer)

    def call(self, places: Collection[int], make: Callable[[Places], Call]) -> dict[Places, Answer | Lost]:
        """Call the keepers of some partitions, all at once, each for those that it has; who is lost loses them all.

        ``places``: all are held by somebody.
        ``make``: returns the call about some of them.
        """
        at: dict[str, list[int]] = {}
        for place in sorted(places):
            at.setdefault(self._homes[place], []).append(place)
        answers = self._called({keeper: make(tuple(own)) for keeper, own in at.items()})
        for keeper, answer in answers.items():
            if isinstance(answer, Lost):
                self.lost(keeper, answer)
        return {tuple(own): answers[keeper] for keeper, own in at.items()}

    def home(self, place: int) -> str | None:
        return self._homes.get(place)

    def worker_of(self, place: int) -> str | None:
        home = self._homes.get(place)
        return None if home is None else self._keepers[home]

    def answered(self, places: Iterable[int]) -> None:
        self._losses.update(dict.fromkeys(places, 0))

    def fault(self, keeper: str, what: str) -> ClusterError:
        """Return the error about an answer that a worker cannot have from its rows."""
        return ClusterError(
            f"the worker {self._keepers[keeper]} answered {what}. None of it was used. Its memory or its software is "
            "at fault, or whoever runs it: take it out of the cluster, and fit again. What was charged stays charged."
        )

    def lost(self, keeper: str, why: Lost, asked: Collection[int] = ()) -> None:
        """Never hear a keeper again; partitions that it had, or was asked to read, are held by nobody."""
        self._why = f"{self._keepers.pop(keeper)}: {why}"
        self.pool.forget(keeper)
        for place in [*asked, *(place for place, home in self._homes.items() if home == keeper)]:
            self._homes.pop(place, None)
            self._losses[place] += 1

    def close(self) -> None:
        for keeper in list(self._keepers):
            self.pool.forget(keeper)
        self._keepers, self._homes = {}, {}

    def _refuse_endless(self, places: list[int]) -> None:
        worst = max(places, key=lambda place: self._losses[place])
        if self._losses[worst] <= self.max_rebuilds:
            return
        raise ClusterError(
            f"partition {worst} of {self.sources[worst].n_bytes / 2**20:,.0f} MiB was lost {self._losses[worst]} times "
            f"in a row with the worker that held it, the last time with {self._why}. The usual reason is a worker that "
            "runs out of memory: give workers more memory, or make more and smaller partitions. Nothing was released "
            "twice; what was charged stays charged."
        )

    def _workers(self) -> list[Worker]:
        until = time.monotonic() + self.wait_for_workers
        while not (workers := self.pool.workers()):
            if time.monotonic() > until:
                raise ClusterError(
                    f"no worker of the cluster has been there for {self.wait_for_workers:g} seconds. Start workers and "
                    "fit again, or give a larger wait_for_workers. Nothing was released twice; what was charged stays "
                    "charged."
                )
            time.sleep(_PAUSE)
        return workers

    def _placed(self, places: list[int]) -> dict[str, list[int]]:
        threads: dict[str, int] = {}
        while not threads:
            keepers = {worker: keeper for keeper, worker in self._keepers.items()}
            for worker in self._workers():
                with suppress(Lost):
                    threads[keepers.get(worker.name) or self._start(worker.name)] = max(1, worker.threads)
            if not threads:
                time.sleep(_PAUSE)
        if len(places) == len(self.sources):
            return self._in_runs(threads)
        rows = dict.fromkeys(threads, 0.0)
        for place, home in self._homes.items():
            if home in rows:
                rows[home] += self.sources[place].n_rows / threads[home]
        load: dict[str, list[int]] = {}
        for place in places:
            keeper = min(rows, key=rows.__getitem__)  # of equal ones the first
            load.setdefault(keeper, []).append(place)
            rows[keeper] += self.sources[place].n_rows / threads[keeper]
        return load

    def _in_runs(self, threads: Mapping[str, int]) -> dict[str, list[int]]:
        """Give each keeper consecutive partitions: it then answers with one sum."""
        ends = list(accumulate(threads.values()))
        n_rows = [self.sources[place].n_rows for place in self.places]
        middles = [end - own / 2 for end, own in zip(accumulate(n_rows), n_rows, strict=True)]
        share, keepers = sum(n_rows) / ends[-1], list(threads)
        load: dict[str, list[int]] = {}
        for place, middle in enumerate(middles):
            k = min(bisect_left(ends, middle / share), len(ends) - 1)
            load.setdefault(keepers[k], []).append(place)
        return load

    def _start(self, worker: str) -> str:
        keeper = self.pool.start(worker)
        self._keepers[keeper] = worker
        return keeper

    def _called(self, calls: Mapping[str, Call]) -> dict[str, Answer | Lost]:
        answers = self.pool.call(calls)
        for keeper, answer in answers.items():
            whole = isinstance(answer, Answer) and isinstance(answer.error, (Exception, NoneType))
            if not (whole or isinstance(answer, Lost)):
                raise self.fault(keeper, f"{calls[keeper].method!r} with no answer of a keeper")
        return answers

    def _take(self, place: int, keeper: str, answer: Answer) -> None:
        digest = answer.value.get(place) if type(answer.value) is dict else None
        if type(digest) is not str:
            raise self.fault(keeper, f"with no digest of {self.sources[place]!r}")
        if self._digests.setdefault(place, digest) != digest:
            raise DataError(
                f"partition {place} ({self.sources[place]!r}) has other rows than when it was read at first: its "
                "source changed, or does not give the same rows twice. Training visits rows many times and is private "
                "only if they are the same each time: write them to Parquet files, let these be, and make a new "
                "DaskTable."
            )
        self.n_rebuilt += self._losses[place] > 0
        self._homes[place] = keeper
