"""A long training: how much processes grow with the number of rounds.

Messages leave threads behind for some seconds (`COMMUNICATION` in `flare/hardening/closed.py`), so memory is level only
after about a thousand rounds. From 1,500 to 4,000 rounds of 2,000 people each process grew by 7 kB a round; the
library's own part of that is 0.6 kB (the checkpoint's list).
"""

import time

import numpy as np
import pytest

pytest.importorskip("nvflare", reason="parties in different organisations need the extra [vertical]")

from support.federation import Columns, running_federation

pytestmark = [pytest.mark.federation, pytest.mark.slow]

ROUNDS = 2200
BEFORE, SETTLED = 1000, 1200  # rounds between which buffers and pools reach the size that they keep
MOST_GROWTH = 24 * 2**20
PEOPLE = 2_000


def test_a_thousand_rounds_more_need_no_more_memory():
    """Exact Frank-Wolfe that never arrives; a round carries 16 kB to each site."""
    rng = np.random.default_rng(3)
    X = rng.random((PEOPLE, 6))
    y = X.sum(axis=1) > 3.0
    sites = {"lab": Columns(X=X[:, :2], y=y), "north": Columns(X=X[:, 2:4]), "bank": Columns(X=X[:, 4:])}
    for name in ("north", "bank"):
        sites[name] = Columns(X=sites[name].X, settings='[allow]\nanswers = ["exact", "columns", "foreign-weights"]')
    with running_federation(sites) as federation:
        run = federation.begin(
            "--model", "sparse-logistic", "--radius", 5, "--epsilon", "inf", "--tol",
            "1e-300", "--max-iter", ROUNDS,
        )  # fmt: skip
        run.wait_for_rounds(BEFORE)
        processes = {name: federation.run_process(name) for name in federation.names}
        largest = dict.fromkeys(processes, 0)
        settled = dict(largest)
        while (rounds := run.status()["rounds"]) < ROUNDS - 20 and run.process.poll() is None:
            for name, process in processes.items():
                largest[name] = max(largest[name], process.memory_info().rss)
            if rounds <= SETTLED or not min(settled.values()):
                settled = dict(largest)
            time.sleep(0.2)
        run.end()
        assert run.status()["rounds"] >= ROUNDS
        assert rounds > SETTLED + 100
        growth = {name: largest[name] - settled[name] for name in largest}
        print({name: f"{settled[name] / 2**20:.1f} MiB + {growth[name] / 2**20:.2f} MiB" for name in growth})
        assert max(growth.values()) < MOST_GROWTH, growth
