"""Audit of a whole fit by sufficient statistics; the adversary knows all other rows and sees the released matrix.

Two hypotheses about a Gaussian vector: his best score is its projection on the difference of the two exact values,
which he knows. At the planned noise the lower bound on epsilon stays below the receipt's; at 0.7 times it, it must not.
"""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.audit import gaussian_lower_bound
from sottovoce.privacy.mechanisms.gaussian import GridGaussian

EPSILON, DELTA = 1.0, 0.05
ONE, OTHER = np.array([1.0, 0.0]), np.array([-0.5, np.sqrt(0.75)])  # (x, c) of the two are orthogonal for c^2 = 1/2
CASES = {
    "zero-out": (ONE, np.zeros(2), (1.0, 0.0)),  # zeroed out: label 0, no intercept
    "replace-one": (ONE, OTHER, (1.0, 1.0)),
}


@pytest.mark.parametrize("factor", [1.0, 0.7], ids=lambda factor: f"noise x {factor}")
@pytest.mark.parametrize("adjacency", CASES)
def test_audit(adjacency, factor, monkeypatch):
    runs = 3500 if factor == 1.0 else 1000
    original = GridGaussian.release
    seen = []

    class Scaled:
        """The noise stream, scaled: what a wrong noise scale looks like to the rest of the code."""

        def __init__(self, noise):
            self.noise = noise

        def standard_normal(self, shape):
            return factor * self.noise.standard_normal(shape)

    def release(self, ticks, noise):
        value, event = original(self, ticks, Scaled(noise))
        seen.append((value, ticks * self.tick))
        return value, event

    monkeypatch.setattr(GridGaussian, "release", release)
    rng = np.random.default_rng(0)
    X, y = 0.3 * rng.normal(size=(10, 2)), rng.uniform(-1, 1, 10)
    row, other, labels = CASES[adjacency]
    tables = [(np.vstack([X, extra]), np.append(y, label)) for extra, label in zip((row, other), labels, strict=True)]
    released, exact = [], []
    for place, table in enumerate(tables):
        seen.clear()
        for seed in range(place * runs, (place + 1) * runs):
            sv.DPRidge(
                epsilon=EPSILON, delta=DELTA, data_norm=1.0, label_bounds=(-1.0, 1.0), fit_intercept=False,
                adjacency=adjacency, solver="adassp", solver_options={"clip_labels": False}, random_state=seed,
            ).fit(*table)  # fmt: skip
        released.append(np.array([value for value, _ in seen]))
        exact.append(seen[0][1])
    direction = exact[0] - exact[1]
    bound = gaussian_lower_bound(released[0] @ direction, released[1] @ direction, delta=DELTA)
    print(f"{adjacency}, noise x {factor}: epsilon >= {bound:.3f} at delta = {DELTA} ({runs} runs a table)")
    if factor == 1.0:
        assert 0.5 * EPSILON < bound < EPSILON
    else:
        assert bound > EPSILON
