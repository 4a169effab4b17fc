"""Audit of the histograms that scales are made of; the adversary knows all other rows.

Gaussian vectors: the best score is the projection on the difference of the exact values. At the planned noise the lower
bound on epsilon stays below what was spent; at 0.7 times it, it must not.
"""

import numpy as np
import pytest

from sottovoce.audit import gaussian_lower_bound
from sottovoce.central import column_scales
from sottovoce.central.column_scales import ColumnScalesPlan
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from support.asking import answered, table_of
from support.noise import Scaled

EPSILON, DELTA, RUNS = 2.0, 0.05, 4000


@pytest.mark.parametrize("factor", [1.0, pytest.param(0.7, marks=pytest.mark.slow)], ids=lambda f: f"noise x {f}")
@pytest.mark.parametrize("adjacency", [Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE], ids=lambda one: one.value)
def test_audit(adjacency, factor, monkeypatch):
    rng = np.random.default_rng(0)
    others = np.column_stack([rng.normal(1990.0, 1.0, 99), rng.normal(0.0, 1.0, 99)])
    canary, other = [2047.0, 1.5], [-3.0, -1e-3]
    tables = [np.vstack([others, [canary]])]
    tables.append(np.vstack([others, [other]]) if adjacency is Adjacency.REPLACE_ONE else others)
    plan = ColumnScalesPlan(
        epsilon=EPSILON, delta=DELTA, adjacency=adjacency, n_samples=100, n_features=2,
        bounds=((1980.0, -3.0), (2000.0, 3.0))
    )  # fmt: skip
    assert len(plan.rounds) == 2
    # both rounds look at all columns, in the same cells: what they show is then one Gaussian vector
    found = (np.full(2, 16.0), np.full(2, 1.0))
    monkeypatch.setattr(column_scales, "_from_cells", lambda *_, **__: found)
    original, seen = GridGaussian.release, []

    def release(self, ticks, noise):
        value, event = original(self, ticks, Scaled(noise, factor))
        seen.append((value.ravel(), (ticks * self.tick).ravel()))
        return value, event

    monkeypatch.setattr(GridGaussian, "release", release)
    released, exact = [], []
    for place, X in enumerate(tables):
        noise, runs = np.random.default_rng(place), []
        for _ in range(RUNS):
            seen.clear()
            answered(lambda: column_scales.column_scales(plan), table_of(X), noise)
            runs.append(np.concatenate([value for value, _ in seen]))
        released.append(np.array(runs))
        exact.append(np.concatenate([value for _, value in seen]))
    direction = exact[0] - exact[1]
    bound = gaussian_lower_bound(released[0] @ direction, released[1] @ direction, delta=DELTA)
    print(f"{adjacency.value}, noise x {factor}: epsilon >= {bound:.3f} at delta = {DELTA}")
    if factor == 1.0:
        assert 0.5 * EPSILON < bound < EPSILON
    else:
        assert bound > EPSILON
