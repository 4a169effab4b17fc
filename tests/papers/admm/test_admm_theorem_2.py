"""Theorem 2 of ADMM sharing with its constant: by hand, where it is attained, and against runs of printed updates."""

import math

import numpy as np
import pytest

from sottovoce.losses import Logistic, Squared
from sottovoce.papers.admm import Penalty, admm, coupling, rate_constant, start_value, theorem_1_conditions
from sottovoce.papers.admm.sharing import ScoreProblem
from support.pairs import by_pairs
from support.sigmoid_loss import SigmoidLoss


def constant(blocks, loss, penalty, rho):
    return rate_constant(theorem_1_conditions(blocks, loss, penalty=penalty, rho=rho), coupling(blocks))


def test_coupling_by_hand():
    axes = np.eye(6)
    assert coupling([axes[:, :2]]) == 0.0
    assert coupling([axes[:, :2], 3.0 * axes[:, 2:4]]) == 0.0
    for n_parties in (2, 3, 5):  # the largest there can be: (M - 1) |column|^2
        assert coupling([2.0 * axes[:, :1]] * n_parties) == pytest.approx(4.0 * (n_parties - 1))


def test_constant_by_hand():
    axes = np.eye(6)
    # gamma_m = 2, kappa = 2: 4 / 1; the coordinator's part: 5 / 4 over 1 - 1/2
    assert constant([axes[:, :1], axes[:, 1:2]], Squared(), Penalty(), 2.0) == pytest.approx(4.0)
    # eigenvalue 1/4: gamma_m = 1.5, kappa = 1.5: 2.25 / 0.75 = 3; the coordinator's part as before
    assert constant([0.5 * axes[:, :1]], Squared(), Penalty(1.0), 2.0) == pytest.approx(3.0)
    # a heavy penalty leaves the coordinator's part: 1.25 / 0.5
    assert constant([0.5 * axes[:, :1]], Squared(), Penalty(50.0), 2.0) == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("blocks", "loss", "rho"),
    [
        ([np.eye(4)[:, :1]] * 3, Squared(), 2.0),  # all published conditions hold, and the run diverges
        ([np.eye(4)[:, :1]] * 2, Squared(), 3.0),  # gamma_m = rho theta: on the edge
        ([np.eye(4)[:, :1], np.eye(4)[:, 1:2]], Squared(), 1.4),  # 2 (c)
        ([np.eye(4)[:, :1], np.eye(4)[:, 1:2]], SigmoidLoss(), 2.0 * SigmoidLoss().smoothness),
    ],
)
def test_no_constant_where_the_plan_fails(blocks, loss, rho):
    assert constant(blocks, loss, Penalty(), rho) == math.inf


@pytest.mark.parametrize("loss", [Logistic(), Squared(), SigmoidLoss()], ids=lambda loss: loss.name)
def test_start_value_is_the_augmented_lagrangian(loss):
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(12) < 0.5, -1.0, 1.0)
    problem = ScoreProblem(loss, labels)
    z = problem.minimise(np.zeros(12), 1.5)
    dual = loss.derivative(labels, z)  # y^1 by the optimality of (7)
    expected = problem.value(z) - dual @ z + 0.75 * z @ z
    assert start_value(loss, labels, 1.5) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("loss", "penalty", "n_parties"),
    by_pairs([Logistic(), SigmoidLoss(), Squared()], [Penalty(), Penalty(5.0), Penalty(1.0, 0.5)], [1, 2, 3]),
)
def test_the_bound_holds_at_every_round(loss, penalty, n_parties):
    """Separable labels: without a penalty no least objective is attained, and V falls as slowly as it ever does."""
    rng = np.random.default_rng(n_parties)
    blocks = [rng.normal(size=(150, 2)) for _ in range(n_parties)]
    y = np.sign(np.hstack(blocks) @ rng.normal(size=2 * n_parties))
    rho = 2.2 * loss.smoothness
    report = theorem_1_conditions(blocks, loss, penalty=penalty, rho=rho)
    bound = rate_constant(report, coupling(blocks)) * start_value(loss, y, rho)
    assert math.isfinite(bound)
    V = admm(blocks, loss, y, penalty=penalty, rho=rho, form="printed", max_iter=120, tol=0.0).stationarity
    sums = np.cumsum(V[1:])
    assert sums[-1] <= bound
    assert (
        np.minimum.accumulate(V[1:]) * np.arange(1, len(V)) <= sums * (1.0 + 1e-12)
    ).all()  # so least V <= bound / t
    assert sums[-1] >= 1e-4 * bound  # not an empty promise
