"""Audit of the release of lambda_max, and of the sketch of wide tables, from rows in two parts.

The adversary knows all other rows: his best score is the released number. At the planned noise the lower bound on
epsilon stays below what the mean shift promises; at 0.7 times it, it must not.
"""

from functools import cache

import numpy as np
import pytest

from sottovoce.audit import gaussian_lower_bound
from sottovoce.central.data.lengths import MeasureRows, ScaleRows
from sottovoce.central.sums import largest_eigenvalue
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.privacy.neighbours import Neighbours
from support.asking import answered
from support.many_parts import cut
from support.noise import Scaled

pytestmark = pytest.mark.slow

EPSILON, DELTA, RUNS = 1.0, 0.05, 5000
NARROW, WIDE = np.eye(3)[0], np.eye(100)[0]  # with 100 weights no column of the public matrix has two entries


def released(raw, factor, seeds, adjacency):
    """Return what leaves the mechanism in some runs; the exact value is made once."""
    seen = []
    original = GridGaussian.release

    def release(self, ticks, noise):
        value, event = original(self, ticks, Scaled(noise, factor))
        seen.append(value[0])
        return value, event

    holder = cut(raw, None, [4])
    holder.ask(MeasureRows())
    holder.ask(ScaleRows(1.0, 0.0))
    ask, entry = cache(holder.ask), holder.constant
    facts = holder.n_weights, len(raw), Neighbours(adjacency), gaussian_mu(EPSILON, DELTA)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GridGaussian, "release", release)
        patch.setattr(holder, "ask", ask)
        for seed in seeds:
            answered(lambda: largest_eigenvalue.largest_eigenvalue(*facts, entry=entry), holder, seed)
    return np.array(seen)


@pytest.mark.parametrize("factor", [1.0, 0.7], ids=lambda factor: f"noise x {factor}")
@pytest.mark.parametrize("row", [NARROW, WIDE], ids=["lambda_max", "sketch"])
def test_audit(row, factor, monkeypatch):
    if len(row) == len(WIDE):
        monkeypatch.setattr(largest_eigenvalue, "MAX_GRAM", 50)
    rest = np.tile(row, (9, 1))
    tables = [np.vstack([rest, row]), np.vstack([rest, 0.0 * row])]
    draws = [
        released(raw, factor, range(place * RUNS, (place + 1) * RUNS), Adjacency.ZERO_OUT)
        for place, raw in enumerate(tables)
    ]
    bound = gaussian_lower_bound(*draws, delta=DELTA)
    print(f"{len(row)} weights, noise x {factor}: epsilon >= {bound:.3f} at delta = {DELTA} ({RUNS} runs a table)")
    if factor == 1.0:
        assert 0.5 * EPSILON < bound < EPSILON
    else:
        assert bound > EPSILON
