"""Audit of the release that slope and shift are made of; the adversary knows all other rows and the weights.

Two hypotheses about a Gaussian vector: his best score is its projection on the difference of the two exact values. At
the planned noise the lower bound on epsilon stays below what was spent; at 0.7 times it, it must not.
"""

import numpy as np
import pytest

from sottovoce.audit import gaussian_lower_bound
from sottovoce.central import calibration
from sottovoce.central.data.rows import make_rows
from sottovoce.central.parallel import Team
from sottovoce.central.sums import shared_counts
from sottovoce.central.sums.shared_counts import Prior, design_for
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from support.asking import calibrating
from support.noise import Scaled

EPSILON, DELTA, RUNS = 1.0, 0.05, 5000
TEAM = Team(1, None)
PRIOR = Prior(0.7, 0.45, 0.25)


@pytest.mark.parametrize("factor", [1.0, 0.7], ids=lambda factor: f"noise x {factor}")
@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE], ids=lambda one: one.value)
def test_audit(adjacency, factor, monkeypatch):
    original = GridGaussian.release
    seen = []

    def release(self, ticks, noise):
        value, event = original(self, ticks, Scaled(noise, factor))
        seen.append((value, ticks * self.tick))
        return value, event

    monkeypatch.setattr(GridGaussian, "release", release)
    monkeypatch.setattr(calibration, "_fit", lambda *_: (1.0, 0.0))  # post-processing
    # the two columns that are furthest apart, or the longest one against nothing
    design = design_for(PRIOR)
    columns = design.matrix.T / shared_counts._FINE
    apart = np.linalg.norm(columns[:, None] - columns, axis=2)
    here, there = np.unravel_index(apart.argmax(), apart.shape)
    nodes, n = shared_counts._NODES, len(shared_counts._NODES)
    weights = np.array([nodes[-1]])
    others = np.array([[0.1], [-0.4]])
    tables = []
    for cell in (here, there):
        X = np.vstack([others, [[nodes[cell % n] / nodes[-1]]]])
        tables.append((X, np.array([1.0, -1.0, 1.0 if cell >= n else -1.0])))
    if adjacency is Adjacency.ADD_REMOVE:
        tables[1] = (others, np.array([1.0, -1.0]))
    released, exact = [], []
    for place, (X, y) in enumerate(tables):
        rows = make_rows(X, data_norm=1.0, constant=0.0, names=None, team=TEAM)
        noise = np.random.default_rng(place)
        scores = []
        for _ in range(RUNS):
            seen.clear()
            calibrating(rows, y, weights, gaussian_mu(EPSILON, DELTA), PRIOR, noise, adjacency=adjacency, n_public=3)
            scores.append(np.concatenate([value for value, _ in seen]))
        released.append(np.array(scores))
        exact.append(np.concatenate([value for _, value in seen]))
    direction = exact[0] - exact[1]
    bound = gaussian_lower_bound(released[0] @ direction, released[1] @ direction, delta=DELTA)
    print(f"{adjacency.value}, noise x {factor}: epsilon >= {bound:.3f} at delta = {DELTA}")
    if factor == 1.0:
        assert 0.5 * EPSILON < bound < EPSILON
    else:
        assert bound > EPSILON
