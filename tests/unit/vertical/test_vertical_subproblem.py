"""What each side solves by itself: products of columns, a party's own problem, the coordinator's scalar problems."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar

from sottovoce.exceptions import ParameterError
from sottovoce.losses import Hinge, Logistic, SigmoidLoss, SmoothedHinge, Squared, TiltedLogistic
from sottovoce.vertical.protocols.exact.scores import ScoreProblem
from sottovoce.vertical.protocols.exact.subproblem import Subproblem
from sottovoce.vertical.table.columns import Columns
from sottovoce.vertical.table.penalty import Penalty

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
    assert columns.squares() == pytest.approx((D * D).sum(axis=0), **near)
    if n <= 30:
        assert columns.features_gram() == pytest.approx(X @ X.T, **near)
        dense = columns.dense_by_column()
        assert dense.flags.f_contiguous and dense.dtype == np.float64
        assert np.array_equal(dense, D)
    for out in (columns.times(x), columns.back(v), columns.gram(), columns.squares()):
        assert out.dtype == np.float64


@each_form
def test_a_table_without_entries(form):
    columns = Columns(FORMS[form](np.zeros((6, 3))), intercept=True)
    assert np.array_equal(columns.gram(), np.diag([0.0, 0.0, 0.0, 6.0]))
    assert np.array_equal(columns.times(np.array([1.0, 2.0, 3.0, 0.5])), np.full(6, 0.5))


def test_columns_leave_their_table_as_it_was():
    for form in FORMS.values():
        X = table(1, 40, 5)
        made = form(X.copy())
        columns = Columns(made, intercept=True)
        columns.gram(np.ones(40))
        columns.times(np.ones(6))
        columns.back(np.ones(40))
        columns.squares()
        assert made.dtype == form(X).dtype
        assert np.array_equal(made.toarray() if sp.issparse(made) else made, X)


# --- the quadratic penalty: one linear system -------------------------------------------------------------------------


@each_form
@with_and_without
@pytest.mark.parametrize(("n", "d"), [(40, 6), (20, 20), (12, 35)], ids=["long", "square", "wide"])
@pytest.mark.parametrize("per_row", [False, True], ids=["one rho", "rho per row"])
def test_inverse_times_solves_the_system(n, d, form, intercept, per_row):
    """Cholesky for long tables, Woodbury for wide ones, against a dense solve."""
    X = table(d, n, d)
    D, l2 = whole(X, intercept), 0.7
    subproblem = Subproblem(Columns(FORMS[form](X), intercept=intercept), Penalty(l2))
    assert subproblem.wide == (d > n)
    rng = np.random.default_rng(1)
    ridge = np.diag([l2] * d + [0.0] * intercept)
    for seed in range(3):
        rho = np.random.default_rng(seed).uniform(0.01, 3.0, n) if per_row else 0.3 * 4.0**seed
        matrix = ridge + D.T @ (np.broadcast_to(rho, n)[:, None] * D)
        for _ in range(2):  # the second time from the factor that is kept
            v = rng.normal(size=D.shape[1])
            assert subproblem.inverse_times(v, rho) == pytest.approx(np.linalg.solve(matrix, v), rel=1e-9, abs=1e-9)


def test_a_new_rho_makes_a_new_factor():
    X = table(2, 30, 4)
    subproblem = Subproblem(Columns(X), Penalty(1.0))
    v = np.ones(4)
    weights = np.full(30, 2.0)
    wanted = np.linalg.solve(np.eye(4) + 2.0 * X.T @ X, v)
    for rho in (1.0, 2.0, weights, weights.copy(), 2.0):
        got = subproblem.inverse_times(v, rho)
        assert np.allclose(got, wanted) == (not isinstance(rho, float) or rho == 2.0)


@with_and_without
def test_gram_times(intercept):
    for n, d in ((30, 5), (5, 30)):
        X = table(3, n, d)
        D = whole(X, intercept)
        subproblem = Subproblem(Columns(X, intercept=intercept), Penalty(1.0))
        x = np.random.default_rng(0).normal(size=D.shape[1])
        assert subproblem.gram_times(x, D @ x) == pytest.approx(D.T @ (D @ x))


# --- corners: coordinate descent --------------------------------------------------------------------------------------

PENALTIES = {
    "l1": Penalty(l1=0.8),
    "elastic net": Penalty(l2=0.5, l1=0.8),
    "box": Penalty(low=-0.1, high=0.15),
    "nonnegative": Penalty(l2=0.3, low=0.0),
    "all": Penalty(l2=0.5, l1=0.4, low=-0.2, high=0.05),
}


@each_form
@with_and_without
@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES.keys())
@pytest.mark.parametrize(("n", "d"), [(60, 8), (15, 30)], ids=["gram", "by column"])
@pytest.mark.parametrize("rho", [0.3, 5.0])
def test_coordinate_descent_satisfies_kkt(n, d, rho, penalty, form, intercept):
    """0 in rho D'(Dx) - rho b + dR(x), coefficient by coefficient; and the proximal residual is 0."""
    X = table(n, n, d)
    D = whole(X, intercept)
    b = D.T @ np.random.default_rng(5).normal(size=n)
    subproblem = Subproblem(Columns(FORMS[form](X), intercept=intercept), penalty)
    x = subproblem.solve(b, rho, np.zeros(D.shape[1]))
    gradient = rho * (D.T @ (D @ x) - b)
    near = 1e-7 * rho * np.abs(b).max()
    for j in range(d):
        slope = gradient[j] + penalty.l2 * x[j]
        # the subdifferential of l1 |x|, and of the bounds where one is reached
        low = -math.inf if x[j] == penalty.low else penalty.l1 if x[j] > 0.0 else -penalty.l1
        high = math.inf if x[j] == penalty.high else -penalty.l1 if x[j] < 0.0 else penalty.l1
        assert low - near <= -slope <= high + near
        assert penalty.low <= x[j] <= penalty.high
    if intercept:
        assert gradient[d] == pytest.approx(0.0, abs=near)
    assert np.abs(subproblem.prox_residual(x, gradient)).max() <= near
    # from another start the same scores, and the residual is not 0 beside the solution
    again = subproblem.solve(b, rho, np.clip(np.full(D.shape[1], 0.03), penalty.low, penalty.high))
    assert D @ again == pytest.approx(D @ x, abs=1e-5)
    assert np.abs(subproblem.prox_residual(np.zeros(D.shape[1]), -rho * b)).max() > 0.01
    if penalty.l1 and not penalty.l2:
        assert 0 < np.count_nonzero(x[:d]) < d or rho > 1.0


