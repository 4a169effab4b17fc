"""Groups of coefficients and balls: the penalty, a party's own problem, whole trainings, and what a party refuses."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic, SigmoidLoss, Squared
from sottovoce.report.rebuilding import made_again
from sottovoce.vertical import Party, VerticalLinearSVC, VerticalLogisticRegression, VerticalRidge, split_columns
from sottovoce.vertical.protocols.exact.messages import AdmmStart, Structure
from sottovoce.vertical.protocols.exact.subproblem import Subproblem
from sottovoce.vertical.protocols.general.messages import Prepare
from sottovoce.vertical.protocols.noisy_admm.messages import NoisyStart
from sottovoce.vertical.table.columns import Columns
from sottovoce.vertical.table.penalty import Penalty
from sottovoce.vertical.wire import Done
from support.party import request

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
INF = math.inf


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
    problem = Subproblem(Columns(sp.csr_array(X) if intercept else X, intercept=intercept), penalty)
    x = np.zeros(D.shape[1])
    for rho in (0.7, 3.0):
        b = D.T @ (2.0 * rng.normal(size=n) + D[:, 0] - 1.0)
        x = problem.solve(b, rho, x)
        gradient = rho * (D.T @ (D @ x) - b)
        residual = problem.prox_residual(x, gradient)
        assert np.abs(residual).max() < 1e-8 * max(1.0, np.abs(gradient).max(), np.abs(b).max())
        assert inside(penalty, x[:7])
        assert problem.penalty_of(x) == pytest.approx(own_value(penalty, x[:7]), rel=1e-12)


def test_a_group_without_entries_and_a_target_of_zeros():
    X = np.zeros((10, 3))
    X[:, 2] = np.arange(10.0)
    for penalty in (Penalty(0.0, 0.1, groups=(2, 1)), Penalty(ball="l2", radius=0.5), Penalty(ball="l1", radius=0.5)):
        problem = Subproblem(Columns(X), penalty)
        assert not problem.solve(np.zeros(3), 1.0, np.zeros(3)).any()
        x = problem.solve(X.T @ X[:, 2], 1.0, np.zeros(3))
        assert not x[:2].any()
        assert 0.4 < x[2] < 1.0


# ------------------------------------------------------------------ whole trainings

N = 80
SIZES = {"one": [7], "two": [3, 4], "three": [2, 2, 3], "wide": [3, 120]}
each_split = pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)


def table(sizes, seed=7):
    rng = np.random.default_rng(seed)
    d = sum(sizes)
    X = rng.normal(size=(N, d)) / math.sqrt(d) + 0.1
    score = 3.0 * X @ (rng.normal(size=d) * (rng.random(d) < 0.6)) + 0.3
    return X, score


def weights(model):
    parts = list(model.parts_.values())
    return np.concatenate([part.coef for part in parts]), sum(part.intercept for part in parts)


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
    groups = {f"party{m + 1}": runs[width] for m, width in enumerate(sizes)}
    alpha, ratio = 0.02, 0.9
    model = VerticalRidge(epsilon=INF, alpha=alpha, l1_ratio=ratio, groups=groups, tol=1e-9, max_iter=20_000).fit(
        split_columns(X, sizes), score
    )
    blocks = splits([size for sizes_of in groups.values() for size in sizes_of])
    l1 = alpha * ratio * N
    wanted = by_steps(X, score, Squared(), alpha * (1 - ratio) * N, lambda v, step: shrink_blocks(v, step * l1, blocks))
    assert model.history_.converged
    assert np.append(*weights(model)) == pytest.approx(wanted, abs=1e-6)
    assert 0 < sum(not wanted[block].any() for block in blocks) < len(blocks)
    assert made_again(model.guarantee_) == model.guarantee_


@each_split
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_balls_are_the_joined_tables(sizes, norm):
    X, score = table(sizes)
    y = np.where(score > np.median(score), 1, -1)
    radii = {f"party{m + 1}": 0.8 + 0.3 * m for m in range(len(sizes))}
    model = VerticalLogisticRegression(
        epsilon=INF, alpha=0.01, coef_set={name: (norm, radius) for name, radius in radii.items()}, tol=1e-9,
        max_iter=20_000,
    ).fit(split_columns(X, sizes), y)  # fmt: skip
    blocks = list(zip(splits(sizes), radii.values(), strict=True))
    into = into_l1_ball if norm == "l1" else into_l2_ball

    def move(v, step):
        return np.concatenate([into(v[block], radius) for block, radius in blocks])

    wanted = by_steps(X, y, Logistic(), 0.01 * N, move)
    found, intercept = weights(model)
    assert np.append(found, intercept) == pytest.approx(wanted, abs=2e-6)
    lengths = [float(np.linalg.norm(found[block], int(norm[1]))) for block, _ in blocks]
    reached = [length > radius * (1 - 1e-9) for length, (_, radius) in zip(lengths, blocks, strict=True)]
    assert any(reached)
    assert all(length <= radius * (1 + 1e-12) for length, (_, radius) in zip(lengths, blocks, strict=True))
    assert made_again(model.guarantee_) == model.guarantee_


def test_an_l2_ball_by_scipys_constraint():
    """Once more with a solver that knows nothing of proximal points."""
    X, score = table([3, 4])
    model = VerticalRidge(epsilon=INF, alpha=1e-3, coef_set=("l2", 0.8), tol=1e-9, max_iter=5000)
    found, intercept = weights(model.fit(split_columns(X, [3, 4]), score))
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
    model = VerticalRidge(epsilon=INF, groups="party", l1_ratio=1.0, alpha=0.1).fit(
        split_columns(X, [3, 3, 3]), score + 0.5 * rng.normal(size=400)
    )
    assert [bool(part.coef.any()) for part in model.parts_.values()] == [True, False, True]
    assert model.guarantee_.parameters["groups"] == {"party1": [3], "party2": [3], "party3": [3]}


def test_a_loss_that_is_not_convex_in_a_ball():
    X, score = table([3, 4])
    y = np.where(score > np.median(score), 1, -1)
    model = VerticalLinearSVC(
        epsilon=INF, loss="sigmoid", alpha=1e-3, coef_set=("l1", 2.0), tol=1e-8, max_iter=5000
    ).fit(split_columns(X, [3, 4]), y)
    w, b = weights(model)
    slopes = SigmoidLoss().derivative(y, X @ w + b)
    moved = w - (X.T @ slopes + 1e-3 * N * w)
    assert abs(slopes.sum()) < 1e-6
    assert np.concatenate([into_l1_ball(v, 2.0) for v in (moved[:3], moved[3:])]) == pytest.approx(w, abs=1e-6)
    assert model.guarantee_.parameters["coefficients within"] == dict.fromkeys(
        ["party1", "party2"], "l1 ball of radius 2"
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"groups": "bank"}, "groups must be 'party', or the sizes of the groups by party"),
        ({"groups": {"bank": [3]}}, "groups names 'bank'; the parties are 'party1', 'party2'"),
        ({"groups": {"party1": 3}}, r"groups\['party1'\] must be a list of sizes"),
        ({"groups": {"party1": [2, 2]}}, r"groups\['party1'\] must add up to the 3 columns .* which is 4"),
        ({"groups": {"party1": [3, 0]}}, r"groups\['party1'\]\[1\] must be a whole number >= 1; got 0"),
        ({"groups": "party", "l1_ratio": 0.0}, "groups needs l1_ratio > 0"),
        ({"groups": "party", "coef_bounds": (-1, 1)}, "coef_bounds goes with neither groups nor coef_set"),
        ({"groups": "party", "coef_set": ("l1", 1.0)}, "groups does not go with an l1 ball at party 'party1'"),
        ({"groups": "party", "solver": "lbfgs"}, "use solver='admm' with l1_ratio > 0, groups, coef_set"),
        ({"coef_set": ("l3", 1.0)}, r"coef_set\[0\] must be one of 'l1', 'l2'; got 'l3'"),
        ({"coef_set": ("l1", 0.0)}, r"coef_set\[1\] must be a finite number > 0; got 0"),
        ({"coef_set": "l1"}, r"coef_set must be \(norm, radius\)"),
        ({"coef_set": {"bank": ("l1", 1.0)}}, "coef_set names 'bank'"),
        ({"coef_set": {"party1": ("l1", INF)}}, r"coef_set\['party1'\]\[1\] must be a finite number > 0; got inf"),
        ({"coef_set": ("l1", 1.0), "epsilon": 1.0, "delta": 1e-6}, "groups and coef_set are for a training without"),
    ],
)
def test_refusals(changed, message):
    X, _ = table([3, 4])
    estimator = VerticalRidge(**{"epsilon": INF, "l1_ratio": 0.5, "label_bounds": (-3, 3), **changed})
    if changed.get("epsilon"):
        estimator.set_params(l1_ratio=0.0)
    with pytest.raises(ParameterError, match=message):
        estimator.plan(split_columns(X, [3, 4], data_norm={"party2": 3.0}))


# ------------------------------------------------------------------ what a party refuses


def conversation(*messages):
    """The reply to the last of several requests to a party of three columns."""
    party = Party(np.ones((4, 3)), name="p")
    return [request(party, message) for message in messages][-1]


OPEN = Prepare(1.0, 1.0, -INF, INF, 0)


@pytest.mark.parametrize(
    ("structure", "reason"),
    [
        (Structure([2.0, 2.0], "", INF), "add up to 3"),
        (Structure([1.5, 1.5], "", INF), "whole numbers of columns"),
        (Structure([4.0, -1.0], "", INF), "whole numbers of columns"),
        (Structure([3.0, 0.0, 0.0, 0.0], "", INF), "whole numbers of columns"),
        (Structure([], "l3", 1.0), "a ball is 'l1' or 'l2'"),
        (Structure([], "l1", INF), "with a finite radius"),
        (Structure([], "l1", 0.0), "with a finite radius > 0"),
        (Structure([], "l2", -1.0), "with a finite radius > 0"),
        (Structure([], "", 1.0), "or '' with an infinite one"),
        (Structure([3.0], "l1", 1.0), "groups not with an l1 ball"),
    ],
)
def test_a_party_refuses_a_structure_that_is_none(structure, reason):
    assert reason in conversation(OPEN, structure).reason
    assert isinstance(conversation(OPEN, Structure([2.0, 1.0], "l2", 1.0)), Done)


def test_a_structure_comes_between_opening_and_start():
    start, good = AdmmStart(1.0, 0.0, 1.0, 1), Structure([3.0], "", INF)
    assert isinstance(conversation(OPEN, good, start), Done)
    assert "after Prepare and before the first step" in conversation(OPEN, start, good).reason
    assert "bounds go with neither" in conversation(Prepare(1.0, 1.0, -1.0, 1.0, 0), good).reason
    guarded = Party(np.ones((4, 3)), name="p", budget=(1.0, 1e-6), data_norm=2.0)
    request(guarded, OPEN)
    assert "its owner" in request(guarded, good).reason


def test_a_private_training_is_refused_on_a_structure():
    """Its proof is for an L2 penalty."""
    start, plain = NoisyStart(1.0, 1.0, 1.0, 1.0, 0.05), Prepare(1.0, 0.0, -INF, INF, 0)
    for tied in (Structure([3.0], "", INF), Structure([], "l1", 1.0), Structure([], "l2", 1.0)):
        party = Party(np.ones((4, 3)), name="p", data_norm=2.0)
        request(party, plain)
        assert isinstance(request(party, tied), Done)
        assert "quadratic penalty" in request(party, start).reason
