"""Slope, shift and length of finished scores: right where there is no noise, harmless where there is nothing else."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import expit, softmax

import sottovoce as sv
from sottovoce._numerics import PIECE
from sottovoce.central import calibration, split
from sottovoce.central.calibration import SHIFTS, SLOPES, share_for
from sottovoce.central.core import replay
from sottovoce.central.data.lengths import make_rows
from sottovoce.central.parallel import Team
from sottovoce.central.sums import last_factors, shared_counts
from sottovoce.central.sums.clipped_sums import clipped_sum
from sottovoce.central.sums.last_factors import CLIP, ROUNDS, LineMoments, ScoreMoments, cut_for, slope_and_shift
from sottovoce.central.sums.shared_counts import Prior, design_for, equations_at, grid_around, scores_of_cells
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Multinomial
from sottovoce.privacy.accounting import flatten
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from sottovoce.privacy.events import GaussianEvent
from support.asking import answered, calibrating, straightened
from support.many_parts import begun

TEAM = Team(1, None)
PRIOR = Prior(0.7, 0.45, 0.25)


def rows_and_weights(n, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, 6)) / 4).astype(dtype)
    rows = make_rows(X, data_norm=1.0, constant=0.2, names=None, team=TEAM)
    return rows, 5.0 * rng.standard_normal(7), rng


def run(rows, y, w, mu, *, prior=PRIOR, **changed):
    """Return slope, shift, and the weights with them."""
    found = calibrating(rows, y, w, mu, prior, 1, **changed)
    return *found.kept[SLOPES], *found.kept[SHIFTS], found.result


@pytest.mark.parametrize(("slope", "shift"), [(0.4, 0.3), (1.0, -0.5), (0.7, 0.0)])
def test_without_noise_the_truth_is_found(slope, shift):
    rows, w, rng = rows_and_weights(100_000)
    z = rows.margins(w, TEAM)
    y = np.where(rng.random(len(z)) < expit(slope * z + shift), 1.0, -1.0)
    found_slope, found_shift, moved = run(rows, y, w, 100.0)
    assert found_slope == pytest.approx(slope, rel=0.03)
    assert found_shift == pytest.approx(shift, abs=0.04)
    np.testing.assert_allclose(rows.margins(moved, TEAM), found_slope * z + found_shift, atol=1e-9)


def test_with_noise_alone_the_prior_is_left():
    rows, w, _ = rows_and_weights(50)
    slope, shift, _ = run(rows, np.ones(50), w, 1e-6)
    assert slope == pytest.approx(PRIOR.slope, rel=1e-3)
    assert shift == pytest.approx(0.0, abs=1e-3)


def test_the_base_rate_is_learnt_where_the_weights_know_nothing():
    rows, w, rng = rows_and_weights(20_000)
    y = np.where(rng.random(20_000) < 0.2, 1.0, -1.0)
    slope, shift, _ = run(rows, y, w, 0.1, prior=Prior(0.01, 0.7, 1.3))
    assert slope < 0.02
    assert shift == pytest.approx(math.log(0.2 / 0.8), abs=0.1)


def test_no_column_is_longer_than_one():
    for share in (1, 8, 16, 32):
        design = design_for(Prior(0.7 * share / 32, 0.45, 1.3 - share / 32))
        lengths = np.linalg.norm(design.matrix / shared_counts._FINE, axis=0)
        assert lengths.max() <= design.longest <= 1.0
        gaps = np.linalg.norm(design.matrix[:, :, None] - design.matrix[:, None, :], axis=0) / shared_counts._FINE
        assert gaps.max() <= design.widest_gap * (1 + 1e-12)
        assert 1.0 < design.widest_gap <= 2.0


@given(slopes=st.lists(st.floats(0.01, 5.0), min_size=1, max_size=4), shift=st.floats(-9.0, 9.0), two=st.booleans())
def test_the_equations_are_the_scores_of_the_cells_in_terms_of_what_is_released(slopes, shift, two):
    design, shifts = design_for(PRIOR), np.array([shift, 0.5][: 1 + two])
    scores = scores_of_cells(np.array(slopes), shifts, PRIOR.cut) @ design.inverse
    found = equations_at(np.array(slopes), shifts, design)
    np.testing.assert_allclose(found, np.moveaxis(scores, -2, 0), rtol=1e-10, atol=1e-10)


def test_a_prior_without_a_shift_is_the_one_at_no_shift():
    with_shift, without = (grid_around(PRIOR._replace(shift_spread=one), -0.3, 0.5, 0.0, 0.25) for one in (0.25, 0.0))
    np.testing.assert_array_equal(with_shift[0], without[0])
    np.testing.assert_allclose(with_shift[2][:, 15], without[2][:, 0])


def test_the_share_falls_with_the_information():
    shares = [share_for(mu_n) for mu_n in (0.1, 1.0, 100.0, 1e4, 1e9)]
    assert share_for(1e-4) == 0.0
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 0.5
    assert shares[-1] == 0.005


# --- as a part of fits


def table(n=600):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.where(rng.random(n) < expit(4 * X[:, 0] - 1), 1, -1)


def model(**changed):
    return sv.DPLogisticRegression(
        **{"epsilon": 1.0, "delta": 1e-5, "data_norm": 1.0, "classes": [-1, 1], "random_state": 0, **changed}
    )


# --- of numbers


any_sum = st.floats(-1e3, 1e3)


@given(sums=st.tuples(any_sum, any_sum, any_sum, any_sum), cut=st.floats(1e-3, 1e3), n=st.integers(1, 1000),
       exponent=st.floats(-3.0, 3.0), adjacency=st.sampled_from(list(Adjacency)))  # fmt: skip
def test_slope_and_shift_of_released_sums_are_those_of_the_page(sums, cut, n, exponent, adjacency):
    mu = 10.0**exponent
    asked = slope_and_shift(np.zeros(3), cut, n, Neighbours(adjacency), mu)
    mechanism = next(asked).mechanism
    assert mechanism.event == GaussianEvent(1.0 / mu)
    with pytest.raises(StopIteration) as end:
        asked.send(np.array(sums))
    s = adjacency.sum_factor / mu
    assert mechanism.noise_std == pytest.approx(s, rel=1e-5)
    D, C, Z, E = max(sums[0], 0.25 * mechanism.noise_std), *sums[1:]
    k = max(2.0, 80.0 / (mu * n))
    slope = np.clip((C + D) * D / (D**2 + k * mechanism.noise_std**2), 0.0, 1.25)
    assert end.value.value == pytest.approx((slope, cut * (1.0 - slope) * np.clip((E + Z) / n, -1.0, 1.0)))


any_number = st.floats(width=64) | st.floats(-3.0, 3.0)


@given(rows=st.lists(st.tuples(any_number, any_number), min_size=1, max_size=9), cut=st.floats(1e-3, 1e3))
@example([(math.nan, 1.0), (1.0, math.nan), (math.inf, math.inf)], 2.0)
def test_the_four_numbers_of_a_row_are_cut_together_and_toward_zero(rows, cut):
    ask, (z, y) = LineMoments(np.zeros(1), cut, 2.0**20), np.array(rows).T
    moments = np.array([ask.moments(z[i : i + 1], y[i : i + 1]) for i in range(len(rows))])
    np.testing.assert_array_equal(ask.moments(z, y), moments.sum(axis=0))
    with np.errstate(all="ignore"):
        near, left = (np.clip(np.where(np.isnan(one), 0.0, one), -cut, cut) / cut for one in (z, y - z))
    wanted = np.array([near**2, near * left, near, left])
    wanted /= np.maximum(1.0, np.linalg.norm(wanted, axis=0))
    assert (np.abs(moments - 2.0**20 * wanted.T) < 1.0 + 1e-6).all()
    assert (np.abs(moments) <= 2.0**20 * np.abs(wanted.T) + 1e-6).all()


@pytest.mark.parametrize("n", [PIECE - 1, PIECE, 2 * PIECE + 3])
def test_the_four_numbers_are_those_of_all_rows_in_pieces(n):
    rows, w, rng = rows_and_weights(n)
    y = rng.standard_normal(n)
    ask, part = LineMoments(w, 2.0, 2.0**20), begun(rows, y)
    np.testing.assert_array_equal(ask.on(part), ask.moments(rows.margins(w, TEAM), y))
    total = np.zeros(4, np.int64)
    ask.add(rows.kernel, [y], 5, n - 7, total)
    np.testing.assert_array_equal(total, ask.moments(rows.margins(w, TEAM)[5 : n - 7], y[5 : n - 7]))
    assert ask.blank().shape == ask.shape(part) == (4,)


def line(rows, y, w, mu, *, cut=20.0, **changed):
    return straightened(rows, y, w, cut, mu, 1, **changed).result


@pytest.mark.parametrize("intercept", [0.0, 2.0])
@pytest.mark.parametrize(("slope", "mean"), [(0.4, 0.3), (1.0, -0.5), (0.0, 0.6), (1.1, 0.0)])
def test_without_noise_the_line_of_numbers_is_that_of_least_squares(slope, mean, intercept):
    """The shift makes a mean of the labels of what the slope leaves of the predictions, wherever these lie."""
    rows, w, rng = rows_and_weights(100_000)
    z = rows.margins(np.append(w[:-1], intercept), TEAM)
    y = slope * z + mean + rng.standard_normal(len(z))
    best = z @ y / (z @ z)
    assert line(rows, y, np.append(w[:-1], intercept), 1e3) == pytest.approx((best, (1.0 - best) * y.mean()), abs=0.001)
    nothing, left = line(rows, 0.0 * z + mean, 0.0 * w, 1e3)
    assert left == pytest.approx((1.0 - nothing) * mean, abs=1e-4)


def test_residuals_are_cut_less_where_there_is_more_information():
    cuts = [cut_for(2.0, mu_n) for mu_n in (1e-9, 100.0, 400.0, 1e6)]
    assert cuts == [2.0, 2.0, 4.0, 200.0]


def ridge(**changed):
    fixed = {"epsilon": 1.0, "delta": 1e-7, "data_norm": 1.0, "label_bounds": (-3, 5), "solver": "scd"}
    return sv.DPRidge(**{**fixed, "random_state": 0, **changed})


PERSONS = {"max_rows_per_group": 3, "solver_options": {"calibration_share": 0.2}}
FIXED = {"solver_options": {"n_passes": 30, "calibration_share": 0.1}}


@pytest.mark.parametrize(
    ("make", "place", "given"),
    [(model, (split, "calibrated"), FIXED), *((ridge, (calibration, "slope_and_shift"), one) for one in ({}, PERSONS))],
)
@pytest.mark.parametrize("intercept", [True, False])
def test_a_fit_is_its_steps_with_slope_and_shift(make, place, given, intercept, monkeypatch):
    (X, y), seen, asks = table(), [], getattr(*place)

    def noted(w, *rest):
        seen.append(w.copy())
        return (yield from asks(w, *rest))

    monkeypatch.setattr(*place, noted)
    groups = {"groups": np.arange(600) // 3} if given is PERSONS else {}
    fitted = make(fit_intercept=intercept, **given).fit(X, y if make is model else 2.0 * X[:, 0] + 1.0, **groups)
    weights = next(w for w in seen if len(w) == 5 + intercept)  # a replay has one
    receipt = fitted.guarantee_.parameters
    (slope,), (shift,) = receipt[SLOPES], receipt[SHIFTS]
    assert (shift != 0.0) == intercept
    unit = (math.sqrt(1.04) if intercept else 1.0) * receipt.get(split.NORM, 1.0)
    np.testing.assert_allclose(np.ravel(fitted.coef_), slope * weights[:5] / unit, rtol=1e-12)
    if make is model:
        last = slope * weights[5] * 0.2 / math.sqrt(1.04) if intercept else 0.0
        assert fitted.intercept_[0] == pytest.approx(last + shift)


@pytest.mark.parametrize(
    ("make", "forged"),
    [
        *((model, {SLOPES: [slope]}) for slope in (-1.0, math.nan)), (model, {SHIFTS: "0"}), (model, {SHIFTS: None}),
        *((ridge, {SLOPES: [slope]}) for slope in (-0.01, 1.26, math.nan, None)),
        *((ridge, {SHIFTS: [shift]}) for shift in (-10.0, 1260.0, math.nan, None)),
    ],
)  # fmt: skip
def test_a_receipt_with_another_line_is_no_run(make, forged):
    X, y = table()
    receipt = make().fit(X, y).guarantee_
    plan = sv.plan(make(), *X.shape)
    assert replay(plan.asks, receipt.parameters).event == receipt.event
    with pytest.raises(ParameterError):
        replay(plan.asks, {**receipt.parameters, **forged})


def test_what_is_calibrated_and_what_it_costs_the_labels_follow_from_public_facts():
    """One logistic model, or numbers of rows that are units, unless asked; a wish for short weights speaks against."""
    svc = sv.DPLinearSVC(epsilon=5.0, delta=1e-5, data_norm=1.0, classes=[-1, 1], solver="scd")
    for one in (model(), ridge()):
        assert sv.plan(one, 600, 5).split.calibration > 0.0
    for one in (
        model(classes=[1, 2, 3]), model(alpha=2e-3), svc, ridge(max_rows_per_group=2), ridge(alpha=2e-3),
        ridge(max_sample_weight=2.0), ridge(epsilon=1000.0),
        *(make(solver_options={"calibration_share": 0.0}) for make in (model, ridge)),
    ):  # fmt: skip
        assert sv.plan(one, 600, 5).split.calibration == 0.0
    for one in (svc, ridge(max_rows_per_group=2)):
        assert sv.plan(one.set_params(solver_options={"calibration_share": 0.1}), 600, 5).split.calibration == 0.1
    shares = [(one.of_labels / one.whole) ** 2 for one in (sv.plan(ridge(), n, 5).split for n in (200, 800, 10**6))]
    assert shares == sorted(shares, reverse=True)
    assert (shares[0], shares[-1]) == pytest.approx((0.2, 0.02))
    off = sv.plan(ridge(solver_options={"calibration_share": 0.0}), 200, 5).split
    assert off.of_labels == pytest.approx(off.scale)


N, D, K = 3000, 4, 3
rng = np.random.default_rng(0)
X = rng.normal(size=(N, D))
X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
W = rng.normal(size=(K, D)) * 5.0
Y = (X @ W.T + rng.gumbel(size=(N, K))).argmax(axis=1)
ROWS = make_rows(X, data_norm=1.0, constant=0.0, names=None, team=Team(1, None))


def moments(sums, weights=W):
    return ScoreMoments(weights, 1.3, sums.clip, sums.ticks_per_unit)


def release(weights, mu, codes=Y, rows=ROWS):
    asks = partial(last_factors.score_length, weights, Neighbours(Adjacency.ZERO_OUT), mu)
    found = answered(asks, begun(rows, codes), 1)
    return found.result, found.event


@pytest.mark.parametrize("factor", [0.4, 1.0, 2.5])
def test_scores_get_their_best_length(factor):
    length, event = release(factor * W, mu=50.0)
    assert flatten(event) == {GaussianEvent(math.sqrt(ROUNDS) / 50.0): ROUNDS}
    best = minimize_scalar(
        lambda t: Multinomial(K).value(Y, factor * math.exp(t) * X @ W.T).mean(), bounds=(-2, 2), method="bounded"
    ).x
    assert math.log(length) == pytest.approx(best, abs=0.2)  # two steps, a prior, and the largest errors are cut


def test_a_round_is_weighed_against_the_prior_by_its_variance():
    asks = last_factors.score_length(W, Neighbours(Adjacency.ZERO_OUT), 1.0)
    std = next(asks).mechanism.noise_std
    asks.send([-1.5 * std, 3.0 * std])  # 0.5 further than the prior, which is 0.3 with a deviation of 0.4
    with pytest.raises(StopIteration) as end:
        asks.send([-std, 1.9 * std])  # may be noise alone, and tells nothing
    assert math.log(end.value.value) == pytest.approx((0.3 / 0.4**2 + 0.8 * 3.0**2) / (0.4**-2 + 3.0**2))


def test_the_sums_are_those_of_the_page_whatever_the_pieces(monkeypatch):
    sums = clipped_sum(Neighbours(Adjacency.ZERO_OUT), CLIP, 3.0)
    whole = begun(ROWS, Y).ask(moments(sums))
    z = 1.3 * X @ W.T
    p = softmax(z, axis=1)
    middle = (p * z).sum(axis=1)
    terms = np.stack([middle - z[np.arange(N), Y], (p * (z - middle[:, None]) ** 2).sum(axis=1)], axis=1)
    terms *= np.minimum(1.0, CLIP / np.linalg.norm(terms, axis=1))[:, None]
    # a tick for each row, where the products were rounded
    np.testing.assert_allclose(whole, terms.sum(axis=0) * sums.ticks_per_unit, atol=2 * N)
    monkeypatch.setattr(last_factors, "PIECE", 7)
    np.testing.assert_array_equal(begun(ROWS, Y).ask(moments(sums)), whole)
