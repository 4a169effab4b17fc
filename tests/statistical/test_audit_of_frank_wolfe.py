"""Audit of whole private Frank-Wolfe fits: the canary shows in which side of its column is taken.

One column, and one row whose residual stays clipped: with the row the two signs have the losses of a worst-case window,
without it they are a fair coin. The adversary counts the signs, which is all there is to know. At the planned rate the
lower bound on epsilon must stay below the receipt's; with the noise of every selection times 0.7 the same audit must
find the violation. Seeds are fixed, so the outcome is too.
"""

import numpy as np
import pytest
import scipy.sparse as sp

import sottovoce as sv
from sottovoce.audit import epsilon_lower_bound
from sottovoce.privacy.mechanisms.noisy_max import ExponentialMechanism

EPSILON, DELTA, STEPS, RUNS = 1.0, 0.05, 12, 5000


@pytest.mark.slow
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("factor", [1.0, 0.7], ids=lambda factor: f"noise x {factor}")
def test_fit(factor, sparse, monkeypatch):
    rate = ExponentialMechanism.rate.fget
    monkeypatch.setattr(ExponentialMechanism, "rate", property(lambda self: rate(self) / factor))
    tables = {"in": np.array([[0.0], [0.0], [1.0]]), "out": np.zeros((3, 1))}
    public = {"epsilon": EPSILON, "delta": DELTA, "data_bound": 1.0, "n_steps": STEPS, "fit_intercept": False}
    scores = {}
    for name, table in tables.items():
        X = sp.csr_array(table) if sparse else table
        found = []
        for seed in range(RUNS):
            model = sv.DPLasso(label_bounds=(-1.0, 1.0), radius=1e-3, random_state=seed, **public).fit(X, np.ones(3))
            found.append(float(np.sum(model.coef_)))
        scores[name] = np.array(found)
    bound = epsilon_lower_bound(scores["in"], scores["out"], delta=DELTA)
    print(f"noise x {factor}: epsilon >= {bound:.3f} at delta = {DELTA} ({RUNS} runs a table)")
    if factor == 1.0:
        assert 0.5 * EPSILON < bound < EPSILON  # near the promise, so staying below it says something
    else:
        assert bound > EPSILON
