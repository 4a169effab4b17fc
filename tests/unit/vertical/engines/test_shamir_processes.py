"""Shamir's shares between processes, by seats with certificates: bit for bit; an end in words when one fails."""

import os
import signal
import time

import numpy as np
import pytest

from support.joint import both

pytest.importorskip("cryptography", reason="certificates need the extra [secure]")

from sottovoce.vertical.engines.engine import EngineError
from sottovoce.vertical.engines.programs import AddSlopes, CrossProduct, Mask, MoveDuals
from sottovoce.vertical.engines.seat import Seat
from sottovoce.vertical.engines.site import ComputeSite
from support.authority import Authority

NAMES = ("insurer", "bank", "clinic")


@pytest.fixture
def engines(tmp_path, request):
    """Engines of three parties that have checked each other's cards; not started."""
    timeout = getattr(request, "param", 30.0)
    authority = Authority()
    sites = [
        ComputeSite(partners=NAMES, identity=authority.identity(tmp_path / name, name), timeout=timeout)
        for name in NAMES
    ]
    seats = [
        Seat.take(site, name, b"session", "shamir", "a" * 64, "b" * 64) for site, name in zip(sites, NAMES, strict=True)
    ]
    cards = [seat.card for seat in seats]
    made = [seat.sit(cards, NAMES) for seat in seats]
    yield made
    for engine, seat in zip(made, seats, strict=True):
        engine.close()
        seat.close()


def _open(engine, name, shape):
    """Open a sum with one number of noise from each."""
    shares = [f"noise {rank}" for rank in range(engine.n_parties)]
    for rank, share in enumerate(shares):
        engine.put(share, rank, shape, np.full(shape, rank) if rank == engine.rank else None)
    engine.run(Mask(), [name, *shares], ["opened"])
    return engine.reveal("opened") - 3


def test_processes_open_what_programs_are_in_clear(engines):
    rng = np.random.default_rng(0)
    n, widths, program = 300, (3, 4), AddSlopes((-500, 70, 0, 2))
    rows = [rng.integers(-(2**14), 2**14, (n, width)) for width in widths]
    margins = [rng.integers(-500, 500, n) for _ in widths]
    labels = 2 * rng.integers(0, 2, n) - 1
    zeros = [np.zeros(width, dtype=np.int64) for width in (*widths, 1)]

    def work(engine):
        engine.start()
        mine = engine.rank
        assert engine.bound == 2**60
        for owner in range(2):
            engine.put(f"x{owner}", owner, rows[owner].shape, rows[owner] if owner == mine else None)
            engine.put(f"z{owner}", owner, (n,), margins[owner] if owner == mine else None)
        engine.put("y", 0, (n,), labels if mine == 0 else None)
        for name, zero in zip(("s0", "s1", "all"), zeros, strict=True):
            engine.put(name, 2, zero.shape, zero if mine == 2 else None)
        engine.put("total", 2, widths, np.zeros(widths, dtype=np.int64) if mine == 2 else None)
        engine.run(CrossProduct(), ["total", "x0", "x1"], ["total"])
        engine.run(program, ["y", "s0", "s1", "all", "z0", "z1", "x0", "x1"], ["s0", "s1", "all"])
        opened = [_open(engine, name, shape) for name, shape in (("s0", (3,)), ("s1", (4,)), ("all", (1,)))]
        return [_open(engine, "total", widths), *opened]

    expected = [rows[0].T @ rows[1], *program.in_clear(labels, *zeros, *margins, *rows)]
    for opened in both(engines, work):
        for found, wanted in zip(opened, expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("engines", [6.0], indirect=True)
@pytest.mark.parametrize("failure", ["killed", "stopped"])
def test_a_process_that_fails_ends_the_session_in_time(engines, failure):
    both(engines, lambda engine: engine.start())
    os.kill(engines[1].pid, signal.SIGKILL if failure == "killed" else signal.SIGSTOP)

    def work(engine):
        with pytest.raises(EngineError) as caught:  # a killed one may be missed before anything is run
            engine.put("x", 0, (2,), np.ones(2, dtype=np.int64) if engine.rank == 0 else None)
            engine.run(Mask(), ["x"], ["x"])
        return str(caught.value)

    begin = time.monotonic()
    told = both([engines[0], engines[2]], work)
    assert time.monotonic() - begin < 20
    assert all("party" in words for words in told), told
    assert any("party 1" in words for words in told), told
    engines[1].close()


def test_a_program_that_compares_is_refused(engines):
    def work(engine):
        engine.start()
        for name, shape in (("a", (2,)), ("y", (2,)), ("s", (1,)), ("m", (1,)), ("z", (2,)), ("x", (2, 1))):
            engine.put(name, 0, shape, np.ones(shape, dtype=np.int64) if engine.rank == 0 else None)
        with pytest.raises(EngineError, match="does not run MoveDuals"):
            engine.run(MoveDuals(1, 1, (1,), (1,)), ["a", "y", "s", "m", "z", "x"], ["a", "s", "m"])

    both(engines, work)