def test_columns_of_zeros_stay_out():
    for n, d in ((20, 3), (3, 20)):
        X = table(0, n, d, filled=1.0)
        X[:, 1] = 0.0
        x = Subproblem(Columns(X), Penalty(l1=0.1)).solve(X.T @ np.ones(n), 1.0, np.zeros(d))
        assert x[1] == 0.0 and np.isfinite(x).all() and x.any()


def test_descent_without_corners_solves_the_system():
    """Bounds that are far away: the solution of the linear system."""
    for n, d in ((50, 6), (10, 25)):
        X = table(7, n, d)
        b = X.T @ np.random.default_rng(2).normal(size=n)
        far = Subproblem(Columns(X), Penalty(2.0, low=-1e6, high=1e6)).solve(b, 1.5, np.zeros(d))
        assert far == pytest.approx(Subproblem(Columns(X), Penalty(2.0)).solve(b, 1.5, np.zeros(d)), abs=1e-9)


@pytest.mark.parametrize("penalty", [Penalty(0.5), *PENALTIES.values()])
def test_prox_is_the_minimum(penalty):
    """Coefficient by coefficient, against scipy."""
    v = np.linspace(-3.0, 3.0, 41)
    for place, number in enumerate(v):
        ends = (max(penalty.low, -4.0), min(penalty.high, 4.0))

        def cost(t, number=number):
            return penalty.value(np.array([t])) + 0.5 * (t - number) ** 2

        found = minimize_scalar(cost, bounds=ends, method="bounded", options={"xatol": 1e-12})
        best = min(found.fun, cost(ends[0]), cost(ends[1]), cost(0.0))
        got = penalty.prox(v)[place]
        assert ends[0] <= got <= ends[1]
        assert cost(got) <= best + 1e-12


