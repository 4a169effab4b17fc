"""Training without noise reaches the optimum that another solver finds, and its products are what they should be."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, Ridge

from sottovoce.losses import Logistic, SmoothedHinge, Squared
from sottovoce.vertical import Party, VerticalLogisticRegression
from sottovoce.vertical.columns import Columns
from sottovoce.vertical.coordinator.exact import _solve, minimise
from support.pairs import by_pairs
from support.smooth_optimum import smooth_optimum

WIDTHS = {"one": 7, "ten": 10, "wide": 93, "all wide": 215}


class Case:
    """A table, labels or targets, and what a training on it came to."""

    def __init__(self, width="one", *, n=60, seed=0, classes=True, sparse=False, shift=0.4):
        rng, d = np.random.default_rng(seed), WIDTHS[width]
        self.X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7) / np.sqrt(0.7 * d)
        score = self.X @ rng.normal(size=d) * 2.0 + shift + 0.4 * rng.normal(size=n)
        self.y = np.where(score > 0.0, 1.0, -1.0) if classes else score
        self.table = sp.csr_array(self.X) if sparse else self.X

    def train(self, loss, l2, *, intercept=True, **options):
        self.l2 = l2
        options = {"tol": 1e-13, "max_iter": 400} | options
        return minimise(self.table, loss, self.y, l2=l2, intercept=intercept, **options)

    def objective(self, loss, w, b=0.0):
        return float(loss.value(self.y, self.X @ w + b).sum()) + 0.5 * self.l2 * float(w @ w)

    def smooth_optimum(self, loss, l2, intercept=True):
        return smooth_optimum(self.X, self.y, loss, l2, intercept)


LOSSES = [Logistic(), Squared(), SmoothedHinge(0.05), SmoothedHinge(0.5), SmoothedHinge(3.0)]


@pytest.mark.parametrize(
    ("width", "loss", "sparse", "intercept"), by_pairs(list(WIDTHS), LOSSES, [False, True], [False, True])
)
def test_it_is_the_optimum_of_other_solvers(width, loss, sparse, intercept):
    """Tables that are wider than long also; at 0 the smoothed hinge may have no second derivative."""
    case, l2 = Case(width, classes=loss.is_classification, sparse=sparse), 0.8
    coef, constant, history = case.train(loss, l2, intercept=intercept)
    assert history.converged
    assert history.objective[-1] == pytest.approx(case.objective(loss, coef, constant), rel=1e-10)
    if isinstance(loss, SmoothedHinge):
        best, x = case.smooth_optimum(loss, l2, intercept)
        assert history.objective[-1] == pytest.approx(best, rel=1e-9)
        assert coef == pytest.approx(x[: len(coef)], abs=1e-4)
        return
    truth = Ridge(alpha=l2, fit_intercept=intercept, solver="svd")
    if isinstance(loss, Logistic):
        truth = LogisticRegression(C=1.0 / l2, fit_intercept=intercept, tol=1e-12, max_iter=100_000)
    truth.fit(case.X, case.y)
    assert coef == pytest.approx(np.ravel(truth.coef_), abs=2e-6)
    assert constant == pytest.approx(float(np.sum(truth.intercept_)), abs=2e-6)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, np.float32], ids=["dense", "csr", "single"])
def test_parties_have_the_model_of_the_joined_table(kind):
    """Of two answers of four kinds each at two parties, as one-hot columns, which contain the constant."""
    rng = np.random.default_rng(0)
    X = np.hstack([np.eye(4)[rng.choice(4, 3000, p=[0.1, 0.2, 0.3, 0.4])] for _ in range(4)])
    y = np.where(rng.random(3000) < 1.0 / (1.0 + np.exp(1.0 - X @ rng.normal(size=16))), 1.0, -1.0)
    parties = [Party(kind(X[:, :8]), name="a"), Party(X[:, 8:], name="b")]
    model = VerticalLogisticRegression(epsilon=np.inf, tol=1e-12, label_holder="b").fit(parties, y)
    best = LogisticRegression(C=1.0, tol=1e-12, max_iter=10_000).fit(X, y)
    assert [part.intercept for part in model.parts_.values()] == pytest.approx([0.0, best.intercept_[0]], abs=1e-5)
    np.testing.assert_allclose(model.decision_function(parties), best.decision_function(X), atol=1e-5)
    none = VerticalLogisticRegression(epsilon=np.inf, fit_intercept=False).fit(parties, y)
    assert [part.intercept for part in none.parts_.values()] == [0.0, 0.0]


@pytest.mark.parametrize("loss", [Logistic(), Squared(), SmoothedHinge(0.5)], ids=lambda loss: loss.name)
def test_steps_beyond_double_precision_do_no_harm(loss):
    """tol = 0: it ends when no descent is left, and breaks nothing on the way."""
    case = Case()
    best, _ = case.smooth_optimum(loss, 1.0)
    history = case.train(loss, 1.0, tol=0.0, max_iter=300).history
    assert history.converged and history.n_steps < 300
    assert history.objective[-1] == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("alpha", [1e-5, 1e-3, 1e-2])
@pytest.mark.parametrize("loss", [Logistic(), Squared(), SmoothedHinge(0.5)], ids=lambda loss: loss.name)
def test_columns_that_say_nothing_are_left_to_the_intercept(loss, alpha):
    """Where a loss is all but straight along a line its parabola ends far beyond any optimum."""
    y = np.repeat([1.0, -1.0], [7, 13])
    for column in (0.0, 3.0, -1e3):
        coef, _, history = minimise(np.full((20, 1), column), loss, y, l2=20 * alpha, intercept=True)
        best, _ = smooth_optimum(np.zeros((20, 1)), y, loss, 20 * alpha, True)
        assert history.converged
        assert history.objective[-1] == pytest.approx(best, rel=1e-6)
        assert abs(coef[0] * column) < 1e-6


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1.0, 1e3, 1e6, 1e9])
@pytest.mark.parametrize("width", ["one", "all wide"])
def test_what_has_converged_is_the_optimum_at_any_scale(width, scale):
    """Where rounding hides the way it says so: no step is left, too, where the optimum is far."""
    for seed, loss in enumerate(LOSSES):
        case = Case(width, seed=seed, classes=loss.is_classification)
        case.X *= scale
        coef, constant, history = minimise(case.X, loss, case.y, l2=1e-4, intercept=seed % 2 == 0)
        case.l2, values = 1e-4, [*coef, constant, *history.objective]
        assert np.isfinite(values).all()
        slopes = loss.derivative(case.y, case.X @ coef + constant)
        gradient = case.X.T @ slopes + case.l2 * coef
        start = float(loss.value(case.y, np.zeros(60)).sum())
        if history.converged:
            assert gradient @ gradient / (2.0 * case.l2) <= 1e-5 * max(history.objective[-1], 1e-9 * start)
        assert history.converged or scale > 1.0


# --- the stopping measure ---------------------------------------------------------------------------------------------


def gaps(case, loss, l2, intercept):
    """Stopping measure at the start of each step and the true distance to the optimum there."""
    best, _ = case.smooth_optimum(loss, l2, intercept)
    history = case.train(loss, l2, intercept=intercept, tol=0.0, max_iter=25).history
    before = [float(loss.value(case.y, np.zeros(len(case.y))).sum()), *history.objective[:-1]]
    apart = np.array(before) - best
    told = apart > 1e-9 * best
    return apart[told], np.array(history.stationarity)[told]


@pytest.mark.parametrize(
    ("loss", "l2", "width", "shift"),
    by_pairs([Logistic(), Squared(), SmoothedHinge(0.5)], [0.01, 1.0, 60.0, 1000.0], ["one", "wide"], [0.0, 2.0]),
)
def test_the_measure_bounds_the_distance(loss, l2, width, shift):
    """By strong convexity, rigorous; with an intercept it is an estimate: 1.18 times too small at a far start."""
    apart, measure = gaps(Case(width, n=80), loss, l2, False)
    assert (apart <= measure * (1 + 1e-6)).all()
    assert len(apart) >= 1
    apart, measure = gaps(Case("one", n=80, shift=shift), loss, l2, True)
    assert (apart <= 1.25 * measure).all()


# --- columns ----------------------------------------------------------------------------------------------------------

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


# --- the linear system of a step --------------------------------------------------------------------------------------


@each_form
@with_and_without
@pytest.mark.parametrize(
    ("n", "d"), [(40, 6), (20, 20), (12, 35), (20_000, 4)], ids=["long", "square", "wide", "pieces"]
)
@pytest.mark.parametrize("bent", [1.0, 0.3], ids=["all rows", "few rows"])
def test_a_step_solves_the_system(n, d, form, intercept, bent):
    """Cholesky for long tables, Woodbury for wide ones and where few rows have a curvature, against a dense solve."""
    X = table(d, n, d)
    D, l2 = whole(X, intercept), 0.7
    columns = Columns(FORMS[form](X), intercept=intercept)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        weights = rng.uniform(0.01, 3.0, n) * (rng.random(n) < bent)
        weights[0] = 1.0
        matrix = np.diag([l2] * d + [0.0] * intercept) + D.T @ (weights[:, None] * D)
        v = rng.normal(size=D.shape[1])
        assert _solve(columns, weights, l2, v) == pytest.approx(np.linalg.solve(matrix, v), rel=1e-8, abs=1e-8)
