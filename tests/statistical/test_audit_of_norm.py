"""Audit of the bound that is released where none is public: the adversary knows all other rows, and sees the counts.

The canary is far longer than all others, so its three bins hold nothing else: their sum is the best score. At the
planned noise the lower bound on epsilon stays below what the release costs; at 0.7 times that noise it must not.
"""

import numpy as np
import pytest

from sottovoce.audit import gaussian_lower_bound
from sottovoce.central.released_norm import NormRelease
from sottovoce.central.sums.histograms import CountLengths
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.privacy.neighbours import Neighbours
from support.asking import answered
from support.many_parts import with_lengths
from support.noise import Scaled

DELTA, RUNS, N = 0.05, 5000, 50


@pytest.mark.parametrize(
    "factor", [1.0, pytest.param(0.7, marks=pytest.mark.slow)], ids=lambda factor: f"noise x {factor}"
)
@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one"])
def test_audit(adjacency, factor, monkeypatch):
    original = GridGaussian.release
    seen = []

    def release(self, ticks, noise):
        value, event = original(self, ticks, Scaled(noise, factor))
        seen.append(float(value @ direction))
        return value, event

    monkeypatch.setattr(GridGaussian, "release", release)
    planned = NormRelease(10.0, N, Neighbours(Adjacency.parse(adjacency)))
    epsilon = accountant_for(planned.mechanism.event).epsilon(planned.mechanism.event, DELTA)
    others = np.random.default_rng(0).uniform(0.5, 1.0, N - 1)
    tables = [np.append(others, last) for last in (1e9, 1e-9 if adjacency == "replace-one" else 0.0)]
    here, there = (with_lengths(norms).ask(CountLengths()) for norms in tables)
    direction = here - there
    for place, norms in enumerate(tables):
        noise = np.random.default_rng(place)
        for _ in range(RUNS):
            answered(planned.asks, with_lengths(norms), noise)
    bound = gaussian_lower_bound(np.array(seen[:RUNS]), np.array(seen[RUNS:]), delta=DELTA)
    print(f"{adjacency}, noise x {factor}: epsilon >= {bound:.3f} of {epsilon:.3f} at delta = {DELTA}")
    if factor == 1.0:
        assert 0.5 * epsilon < bound < epsilon
    else:
        assert bound > epsilon
