"""Fit each estimator once on a made-up table, so that its machine code is on disk."""

import warnings

import numpy as np
from scipy.sparse import csr_array

import sottovoce as sv

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=(200, 3))
X /= np.linalg.norm(X, axis=1, keepdims=True)
y, numbers = rng.integers(0, 2, 200), rng.uniform(-1, 1, 200)
budget = {"epsilon": 1.0, "delta": 1e-6}

for table in (X, csr_array(X)):
    for make in (sv.DPLogisticRegression, sv.DPLinearSVC):
        model = make(**budget, data_norm=1.0, classes=[0, 1]).fit(table, y)
        model.predict(table)
    sv.DPRidge(**budget, data_norm=1.0, label_bounds=(-1.0, 1.0)).fit(table, numbers)
