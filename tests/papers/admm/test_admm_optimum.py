"""ADMM sharing reaches the optimum that another solver finds on the joined table, in every form and with corners."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from sottovoce.losses import Hinge, Logistic, SmoothedHinge, Squared
from sottovoce.papers.admm import Penalty, admm, theorem_1_conditions, usual_rho
from sottovoce.papers.admm.sharing import FORMS
from support.pairs import by_pairs
from support.sigmoid_loss import SigmoidLoss
from support.smooth_optimum import smooth_optimum

WIDTHS = {"two": (3, 4), "three": (2, 5, 3), "wide": (3, 90), "all wide": (70, 80, 65)}
each_split = pytest.mark.parametrize("split", WIDTHS)
each_form = pytest.mark.parametrize("form", FORMS)


class Case:
    """A table split over parties, labels or targets, and what a training on it came to."""

    def __init__(self, split="two", *, n=60, seed=0, classes=True, shift=0.4):
        rng = np.random.default_rng(seed)
        self.cuts = np.cumsum((0, *WIDTHS.get(split, split)))
        d = self.cuts[-1]
        self.X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7) / np.sqrt(0.7 * d)
        score = self.X @ rng.normal(size=d) * 2.0 + shift + 0.4 * rng.normal(size=n)
        self.y = np.where(score > 0.0, 1.0, -1.0) if classes else score
        self.blocks = [self.X[:, low:high] for low, high in zip(self.cuts, self.cuts[1:], strict=False)]

    def admm(self, loss, penalty, *, intercept=True, **options):
        self.penalty, self.intercept = penalty, intercept
        options = {"tol": 1e-9, "max_iter": 20_000} | options
        self.run = admm(self.blocks, loss, self.y, penalty=penalty, intercepts=[0] * intercept, **options)
        return self.run

    def model(self):
        """Coefficients of the joined table, and the intercept."""
        first = self.run.x[0]
        parts = [first[:-1] if self.intercept else first, *self.run.x[1:]]
        return np.concatenate(parts), float(first[-1]) if self.intercept else 0.0

    def objective(self, loss, w, b=0.0):
        return float(loss.value(self.y, self.X @ w + b).sum()) + self.penalty.value(w)

    def smooth_optimum(self, loss, l2, intercept=True):
        return smooth_optimum(self.X, self.y, loss, l2, intercept)


RHO = {"sharing": 0.3, "proximal": 0.3, "printed": 1.0}


# --- L2 penalty, free intercept ---------------------------------------------------------------------------------------


@each_split
@each_form
def test_logistic_regression_is_scikit_learns(split, form):
    """One party, two or three, wider than long also."""
    case = Case(split)
    l2 = 0.8
    truth = LogisticRegression(C=1.0 / l2, tol=1e-12, max_iter=100_000).fit(case.X, case.y)
    run = case.admm(Logistic(), Penalty(l2), form=form, rho=RHO[form])
    assert run.converged
    coef, intercept = case.model()
    assert coef == pytest.approx(truth.coef_[0], abs=2e-6)
    assert intercept == pytest.approx(truth.intercept_[0], abs=2e-6)
    # what the run says is the objective of its coefficients
    assert run.objective[-1] == pytest.approx(case.objective(Logistic(), coef, intercept), rel=1e-10)


# --- whatever the loss and the penalty --------------------------------------------------------------------------------

LOSSES = (Logistic(), Squared(), *map(SmoothedHinge, (0.5, 1.0, 3.0)))
PENALTIES = {
    "l2": lambda d: Penalty(0.6),
    "l1": lambda d: Penalty(0.0, 1.5),
    "elastic net": lambda d: Penalty(0.9, 1.0),
    "box": lambda d: Penalty(0.5, low=-0.2, high=0.3),
    "nonnegative": lambda d: Penalty(0.5, low=0.0),
    "groups": lambda d: Penalty(0.2, 1.2, groups=(1, d - 1)),
    "l1 ball": lambda d: Penalty(0.8, ball="l1", radius=0.7),
    "l2 ball": lambda d: Penalty(0.8, ball="l2", radius=0.4),
}


@pytest.mark.parametrize("intercepts", ["one", "each"])
@pytest.mark.parametrize(("penalty", "loss"), [*by_pairs(PENALTIES, LOSSES), ("l2", SmoothedHinge(0.05))])
def test_every_run_ends_where_no_party_would_move(penalty, loss, intercepts):
    """x_m = prox_R(x_m - D_m' l'(z)) is the optimum of the joined table; intercepts add up to one."""
    case = Case(list(WIDTHS)[list(PENALTIES).index(penalty) % 3], classes=loss.is_classification)
    made = [PENALTIES[penalty](block.shape[1]) for block in case.blocks]
    places = range(len(case.blocks)) if intercepts == "each" else (0,)
    form = "proximal" if intercepts == "one" else "sharing"
    run = admm(
        case.blocks, loss, case.y, penalty=made, rho=usual_rho(loss, n_parties=len(made)), form=form,
        intercepts=places, tol=1e-9, max_iter=20_000,
    )  # fmt: skip
    assert run.converged
    x = [each[:-1] if m in places else each for m, each in enumerate(run.x)]
    scores = case.X @ np.concatenate(x) + sum(run.x[m][-1] for m in places)
    slopes = loss.derivative(case.y, scores)
    assert abs(slopes.sum()) < 1e-5
    for each, block, own in zip(x, case.blocks, made, strict=True):
        assert own.prox(each - block.T @ slopes) == pytest.approx(each, abs=1e-6)
    assert run.objective[-1] == pytest.approx(
        float(loss.value(case.y, scores).sum()) + sum(own.value(each) for own, each in zip(made, x, strict=True))
    )
    assert np.count_nonzero(np.concatenate(x)) < case.cuts[-1] or penalty not in ("l1", "nonnegative")


# --- forms of ADMM ----------------------------------------------------------------------------------------------------


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


# --- the loss that is not convex --------------------------------------------------------------------------------------


def orthogonal_case(widths, n=60, seed=0):
    """Blocks with orthonormal columns: condition (b) of Theorem 1 then asks for rho >= 2 only."""
    case = Case(widths, n=n, seed=seed)
    rng = np.random.default_rng(seed)
    case.blocks = [np.linalg.qr(rng.normal(size=(n, width)))[0] for width in widths]
    case.X = np.hstack(case.blocks)
    case.y = np.where(case.X @ rng.normal(size=case.X.shape[1]) + 0.05 * rng.normal(size=n) > 0, 1.0, -1.0)
    return case


@pytest.mark.parametrize("widths", [(3, 4), (2, 5, 3)])
@each_form
@pytest.mark.parametrize("seed", [0, *(pytest.param(more, marks=pytest.mark.slow) for more in (1, 2))])
def test_sigmoid_loss_becomes_stationary(widths, form, seed):
    """rho as Theorem 1 asks for: V goes to 0, the gradient vanishes, and the objective falls in every round."""
    case = orthogonal_case(widths, seed=seed)
    penalty = Penalty(0.05)
    least = theorem_1_conditions(case.blocks, SigmoidLoss(), penalty=penalty, rho=1.0).least_rho
    rho = 1.01 * least * (len(widths) if form == "sharing" else 1)
    assert theorem_1_conditions(case.blocks, SigmoidLoss(), penalty=penalty, rho=1.01 * least).holds
    history = case.admm(SigmoidLoss(), penalty, form=form, rho=rho, intercept=False, tol=1e-7, max_iter=50_000)
    assert history.converged
    w, _ = case.model()
    gradient = case.X.T @ SigmoidLoss().derivative(case.y, case.X @ w) + 0.05 * w
    assert np.abs(gradient).max() < 1e-6
    assert history.objective[-1] < 0.9 * history.objective[0]
    assert (np.diff(history.objective[1:]) <= 1e-12).all()


@pytest.mark.parametrize(("form", "unit"), [("sharing", 3.0), ("proximal", 1.0)])
def test_the_usual_rho_is_the_theorems_where_the_loss_is_not_convex(form, unit):
    """Condition 2 (c): rho of the coordinator's problem, rho / M in the sharing form, above twice the smoothness."""
    least = 2.0 * unit / (6.0 * math.sqrt(3.0))
    assert least < usual_rho(SigmoidLoss(), n_parties=3, form=form) < 1.1 * least
    assert usual_rho(Logistic()) == 0.1


# --- where the intercept is -------------------------------------------------------------------------------------------
