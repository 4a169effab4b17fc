"""The solver "refinement": what its path tends to, what it takes and refuses, the clip that a histogram asks for."""

import math
from functools import partial

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.central.core import replay
from sottovoce.central.data.labels import BeginModel, hold
from sottovoce.central.data.lengths import make_rows
from sottovoce.central.parallel import Team
from sottovoce.central.solvers.refinement import Distances, distances
from sottovoce.central.sums.histograms import CountDistances, clip_grid
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from support.asking import answered
from support.many_parts import with_targets

TEAM = Team(1, None)
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (4000, 3))
Y = np.clip(X @ [1.0, -0.5, 0.0] + 1.0 + 0.2 * rng.normal(size=4000), -5.0, 5.0)
CLIPS = ("clip of the residuals in the first passes", "clip of the residuals in the others")


def ridge(**changed):
    return sv.DPRidge(**{
        "epsilon": 2.0, "delta": 1e-6, "data_norm": 3**0.5, "label_bounds": (-5.0, 5.0), "random_state": 0, **changed,
    })  # fmt: skip


def test_the_penalty_follows_solver_and_rows():
    assert sv.plan(ridge(), 4000, 3).alpha == 0.05 / 4000
    assert sv.plan(ridge(solver="scd"), 4000, 3).alpha == 1e-4
    assert sv.plan(ridge(alpha=0.01), 4000, 3).alpha == 0.01
    assert sv.plan(ridge(epsilon=math.inf), 4000, 3).alpha == 0.05 / 4000
    assert sv.plan(ridge(delta=1e-10), 10**9, 3).alpha == 1e-8


@pytest.mark.parametrize("wrong", [-1.0, 0.0, 1.0, math.inf])
def test_a_receipt_with_a_clip_that_is_on_no_grid_is_none(wrong):
    plan = sv.plan(ridge(solver="refinement"), 4000, 3)
    chosen = ridge(solver="refinement").fit(X, Y).guarantee_.parameters
    assert replay(plan.asks, chosen).event == plan.event
    for name in CLIPS:
        with pytest.raises(ParameterError):
            replay(plan.asks, {**chosen, name: wrong})


def test_predictions_stay_within_the_bounds_of_the_labels():
    model = ridge(label_bounds=(0.8, 1.2)).fit(X, np.clip(Y, 0.8, 1.2))
    far = np.array([[100.0, 0.0, 0.0], [-100.0, 0.0, 0.0]])
    np.testing.assert_array_equal(model.predict(far), [1.2, 0.8])
    assert np.all(np.abs(far @ model.coef_) > 1.0)  # the linear function itself is not cut
    lasso = sv.DPLasso(epsilon=2.0, delta=1e-6, data_bound=1.0, radius=2.0, label_bounds=(0.8, 1.2)).fit(X, Y)
    assert set(np.clip(lasso.predict(far), 0.8, 1.2)) == set(lasso.predict(far))


def histogram(targets, mu=1e6, widest=8.0):
    asks = partial(distances, None, widest, Neighbours(Adjacency.ZERO_OUT), mu)
    return answered(asks, with_targets(targets), 0).result


def test_a_histogram_counts_each_row_once_whatever_its_distance_is():
    found = histogram([0.0, 1e-300, -3.0, 3.0, 8.0, 1e308, -np.inf, np.nan, 4.0, 4.0000001])
    assert np.round(found.above).sum() + np.round(found.below).sum() == 10
    assert round(found.above[-1]) == 3  # 8, 1e308, 4.0000001
    assert round(found.below[-1]) == 2  # -inf and NaN


def test_distances_from_predictions_are_counted_by_their_sign_in_all_pieces():
    rows, w = make_rows(X, data_norm=3**0.5, constant=0.2, names=None, team=TEAM), np.array([1.0, -0.5, 0.1, 2.0])
    away = Y - (X * rows.scale[:, None]) @ w[:3] - rows.constant * w[3]
    holder = hold(rows, [Y], TEAM)
    holder.ask(BeginModel(0))
    found = holder.ask(CountDistances(w, 0.7))
    assert [found[:12].sum(), found[12:].sum()] == [(away <= 0.0).sum(), (away > 0.0).sum()]
    np.testing.assert_array_equal(found, CountDistances(None, 0.7).counts(away * rows.divisor))


def test_the_clip_falls_with_the_noise_and_grows_with_skewness():
    rng = np.random.default_rng(1)
    symmetric, skewed = rng.laplace(size=20_000), np.exp(rng.normal(size=20_000)) - 1.6
    clips = [histogram(symmetric).clip(20_000, noise_gain=gain, length=1.0) for gain in (1e-6, 1.0, 1e6)]
    assert clips == sorted(clips, reverse=True)
    assert clips[0] >= 4.0 > 2.0 > clips[-1]
    assert histogram(skewed).clip(20_000, noise_gain=1.0, length=1.0) > 2.0 * clips[1]
    # nothing seen: the widest clip, which cuts nothing off
    assert histogram(symmetric, mu=1e-9).clip(20_000, noise_gain=1.0, length=1.0) in clip_grid(8.0)


def test_without_rows_the_clip_is_one_of_the_grid():
    empty = Distances(clip_grid(2.0), np.zeros(12), np.zeros(12), 1.0)
    assert empty.clip(10, noise_gain=1.0, length=1.0) == 2.0
