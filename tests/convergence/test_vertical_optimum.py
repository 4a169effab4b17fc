"""Vertical training without noise reaches the optimum that another solver finds on the joined table."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog, minimize
from sklearn.linear_model import ElasticNet, LogisticRegression, Ridge

from sottovoce.exceptions import ParameterError
from sottovoce.losses import Hinge, Logistic, SigmoidLoss, SmoothedHinge, Squared
from sottovoce.papers.admm.conditions import theorem_1_conditions
from sottovoce.papers.admm.rounds import printed
from sottovoce.vertical.coordinator.parties import InProcessParties
from sottovoce.vertical.party.party import Party
from sottovoce.vertical.protocols.exact.admm import FORMS as OURS
from sottovoce.vertical.protocols.exact.admm import admm
from sottovoce.vertical.protocols.exact.lbfgs import lbfgs
from sottovoce.vertical.protocols.exact.scores import ScoreProblem
from sottovoce.vertical.protocols.general.messages import Keep, Prepare
from sottovoce.vertical.table.penalty import Penalty
from sottovoce.vertical.wire import Done

WIDTHS = {"two": (3, 4), "three": (2, 5, 3), "wide": (3, 90), "all wide": (70, 80, 65)}
each_split = pytest.mark.parametrize("split", WIDTHS)
each_table = pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
FORMS = (*OURS, "printed")  # the last one is the paper's
each_form = pytest.mark.parametrize("form", FORMS)


class Case:
    """A table split over parties, labels or targets, and what a training on it came to."""

    def __init__(self, split="two", *, n=60, seed=0, classes=True, sparse=False, shift=0.4):
        rng = np.random.default_rng(seed)
        self.cuts = np.cumsum((0, *WIDTHS.get(split, split)))
        d = self.cuts[-1]
        self.X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7) / np.sqrt(0.7 * d)
        score = self.X @ rng.normal(size=d) * 2.0 + shift + 0.4 * rng.normal(size=n)
        self.y = np.where(score > 0.0, 1.0, -1.0) if classes else score
        blocks = [self.X[:, low:high] for low, high in zip(self.cuts, self.cuts[1:], strict=False)]
        self.parties = InProcessParties(
            [Party(sp.csr_array(block) if sparse else block, name=f"p{m}") for m, block in enumerate(blocks)]
        )

    def prepare(self, penalty, intercept):
        self.penalty, self.intercept = penalty, intercept
        requests = {name: Prepare(*penalty[:4], int(intercept and name == "p0")) for name in self.parties.names}
        self.parties.exchange(requests, Done)

    def lbfgs(self, loss, l2, *, intercept=True, **options):
        self.prepare(Penalty(l2), intercept)
        problem = ScoreProblem(loss, self.y)
        return lbfgs(self.parties, problem, l2=l2, intercept=intercept, **{"tol": 1e-13, "max_iter": 400} | options)

    def admm(self, loss, penalty, *, intercept=True, **options):
        self.prepare(penalty, intercept)
        options = {"tol": 1e-9, "max_iter": 20_000} | options
        if options.get("form") == "printed":
            given = {name: value for name, value in options.items() if name not in ("form", "relaxation")}
            return printed(self.parties, ScoreProblem(loss, self.y), **given)
        return admm(self.parties, ScoreProblem(loss, self.y), **options)

    def model(self):
        """Coefficients of the joined table, and the intercept."""
        self.parties.exchange(Keep("m"), Done)
        parts = [party.part("m") for party in self.parties.parties.values()]
        return np.concatenate([part.coef for part in parts]), sum(part.intercept for part in parts)

    def objective(self, loss, w, b=0.0):
        return float(loss.value(self.y, self.X @ w + b).sum()) + self.penalty.value(w)

    def smooth_optimum(self, loss, l2, intercept=True):
        """Damped Newton steps (Levenberg, Marquardt) on the joined table: an independent solver of smooth problems."""
        A = np.column_stack([self.X, np.ones(len(self.y))]) if intercept else self.X
        ridge = np.full(A.shape[1], l2)
        if intercept:
            ridge[-1] = 0.0

        def cost(x):
            return float(loss.value(self.y, A @ x).sum() + 0.5 * ridge @ (x * x))

        x, damping = np.zeros(A.shape[1]), 1.0
        for _ in range(500):
            z = A @ x
            gradient = A.T @ loss.derivative(self.y, z) + ridge * x
            if np.abs(gradient).max() < 1e-9:
                break
            hessian = A.T @ (loss.curvature(self.y, z)[:, None] * A) + np.diag(ridge + damping)
            moved = x - np.linalg.solve(hessian, gradient)
            if cost(moved) <= cost(x):
                x, damping = moved, max(damping / 10.0, 1e-12)
            else:
                damping *= 10.0
        assert np.abs(A.T @ loss.derivative(self.y, A @ x) + ridge * x).max() < 1e-7
        return cost(x), x


RHO = {"sharing": 0.3, "proximal": 0.3, "printed": 1.0}


# --- L2 penalty, free intercept ---------------------------------------------------------------------------------------


@each_split
@each_table
def test_logistic_regression_is_scikit_learns(split, sparse):
    """Every solver, one party, two or three, wider than long also."""
    case = Case(split, sparse=sparse)
    l2 = 0.8
    truth = LogisticRegression(C=1.0 / l2, tol=1e-12, max_iter=100_000).fit(case.X, case.y)
    runs = [lambda form=form: case.admm(Logistic(), Penalty(l2), form=form, rho=RHO[form]) for form in FORMS]
    runs += [lambda flag=flag: case.lbfgs(Logistic(), l2, precondition=flag) for flag in (True, False)]
    for run in runs:
        history = run()
        assert history.converged
        coef, intercept = case.model()
        assert coef == pytest.approx(truth.coef_[0], abs=2e-6)
        assert intercept == pytest.approx(truth.intercept_[0], abs=2e-6)
        # what the history says is the objective of the coefficients that the parties hold
        assert history.objective[-1] == pytest.approx(case.objective(Logistic(), coef, intercept), rel=1e-10)


@each_split
@each_table
@pytest.mark.parametrize("intercept", [False, True])
def test_ridge_is_scikit_learns(split, sparse, intercept):
    case = Case(split, classes=False, sparse=sparse)
    l2 = 1.3
    truth = Ridge(alpha=l2, fit_intercept=intercept, solver="svd").fit(case.X, case.y)
    runs = [
        lambda form=form: case.admm(Squared(), Penalty(l2), form=form, rho=2.5 * RHO[form], intercept=intercept)
        for form in FORMS
    ]
    runs += [
        lambda flag=flag: case.lbfgs(Squared(), l2, precondition=flag, intercept=intercept) for flag in (True, False)
    ]
    for run in runs:
        assert run().converged
        coef, constant = case.model()
        assert coef == pytest.approx(truth.coef_, abs=1e-6)
        assert constant == pytest.approx(truth.intercept_, abs=1e-6)


@each_split
@pytest.mark.parametrize("smoothing", [0.05, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("intercept", [False, True])
def test_smoothed_hinge_is_newtons(split, smoothing, intercept):
    """At 0, where training begins, this loss has no second derivative (smoothing < 1)."""
    case = Case(split)
    loss, l2 = SmoothedHinge(smoothing), 0.6
    best, x = case.smooth_optimum(loss, l2, intercept)
    for precondition in (True, False):
        history = case.lbfgs(loss, l2, precondition=precondition, intercept=intercept)
        assert history.converged
        assert history.objective[-1] == pytest.approx(best, rel=1e-9)
    assert case.model()[0] == pytest.approx(x[: case.cuts[-1]], abs=1e-4)
    for form in ("sharing", "proximal"):
        case.admm(loss, Penalty(l2), form=form, rho=0.5, intercept=intercept)
        coef, constant = case.model()
        assert case.objective(loss, coef, constant) == pytest.approx(best, rel=1e-8)


def test_l_bfgs_needs_fewer_rounds_with_the_preconditioner():
    """A fact of the method, not of the machine; columns of very different length."""
    case = Case("three", n=200)
    case.X *= np.logspace(-1.0, 1.0, 10)
    case.parties = InProcessParties(
        [Party(case.X[:, low:high], name=f"p{m}") for m, (low, high) in enumerate([(0, 2), (2, 7), (7, 10)])]
    )
    with_it, without = (case.lbfgs(Logistic(), 1e-2, precondition=flag, tol=1e-8).n_rounds for flag in (True, False))
    assert 2 * with_it < without


def test_plain_l_bfgs_converges_like_scipys():
    """Objective by round: never twice as many rounds as L-BFGS of scipy takes for the same accuracy."""
    case = Case("three", n=300, seed=3)
    loss, l2, memory = Logistic(), 0.05, 10
    best, _ = case.smooth_optimum(loss, l2)
    A = np.column_stack([case.X, np.ones(300)])
    ridge = np.append(np.full(10, l2), 0.0)
    seen = []
    minimize(
        lambda x: (
            loss.value(case.y, A @ x).sum() + 0.5 * ridge @ (x * x),
            A.T @ loss.derivative(case.y, A @ x) + ridge * x,
        ),
        np.zeros(11),
        jac=True,
        method="L-BFGS-B",
        callback=lambda x: seen.append(loss.value(case.y, A @ x).sum() + 0.5 * ridge @ (x * x)),
        options={"maxcor": memory, "ftol": 1e-15, "gtol": 1e-10, "maxiter": 500},
    )
    ours = np.array(case.lbfgs(loss, l2, precondition=False, memory=memory, tol=1e-12).objective)
    for accuracy in (1e-2, 1e-4, 1e-7):
        rounds = [int(np.argmax(np.array(run) - best <= accuracy * best)) + 1 for run in (ours, seen)]
        assert rounds[0] <= 2 * rounds[1]
        assert ours[rounds[0] - 1] - best <= accuracy * best
    assert (np.diff(ours) <= 1e-12 * best).all()  # the step is exact along the line: never up


@pytest.mark.parametrize("memory", [1, 2, 5])
def test_the_oldest_pair_is_dropped(memory):
    case = Case("three", n=100)
    best, _ = case.smooth_optimum(Logistic(), 0.02)
    for precondition in (True, False):
        history = case.lbfgs(Logistic(), 0.02, memory=memory, precondition=precondition, tol=1e-12, max_iter=2000)
        assert history.n_rounds > memory + 2
        assert history.objective[-1] == pytest.approx(best, rel=1e-10)


@pytest.mark.parametrize("precondition", [True, False])
@pytest.mark.parametrize("loss", [Logistic(), Squared(), SmoothedHinge(0.5)], ids=lambda loss: loss.name)
def test_rounds_beyond_double_precision_do_no_harm(loss, precondition):
    """tol = 0: it ends when no descent is left, and breaks nothing on the way."""
    case = Case("two")
    best, _ = case.smooth_optimum(loss, 1.0)
    history = case.lbfgs(loss, 1.0, tol=0.0, precondition=precondition, max_iter=300)
    assert history.converged and history.n_rounds < 300
    assert history.objective[-1] == pytest.approx(best, rel=1e-12)


def test_two_loops_on_the_table_are_two_loops_on_vectors():
    """The direction from inner products equals that of textbook L-BFGS with the same H0, round by round."""
    case = Case("two", n=80)
    loss, l2 = Logistic(), 0.3
    inverse = np.ones(7)  # plain: H0 = the last pair's scale times the identity

    def gradient(x):
        return case.X.T @ loss.derivative(case.y, case.X @ x) + l2 * x

    x, steps, changes = np.zeros(7), [], []
    for rounds in range(1, 8):
        q, weights = gradient(x), []
        for s, t in zip(reversed(steps), reversed(changes), strict=True):
            weights.append(s @ q / (s @ t))
            q = q - weights[-1] * t
        q = (steps[-1] @ changes[-1] / (changes[-1] @ changes[-1]) if steps else 1.0) * inverse * q
        for s, t, weight in zip(steps, changes, reversed(weights), strict=True):
            q = q + s * (weight - t @ q / (s @ t))
        case.lbfgs(loss, l2, intercept=False, precondition=False, memory=4, max_iter=rounds, tol=0.0)
        ours = case.model()[0]
        moved = ours - x
        assert abs(moved @ -q) == pytest.approx(np.linalg.norm(moved) * np.linalg.norm(q), rel=1e-8)  # parallel
        assert moved @ -q > 0.0
        steps.append(moved)
        changes.append(gradient(ours) - gradient(x))
        steps, changes, x = steps[-4:], changes[-4:], ours


# --- the stopping measure ---------------------------------------------------------------------------------------------


def gaps(case, loss, l2, intercept):
    """Stopping measure at the start of each round and the true distance to the optimum there."""
    best, _ = case.smooth_optimum(loss, l2, intercept)
    history = case.lbfgs(loss, l2, intercept=intercept, tol=0.0, max_iter=25)
    before = [float(loss.value(case.y, np.zeros(len(case.y))).sum()), *history.objective[:-1]]
    apart = np.array(before) - best
    told = apart > 1e-9 * best
    return apart[told], np.array(history.stationarity)[told]


@pytest.mark.parametrize("loss", [Logistic(), Squared(), SmoothedHinge(0.5)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("l2", [0.01, 1.0, 60.0, 1000.0])
@pytest.mark.parametrize("split", ["two", "wide"])
def test_without_an_intercept_the_measure_bounds_the_distance(loss, l2, split):
    """By strong convexity; rigorous."""
    apart, measure = gaps(Case(split, n=80), loss, l2, False)
    assert (apart <= measure * (1 + 1e-6)).all()
    assert len(apart) >= 1


@pytest.mark.parametrize("loss", [Logistic(), Squared(), SmoothedHinge(0.5)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("l2", [0.01, 1.0, 60.0, 1000.0])
@pytest.mark.parametrize("shift", [0.0, 2.0])
def test_with_an_intercept_the_measure_is_near_a_bound(loss, l2, shift):
    """An estimate; the largest ratio here is 1.18, at a start that is far away."""
    apart, measure = gaps(Case("two", n=80, shift=shift), loss, l2, True)
    assert (apart <= 1.25 * measure).all()


def test_the_intercepts_own_term_is_needed():
    """With a strong penalty |g|^2 / (2 l2) alone is far below the distance: the intercept has no l2 behind it."""
    case = Case("two", n=80, shift=2.0)
    best, _ = case.smooth_optimum(Logistic(), 1000.0)
    slopes = Logistic().derivative(case.y, np.zeros(80))
    gradient = np.append(case.X.T @ slopes, slopes.sum())
    distance = 80 * math.log(2.0) - best
    history = case.lbfgs(Logistic(), 1000.0, max_iter=1)
    assert gradient @ gradient / 2000.0 < 0.1 * distance
    assert history.stationarity[0] >= 0.8 * distance


# --- forms of ADMM ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["two", "three", "wide"])
@pytest.mark.parametrize(
    ("loss", "penalty"),
    [
        (Logistic(), Penalty(0.5)),
        (Hinge(), Penalty(0.5)),
        (Squared(), Penalty(0.1, 0.3)),
        (SigmoidLoss(), Penalty(0.5)),
    ],
    ids=["logistic", "hinge", "elastic net", "sigmoid"],
)
def test_proximal_is_sharing_without_relaxation(split, loss, penalty):
    """The proximal form with rho / M, tau = M - 1, has the same iterates."""
    for max_iter in (1, 2, 7):
        models = []
        for form in ("sharing", "proximal"):
            case = Case(split)
            M = len(case.parties.names)
            rho = 0.9 if form == "sharing" else 0.9 / M
            case.admm(loss, penalty, form=form, rho=rho, relaxation=1.0, max_iter=max_iter)
            models.append(np.append(*case.model()))
        assert models[0] == pytest.approx(models[1], abs=1e-8)
        assert np.abs(models[0]).max() > 1e-3


def test_one_party_is_the_same_in_every_form():
    for rounds in (1, 5):
        models = []
        for form in FORMS:
            case = Case((6,))
            case.admm(Logistic(), Penalty(0.5), form=form, rho=0.7, relaxation=1.0, max_iter=rounds)
            models.append(case.model()[0])
        assert models[0] == pytest.approx(models[1], abs=1e-9)
        assert models[0] == pytest.approx(models[2], abs=1e-9)


@each_form
def test_lyapunov_function_is_zero_at_the_optimum_only(form):
    case = Case("three")
    history = case.admm(Logistic(), Penalty(0.5), form=form, rho=2.0, tol=1e-8)
    assert history.converged
    assert history.stationarity[-1] <= 1e-16 * history.stationarity[0] < history.stationarity[0]
    best, _ = case.smooth_optimum(Logistic(), 0.5)
    early = case.admm(Logistic(), Penalty(0.5), form=form, rho=2.0, max_iter=4)
    assert not early.converged
    assert early.objective[-1] > best + 1e-4 and early.stationarity[-1] > 1e-6
    assert history.objective[-1] == pytest.approx(best, rel=1e-10)


# --- corners ----------------------------------------------------------------------------------------------------------


@each_split
@each_table
@pytest.mark.parametrize("form", ["sharing", "proximal"])
@pytest.mark.parametrize(("l1", "l2"), [(3.0, 0.0), (2.0, 0.9)], ids=["lasso", "elastic net"])
def test_lasso_and_elastic_net_are_scikit_learns(split, sparse, form, l1, l2):
    case = Case(split, classes=False, sparse=sparse)
    n = len(case.y)
    truth = ElasticNet(alpha=(l1 + l2) / n, l1_ratio=l1 / (l1 + l2), tol=1e-14, max_iter=1_000_000)
    truth.fit(case.X, case.y)
    history = case.admm(Squared(), Penalty(l2, l1), form=form, rho=0.8, tol=1e-8, max_iter=5000)
    assert history.converged
    coef, intercept = case.model()
    best = case.objective(Squared(), truth.coef_, truth.intercept_)
    assert case.objective(Squared(), coef, intercept) == pytest.approx(best, rel=1e-7)
    assert coef == pytest.approx(truth.coef_, abs=1e-4)
    assert 0 < np.count_nonzero(coef) < len(coef)


@pytest.mark.parametrize("split", ["three", "wide"])
@pytest.mark.parametrize("penalty", [Penalty(0.5, low=-0.2, high=0.3), Penalty(0.5, low=0.0)], ids=["box", "positive"])
@pytest.mark.parametrize("loss", [Logistic(), SmoothedHinge(1.0)], ids=lambda loss: loss.name)
def test_bounds_are_those_of_l_bfgs_b(split, penalty, loss):
    case = Case(split)
    history = case.admm(loss, penalty, rho=0.5, tol=1e-8, max_iter=5000)
    assert history.converged
    A = np.column_stack([case.X, np.ones(60)])
    d = case.cuts[-1]

    def cost(x):
        z, w = A @ x, np.append(x[:d], 0.0)
        return loss.value(case.y, z).sum() + 0.5 * penalty.l2 * w @ w, A.T @ loss.derivative(case.y, z) + penalty.l2 * w

    found = minimize(
        cost, np.zeros(d + 1), jac=True, method="L-BFGS-B", bounds=[penalty[2:]] * d + [(None, None)],
        options={"ftol": 1e-16, "gtol": 1e-9, "maxiter": 20_000, "maxfun": 200_000},
    )  # fmt: skip
    coef, intercept = case.model()
    assert case.objective(loss, coef, intercept) == pytest.approx(found.fun, rel=1e-8)
    assert coef.min() >= penalty.low and coef.max() <= penalty.high
    assert np.count_nonzero((coef == penalty.low) | (coef == penalty.high)) > 0


@pytest.mark.parametrize("split", ["two", "wide"])
@pytest.mark.parametrize("form", ["sharing", "proximal"])
def test_hinge_with_l2_has_no_duality_gap(split, form):
    """Against its own dual, by a solver of quadratic programs on bounds and one equation."""
    case = Case(split)
    l2 = 0.7
    case.admm(Hinge(), Penalty(l2), form=form, rho=0.5, tol=1e-7, max_iter=20_000)
    coef, intercept = case.model()
    primal = case.objective(Hinge(), coef, intercept)
    K = (case.X * case.y[:, None]) @ (case.X * case.y[:, None]).T
    found = minimize(
        lambda a: (0.5 * a @ K @ a / l2 - a.sum(), K @ a / l2 - 1.0),
        np.full(60, 0.5), jac=True, method="SLSQP", bounds=[(0.0, 1.0)] * 60,
        constraints=[{"type": "eq", "fun": lambda a: a @ case.y, "jac": lambda a: case.y}],
        options={"ftol": 1e-14, "maxiter": 1000},
    )  # fmt: skip
    assert primal == pytest.approx(-found.fun, rel=1e-6)


@pytest.mark.parametrize("split", ["two", "three"])
def test_hinge_with_l1_is_the_linear_programs(split):
    """Hinge and L1: both have corners, and ADMM is slow near them; the optimum is a linear program."""
    case = Case(split)
    n, d, l1 = 60, case.cuts[-1], 0.9
    case.admm(Hinge(), Penalty(l1=l1), rho=0.5, tol=1e-6, max_iter=3000)
    coef, intercept = case.model()
    # w = u - v, slack s >= 1 - y (Xw + b), all >= 0
    signed = case.X * case.y[:, None]
    found = linprog(
        np.concatenate([np.full(2 * d, l1), np.ones(n), [0.0]]),
        A_ub=-np.hstack([signed, -signed, np.eye(n), case.y[:, None]]),
        b_ub=-np.ones(n),
        bounds=[(0, None)] * (2 * d + n) + [(None, None)],
    )
    assert case.objective(Hinge(), coef, intercept) == pytest.approx(found.fun, rel=2e-4)


# --- the loss that is not convex --------------------------------------------------------------------------------------


def orthogonal_case(widths, n=60, seed=0):
    """Blocks with orthonormal columns: condition (b) of Theorem 1 then asks for rho >= 2 only."""
    case = Case(widths, n=n, seed=seed)
    rng = np.random.default_rng(seed)
    blocks = [np.linalg.qr(rng.normal(size=(n, width)))[0] for width in widths]
    case.X = np.hstack(blocks)
    case.y = np.where(case.X @ rng.normal(size=case.X.shape[1]) + 0.05 * rng.normal(size=n) > 0, 1.0, -1.0)
    case.parties = InProcessParties([Party(block, name=f"p{m}") for m, block in enumerate(blocks)])
    return case


@pytest.mark.parametrize("widths", [(3, 4), (2, 5, 3)])
@each_form
@pytest.mark.parametrize("seed", range(3))
def test_sigmoid_loss_becomes_stationary(widths, form, seed):
    """rho as Theorem 1 asks for: V goes to 0, the gradient vanishes, and the objective falls in every round."""
    case = orthogonal_case(widths, seed=seed)
    penalty = Penalty(0.05)
    least = theorem_1_conditions(case.parties, SigmoidLoss(), penalty=penalty, rho=1.0).least_rho
    rho = 1.01 * least * (len(widths) if form == "sharing" else 1)
    assert theorem_1_conditions(case.parties, SigmoidLoss(), penalty=penalty, rho=1.01 * least).holds
    history = case.admm(SigmoidLoss(), penalty, form=form, rho=rho, intercept=False, tol=1e-7, max_iter=50_000)
    assert history.converged
    w, _ = case.model()
    gradient = case.X.T @ SigmoidLoss().derivative(case.y, case.X @ w) + 0.05 * w
    assert np.abs(gradient).max() < 1e-6
    assert history.objective[-1] < 0.9 * history.objective[0]
    assert (np.diff(history.objective[1:]) <= 1e-12).all()


@pytest.mark.parametrize("form", ["sharing", "printed"])
def test_sigmoid_loss_refuses_a_small_rho(form):
    with pytest.raises(ParameterError, match=r"rho .* must be above the smoothness"):
        Case("two").admm(SigmoidLoss(), Penalty(0.5), form=form, rho=0.05)
