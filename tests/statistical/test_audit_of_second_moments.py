"""Audit of whole runs of the plan; the adversary knows all other rows and sees the released second moments.

Two hypotheses about a Gaussian vector: his best score is its projection on the difference of the two exact values,
which he knows. At the planned noise the lower bound on epsilon stays below the receipt's; at 0.7 times it, it must not.
"""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.audit import gaussian_lower_bound
from sottovoce.central.data.rows import make_rows
from sottovoce.central.parallel import Team
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.randomness import Streams
from support.asking import trained
from support.noise import Scaled

EPSILON, DELTA, RUNS = 1.0, 0.05, 5000
TEAM = Team(1, None)
ONE, OTHER = np.array([1.0, 0.0]), np.array([-0.5, np.sqrt(0.75)])  # (x, c) of the two are orthogonal for c^2 = 1/2
CASES = {
    "zero-out": (ONE, np.zeros(2), (1.0, 0.0)),  # zeroed out: label 0, no intercept
    "replace-one": (ONE, OTHER, (1.0, 1.0)),
}


@pytest.mark.parametrize(
    "factor", [1.0, pytest.param(0.7, marks=pytest.mark.slow)], ids=lambda factor: f"noise x {factor}"
)
@pytest.mark.parametrize("adjacency", CASES)
def test_audit(adjacency, factor, monkeypatch):
    original = GridGaussian.release
    seen = []

    def release(self, ticks, noise):
        value, event = original(self, ticks, Scaled(noise, factor))
        seen.append((value, ticks * self.tick))
        return value, event

    monkeypatch.setattr(GridGaussian, "release", release)
    rng = np.random.default_rng(0)
    X, y = 0.3 * rng.normal(size=(10, 2)), rng.uniform(-1, 1, 10)
    row, other, labels = CASES[adjacency]
    tables = [(np.vstack([X, extra]), np.append(y, label)) for extra, label in zip((row, other), labels, strict=True)]
    released, exact = [], []
    for place, (matrix, targets) in enumerate(tables):
        seen.clear()
        model = sv.DPRidge(
            epsilon=EPSILON, delta=DELTA, data_norm=1.0, label_bounds=(-1.0, 1.0), fit_intercept=False,
            adjacency=adjacency, solver="adassp", solver_options={"clip_labels": False},
        )  # fmt: skip
        plan = sv.plan(model, *matrix.shape)
        rows = make_rows(matrix, data_norm=1.0, constant=0.0, names=None, team=TEAM)
        for seed in range(place * RUNS, (place + 1) * RUNS):
            trained(plan, rows, [targets], Streams(seed), TEAM)
        released.append(np.array([value for value, _ in seen]))
        exact.append(seen[0][1])
    direction = exact[0] - exact[1]
    bound = gaussian_lower_bound(released[0] @ direction, released[1] @ direction, delta=DELTA)
    print(f"{adjacency}, noise x {factor}: epsilon >= {bound:.3f} at delta = {DELTA} ({RUNS} runs a table)")
    if factor == 1.0:
        assert 0.5 * EPSILON < bound < EPSILON
    else:
        assert bound > EPSILON
