"""The solver "newton": its plan, refusals and limits; its steps, penalties by weight, whatever noise may bring."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

import sottovoce as sv
from sottovoce.central.newton_schedule import QUICK, Curvature, CurvatureByWeight, NewtonSchedule, NewtonSteps
from sottovoce.central.noisy_moments import NoisyMoments
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.calibration import gaussian_mu
from support.pairs import by_pairs

BUDGET = {"epsilon": 1.0, "delta": 1e-5}
CLASSIFIER = {**BUDGET, "data_norm": 1.0, "classes": [-1, 1], "random_state": 0}


def made_up(n=20_000, d=8):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-8.0 * X[:, 0] + 4.0 * X[:, 1])), 1, -1)


def newton(**changed):
    return sv.DPLogisticRegression(**{**CLASSIFIER, "solver": "newton", **changed})


@pytest.mark.parametrize(("epsilon", "share"), by_pairs([1.0, 100.0], [0.5, 0.25]))
def test_columns_that_say_little_are_heard(epsilon, share):
    """All dual variables go the same way for some passes; long steps then never came back."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 10))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    signal = 1.5 * X[:, 0] - X[:, 1]
    y = np.where(rng.random(len(X)) < 1.0 / (1.0 + np.exp(math.log(1.0 / share - 1.0) - signal)), 1, -1)
    fits = {solver: newton(solver=solver, epsilon=epsilon, data_norm=1.0).fit(X, y) for solver in ("scd", "newton")}
    aucs = {solver: roc_auc_score(y, model.decision_function(X)) for solver, model in fits.items()}
    assert aucs["scd"] > 0.57
    assert aucs["newton"] > aucs["scd"] - 0.005
    losses = {solver: log_loss(y, model.predict_proba(X)[:, 1]) for solver, model in fits.items()}
    assert losses["newton"] < losses["scd"] + 0.005
    assert fits["newton"].n_iter_ * 3 < fits["scd"].n_iter_


def test_the_passes_spend_the_budget_where_the_clips_are():
    plan = sv.plan(newton(), 10_000, 20)
    squares = [1.0 / multiplier**2 for multiplier in plan.schedule.multipliers]
    assert math.fsum(squares) == pytest.approx(plan.split.model**2, rel=1e-12)
    np.testing.assert_allclose(np.divide(squares, plan.schedule.clips), squares[0] / plan.schedule.clips[0])
    spent = (plan.split.norm, plan.mu_gram, plan.split.steps, plan.split.slopes)
    assert math.fsum(mu**2 for mu in spent) == pytest.approx(gaussian_mu(1.0, 1e-5) ** 2)
    assert 0.35 < math.fsum(plan.schedule.clips) < 0.55 < math.fsum(replace(plan.schedule, pace=QUICK).clips) < 0.8


def test_more_information_means_wider_clips_and_for_the_hinge_more_passes():
    hinge = sv.DPLinearSVC(**{**CLASSIFIER, "delta": 1e-9, "solver": "newton"})
    passes = [len(sv.plan(hinge, n, 20).schedule.clips) for n in (10**3, 10**5, 10**7)]
    assert passes == sorted(set(passes))
    plans = [sv.plan(newton(delta=1e-9), n, 20) for n in (10**3, 10**5, 10**7)]
    assert plans[0].schedule.clips[1] < plans[1].schedule.clips[1] < plans[2].schedule.clips[1]
    assert plans[0].penalty > plans[1].alpha_scaled * 10**3  # with little budget the noise asks for more than alpha
    assert plans[2].penalty == pytest.approx(plans[2].alpha_scaled * 10**7)
    assert len(sv.plan(newton(solver_options={"n_passes": 1}), 1000, 5).schedule.clips) == 1


