"""Requests, counted by kind: no address, no token, no path that a visitor made up."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["BOUNDS", "Traffic", "TrafficSeen", "watched"]

BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
_OTHER: Final = "other"


class TrafficSeen(NamedTuple):
    """The requests up to some moment.

    Attributes
    ----------
    requests : dict
        Numbers, by path and status.
    within : tuple of int
        How many requests with reports were answered within each of `BOUNDS`; the last one: in all.
    """

    requests: dict[tuple[str, int], int]
    within: tuple[int, ...]


class Traffic:
    """The numbers of this process since it started.

    Parameters
    ----------
    paths : collection of str
        Those that are counted by name. All else, such as the files of a page, is "other".
    timed : str
        The path whose answers are timed.
    """

    def __init__(self, paths: Collection[str], timed: str) -> None:
        self._paths = frozenset(paths)
        self._timed = timed
        self._requests: Counter[tuple[str, int]] = Counter()
        self._times = [0] * (len(BOUNDS) + 1)

    def count(self, path: str, status: int, seconds: float) -> None:
        name = path if path in self._paths else _OTHER
        self._requests[name, status] += 1
        if name == self._timed:
            self._times[bisect_left(BOUNDS, seconds)] += 1

    def seen(self, rounded: Callable[[int], int]) -> TrafficSeen:
        """Return the numbers, each rounded."""
        within, total = [], 0
        for count in self._times:
            total += count
            within.append(rounded(total))
        requests = {key: told for key, count in sorted(self._requests.items()) if (told := rounded(count))}
        return TrafficSeen(requests, tuple(within))


def watched(app: ASGIApp, traffic: Traffic) -> ASGIApp:
    """Return an application whose answers are counted."""

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
            traffic.count(scope["path"], status, time.perf_counter() - began)

    return counting
