"""Threads for the kernels: plain Python threads on disjoint row ranges (the kernels release the interpreter lock).

No threading layer of numba is involved, so that two fits may run at once and a process may fork at any time between
fits. The integer sums of the kernels are exact, so the number of threads never changes a result.

Products of numpy and scipy take one thread while ours are at work, and in a fit of few columns: a thread of theirs that
was woken for a tenth of a millisecond turns idly for many more, and our own wait for each other there.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import cache
from threading import RLock
from typing import Any, TypeVar, cast

import numpy as np
import scipy.linalg  # noqa: F401 - what is loaded later is not found by the first who looks for libraries
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from sottovoce._validation import whole_number
from sottovoce.exceptions import ParameterError

S = TypeVar("S", bound=np.generic)

# Entries of a thread below which waking it costs more than it saves: it takes some 30 microseconds, or a few hundred
# where the processor is busy. What is done for a row beside its entries counts as so many of them.
_SMALL = 1_000_000
_A_ROW = 16.0

_blas = cache(lambda: ThreadpoolController().select(user_api="blas"))


class _Limit:
    """Who asks for products of one thread, and what the numbers were before the first who does."""

    def __init__(self) -> None:
        self.n_asking, self.before = 0, cast(Any, None)
        self.renew()

    def renew(self) -> None:
        self.lock = RLock()  # a collector may close a generator at any point


_LIMIT = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_LIMIT.renew)  # another thread may have held it


class Team:
    """Runs a kernel on row ranges, on as many threads as pay; ``ahead`` is one more thread, for reading from disk."""

    def __init__(
        self, n_threads: int, pool: ThreadPoolExecutor | None, ahead: ThreadPoolExecutor | None = None
    ) -> None:
        self.n_threads = n_threads
        self.ahead = ahead
        self._pool = pool

    def split(self, n_rows: int, work: float) -> list[tuple[int, int]]:
        """Return row ranges, one a thread: as many as have enough to do, for ``work`` entries that are touched."""
        parts = max(1, min(self.n_threads, int((work + _A_ROW * n_rows) / _SMALL)))
        return [(part * n_rows // parts, (part + 1) * n_rows // parts) for part in range(parts)]

    def run(self, task: Callable[[int, int, int], None], ranges: list[tuple[int, int]]) -> None:
        """Call ``task(part, lo, hi)`` for each range, the first in this thread; an error in any is raised here."""
        (lo, hi), *others = ranges
        with one_blas_thread() if others else nullcontext():
            pool: Any = self._pool
            futures = [pool.submit(task, part, *rows) for part, rows in enumerate(others, 1)]
            task(0, lo, hi)
            for future in futures:
                future.result()

    def total(
        self, task: Callable[[int, int, NDArray[S]], None], n_rows: int, work: float, zeros: NDArray[S]
    ) -> NDArray[S]:
        """Return the sum of what ``task(lo, hi, part)`` adds to ``part``, from ``zeros``, in each range of rows."""
        ranges = self.split(n_rows, work)
        parts = np.stack(len(ranges) * [zeros])
        self.run(lambda part, lo, hi: task(lo, hi, parts[part]), ranges)
        total: NDArray[S] = parts.sum(axis=0)
        return total


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Have numpy and scipy multiply on one thread, all over the process, until the last who asks for it has done."""
    with _LIMIT.lock:
        if not _LIMIT.n_asking:
            _LIMIT.before = _blas().limit(limits=1)
            _let_go()
        _LIMIT.n_asking += 1
    try:
        yield
    finally:
        with _LIMIT.lock:
            _LIMIT.n_asking -= 1
            if not _LIMIT.n_asking:
                _LIMIT.before.restore_original_limits()
                _let_go()


def _let_go() -> None:
    """Let any thread set the numbers next, not only this one, which has set them."""
    with _blas().limit(limits=None):
        pass


@contextmanager
def team(n_threads: int | None = None) -> Iterator[Team]:
    """Open a team of ``n_threads`` (default: ``SOTTOVOCE_NUM_THREADS``, else the processors of this process)."""
    if n_threads is None:
        n_threads = default_threads()
    with (
        ThreadPoolExecutor(n_threads, thread_name_prefix="sottovoce") as pool,  # threads start when they are needed
        ThreadPoolExecutor(1, thread_name_prefix="sottovoce-ahead") as ahead,
    ):
        yield Team(n_threads, pool if n_threads > 1 else None, ahead)


def default_threads() -> int:
    text = os.environ.get("SOTTOVOCE_NUM_THREADS")
    if text is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not text.strip().isdigit():
        raise ParameterError(f"SOTTOVOCE_NUM_THREADS must be a whole number >= 1; got {text!r}.")
    return whole_number("SOTTOVOCE_NUM_THREADS", int(text), at_least=1)
