"""DP-SCD with a strong penalty ends near the penalised optimum: ``docs/privacy/dp_scd_utility.md``."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from sottovoce.central.data.lengths import make_rows
from sottovoce.central.parallel import Team
from sottovoce.central.plan import TrainingFacts
from sottovoce.central.solvers.accelerated import AcceleratedPlan
from sottovoce.losses import Logistic
from sottovoce.papers.dp_scd.bounds import theorem_2
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.randomness import Streams
from support.asking import trained
from support.pairs import by_pairs

LOSS, TEAM = Logistic(), Team(1, None)


def plan_of(kind, n, d, alpha, epsilon, **options):
    facts = TrainingFacts(
        loss=LOSS, n_samples=n, n_features=d, n_models=1, alpha=alpha, constant=0.0, epsilon=epsilon, delta=1e-5,
        adjacency=Adjacency.ZERO_OUT, label_bound=None,
    )  # fmt: skip
    return kind(facts=facts, calibration_share=0.0, **options)


def logistic_table(n, d, seed):
    """Return rows on the unit sphere and labels of a logistic model."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.where(rng.random(n) < expit(X @ (3.0 * np.ones(d) / math.sqrt(d))), 1.0, -1.0)


def risk_and_slope(w, X, y, alpha):
    """Return F(w) and its slope."""
    margins = X @ w
    slope = X.T @ LOSS.derivative(y, margins) / len(y) + alpha * w
    return float(np.mean(LOSS.value(y, margins)) + 0.5 * alpha * w @ w), slope


def released_weights(plan, X, y, seed):
    rows = make_rows(X, data_norm=1.0, constant=0.0, names=None, team=TEAM)
    return trained(plan, rows, [y], Streams(seed), TEAM).result.weights[0]


def mean_excess(plan, X, y, seeds):
    """Return the mean of F(w) - min F over some seeds, and its standard error."""
    alpha = plan.alpha
    least = minimize(risk_and_slope, np.zeros(X.shape[1]), (X, y, alpha), "L-BFGS-B", jac=True, tol=1e-12).fun
    found = [risk_and_slope(released_weights(plan, X, y, seed), X, y, alpha)[0] - least for seed in range(seeds)]
    return np.mean(found), np.std(found, ddof=1) / math.sqrt(seeds)


@pytest.mark.parametrize(
    ("size", "alpha", "epsilon"),
    by_pairs([(300, 2), (1000, 20), (3000, 5)], [0.003, 0.01, 0.03, 0.1, 0.3], [0.3, 1.0, 4.0]),
)
def test_the_default_keeps_what_theorem_2_promises(size, alpha, epsilon):
    """Its clips bind, so that nothing is proved of it; with momentum of t / (t + 3) it did not keep it."""
    n, d = size
    plan = plan_of(AcceleratedPlan, n, d, alpha, epsilon)
    promised = min(theorem_2(LOSS, n, d, alpha, plan.split.whole, passes) for passes in range(1, 300))
    assert mean_excess(plan, *logistic_table(n, d, 0), seeds=4)[0] < 0.5 * promised
