"""Shamir's shares between processes, by seats with certificates: bit for bit; an end in words when one fails."""

import os
import signal
import time

import numpy as np
import pytest

from support.joint import both

pytest.importorskip("cryptography", reason="certificates need the extra [secure]")

from sottovoce.vertical.engines.engine import EngineError
from sottovoce.vertical.engines.programs import Mask
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
