"""Steps from released sums: penalties by weight, and what holds for any number that noise may bring."""

import math

import numpy as np
import pytest

from sottovoce.central.newton_schedule import Curvature, CurvatureByWeight, NewtonSchedule, NewtonSteps
from sottovoce.central.noisy_moments import NoisyMoments

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
