"""Audit of whole runs on released labels: the adversary knows the other rows and sees every released value.

Given the values released so far, the next one is Gaussian around one of two points that he can compute, so his best
score is the log-likelihood ratio of all of them. At the planned noise the lower bound on epsilon stays below the
receipt's; at 0.7 times it, it must not.
"""

import numpy as np
import pytest

from sottovoce.audit import gaussian_lower_bound
from sottovoce.central.data.rows import make_rows
from sottovoce.central.parallel import Team
from sottovoce.losses import Logistic, Squared
from sottovoce.privacy.accounting import gaussian_epsilon
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.randomness import Streams
from support.labels import plan_on_labels
from support.noise import Scaled

MU, DELTA, RUNS = 3.0, 0.05, 1000  # runs on each table; the bound is too high with probability 0.001
TEAM = Team(1, None)
ONE, OTHER = np.array([1.0, 0.0]), np.array([0.0, 1.0])


@pytest.mark.parametrize(
    "factor", [1.0, pytest.param(0.7, marks=pytest.mark.slow)], ids=lambda factor: f"noise x {factor}"
)
@pytest.mark.parametrize("loss", [Logistic(), Squared()], ids=lambda loss: loss.name)
def test_audit(loss, factor, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = np.abs(rng.normal(size=(9, 2))), np.where(rng.random(10) < 0.5, 1.0, -1.0)
    plan = plan_on_labels(
        loss=loss, n_samples=10, n_features=2, alpha=0.1, mu=MU, nonnegative=True, flip_probability=0.45, intercept=0.0
    )
    tables = [
        make_rows(np.vstack([X, extra]), data_norm=1.0, constant=0.0, names=None, team=TEAM) for extra in (ONE, OTHER)
    ]
    original, trace, shown = GridGaussian.release, [], []

    def release(self, ticks, noise):
        """Draw on the first run; on the second show what the first one showed."""
        exact = ticks * self.tick
        if len(shown) == len(trace):
            value, _ = original(self, ticks, Scaled(noise, factor))
            shown.append(value)
        trace.append((exact, factor * self.noise_std))
        return shown[len(trace) - 1], self.event

    monkeypatch.setattr(GridGaussian, "release", release)

    def score(place, seed):
        shown.clear()
        exact = []
        for rows in (tables[place], tables[1 - place]):
            trace.clear()
            plan.solve(rows, y, Streams(seed), TEAM)
            exact.append(list(trace))
        ratio = 0.0
        for value, (mine, std), (theirs, _) in zip(shown, *exact, strict=True):
            ratio += float((value - 0.5 * (mine + theirs)) @ (mine - theirs)) / std**2
        return ratio if place == 0 else -ratio

    first, second = (np.array([score(k, seed) for seed in range(k * RUNS, (k + 1) * RUNS)]) for k in (0, 1))
    bound, epsilon = gaussian_lower_bound(first, second, delta=DELTA), gaussian_epsilon(MU, DELTA)
    print(f"{loss.name}, noise x {factor}: epsilon >= {bound:.3f}, planned {epsilon:.3f} at delta = {DELTA}")
    if factor == 1.0:
        assert 0.5 * epsilon < bound < epsilon
    else:
        assert bound > epsilon
