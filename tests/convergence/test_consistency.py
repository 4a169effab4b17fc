"""Private fits tend to the exact one: at epsilon = 10,000 the objective is within 0.1 % of the optimum.

Every solver, loss and made-up table is here. Where the law does not hold, the excess that was measured is the bound,
and the reason stands beside it:

* ``"scd"`` for the hinge and ``"Minibatch"``: clips and the cap on passes leave rows short of their dual variables
  where alpha is small, and a little where classes are unbalanced or separable;
* ``"newton"`` for the hinge trains a smoothed loss, and tends to the optimum of that;
* ``"sgd"``, ``"Primal"``: a fixed horizon and clip, for comparison only.
"""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

import sottovoce as sv
from support.optimum import objective
from support.solvers import EVERY, solved

LAW = 1e-3
N, D, SCALING = 3000, 6, 0.2
LOCATION = "label location, from the middle of the bounds (noisy)"
CLASSIFICATION = ("plain", "unbalanced classes", "separable", "short rows", "small alpha")
REGRESSION = ("skewed labels", "short rows", "small alpha", "small alpha, skewed labels")
SMOOTHED = "smoothed hinge"  # what solver="newton" minimises in place of the hinge, where there is little noise
TABLES = {"logistic": CLASSIFICATION, "hinge": CLASSIFICATION, SMOOTHED: CLASSIFICATION, "squared": REGRESSION}
KINDS = {
    "logistic": sv.DPLogisticRegression, "hinge": sv.DPLinearSVC, SMOOTHED: sv.DPLinearSVC, "squared": sv.DPRidge,
}  # fmt: skip
# solver: {(loss, table): what was measured, some 1.5 times}
BOUNDS = {
    "auto": {("hinge", "unbalanced classes"): 0.0036, ("hinge", "separable"): 0.0017, ("hinge", "small alpha"): 0.25},
    "scd": {("hinge", "unbalanced classes"): 0.0036, ("hinge", "separable"): 0.0017, ("hinge", "small alpha"): 0.25},
    "Minibatch": {
        ("squared", "small alpha, skewed labels"): 0.03,
        ("logistic", "small alpha"): 0.64,
        ("hinge", "separable"): 0.0026,
        ("hinge", "small alpha"): 0.25,
    },
    "newton": {(SMOOTHED, "separable"): 0.1},
    "sgd": {
        ("squared", "skewed labels"): 0.01,
        ("squared", "short rows"): 0.0032,
        ("squared", "small alpha, skewed labels"): 0.01,
        ("hinge", "unbalanced classes"): 0.0029,
        ("hinge", "separable"): 0.004,
        ("hinge", "short rows"): 0.0019,
    },
    "Primal": {
        ("squared", "skewed labels"): 0.0053,
        ("squared", "short rows"): 1.3,
        ("squared", "small alpha, skewed labels"): 0.0053,
        ("logistic", "unbalanced classes"): 0.095,
        ("logistic", "separable"): 0.4,
        ("logistic", "short rows"): 0.26,
        ("hinge", "plain"): 0.0057,
        ("hinge", "unbalanced classes"): 0.0034,
        ("hinge", "separable"): 1.2,
        ("hinge", "short rows"): 0.91,
        ("hinge", "small alpha"): 0.0061,
    },
}
# sampled steps are calibrated here, not judged: tests/contracts/test_accountants.py
pytestmark = pytest.mark.usefixtures("coarse_losses")
LOSSES = {
    "adassp": ("squared",),
    "refinement": ("squared",),
    "newton": ("logistic", SMOOTHED),
    "constant": (),  # a noisy mean: tests/convergence/test_floor_of_ridge.py
    "one-step": (),  # its coefficients are unpenalised: tests/statistical/test_interval_coverage.py
    "gd": (),  # for few rows: tests/convergence/test_floor_of_classes.py
    "momentum": (),  # its clips make another loss of it, and more rows are left to Newton steps
    "multinomial-scd": (),  # for more classes than these tables have: tests/unit/central/test_multinomial.py
    "Sequential": (),  # a fixed clip and few epochs: a reproduction, that tends nowhere near; test_optimum.py
    "Published": (),  # likewise: tests/papers/dp_scd
}
# noise that takes seconds to calibrate; bounds so wide that others notice sooner; "auto" takes another of these
SLOW = ("Minibatch", "sgd", "Primal", "auto")
CASES = [
    pytest.param(
        solver, loss, table, id=f"{solver}, {loss}, {table}", marks=[pytest.mark.slow] if solver in SLOW else []
    )
    for solver in EVERY
    for loss in LOSSES.get(solver, ("logistic", "hinge", "squared"))
    for table in TABLES[loss]
]


def made_up(loss, table):
    """Return X, labels, data_norm and alpha."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, D)) * np.linspace(1.0, 0.3, D)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True) / 2.5)
    noise = rng.logistic(size=N) if table != "separable" else 0.0
    y = np.where(X @ np.linspace(2.0, -1.0, D) - 5.0 * (table == "unbalanced classes") + noise > 0, 1.0, -1.0)
    if loss == "squared":
        signal, noise = 0.6 * X @ np.linspace(1.0, -1.0, D), rng.normal(size=N)
        y = np.minimum(np.exp(signal + 0.7 * noise), 20.0) if "skewed" in table else signal + 0.5 * noise
    return X, y, 25.0 if table == "short rows" else 2.5, 1e-6 if table.startswith("small alpha") else 1e-4


def excess(loss, table, solver):
    """Return by how much the objective of a private fit is above the optimum, as a share of it."""
    X, y, norm, alpha = made_up(loss, table)
    labels = {"label_bounds": (-5.0, 20.0)} if loss == "squared" else {"classes": [-1.0, 1.0]}
    given = {"data_norm": norm, "alpha": alpha, "intercept_scaling": SCALING, "delta": 1e-5, "random_state": 0}
    rows = sp.csr_array(X) if table == "short rows" else X
    model = KINDS[loss](epsilon=1e4, **solved(solver), **given, **labels).fit(rows, y)
    # labels are centred, and the intercept is penalised from there
    centre = 7.5 + float(model.guarantee_.parameters.get(LOCATION, 0.0)) if loss == "squared" else 0.0

    def value(coef, intercept):
        at = norm * np.ravel(coef), float(np.ravel(intercept)[0]) - centre
        return objective(loss, X / norm, y - centre, alpha, *at, scaling=SCALING)

    if loss == "squared":
        U = np.column_stack([X / norm, np.full(N, SCALING)])
        w = np.linalg.solve(U.T @ U + alpha * N * np.eye(D + 1), U.T @ (y - centre))
        best = value(w[:-1] / norm, w[-1] * SCALING + centre)
    elif loss == SMOOTHED:
        best = minimize(lambda w: value(w[:-1], w[-1]), np.zeros(D + 1), method="BFGS").fun
    else:
        exact = KINDS[loss](epsilon=math.inf, tol=1e-9, **given, **labels).fit(X, y)
        best = value(exact.coef_, exact.intercept_)
    return value(model.coef_, model.intercept_) / best - 1.0


@pytest.mark.parametrize(("solver", "loss", "table"), CASES)
@pytest.mark.filterwarnings("ignore::sottovoce.exceptions.SottovoceWarning")
def test_a_private_fit_tends_to_the_exact_one(solver, loss, table):
    assert -1e-6 <= excess(loss, table, solver) <= BOUNDS.get(solver, {}).get((loss, table), LAW)
