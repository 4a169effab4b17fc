"""Real processes of SPU over links that are slow, freeze or are cut: the same numbers, or an error in time.

Processes with Shamir's shares that are killed or stopped: `test_shamir_processes.py`.
"""

import contextlib
import itertools
import threading
import time

import numpy as np
import pytest

from sottovoce.vertical.engines.engine import EngineError
from sottovoce.vertical.engines.process import EngineProcess
from sottovoce.vertical.engines.programs import CrossProduct, Mask
from support.joint import both, free_addresses
from support.slow_link import SlowLink

pytest.importorskip("spu", reason="SPU has a wheel for Python 3.11 on Linux x86-64 alone")

pytestmark = pytest.mark.slow

# a loaded machine starts three processes in this time; commands after the start get less
START, COMMAND = 60.0, 6.0


@contextlib.contextmanager
def _session(latency):
    """Yield three started engines, and the links between any two."""
    at = free_addresses(3)
    reached = [list(at) for _ in at]
    with contextlib.ExitStack() as stack:
        links = []
        for here, there in itertools.permutations(range(3), 2):
            links.append(stack.enter_context(SlowLink(at[there], latency=latency, rate=12.5e6)))
            reached[here][there] = links[-1].address
        engines = [
            EngineProcess("spu", rank, addresses, listen=at[rank], timeout=START)
            for rank, addresses in enumerate(reached)
        ]
        for engine in engines:
            stack.callback(engine.close)
        both(engines, lambda engine: engine.start())
        yield engines, links


def _product(engine):
    """Open X'Y and return it."""
    rows = np.arange(60).reshape(20, 3)
    for owner, name in enumerate(("a", "b")):
        engine.put(name, owner, rows.shape, rows - 7 * owner if engine.rank == owner else None)
    engine.put("s", 2, (3, 3), np.zeros((3, 3), np.int64) if engine.rank == 2 else None)
    engine.run(CrossProduct(), ["s", "a", "b"], ["s"])
    engine.run(Mask(), ["s"], ["m"])
    return engine.reveal("m")


def test_a_slow_link_changes_no_number():
    rows = np.arange(60).reshape(20, 3)
    with _session(0.01) as (engines, _):
        for opened in both(engines, _product):
            np.testing.assert_array_equal(opened, rows.T @ (rows - 7))


@pytest.mark.parametrize("how", ["frozen", "cut"])
def test_a_link_that_fails_ends_all_in_time(how):
    with _session(0.0) as (engines, links):
        for engine in engines:
            engine._timeout = COMMAND
        for link in links:
            if how == "frozen":
                link.latency = 1000.0
            else:
                link._do(link.close())
        words = []

        def fail(engine):
            with pytest.raises(EngineError) as caught:
                _product(engine)
            words.append(str(caught.value))

        threads = [threading.Thread(target=fail, args=(engine,)) for engine in engines]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * COMMAND)
        assert not any(thread.is_alive() for thread in threads)
        assert len(words) == 3
        assert time.monotonic() - began < 2 * COMMAND
