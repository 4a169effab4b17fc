"""Groups of coefficients and balls: the penalty, a party's own problem, and whole runs."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from sottovoce.losses import Logistic, SigmoidLoss, Squared
from sottovoce.papers.admm import Penalty, admm, usual_rho
from sottovoce.papers.admm.sharing import Block

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
        return True
    norms = {"l1": float(np.abs(x).sum()), "l2": float(np.linalg.norm(x))}
    return norms[penalty.ball] <= penalty.radius * (1 + slack)


# ------------------------------------------------------------------ the penalty


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


def test_only_plain_l2_is_quadratic():
    assert Penalty(1.0).is_quadratic
    assert not any(penalty.is_quadratic for penalty in PENALTIES.values())


# ------------------------------------------------------------------ a party's own problem


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


# ------------------------------------------------------------------ whole runs

N = 80
SIZES = {"one": [7], "two": [3, 4], "three": [2, 2, 3], "wide": [3, 120]}
each_split = pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)


def table(sizes, seed=7):
    rng = np.random.default_rng(seed)
    d = sum(sizes)
    X = rng.normal(size=(N, d)) / math.sqrt(d) + 0.1
    score = 3.0 * X @ (rng.normal(size=d) * (rng.random(d) < 0.6)) + 0.3
    return X, score


def fitted(X, sizes, loss, y, penalties, **options):
    """A run with an intercept at every party: coefficients, their intercepts' sum, and the run."""
    blocks = [X[:, columns] for columns in splits(sizes)]
    places, rho = range(len(sizes)), usual_rho(loss, y, n_parties=len(sizes))
    given = {"relaxation": 1.6 if loss.name != "sigmoid" else 1.0, "tol": 1e-9, "max_iter": 20_000} | options
    run = admm(blocks, loss, y, penalty=penalties, rho=rho, intercepts=places, **given)
    return np.concatenate([x[:-1] for x in run.x]), sum(x[-1] for x in run.x), run


def by_steps(X, y, loss, l2, move, rounds=60_000):
    """FISTA with restarts on the joined table, an independent solver; ``move(v, step)`` is the prox of the penalty."""
    A = np.column_stack([X, np.ones(len(y))])
    step = 1.0 / (loss.smoothness * float(np.linalg.norm(A, 2)) ** 2 + l2)
    ridge = np.append(np.full(X.shape[1], l2), 0.0)

    def advance(z):
        moved = z - step * (A.T @ loss.derivative(y, A @ z) + ridge * z)
        return np.append(move(moved[:-1], step), moved[-1])

    x = z = np.zeros(A.shape[1])
    t = 1.0
    for _ in range(rounds):
        new = advance(z)
        if (z - new) @ (new - x) > 0.0:
            t, new = 1.0, advance(x)
        t_new = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        z = new + (t - 1.0) / t_new * (new - x)
        done = np.abs(new - x).max() < 1e-13
        x, t = new, t_new
        if done:
            break
    return x


def shrink_blocks(v, amount, blocks):
    out = v.copy()
    for block in blocks:
        norm = float(np.linalg.norm(v[block]))
        out[block] *= max(0.0, 1.0 - amount * math.sqrt(len(block)) / norm) if norm > 0.0 else 0.0
    return out


def into_l1_ball(v, radius):
    """By bisection on the shrinkage."""
    low, high = 0.0, float(np.abs(v).max())
    if np.abs(v).sum() <= radius:
        return v
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.maximum(np.abs(v) - middle, 0.0).sum() > radius else (low, middle)
    return np.sign(v) * np.maximum(np.abs(v) - high, 0.0)


def into_l2_ball(v, radius):
    return v * min(1.0, radius / max(float(np.linalg.norm(v)), 1e-300))


