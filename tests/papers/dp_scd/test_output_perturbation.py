"""Output perturbation: its point is the minimiser, no row moves it by more than S, and an audit sees less noise."""

import numpy as np
import pytest

from benchmarks.papers.dp_scd.output_perturbation import TEAM, TOLERANCE, OutputPerturbation
from sottovoce.audit import gaussian_lower_bound
from sottovoce.central.data.rows import make_rows
from sottovoce.central.facts import TrainingFacts
from sottovoce.losses import Logistic, SmoothedHinge
from sottovoce.privacy.accounting import accountant_for
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.calibration import gaussian_mu
from support.noise import Scaled
from support.proved_passes import gradient, logistic_table

EPSILON, DELTA = 1.0, 0.05


def plan_of(n, d=2, *, loss=None, alpha=0.05, adjacency=Adjacency.ZERO_OUT):
    facts = {
        "loss": SmoothedHinge() if loss is None else loss, "n_samples": n, "n_features": d, "n_models": 1,
        "alpha": alpha, "constant": 0.0, "epsilon": EPSILON, "delta": DELTA, "adjacency": adjacency,
        "label_bound": None,
    }  # fmt: skip
    return OutputPerturbation(TrainingFacts(**facts))


def point(plan, X, y):
    rows = make_rows(np.ascontiguousarray(X), data_norm=1.0, constant=0.0, names=None, team=TEAM)
    return plan.minimiser(rows, np.asarray(y, float))


def test_the_point_is_the_minimiser():
    X, y = logistic_table(300, 3, 0)
    plan = plan_of(300, 3, loss=Logistic())
    slope = gradient(Logistic(), X, y, 0.05, point(plan, X, y))
    assert np.linalg.norm(slope) <= TOLERANCE / 300


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_no_row_moves_the_point_by_more_than_the_sensitivity(adjacency):
    rng, worst = np.random.default_rng(1), 0.0
    for trial in range(40):
        n, alpha = int(rng.integers(2, 9)), 10.0 ** rng.uniform(-1.5, 1.0)
        plan = plan_of(n, alpha=alpha, adjacency=adjacency, loss=(Logistic(), SmoothedHinge())[trial % 2])
        X, y = rng.standard_normal((n, 2)), rng.choice([-1.0, 1.0], n)
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        if trial % 4 == 1:
            X[:] = X[-1]  # all in one line: the most that rows of norm 1 can do
            X[:-1] *= trial % 8 > 1
        other, z = X.copy(), y.copy()
        if adjacency is Adjacency.REPLACE_ONE:
            other[-1], z[-1] = (-X[-1], y[-1]) if trial % 4 == 1 else (rng.standard_normal(2) / 9.0, -y[-1])
        elif adjacency is Adjacency.ZERO_OUT:
            other[-1] = 0.0
        else:
            other, z = X[:-1], y[:-1]
        moved = np.linalg.norm(point(plan, X, y) - point(plan, other, z))
        assert moved <= plan.sensitivity
        worst = max(worst, moved / plan.sensitivity)
    assert worst > 0.95


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_plan_is_the_noise_is_the_account(adjacency):
    plan = plan_of(50, adjacency=adjacency)
    event = plan.mechanism.event
    assert plan.mechanism.noise_std >= plan.sensitivity / gaussian_mu(EPSILON, DELTA)
    assert 0.99 * EPSILON < accountant_for(event).epsilon(event, DELTA) <= EPSILON * (1 + 1e-9)


@pytest.mark.parametrize("factor", [1.0, 0.7])
def test_audit(factor):
    """One row against none: the point is 0, or as far away as a row can push it."""
    plan = plan_of(4, alpha=0.5)
    noise, scores = np.random.default_rng(3), {}
    for name, X in (("in", [[1.0, 0.0], [0.0, 0.0]]), ("out", np.zeros((2, 2)))):
        where = point(plan, X, [1.0, 1.0])
        scores[name] = np.array([plan.released(where, Scaled(noise, factor))[0] for _ in range(8_000)])
    bound = gaussian_lower_bound(scores["in"], scores["out"], delta=DELTA)
    assert (bound > EPSILON) == (factor < 1.0)
    assert bound > 0.65 * EPSILON
