"""Audit of the release that slope and shift are made of; the adversary knows all other rows and the weights.

Two hypotheses about a Gaussian vector: his best score is its projection on the difference of the two exact values. At
the planned noise the lower bound on epsilon stays below what was spent; at 0.7 times it, it must not.
"""

import numpy as np
import pytest

from sottovoce.audit import gaussian_lower_bound
from sottovoce.central import calibration
from sottovoce.central.calibration import Prior, calibrate
from sottovoce.central.data.rows import make_rows
from sottovoce.central.parallel import Team
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.privacy.neighbours import Neighbours
from support.many_parts import begun
from support.noise import Scaled

EPSILON, DELTA, RUNS = 1.0, 0.05, 5000
TEAM = Team(1, None)
PRIOR = Prior(0.7, 0.45, 0.25)


@pytest.mark.parametrize("factor", [1.0, 0.7], ids=lambda factor: f"noise x {factor}")
@pytest.mark.parametrize("n_candidates", [1, 3])
@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE], ids=lambda one: one.value)
def test_audit(adjacency, n_candidates, factor, monkeypatch):
    original = GridGaussian.release
    seen = []

    def release(self, ticks, noise):
        value, event = original(self, ticks, Scaled(noise, factor))
        seen.append((value, ticks * self.tick))
        return value, event

    monkeypatch.setattr(GridGaussian, "release", release)
    monkeypatch.setattr(calibration, "_fit", lambda *_: calibration._Fit(1.0, 0.0, 0.0, 1.0))  # post-processing
    # the two columns that are furthest apart, or the longest one against nothing
    design = calibration._design(PRIOR)
    columns = design.matrix.T / calibration._FINE
    apart = np.linalg.norm(columns[:, None] - columns, axis=2)
    here, there = np.unravel_index(apart.argmax(), apart.shape)
    nodes, n = calibration._NODES, len(calibration._NODES)
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
            calibrate(
                begun(rows, y), [weights] * n_candidates, mu=gaussian_mu(EPSILON, DELTA),
                neighbours=Neighbours(adjacency), n_public=3, prior=PRIOR, noise=noise,
            )  # fmt: skip
            scores.append(np.concatenate([value for value, _ in seen]))
        released.append(np.array(scores))
        exact.append(np.concatenate([value for _, value in seen]))
    direction = exact[0] - exact[1]
    bound = gaussian_lower_bound(released[0] @ direction, released[1] @ direction, delta=DELTA)
    print(f"{adjacency.value}, {n_candidates} candidates, noise x {factor}: epsilon >= {bound:.3f} at delta = {DELTA}")
    if factor == 1.0:
        assert 0.5 * EPSILON < bound < EPSILON
    else:
        assert bound > EPSILON
