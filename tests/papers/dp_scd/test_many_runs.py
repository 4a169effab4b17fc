"""The many runs of the tuning grids are those of the solvers: the same steps, the same noise."""

import math

import numpy as np
import pytest

import sottovoce as sv
from benchmarks.papers.dp_scd import many_runs, tuning
from benchmarks.papers.dp_scd.appendix_e import DELTA
from sottovoce.losses import Hinge, Squared, dual_step, slope
from sottovoce.papers.dp_scd import Published
from sottovoce.papers.dp_scd.published import OneNewtonStep
from sottovoce.privacy.accounting import PLDAccountant, accountant_for
from sottovoce.privacy.events import GaussianEvent, PoissonSampledEvent, RepeatAndSelectEvent, RepeatedEvent

LOSSES = {"squared": Squared(), "hinge": Hinge(), "logistic": OneNewtonStep()}
ALPHA = 0.05


def _table(n=400, d=3):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X.astype(np.float32), np.where(X @ np.arange(1.0, d + 1) > 0, 1.0, -1.0).astype(np.float32)


@pytest.mark.parametrize("name", LOSSES)
def test_steps_and_slopes_are_those_of_the_library(name):
    rng = np.random.default_rng(0)
    for _ in range(100):
        y, a, m, r = rng.choice([-1.0, 1.0]), rng.normal(), 3 * rng.normal(), 10.0 ** rng.uniform(-2, 2)
        columns = [np.array([[value]]) for value in (a, y, m)]
        np.testing.assert_allclose(
            many_runs.STEPS[name](*columns, r), dual_step(LOSSES[name], a, y, m, r), rtol=1e-6, atol=1e-9
        )
        np.testing.assert_allclose(many_runs.SLOPES[name](*columns[1:]), slope(LOSSES[name], y, m), rtol=1e-6)


def test_without_noise_all_forms_reach_the_optimum_of_ridge_regression():
    X, y = _table()
    optimum = np.linalg.solve(X.T @ X / len(y) + ALPHA * np.eye(3), X.T @ y / len(y))
    wide = np.array([10.0, 20.0])
    for visible in (True, False):
        found = many_runs.dp_scd("squared", X, y, ALPHA, 60, 20, wide, 0.0, 0, visible_duals=visible)
        np.testing.assert_allclose(found.last, np.column_stack([optimum] * 2), atol=0.02)
    found = many_runs.dp_sgd("squared", X, y, ALPHA, 60, 40, wide, np.array([0.1, 1.0]), 0.0, 0)
    np.testing.assert_allclose(found.averaged, np.column_stack([optimum] * 2), atol=0.05)


def test_a_clip_bounds_every_step():
    X, y = _table()
    found = many_runs.dp_scd("squared", X, y, ALPHA, 1, 400, np.array([1e-4, 1e3]), 0.0, 0)
    assert np.abs(found.last[:, 0]).max() <= 1e-4 / ALPHA
    assert np.abs(found.last[:, 1]).max() > 1e-2


@pytest.mark.parametrize(("visible", "sensitivity"), [(True, math.sqrt(2.0)), (False, 1.0)])
def test_noise_is_scaled_to_the_sensitivity(visible, sensitivity):
    # rows of zeros: v is the noise of 4 epochs of 5 batches
    n, d, clip, noise = 100, 5000, 0.3, 2.5
    X, y = np.zeros((n, d), np.float32), np.ones(n, np.float32)
    found = many_runs.dp_scd("hinge", X, y, ALPHA, 4, 20, np.array([clip]), noise, 0, visible_duals=visible)
    wanted = sensitivity * clip * noise * math.sqrt(20) / (ALPHA * n)
    assert found.last.std() == pytest.approx(wanted, rel=0.04)


def test_noise_of_sgd_is_scaled_to_the_clip():
    X, y = np.zeros((100, 5000), np.float32), np.ones(100, np.float32)
    found = many_runs.dp_sgd("hinge", X, y, 0.0, 4, 20, np.array([0.3]), np.array([0.7]), 2.5, 0)
    assert found.last.std() == pytest.approx(0.7 / 20 * 0.3 * 2.5 * math.sqrt(20), rel=0.04)


def test_printed_noise_is_that_of_the_published_solver():
    n, size, epochs = 600, 100, 3
    model = sv.DPRidge(
        epsilon=1.0, delta=DELTA, data_norm=1.0, label_bounds=(-1.0, 1.0), fit_intercept=False,
        solver=Published(batch_size=size, clipping_norm=0.1, epochs=epochs),
    )  # fmt: skip
    plan = sv.plan(model, n_samples=n, n_features=3)
    assert tuning.noise_of("scd-printed", n, size, epochs, 1.0) == pytest.approx(plan.noise_multiplier)
    # what holds without amplification needs more
    assert tuning.noise_of("scd-visible", n, size, epochs, 1.0) > 1.4 * plan.noise_multiplier


@pytest.mark.slow
def test_sound_noise_keeps_the_budget_of_a_run_and_of_a_search():
    n, size, epochs = 100, 50, 2
    steps = epochs * n // size

    def event(noise):
        return RepeatedEvent(PoissonSampledEvent(size / n, GaussianEvent(noise)), steps)

    one = tuning.noise_of("scd-sound", n, size, epochs, 1.0)
    assert 0.99 < PLDAccountant().epsilon(event(one), DELTA) <= 1.0
    many = tuning.noise_of("sgd-sound", n, size, epochs, 1.0, trials=10)
    search = RepeatAndSelectEvent(event(many), 10.0, 1.0)
    assert 0.99 < accountant_for(search).epsilon(search, DELTA) <= 1.0
    assert many > 1.3 * one


def test_a_log_goes_on_where_it_was_stopped(tmp_path):
    calls = []
    for _ in range(2):
        log = tuning.Log(tmp_path / "log.jsonl")
        assert log.get("a", lambda: calls.append(1) or {"value": 3})["value"] == 3
    assert calls == [1]


def test_the_grids_are_the_papers():
    # 13 x 12 = 156 and 13 x 13 x 12 = 2,028 with the batch of no row, which cannot be run
    assert (len(tuning.SIZES) + 1) * len(tuning.configurations("scd-printed")) == 156
    assert (len(tuning.SIZES) + 1) * len(tuning.configurations("sgd-printed")) == 2028
