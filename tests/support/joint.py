"""Parties of a joint computation in threads of one test."""

import os
import secrets
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from sottovoce.vertical.engines.in_process import InProcessEngine
from sottovoce.vertical.engines.process import EngineProcess
from sottovoce.vertical.engines.programs import Mask
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


def opened(engine, program, inputs, large=1 << 63):
    """Put inputs by turns, run, and open all results with noise below ``large``, which is taken off again."""
    names, noise = [f"i{k}" for k in range(len(inputs))], np.random.default_rng(5)
    for k, (name, value) in enumerate(zip(names, inputs, strict=True)):
        owner = k % engine.n_parties
        engine.put(name, owner, value.shape, value if engine.rank == owner else None)
    results = program.in_clear(*inputs)
    outputs, masks = [f"o{k}" for k in range(len(results))], [f"n{rank}" for rank in range(engine.n_parties)]
    engine.run(program, names, outputs)
    found = []
    for output, result in zip(outputs, results, strict=True):
        shares = [noise.integers(-large, large, result.shape) for _ in masks]
        for owner, (name, share) in enumerate(zip(masks, shares, strict=True)):
            engine.put(name, owner, share.shape, share if engine.rank == owner else None)
        engine.run(Mask(), [output, *masks], ["masked"])
        found.append(engine.reveal("masked") - np.sum(shares, axis=0))
    engine.drop(*{*names, *outputs, "masked"})
    return found


def pass_inputs(n=300, widths=(8, 3), row=1 << 14, dual=1 << 18, margin=1 << 20):
    """Return dual variables, labels, sums, margins and tables of a pass; the last rows fill a piece up."""
    numbers = np.random.default_rng(3)
    labels = numbers.choice([-1, 1], n)
    labels[-20:] = 0
    live = np.abs(labels)
    duals = numbers.integers(-dual, dual, n) * live
    sums = [numbers.integers(-(1 << 40), 1 << 40, width) for width in (*widths, 1)]
    margins = [numbers.integers(-margin, margin, n) * live for _ in widths]
    tables = [numbers.integers(-row, row, (n, width)) * live[:, None] for width in widths]
    return duals, labels, sums, margins, tables
