"""What each side solves by itself: the penalty, a party's own problem, eq. (6), and the coordinator's, eq. (7)."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from sottovoce.exceptions import ParameterError
from sottovoce.losses import Hinge, Logistic, SmoothedHinge, Squared
from sottovoce.papers.admm import Penalty
from sottovoce.papers.admm.sharing import Block, ScoreProblem
from support.sigmoid_loss import SigmoidLoss

PENALTIES = {
    "groups": Penalty(0.3, 2.0, groups=(2, 1, 4)),
    "groups alone": Penalty(0.0, 2.0, groups=(2, 1, 4)),
    "one group": Penalty(0.0, 3.0, groups=(7,)),
    "groups in an l2 ball": Penalty(0.1, 1.0, groups=(2, 1, 4), ball="l2", radius=0.4),
    "l1 ball": Penalty(0.0, 0.0, ball="l1", radius=0.7),
    "l1 ball and elastic net": Penalty(0.2, 0.5, ball="l1", radius=0.7),
    "l2 ball": Penalty(0.0, 0.0, ball="l2", radius=0.4),
    "l2 ball and elastic net": Penalty(0.2, 0.5, ball="l2", radius=0.4),
    "a ball that is not reached": Penalty(0.5, 0.0, ball="l2", radius=100.0),
    "an l1 ball that is not reached": Penalty(0.5, 0.1, ball="l1", radius=100.0),
    "l1": Penalty(l1=0.8),
    "elastic net": Penalty(l2=0.5, l1=0.8),
    "box": Penalty(low=-0.1, high=0.15),
    "nonnegative": Penalty(l2=0.3, low=0.0),
    "all": Penalty(l2=0.5, l1=0.4, low=-0.2, high=0.05),
}

each_penalty = pytest.mark.parametrize("penalty", [pytest.param(p, id=name) for name, p in PENALTIES.items()])


def splits(sizes):
    return np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])


def own_value(penalty, x):
    """R(x), written once more."""
    if penalty.groups:
        groups = sum(math.sqrt(len(g)) * float(np.linalg.norm(x[g])) for g in splits(penalty.groups))
        return 0.5 * penalty.l2 * float(x @ x) + penalty.l1 * groups
    return 0.5 * penalty.l2 * float(x @ x) + penalty.l1 * float(np.abs(x).sum())


def inside(penalty, x, slack=1e-12):
    if not penalty.ball:
        return bool(np.all((penalty.low <= x) & (x <= penalty.high)))
    norms = {"l1": float(np.abs(x).sum()), "l2": float(np.linalg.norm(x))}
    return norms[penalty.ball] <= penalty.radius * (1 + slack)


@each_penalty
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_prox_is_the_least_of_all_near_it(penalty, scale):
    """No point of the set near it is better, and a convex function has no other lowest point."""
    rng = np.random.default_rng(1)
    v = scale * rng.normal(size=7)
    x = penalty.prox(v)
    assert inside(penalty, x)
    assert penalty.value(x) == pytest.approx(own_value(penalty, x), rel=1e-12)
    best = own_value(penalty, x) + 0.5 * float((x - v) @ (x - v))
    for size in (1e-4, 1e-2, 1.0):
        for _ in range(200):
            other = x + size * rng.normal(size=7) * (rng.random(7) < 0.6)
            if inside(penalty, other, 0.0):
                assert own_value(penalty, other) + 0.5 * float((other - v) @ (other - v)) >= best - 1e-12
        for towards in (np.zeros(7), v):
            other = x + min(size, 1.0) * (towards - x)
            if inside(penalty, other, 0.0):
                assert own_value(penalty, other) + 0.5 * float((other - v) @ (other - v)) >= best - 1e-12


@each_penalty
@pytest.mark.parametrize("intercept", [False, True], ids=["no intercept", "intercept"])
@pytest.mark.parametrize("n", [40, 5], ids=["tall", "wide"])
def test_own_problem_is_solved(penalty, intercept, n):
    """Where x = prox(x - gradient), x is the solution; columns are far from centred, and one is twice there."""
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 7)) + 1.0
    X[:, 6] = X[:, 5]
    D = np.column_stack([X, np.ones(n)]) if intercept else X
    x = np.zeros(D.shape[1])
    for rho in (0.7, 3.0):
        problem = Block(X, penalty, rho, intercept=intercept)
        problem.x = x
        b = D.T @ (2.0 * rng.normal(size=n) + D[:, 0] - 1.0)
        x = problem.x = problem.solve(b)
        gradient = rho * (D.T @ (D @ x) - b)
        residual = problem.residual(gradient)
        assert np.abs(residual).max() < 1e-8 * max(1.0, np.abs(gradient).max(), np.abs(b).max())
        assert inside(penalty, x[:7])
        assert penalty.value(x[:7]) == pytest.approx(own_value(penalty, x[:7]), rel=1e-12)


def test_a_group_without_entries_and_a_target_of_zeros():
    X = np.zeros((10, 3))
    X[:, 2] = np.arange(10.0)
    for penalty in (Penalty(0.0, 0.1, groups=(2, 1)), Penalty(ball="l2", radius=0.5), Penalty(ball="l1", radius=0.5)):
        problem = Block(X, penalty, 1.0)
        assert not problem.solve(np.zeros(3)).any()
        x = problem.solve(X.T @ X[:, 2])
        assert not x[:2].any()
        assert 0.4 < x[2] < 1.0


@pytest.mark.parametrize("intercept", [False, True], ids=["no intercept", "intercept"])
@pytest.mark.parametrize(("n", "d"), [(40, 6), (20, 20), (12, 35)], ids=["long", "square", "wide"])
def test_the_quadratic_penalty_is_one_linear_system(n, d, intercept):
    rng, l2, rho = np.random.default_rng(d), 0.7, 1.3
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    D = np.column_stack([X, np.ones(n)]) if intercept else X
    b = rng.normal(size=D.shape[1])
    matrix = np.diag([l2] * d + [0.0] * intercept) + rho * D.T @ D
    got = Block(X, Penalty(l2), rho, intercept=intercept).solve(b)
    assert got == pytest.approx(np.linalg.solve(matrix, rho * b), rel=1e-9, abs=1e-9)


# --- the coordinator's scalar problems --------------------------------------------------------------------------------

CONVEX = {
    "squared": Squared(),
    "logistic": Logistic(),
    "hinge": Hinge(),
    "smoothed hinge .5": SmoothedHinge(0.5),
    "smoothed hinge 2": SmoothedHinge(2.0),
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
