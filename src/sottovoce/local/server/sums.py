"""From seeds and indices to sums: compiled candidates in blocks on threads, and a symmetric product a block."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.central.parallel import team
from sottovoce.local.fits.kernels import fill
from sottovoce.local.fits.moments import Moments

__all__ = ["add_reports", "fold_of"]

_BLOCK_ENTRIES: Final = 1 << 18  # 2 MB of candidates a thread at a time
_FOLD_MIX: Final = np.uint64(0xD6E8FEB86659FD93)  # an odd number that the candidates' stream does not use


def fold_of(seeds: NDArray[np.uint64], n_folds: int) -> NDArray[np.int64]:
    """Return the fold of each report: a hash of its seed, whatever order the reports come in."""
    mixed = np.asarray(seeds, np.uint64) * _FOLD_MIX
    mixed ^= mixed >> np.uint64(32)
    mixed *= _FOLD_MIX
    return ((mixed >> np.uint64(40)) % np.uint64(n_folds)).astype(np.int64)


def add_reports(
    moments: Moments, seeds: NDArray[np.uint64], indices: NDArray[np.uint16], n_threads: int | None = None
) -> None:
    """Add the candidates of reports to the sums of their folds.

    ``seeds``, ``indices``: arrays of shape (n,).
    ``n_threads``: by default ``SOTTOVOCE_NUM_THREADS``, else the processors of this process.
    """
    d, n_folds = moments.d, moments.n_folds
    folds = fold_of(seeds, n_folds)
    order = np.argsort(folds, kind="stable")
    starts, places = np.asarray(seeds, np.uint64)[order], np.asarray(indices, np.uint64)[order]
    ends = np.cumsum(np.bincount(folds, minlength=n_folds))
    rows = max(1, _BLOCK_ENTRIES // d)
    with team(n_threads) as threads:
        ranges = threads.split(len(starts), float(len(starts)) * d)
        parts = [Moments(d, n_folds) for _ in ranges]

        def add(part: int, low: int, high: int) -> None:
            block = np.empty((min(rows, high - low), d))
            for start in range(low, high, rows):
                stop = min(start + rows, high)
                G = block[: stop - start]
                fill(starts[start:stop], places[start:stop], G)
                first = start
                while first < stop:
                    fold = int(np.searchsorted(ends, first, side="right"))
                    last = min(int(ends[fold]), stop)
                    some = G[first - start : last - start]
                    parts[part].add_sums(fold, len(some), some.sum(axis=0), some.T @ some)
                    first = last

        threads.run(add, ranges)
    for part in parts:  # in order: the number of threads changes the last bits only
        moments.count += part.count
        moments.first += part.first
        moments.second += part.second
