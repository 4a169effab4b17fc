"""What each side solves by itself: a party's own problem, eq. (6), and the coordinator's scalar problems, eq. (7)."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from sottovoce.exceptions import ParameterError
from sottovoce.losses import Absolute, Hinge, Huber, Logistic, SigmoidLoss, SmoothedHinge, Squared
from sottovoce.papers.admm import Penalty
from sottovoce.papers.admm.sharing import Block, ScoreProblem

with_and_without = pytest.mark.parametrize("intercept", [False, True], ids=["no intercept", "intercept"])


def table(seed, n, d, filled=0.6):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * (rng.random((n, d)) < filled)


def whole(X, intercept):
    return np.column_stack([X, np.ones(len(X))]) if intercept else X


@with_and_without
@pytest.mark.parametrize(("n", "d"), [(40, 6), (20, 20), (12, 35)], ids=["long", "square", "wide"])
def test_the_quadratic_penalty_is_one_linear_system(n, d, intercept):
    X = table(d, n, d)
    D, l2, rho = whole(X, intercept), 0.7, 1.3
    b = np.random.default_rng(1).normal(size=D.shape[1])
    matrix = np.diag([l2] * d + [0.0] * intercept) + rho * D.T @ D
    got = Block(X, Penalty(l2), rho, intercept=intercept).solve(b)
    assert got == pytest.approx(np.linalg.solve(matrix, rho * b), rel=1e-9, abs=1e-9)


# --- corners: accelerated proximal steps ------------------------------------------------------------------------------

PENALTIES = {
    "l1": Penalty(l1=0.8),
    "elastic net": Penalty(l2=0.5, l1=0.8),
    "box": Penalty(low=-0.1, high=0.15),
    "nonnegative": Penalty(l2=0.3, low=0.0),
    "all": Penalty(l2=0.5, l1=0.4, low=-0.2, high=0.05),
}


@with_and_without
@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES.keys())
@pytest.mark.parametrize(("n", "d"), [(60, 8), (15, 30)], ids=["long", "wide"])
@pytest.mark.parametrize("rho", [0.3, 5.0])
def test_steps_satisfy_kkt(n, d, rho, penalty, intercept):
    """0 in rho D'(Dx) - rho b + dR(x), coefficient by coefficient; and the proximal residual is 0."""
    X = table(n, n, d)
    D = whole(X, intercept)
    b = D.T @ np.random.default_rng(5).normal(size=n)
    block = Block(X, penalty, rho, intercept=intercept)
    x = block.x = block.solve(b)
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
    assert np.abs(block.residual(gradient)).max() <= near
    # from another start the same scores, and the residual is not 0 beside the solution
    block.x = np.clip(np.full(D.shape[1], 0.03), penalty.low, penalty.high)
    assert D @ block.solve(b) == pytest.approx(D @ x, abs=1e-5)
    block.x = np.zeros(D.shape[1])
    assert np.abs(block.residual(-rho * b)).max() > 0.01
    if penalty.l1 and not penalty.l2:
        assert 0 < np.count_nonzero(x[:d]) < d or rho > 1.0


def test_columns_of_zeros_stay_out():
    for n, d in ((20, 3), (3, 20)):
        X = table(0, n, d, filled=1.0)
        X[:, 1] = 0.0
        x = Block(X, Penalty(l1=0.1), 1.0).solve(X.T @ np.ones(n))
        assert x[1] == 0.0 and np.isfinite(x).all() and x.any()


def test_steps_without_corners_solves_the_system():
    """Bounds that are far away: the solution of the linear system."""
    for n, d in ((50, 6), (10, 25)):
        X = table(7, n, d)
        b = X.T @ np.random.default_rng(2).normal(size=n)
        far = Block(X, Penalty(2.0, low=-1e6, high=1e6), 1.5).solve(b)
        assert far == pytest.approx(Block(X, Penalty(2.0), 1.5).solve(b), abs=1e-9)


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
    "huber": Huber(0.5),
    "absolute": Absolute(),
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
