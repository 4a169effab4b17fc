"""What a party solves by itself: products of its columns, and the linear system of its preconditioner."""

import numpy as np
import pytest
import scipy.sparse as sp

from sottovoce.vertical.protocols.exact.worker import Subproblem
from sottovoce.vertical.table.columns import Columns

FORMS = {
    "f64": lambda X: X,
    "f32": lambda X: X.astype(np.float32),
    "csr f64": lambda X: sp.csr_array(X),
    "csr f32": lambda X: sp.csr_array(X.astype(np.float32)),
}
each_form = pytest.mark.parametrize("form", FORMS)
with_and_without = pytest.mark.parametrize("intercept", [False, True], ids=["no intercept", "intercept"])


def table(seed, n, d, filled=0.6):
    """Entries that float32 holds exactly, so that all forms are the same table."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < filled)
    return X.astype(np.float32).astype(np.float64)


def whole(X, intercept):
    return np.column_stack([X, np.ones(len(X))]) if intercept else X


# --- columns ----------------------------------------------------------------------------------------------------------


@each_form
@with_and_without
@pytest.mark.parametrize(("n", "d"), [(1, 1), (30, 7), (5, 40), (8192, 3), (20_000, 4)])
def test_columns_are_numpys(n, d, form, intercept):
    """To double precision, in float32 also; 20,000 rows are three pieces."""
    X = table(n + d, n, d)
    columns, D = Columns(FORMS[form](X), intercept=intercept), whole(X, intercept)
    rng = np.random.default_rng(0)
    x, v, weights = rng.normal(size=D.shape[1]), rng.normal(size=n), rng.random(n)
    assert (columns.n_rows, columns.n_features, columns.n_columns) == (n, d, D.shape[1])
    near = {"rel": 1e-11, "abs": 1e-11}
    assert columns.times(x) == pytest.approx(D @ x, **near)
    assert columns.back(v) == pytest.approx(D.T @ v, **near)
    assert columns.gram() == pytest.approx(D.T @ D, **near)
    assert columns.gram(weights) == pytest.approx(D.T @ (weights[:, None] * D), **near)
    if n <= 30:
        assert columns.features_gram() == pytest.approx(X @ X.T, **near)
    for out in (columns.times(x), columns.back(v), columns.gram()):
        assert out.dtype == np.float64


# --- the quadratic penalty: one linear system -------------------------------------------------------------------------


@each_form
@with_and_without
@pytest.mark.parametrize(("n", "d"), [(40, 6), (20, 20), (12, 35)], ids=["long", "square", "wide"])
@pytest.mark.parametrize("per_row", [False, True], ids=["one rho", "rho per row"])
def test_inverse_times_solves_the_system(n, d, form, intercept, per_row):
    """Cholesky for long tables, Woodbury for wide ones, against a dense solve."""
    X = table(d, n, d)
    D, l2 = whole(X, intercept), 0.7
    subproblem = Subproblem(Columns(FORMS[form](X), intercept=intercept), l2)
    assert subproblem.wide == (d > n)
    rng = np.random.default_rng(1)
    ridge = np.diag([l2] * d + [0.0] * intercept)
    for seed in range(3):
        rho = np.random.default_rng(seed).uniform(0.01, 3.0, n) if per_row else 0.3 * 4.0**seed
        matrix = ridge + D.T @ (np.broadcast_to(rho, n)[:, None] * D)
        for _ in range(2):  # the second time from the factor that is kept
            v = rng.normal(size=D.shape[1])
            assert subproblem.inverse_times(v, rho) == pytest.approx(np.linalg.solve(matrix, v), rel=1e-9, abs=1e-9)