def test_which_penalties_are_quadratic():
    assert Penalty().is_quadratic and Penalty(3.0).is_quadratic
    assert not any(penalty.is_quadratic for penalty in PENALTIES.values())


# --- the coordinator's scalar problems --------------------------------------------------------------------------------

CONVEX = {
    "squared": Squared(),
    "logistic": Logistic(),
    "hinge": Hinge(),
    "smoothed hinge .5": SmoothedHinge(0.5),
    "smoothed hinge 2": SmoothedHinge(2.0),
    "tilted": TiltedLogistic(0.6),
}
LOSSES = CONVEX | {"sigmoid": SigmoidLoss()}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
@pytest.mark.parametrize("strength", [0.11, 0.5, 3.0, 100.0])
def test_minimise_is_the_minimum(loss, strength):
    """l(z) + k/2 (z - c)^2 of 60 records, against scipy, also from the warm start of another call."""
    rng = np.random.default_rng(8)
    y = np.where(rng.random(60) < 0.5, -1.0, 1.0) if loss.is_classification else rng.normal(size=60)
    problem = ScoreProblem(loss, y)
    for scale in (1.0, 5.0, 0.1):
        centre = scale * rng.normal(size=60)
        z = problem.minimise(centre, strength)
        for i in range(60):

            def cost(t, i=i, centre=centre):
                return float(loss.value(y[i], t)) + 0.5 * strength * (t - centre[i]) ** 2

            reach = 3.0 + abs(y[i]) + abs(centre[i]) + 2.0 / strength
            bounds = (centre[i] - reach, centre[i] + reach)
            found = minimize_scalar(cost, bounds=bounds, method="bounded", options={"xatol": 1e-11})
            assert cost(z[i]) <= found.fun + 1e-11 * (1.0 + abs(found.fun))
            assert z[i] == pytest.approx(found.x, abs=2e-5)
        if math.isfinite(loss.smoothness):
            assert loss.derivative(y, z) + strength * (z - centre) == pytest.approx(0.0, abs=1e-9 * (1.0 + strength))


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
def test_residual_is_zero_at_the_minimum_only(loss):
    rng = np.random.default_rng(9)
    y = np.where(rng.random(40) < 0.5, -1.0, 1.0)
    problem, centre, k = ScoreProblem(loss, y), rng.normal(size=40), 0.8
    z = problem.minimise(centre, k)
    assert problem.residual(z, k * (z - centre)) == pytest.approx(0.0, abs=1e-9)
    away = centre + 1.7
    assert np.abs(problem.residual(away, k * (away - centre))).max() > 0.1


@pytest.mark.parametrize("share", [1e-3, 0.5, 1.0])
def test_rho_below_the_smoothness_of_a_loss_that_is_not_convex(share):
    loss = SigmoidLoss()
    problem = ScoreProblem(loss, np.array([1.0, -1.0]))
    with pytest.raises(ParameterError, match=r"rho .* must be above the smoothness 0\.0962\d* of the sigmoid loss"):
        problem.minimise(np.zeros(2), share * loss.smoothness)
    with pytest.raises(ParameterError, match="rho"):
        problem.minimise(np.zeros(2), math.nan)
    for other in CONVEX.values():  # a convex loss needs no such bound
        ScoreProblem(other, np.array([1.0, -1.0])).minimise(np.zeros(2), 1e-3)


def test_value_is_the_sum():
    y, z = np.array([1.0, -1.0, 1.0]), np.array([0.5, 0.5, -2.0])
    assert ScoreProblem(Hinge(), y).value(z) == pytest.approx(0.5 + 1.5 + 3.0)
