"""Audit of whole private fits on the simplex and on the non-negative part of the l1 ball.

Forty columns, and one row with +1 in half of them and -1 in the others, whose residual stays clipped: without it all
are alike, with it the halves are a worst-case window apart (the candidate that moves nothing hardly counts). The
adversary counts how often the first half is taken. With the noise of every selection times 0.7 the audit must find the
violation. Seeds are fixed, so the outcome is too.
"""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.audit import epsilon_lower_bound
from sottovoce.privacy.mechanisms.noisy_max import ExponentialMechanism

EPSILON, DELTA, STEPS, RUNS = 1.0, 0.05, 12, 6000


@pytest.mark.slow
@pytest.mark.parametrize("constraint", ["nonnegative", "simplex"])
@pytest.mark.parametrize("factor", [1.0, 0.7], ids=lambda factor: f"noise x {factor}")
def test_fit(factor, constraint, monkeypatch):
    rate = ExponentialMechanism.rate.fget
    monkeypatch.setattr(ExponentialMechanism, "rate", property(lambda self: rate(self) / factor))
    canary = np.repeat([1.0, -1.0], 20)
    tables = {"in": np.array([0.0 * canary, canary]), "out": np.zeros((2, 40))}
    public = {"epsilon": EPSILON, "delta": DELTA, "data_bound": 1.0, "n_steps": STEPS, "fit_intercept": False}
    scores = {}
    for name, table in tables.items():
        found = []
        for seed in range(RUNS):
            model = sv.DPLasso(
                label_bounds=(-1.0, 1.0), radius=1e-3, random_state=seed, constraint=constraint, **public
            ).fit(table, np.ones(2))
            found.append(float(model.coef_ @ canary))
        scores[name] = np.array(found)
    bound = epsilon_lower_bound(scores["in"], scores["out"], delta=DELTA)
    print(f"{constraint}, noise x {factor}: epsilon >= {bound:.3f} at delta = {DELTA} ({RUNS} runs a table)")
    if factor == 1.0:
        assert 0.4 * EPSILON < bound < EPSILON  # near the promise, so staying below it says something
    else:
        assert bound > EPSILON