def test_the_hinge_is_smoothed_and_said_to_be_and_a_jump_is_refused():
    svc = sv.DPLinearSVC(**{**CLASSIFIER, "solver": "newton"})
    plan = sv.plan(svc, 1000, 5)
    assert plan.summary()["loss"] == plan.loss.name == "smoothed hinge (smoothing 2)"
    logistic = sv.plan(newton(solver_options={"calibration_share": 0.0}), 1000, 5).schedule
    assert plan.schedule.clips == pytest.approx(replace(logistic, pace=QUICK).clips)
    X, y = made_up(1000)
    assert svc.fit(X, y).guarantee_.parameters["loss"] == "smoothed hinge (smoothing 2)"
    assert svc.set_params(epsilon=math.inf).fit(X, y).guarantee_.parameters["loss"] == "hinge"
    ridge = sv.DPRidge(**BUDGET, data_norm=1.0, label_bounds=(0, 1), solver="newton")
    with pytest.raises(ParameterError, match="'newton' needs a loss with bounded first and second derivatives"):
        sv.plan(ridge, 1000, 5)


def test_several_hinges_are_held_shorter_than_one():
    """Noise alone would order the scores of rare classes, each of which is best left near -1."""
    for names, models in (([-1, 1], 1), ([1, 2, 3, 4], 4)):
        plan = sv.plan(sv.DPLinearSVC(**{**CLASSIFIER, "classes": names, "solver": "newton"}), 1000, 5)
        information = plan.split.model * 1000 / 6  # of a weight
        share = max(0.02, 0.1 * min(1.0, 20.0 / information))
        assert plan.penalty == pytest.approx(share * models / plan.split.model)


SCHEDULE = NewtonSchedule(slope=0.5, smoothness=0.25, mu=1.0, n_units=1000, n_weights=5)


def moments(seed=0):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(50, 6))
    return matrix.T @ matrix, rng.normal(size=5)


def test_equal_penalties_are_one_penalty():
    matrix, vector = moments()
    matrix, step = matrix[:5, :5], vector + 1.0
    one, many = Curvature(matrix, 20.0, 3.0), CurvatureByWeight(matrix, 20.0, np.full(5, 3.0))
    np.testing.assert_allclose(one.solve(vector, 0.2), many.solve(vector, 0.2), rtol=1e-12)
    np.testing.assert_allclose(one.pull(vector), many.pull(vector))
    assert one.along(step, vector, 0.1) == pytest.approx(many.along(step, vector, 0.1))
    assert one.largest == many.largest


def test_a_penalty_pulls_its_own_weight_only():
    matrix, vector = np.eye(5), np.ones(5)
    found = CurvatureByWeight(matrix, 0.5, np.array([0.0, 1.0, 3.0, 9.0, 1e9])).solve(vector, 1.0)
    np.testing.assert_allclose(found, [1.0, 0.5, 0.25, 0.1, 1e-9])


def test_ridge_is_as_careful_where_the_noise_is_large():
    matrix, _ = moments()
    noisy = NoisyMoments(matrix - 30.0 * np.eye(6), 0.7, 5.0)
    one, chosen = noisy.ridge(0.0)
    many, floor = noisy.ridge_by_weight(np.zeros(5))
    assert chosen == floor > 0.0
    np.testing.assert_allclose(one, many, rtol=1e-10)


def test_steps_are_short_where_margins_are_small():
    small, middle, large = (SCHEDULE.least_step(margin * math.sqrt(1000)) for margin in (0.1, 2.0, 1e200))
    assert small == SCHEDULE.most_step
    assert middle == pytest.approx(1.0 / math.cosh(1.0) ** 1.5)
    assert large < 0.1
    persons = NewtonSchedule(slope=0.5, smoothness=0.25, mu=1.0, n_units=250, n_weights=5, rows=4)
    assert persons.least_step(2.0 * math.sqrt(1000)) == middle


@pytest.mark.parametrize("size", [0.0, 1e-300, 1.0, 1e100])
def test_steps_stay_finite_whatever_is_released(size):
    steps = NewtonSteps(SCHEDULE, CurvatureByWeight(np.zeros((5, 5)), 1.0, np.zeros(5)))
    rng = np.random.default_rng(0)
    assert steps.share < 1.0
    for _ in SCHEDULE.clips:
        steps.take(size * rng.normal(size=5), 1.0)
        assert np.isfinite(steps.point).all()
        assert steps.share == 1.0
