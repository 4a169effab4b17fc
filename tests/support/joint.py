"""Parties of a joint computation in threads of one test."""

import secrets
from concurrent.futures import ThreadPoolExecutor

from sottovoce.vertical.engines.in_process import InProcessEngine

__all__ = ["both", "engines_of"]


def both(engines, work, timeout=60.0):
    """Run ``work(engine)`` for all at once and return the results; the first failure is raised when all have ended."""
    with ThreadPoolExecutor(len(engines)) as pool:
        running = [pool.submit(work, engine) for engine in engines]
        return [each.result(timeout) for each in running]


def engines_of(n_parties, timeout=30.0):
    """Return engines of one session in this process, not started."""
    session = secrets.token_bytes(8)
    return [InProcessEngine(session, rank, n_parties, timeout) for rank in range(n_parties)]
