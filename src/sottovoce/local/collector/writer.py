"""One task that writes: reports that wait at the same time share one transaction, and one write to the disk."""

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, NamedTuple

from sottovoce.local.collector.answers import Reason
from sottovoce.local.collector.storage import Outcome, ReportStore, Row

_log = logging.getLogger(__name__)

_COUNTS_EVERY: Final = 1.0  # seconds between two writes of the refusal counts


class _Submission(NamedTuple):
    rows: Sequence[Row]
    future: asyncio.Future[list[Outcome] | Reason]


class GroupWriter:
    """Writes reports in groups; its state is the event loop's, and a thread of its own waits for the disk.

    While one group goes to the disk, the next one gathers: nothing waits longer than needed, and the more arrives, the
    more reports share a transaction.

    ``store``: used by the writing thread alone.
    ``max_group``: rows in one transaction, at most (a larger submission is written whole).
    ``max_waiting``: rows that wait, at most.
    """

    def __init__(self, store: ReportStore, *, max_group: int = 2_000, max_waiting: int = 20_000) -> None:
        self._store = store
        self._max_group = max_group
        self._max_waiting = max_waiting
        self._changed = asyncio.Event()
        self._waiting: deque[_Submission] = deque()
        self._n_waiting = 0
        self._refused: Counter[str] = Counter()
        self._closing = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="report-writer")

    def start(self) -> None:
        """Begin to write, from within the event loop that will call `write`."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        self._closing = True
        self._changed.set()
        await self._task
        self._thread.shutdown()

    @property
    def is_alive(self) -> bool:
        return not (self._closing or self._task.done())

    async def write(self, rows: Sequence[Row]) -> list[Outcome] | Reason:
        """Return what became of the rows once they are on the disk, or why none of them could be written."""
        if self._closing or self._n_waiting + len(rows) > self._max_waiting:
            return Reason.BUSY
        submission = _Submission(rows, asyncio.get_running_loop().create_future())
        self._waiting.append(submission)
        self._n_waiting += len(rows)
        self._changed.set()
        return await submission.future

    def count_refused(self, reason: str) -> None:
        """Count a refused report; the database has it within about a second."""
        self._refused[reason] += 1
        self._changed.set()

    def unwritten_refusals(self) -> dict[str, int]:
        return dict(self._refused)

    async def _run(self) -> None:
        counts_due = 0.0
        while self._waiting or not self._closing:
            if not self._waiting:
                self._changed.clear()
                left = max(0.0, counts_due - time.monotonic()) if self._refused else None
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await self._changed.wait()
            if group := self._take_group():
                await self._write(group)
            if time.monotonic() >= counts_due:
                await self._write_counts()
                counts_due = time.monotonic() + _COUNTS_EVERY
        await self._write_counts()

    def _take_group(self) -> list[_Submission]:
        group: list[_Submission] = []
        size = 0
        while self._waiting and (not group or size + len(self._waiting[0].rows) <= self._max_group):
            group.append(self._waiting.popleft())
            size += len(group[-1].rows)
        self._n_waiting -= size
        return group

    async def _write(self, group: list[_Submission]) -> None:
        rows, in_thread = [row for each in group for row in each.rows], asyncio.get_running_loop().run_in_executor
        outcomes: list[Outcome] | Reason
        try:
            outcomes = await in_thread(self._thread, self._store.insert, rows)
        except Exception as error:
            # the class alone: a message of a database may quote what was to be stored
            _log.error("reports could not be written: %s", type(error).__name__)
            outcomes = Reason.UNAVAILABLE
        start = 0
        for each in group:
            end = start + len(each.rows)
            if not each.future.done():  # the request may have given up
                each.future.set_result(outcomes if isinstance(outcomes, Reason) else outcomes[start:end])
            start = end

    async def _write_counts(self) -> None:
        counts, self._refused = self._refused, Counter()
        if not counts:
            return
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._store.add_refusals, counts)
        except Exception as error:
            _log.error("counts of refused reports could not be written: %s", type(error).__name__)
            self._refused.update(counts)
