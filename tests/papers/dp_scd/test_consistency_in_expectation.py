"""Remark 1 of Damaskinos et al.: a batch moves v by exactly what it moves the dual variables, before noise is added."""

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.central.data.lengths import make_rows
from sottovoce.central.parallel import team
from sottovoce.papers.dp_scd import Published
from support.printed_scd import batch_moves

PUBLIC = {"classes": [-1.0, 1.0]}


@pytest.mark.parametrize(
    "model", [sv.DPRidge(label_bounds=(-1.0, 1.0)), sv.DPLogisticRegression(**PUBLIC), sv.DPLinearSVC(**PUBLIC)]
)
def test_v_moves_by_the_rows_times_the_moves_of_the_duals(model):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y, a, w = rng.choice([-1.0, 1.0], 60), 0.3 * rng.normal(size=60), rng.normal(size=4)
    model.set_params(
        epsilon=1.0, delta=1e-3, data_norm=1.0, fit_intercept=False,
        solver=Published(batch_size=20, clipping_norm=0.05, epochs=2),
    )  # fmt: skip
    plan = sv.plan(model, n_samples=60, n_features=4)
    with team(1) as crew:
        rows = make_rows(X, data_norm=1.0, constant=0.0, names=None, team=crew)
        batch = rng.permutation(60)[:20]
        moves, _ = batch_moves(plan, rows, y, a, w, batch)
    duals, v = moves[:20], moves[20:]
    assert np.abs(duals).max() > 1e-4
    np.testing.assert_allclose(v, X[batch].T @ duals, atol=1e-6)
