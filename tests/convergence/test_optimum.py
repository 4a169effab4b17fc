"""Without noise every loss reaches scikit-learn's optimum; with the noise off, the private solvers approach it too."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from support.noise import switch_off_gaussians
from support.optimum import estimator, labels, objective, reference, table
from support.pairs import by_pairs
from support.solvers import solved

pytestmark = pytest.mark.usefixtures("coarse_losses")


@pytest.mark.parametrize(
    ("loss", "size", "sparse", "dtype"),
    by_pairs(["squared", "logistic", "hinge"], [(400, 12), (60, 150)], [False, True], [np.float64, np.float32]),
)
def test_no_noise_equals_scikit_learn(loss, size, sparse, dtype):
    n, d = size
    for seed in range(3):
        X, score = table(seed, n, d, density=0.4)
        X = X.astype(dtype)
        y, alpha = labels(loss, score), 1e-3
        model = estimator(loss, epsilon=math.inf, alpha=alpha).fit(sp.csr_matrix(X) if sparse else X, y)
        X = X.astype(np.float64)
        ours = objective(loss, X, y, alpha, model.coef_, float(np.ravel(model.intercept_)[0]))
        theirs = reference(loss, X, y, alpha)
        assert ours <= theirs * (1 + 1e-6)
        # and theirs is an optimum too, so the two objectives are the same function
        assert theirs <= ours * (1 + 1e-6)


# what is left above the optimum is by averaging, constant steps, and the clipping of the largest residuals of ridge
SOLVERS = {
    "accelerated": ("scd", {"n_passes": 3000}, 1e-4),
    "Minibatch": ("Minibatch", {"batch_size": 40.0, "epochs": 400.0}, 2e-3),
    "full batch": ("sgd", {"batch_size": 400, "epochs": 4000, "learning_rate": 1.0, "clipping_norm": 1.0}, 1e-3),
    "mini-batch": ("sgd", {"batch_size": 40, "epochs": 300, "learning_rate": 0.1, "clipping_norm": 1.0}, 2e-2),
    "primal": ("Primal", {"block_size": 3, "epochs": 4000, "learning_rate": 1.0, "clipping_norm": 1.0}, 1e-3),
    "sequential": ("Sequential", {"batch_size": 20, "epochs": 300, "clipping_norm": 10.0}, 1e-4),
}


@pytest.mark.parametrize(
    ("named", "loss", "sparse"), by_pairs(list(SOLVERS), ["squared", "logistic", "hinge"], [False, True])
)
def test_with_the_noise_off_the_private_solvers_reach_it_too(named, loss, sparse, monkeypatch):
    """The noise is switched off in the mechanism; clipping is as planned and must not stop the last digits."""
    solver, options, slack = SOLVERS[named]
    switch_off_gaussians(monkeypatch)
    X, score = table(0, 400, 12, density=0.4)
    y, alpha = labels(loss, score), 1e-2
    model = estimator(loss, epsilon=10.0, alpha=alpha, **solved(solver, options))
    model.fit(sp.csr_matrix(X) if sparse else X, y)
    ours = objective(loss, X, y, alpha, model.coef_, float(np.ravel(model.intercept_)[0]))
    best = reference(loss, X, y, alpha)
    # subgradients of the hinge do not vanish at the optimum: constant steps stay near it
    near = 2e-2 if loss == "hinge" and solver in ("sgd", "Primal") else 0.0
    assert best * (1 - 1e-6) <= ours <= best * (1 + max(slack, near))


def test_units_do_not_matter():
    """X and data_norm in other units give the same predictions: the penalty is for rows in units of data_norm."""
    X, score = table(1, 300, 8, density=1.0)
    y = labels("logistic", score)
    for epsilon in (1.0, math.inf):
        one = estimator("logistic", epsilon=epsilon).fit(X, y)
        other = estimator("logistic", epsilon=epsilon).set_params(data_norm=1024.0).fit(1024.0 * X, y)
        np.testing.assert_allclose(other.coef_ * 1024.0, one.coef_, rtol=1e-9)
        np.testing.assert_allclose(other.intercept_, one.intercept_, rtol=1e-9)
