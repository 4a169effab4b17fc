"""One thread that writes: reports that wait at the same time share one transaction, and one write to the disk."""

import asyncio
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
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
    """Writes reports in groups.

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
        self._changed = threading.Condition()
        self._waiting: deque[_Submission] = deque()
        self._n_waiting = 0
        self._refused: Counter[str] = Counter()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="report-writer", daemon=True)

    def start(self) -> None:
        """Start the thread, from within the event loop that will call `write`."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive() and not self._closing

    async def write(self, rows: Sequence[Row]) -> list[Outcome] | Reason:
        """Return what became of the rows once they are on the disk, or why none of them could be written."""
        submission = _Submission(rows, self._loop.create_future())
        with self._changed:
            if self._closing or self._n_waiting + len(rows) > self._max_waiting:
                return Reason.BUSY
            self._waiting.append(submission)
            self._n_waiting += len(rows)
            self._changed.notify()
        return await submission.future

    def count_refused(self, reason: str) -> None:
        """Count a refused report; the database has it within about a second."""
        with self._changed:
            self._refused[reason] += 1
            if self._refused.total() == 1:
                self._changed.notify()

    def unwritten_refusals(self) -> dict[str, int]:
        with self._changed:
            return dict(self._refused)

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        counts_due = 0.0
        while True:
            with self._changed:
                while not self._waiting and not self._closing:
                    left = counts_due - time.monotonic()
                    if self._refused and left <= 0:
                        break
                    self._changed.wait(left if self._refused else None)
                group = self._take_group()
                closing = self._closing
            if group:
                self._write(group)
            if time.monotonic() >= counts_due or (closing and not group):
                self._write_counts()
                counts_due = time.monotonic() + _COUNTS_EVERY
            if closing and not group:
                return

    def _take_group(self) -> list[_Submission]:
        group: list[_Submission] = []
        size = 0
        while self._waiting and (not group or size + len(self._waiting[0].rows) <= self._max_group):
            group.append(self._waiting.popleft())
            size += len(group[-1].rows)
        self._n_waiting -= size
        return group

    def _write(self, group: list[_Submission]) -> None:
        outcomes: list[Outcome] | Reason
        try:
            outcomes = self._store.insert([row for submission in group for row in submission.rows])
        except Exception as error:
            # the class alone: a message of a database may quote what was to be stored
            _log.error("reports could not be written: %s", type(error).__name__)
            outcomes = Reason.UNAVAILABLE
        with suppress(RuntimeError):  # the event loop is gone, and nobody waits any more
            self._loop.call_soon_threadsafe(_resolve, group, outcomes)

    def _write_counts(self) -> None:
        with self._changed:
            counts, self._refused = self._refused, Counter()
        if not counts:
            return
        try:
            self._store.add_refusals(counts)
        except Exception as error:
            _log.error("counts of refused reports could not be written: %s", type(error).__name__)
            with self._changed:
                self._refused.update(counts)


def _resolve(group: list[_Submission], outcomes: list[Outcome] | Reason) -> None:
    start = 0
    for submission in group:
        end = start + len(submission.rows)
        if not submission.future.done():  # the request may have given up
            submission.future.set_result(outcomes if isinstance(outcomes, Reason) else outcomes[start:end])
        start = end
