"""What the collector tells about numbers: one picture, made anew at set moments, the same for everybody who asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from sottovoce.local.collector.pace import Pace
from sottovoce.local.collector.storage import ReportStore
from sottovoce.local.collector.traffic import Traffic, TrafficSeen

__all__ = ["Picture", "Told"]


class Picture(NamedTuple):
    """Numbers as they were at one moment, rounded down.

    Attributes
    ----------
    at : float
        Seconds since 1970.
    stored : int
        Reports in the database.
    refused : dict
        Reports that were refused, by reason, by all collectors on this database.
    traffic : TrafficSeen
        The requests to this process.
    """

    at: float
    stored: int
    refused: dict[str, int]
    traffic: TrafficSeen


class Told:
    """The last picture.

    Parameters
    ----------
    store : ReportStore
    traffic : Traffic
    unwritten : callable
        Returns refusals that the database does not have yet, by reason.
    pace : Pace
    """

    def __init__(
        self, store: ReportStore, traffic: Traffic, unwritten: Callable[[], Mapping[str, int]], pace: Pace
    ) -> None:
        self.pace = pace
        self.picture: Picture | None = None  # None: the database did not answer
        self._store = store
        self._traffic = traffic
        self._unwritten = unwritten

    async def take(self) -> None:
        """Take a picture now."""
        try:
            stored, refused = await asyncio.to_thread(lambda: (self._store.count(), self._store.refusals()))
        except Exception:  # why is for the log of the database
            self.picture = None
            return
        for reason, count in self._unwritten().items():
            refused[reason] = refused.get(reason, 0) + count
        rounded = self.pace.rounded
        told = {reason: rounded(count) for reason, count in sorted(refused.items()) if rounded(count)}
        self.picture = Picture(time.time(), rounded(stored), told, self._traffic.seen(rounded))

    async def keep_taking(self) -> None:
        """Take a picture at every moment of the pace, for ever; to count many reports takes a while: not too often."""
        moment, took = 0.0, 0.0
        while True:
            now = time.time()
            moment = self.pace.next_moment(max(now, moment), not_before=now + 20.0 * took)
            await asyncio.sleep(moment - now)
            began = time.monotonic()
            await self.take()
            took = time.monotonic() - began
