"""What the collector counts, and what it tells of that: one picture, made anew at set moments, the same for all.

Requests are counted by kind: no address, no token, no path that a visitor made up.
"""

import asyncio
import math
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sottovoce._validation import number, whole_number
from sottovoce.local.collector.storage import ReportStore

BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds


@dataclass(frozen=True, slots=True)
class Pace:
    """Numbers are told rounded down to a multiple of ``step``, and change at set moments, ``seconds`` apart.

    An exact number that follows every report is a list of arrival times: whoever reads it each second, or stores it in
    a monitoring system, has written down what the collector never stores. This is thrift, not differential privacy:
    who sends nine reports and waits sees when the tenth has come, to within ``seconds``.

    ``seconds``: between two moments. They are whole multiples of it since 1970, so that several collectors on one
      database tell new numbers at the same time, and nobody learns more by asking them in turn.
    ``step``: 1 tells exact numbers.
    """

    seconds: float = 300.0
    step: int = 10

    def __post_init__(self) -> None:
        number("seconds", self.seconds, above=0.0)
        whole_number("step", self.step, at_least=1)

    @property
    def is_coarse(self) -> bool:
        """Whether at least ten reports, and a minute, lie behind each change."""
        return self.step >= 10 and self.seconds >= 60.0

    def __str__(self) -> str:
        step = "exact" if self.step == 1 else f"rounded down to a multiple of {self.step}"
        return f"{step}, new every {self.seconds:g} s"

    def rounded(self, count: int) -> int:
        return count - count % self.step

    def next_moment(self, now: float, *, not_before: float = 0.0) -> float:
        """Return the first moment after ``now`` that is not before another time, in seconds since 1970."""
        return self.seconds * max(math.floor(now / self.seconds) + 1, math.ceil(not_before / self.seconds))


class Picture(NamedTuple):
    """Numbers as they were at one moment, rounded down."""

    at: float  # seconds since 1970
    stored: int  # reports in the database
    refused: dict[str, int]  # reports that were refused, by reason, by all collectors on this database
    requests: dict[tuple[str, int], int]  # requests to this process, by path and status
    # how many requests with reports were answered within each of `BOUNDS`; the last one: in all
    within: tuple[int, ...]


class Counts:
    """The requests to this process since it started, and the last picture of them and of the database.

    ``unwritten``: returns refusals that the database does not have yet, by reason.
    ``paths``: those that are counted by name. All else, such as the files of a page, is "other".
    ``timed``: the path whose answers are timed.
    """

    def __init__(
        self,
        store: ReportStore,
        unwritten: Callable[[], Mapping[str, int]],
        pace: Pace,
        *,
        paths: Collection[str],
        timed: str,
    ) -> None:
        self.pace = pace
        self.picture: Picture | None = None  # None: the database did not answer
        self._store = store
        self._unwritten = unwritten
        self._paths = frozenset(paths)
        self._timed = timed
        self._requests: Counter[tuple[str, int]] = Counter()
        self._times = [0] * (len(BOUNDS) + 1)

    def count(self, path: str, status: int, seconds: float) -> None:
        name = path if path in self._paths else "other"
        self._requests[name, status] += 1
        if name == self._timed:
            self._times[bisect_left(BOUNDS, seconds)] += 1

    def watched(self, app: ASGIApp) -> ASGIApp:
        async def counting(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            began = time.perf_counter()
            status = 500  # of an error that comes before any answer: the layer outside of this one answers it

            async def noting(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                await send(message)

            try:
                await app(scope, receive, noting)
            finally:
                self.count(scope["path"], status, time.perf_counter() - began)

        return counting

    async def take(self) -> None:
        try:
            stored, refused = await asyncio.to_thread(lambda: (self._store.count(), self._store.refusals()))
        except Exception:  # why is for the log of the database
            self.picture = None
            return
        for reason, count in self._unwritten().items():
            refused[reason] = refused.get(reason, 0) + count
        rounded = self.pace.rounded
        self.picture = Picture(
            at=time.time(),
            stored=rounded(stored),
            refused={reason: told for reason, count in sorted(refused.items()) if (told := rounded(count))},
            requests={key: told for key, count in sorted(self._requests.items()) if (told := rounded(count))},
            within=tuple(map(rounded, accumulate(self._times))),
        )

    async def keep_taking(self) -> None:
        """Take a picture at every moment of the pace, for ever; to count many reports takes a while: not too often."""
        moment, took = 0.0, 0.0
        while True:
            now = time.time()
            if moment - now > self.pace.seconds:  # the clock was set back: numbers would stand still until it is there
                moment = 0.0
            moment = self.pace.next_moment(max(now, moment), not_before=now + 20.0 * took)
            await asyncio.sleep(moment - now)
            began = time.monotonic()
            await self.take()
            took = time.monotonic() - began
