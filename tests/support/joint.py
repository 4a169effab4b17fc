"""Parties of a joint computation in threads of one test."""

import os
import secrets
import sys
from concurrent.futures import ThreadPoolExecutor

from sottovoce.vertical.engines.in_process import InProcessEngine
from sottovoce.vertical.engines.process import EngineProcess
from support.ports import free_ports


def both(engines, work, timeout=60.0):
    """Run ``work(engine)`` for all at once and return the results; the first failure is raised when all have ended."""
    with ThreadPoolExecutor(len(engines)) as pool:
        running = [pool.submit(work, engine) for engine in engines]
        return [each.result(timeout) for each in running]


def engines_of(n_parties, timeout=30.0):
    """Return engines of one session in this process, not started."""
    session = secrets.token_bytes(8)
    return [InProcessEngine(session, rank, n_parties, timeout) for rank in range(n_parties)]


def free_addresses(n_parties):
    """Return addresses on this machine that nobody listens at, each call others."""
    return [f"127.0.0.1:{port}" for port in free_ports(n_parties)]


def processes_of(kind, n_parties, *, timeout=60.0, tls=None, **others):
    """Return engines of one session, each in a process of its own, not started."""
    addresses = free_addresses(n_parties)
    tls = tls or [None] * n_parties
    return [EngineProcess(kind, rank, addresses, tls=tls[rank], timeout=timeout, **others) for rank in range(n_parties)]


def environment():
    """Return the environment of a child process that finds what this one does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