@each_split
def test_group_lasso_is_the_joined_tables(sizes):
    X, score = table(sizes)
    runs = {2: [2], 3: [2, 1], 4: [3, 1], 7: [2, 1, 4], 120: [40, 10, 70]}
    groups = [tuple(runs[width]) for width in sizes]
    alpha, ratio = 0.02, 0.9
    l1, l2 = alpha * ratio * N, alpha * (1 - ratio) * N
    found, intercept, run = fitted(X, sizes, Squared(), score, [Penalty(l2, l1, groups=each) for each in groups])
    blocks = splits([size for sizes_of in groups for size in sizes_of])
    wanted = by_steps(X, score, Squared(), l2, lambda v, step: shrink_blocks(v, step * l1, blocks))
    assert run.converged
    assert np.append(found, intercept) == pytest.approx(wanted, abs=1e-6)
    assert 0 < sum(not wanted[block].any() for block in blocks) < len(blocks)


@each_split
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_balls_are_the_joined_tables(sizes, norm):
    X, score = table(sizes)
    y = np.where(score > np.median(score), 1.0, -1.0)
    radii = [0.8 + 0.3 * m for m in range(len(sizes))]
    penalties = [Penalty(0.01 * N, ball=norm, radius=radius) for radius in radii]
    found, intercept, _ = fitted(X, sizes, Logistic(), y, penalties)
    blocks = list(zip(splits(sizes), radii, strict=True))
    into = into_l1_ball if norm == "l1" else into_l2_ball

    def move(v, step):
        return np.concatenate([into(v[block], radius) for block, radius in blocks])

    wanted = by_steps(X, y, Logistic(), 0.01 * N, move)
    assert np.append(found, intercept) == pytest.approx(wanted, abs=2e-6)
    lengths = [float(np.linalg.norm(found[block], int(norm[1]))) for block, _ in blocks]
    reached = [length > radius * (1 - 1e-9) for length, (_, radius) in zip(lengths, blocks, strict=True)]
    assert any(reached)
    assert all(length <= radius * (1 + 1e-12) for length, (_, radius) in zip(lengths, blocks, strict=True))


def test_an_l2_ball_by_scipys_constraint():
    """Once more with a solver that knows nothing of proximal points."""
    X, score = table([3, 4])
    penalty = Penalty(1e-3 * N, ball="l2", radius=0.8)
    found, intercept, _ = fitted(X, [3, 4], Squared(), score, penalty, max_iter=5000)
    theirs = minimize(
        lambda x: 0.5 * float(((score - X @ x[:-1] - x[-1]) ** 2).mean()) + 5e-4 * float(x[:-1] @ x[:-1]),
        np.zeros(8),
        method="SLSQP",
        constraints=[
            {"type": "ineq", "fun": lambda x: 0.64 - x[:3] @ x[:3]},
            {"type": "ineq", "fun": lambda x: 0.64 - x[3:7] @ x[3:7]},
        ],
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert np.append(found, intercept) == pytest.approx(theirs.x, abs=1e-5)


def test_parties_that_do_not_matter_are_left_out_whole():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 9))
    score = X[:, :3] @ [1.0, -1.0, 0.5] + X[:, 6:] @ [0.5, 1.0, -0.5]
    y = score + 0.5 * rng.normal(size=400)
    found, _, _ = fitted(X, [3, 3, 3], Squared(), y, Penalty(0.0, 0.1 * 400, groups=(3,)), tol=1e-6, max_iter=200)
    assert [bool(found[block].any()) for block in splits([3, 3, 3])] == [True, False, True]


def test_a_loss_that_is_not_convex_in_a_ball():
    X, score = table([3, 4])
    y = np.where(score > np.median(score), 1.0, -1.0)
    penalty = Penalty(1e-3 * N, ball="l1", radius=2.0)
    w, b, _ = fitted(X, [3, 4], SigmoidLoss(), y, penalty, tol=1e-8, max_iter=5000)
    slopes = SigmoidLoss().derivative(y, X @ w + b)
    moved = w - (X.T @ slopes + 1e-3 * N * w)
    assert abs(slopes.sum()) < 1e-6
    assert np.concatenate([into_l1_ball(v, 2.0) for v in (moved[:3], moved[3:])]) == pytest.approx(w, abs=1e-6)
