"""A bound on the rows that is released where none is public: what is chosen, at what price, and where it goes."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.preprocessing import normalize

import sottovoce as sv
from sottovoce._validation import LARGEST, SMALLEST
from sottovoce.central.core import replay
from sottovoce.central.released_norm import FALLBACK, NORM, NormRelease, largest_norm
from sottovoce.central.split import NORM as MOST
from sottovoce.central.sums.histograms import LargestLength
from sottovoce.estimators.persistence import model_from_json, model_to_json
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from sottovoce.report.comparison import made_again
from support.asking import answered
from support.many_parts import with_lengths

pytestmark = pytest.mark.usefixtures("coarse_losses")

STEP = 2.0**0.125  # between two bounds
SPEND = {"epsilon": 1.0, "delta": 1e-5, "random_state": 0}
RNG = np.random.default_rng(0)
X = 30.0 * RNG.uniform(-1.0, 1.0, (2000, 4))
NORMS = np.linalg.norm(X, axis=1)
Y = (X @ [1.0, -1.0, 0.5, 0.0] > 0.0).astype(int)


def bound_of(one, norms, seed=0):
    """Return the bound that is released, from rows of these norms."""
    return answered(one.asks, with_lengths(norms), seed).result


def release(mu=1.0, n=2000, adjacency=Adjacency.ZERO_OUT, **given):
    return NormRelease(mu, n, Neighbours(adjacency), **given)


@pytest.mark.parametrize("unit", [1e-49, 1e-9, 1.0, 1e9, 1e48])
@pytest.mark.parametrize("others", [[], [0.0] * 8000, [60e6] * 60], ids=["none", "zeros", "far beyond"])
def test_most_rows_keep_the_bound_and_no_more_than_that(unit, others):
    """Those of length 0 do not count, and a few far beyond do not decide."""
    norms = unit * np.append(NORMS, others) / 60.0
    bounds = [bound_of(release(mu=3.0, n=len(norms)), norms, seed) for seed in range(10)]
    kept = [np.mean(unit * NORMS / 60.0 <= bound * 1.000001) for bound in bounds]
    assert 0.85 < min(kept) <= max(kept) < 0.99 + 0.01 * (others[-1:] == [60e6])
    for hidden in (np.zeros(100), norms[:100]):
        assert bound_of(release(mu=1e-3, n=100), hidden) == FALLBACK


@settings(max_examples=100, deadline=None)
@given(
    norms=st.lists(st.floats(0.0, math.inf), max_size=30),
    mu=st.floats(-9.0, 5.0).map(lambda exponent: 10.0**exponent),
    n=st.integers(1, 2**53),
    adjacency=st.sampled_from(list(Adjacency)),
    keeps_all=st.booleans(),
    seed=st.integers(0, 100),
)
def test_it_is_total_and_costs_the_same_whatever_the_rows_are(norms, mu, n, adjacency, keeps_all, seed):
    one = release(mu, n, adjacency, keeps_all=keeps_all)
    driven = answered(one.asks, with_lengths(np.array(norms, dtype=float)), seed)
    assert SMALLEST <= driven.result <= LARGEST
    assert driven.event == one.mechanism.event == replay(one.asks).event
    assert 1.0 / one.mechanism.event.noise_multiplier == pytest.approx(mu * math.sqrt(one.share))


def test_few_rows_or_little_budget_take_a_larger_share():
    shares = [release(mu=mu, n=1000).share for mu in (10.0, 1.0, 0.2, 0.01)]
    assert shares == [0.01, 0.01, pytest.approx(0.0225), 0.1]
    assert release(mu=0.1, n=2000).share == pytest.approx(shares[2])


def test_all_rows_keep_it_where_there_is_hardly_any_noise():
    model = sv.DPLogisticRegression(**SPEND | {"epsilon": 1e4}, classes=[0, 1]).fit(X, Y)
    assert NORMS.max() <= model.data_norm_ < STEP * NORMS.max()


def test_without_privacy_it_is_the_largest_norm():
    model = sv.DPLogisticRegression(epsilon=math.inf, classes=[0, 1], random_state=0).fit(X, Y)
    given = clone(model).set_params(data_norm=model.data_norm_).fit(X, Y)
    assert model.data_norm_ == pytest.approx(NORMS.max(), rel=1e-12)
    np.testing.assert_array_equal(model.coef_, given.coef_)
    for norms, bound in (([0.0] * 3, FALLBACK), ([], FALLBACK), ([math.inf], LARGEST)):
        assert answered(largest_norm, with_lengths(np.array(norms)), 0).result == bound
    ask = LargestLength()
    assert with_lengths(np.zeros(0)).ask(ask) == ask.blank() == 0.0 and ask.allows(0.0, 0, None)


def test_the_unit_of_the_data_does_not_matter():
    one = sv.DPLogisticRegression(**SPEND, classes=[0, 1]).fit(X, Y)
    other = sv.DPLogisticRegression(**SPEND, classes=[0, 1]).fit(X / 1024.0, Y)
    assert other.data_norm_ == one.data_norm_ / 1024.0
    np.testing.assert_allclose(other.coef_, 1024.0 * one.coef_, rtol=1e-12)


def test_a_search_takes_it_and_searches_it():
    model = sv.DPLogisticRegression(classes=[0, 1])
    search = sv.DPSearchCV(model, {"data_norm": ["auto", 60.0]}, epsilon=2.0, delta=1e-5, random_state=3).fit(X, Y)
    assert search.best_params_["data_norm"] in ("auto", 60.0)
    assert made_again(search.guarantee_) == search.guarantee_
    plain = sv.DPSearchCV(model, {"alpha": [1e-4, 1e-2]}, epsilon=2.0, delta=1e-5, random_state=0).fit(X, Y)
    assert plain.best_estimator_.data_norm_ == plain.guarantee_.parameters[NORM]


@pytest.mark.filterwarnings("ignore:groups is an array of float64")
def test_persons_of_several_rows_pay_k_times_and_only_their_used_rows_count():
    """Rows of nobody are a thousand times too long, and a person's fifth row is not used: neither is counted."""
    groups = np.arange(2000) // 4
    far = np.concatenate([X, 1000.0 * X])
    nobody = np.concatenate([groups.astype(float), np.full(2000, np.nan)])
    given = SPEND | {"epsilon": 4.0, "classes": [0, 1], "max_rows_per_group": 4}
    model = sv.DPLogisticRegression(**given).fit(far, np.concatenate([Y, Y]), groups=nobody)
    assert 1.0 < model.data_norm_ / np.median(NORMS) < 3.0
    released = model.plan(4000, 4).facts.norm_release
    assert released.mechanism.l2_sensitivity == pytest.approx(4.0 * math.sqrt(3.0))
    assert made_again(model.guarantee_) == model.guarantee_


def test_it_is_told_and_kept_with_the_model():
    model = sv.DPLogisticRegression(**SPEND, classes=[0, 1]).fit(X, Y)
    assert "most rows keep, noisy" in model.guarantee_.releases[0]
    assert not any("data_norm" in text for text in model.guarantee_.assumptions)
    again, _ = model_from_json(model_to_json(model))
    assert (again.data_norm, again.data_norm_) == ("auto", model.data_norm_)


def test_the_plan_says_what_it_takes():
    summary = sv.DPLogisticRegression(**SPEND, classes=[0, 1]).plan(2000, 4).summary()
    assert 0.01 <= summary["share of mu^2 for data_norm, which is released first"] <= 0.1
    assert "Gaussian release" in summary["event"]
    given = sv.DPLogisticRegression(**SPEND, classes=[0, 1], data_norm=1.0).plan(2000, 4)
    assert "share of mu^2 for data_norm, which is released first" not in given.summary()
    assert replay(given.facts.norm).counts == {}


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0, 4.0])
def test_rows_are_shortened_to_what_most_keep(power):
    """Three quarters of the rows for two classes, and nearly all for more or for numbers, on a grid of half octaves."""
    rng = np.random.default_rng(round(10 * power))
    lengths = rng.random(20_000) ** power
    X = lengths[:, None] * normalize(rng.standard_normal((len(lengths), 4)))
    y, edges = np.sign(X[:, 0] + 1e-9 * lengths), 2.0 ** (-np.arange(24, -1, -1) / 2.0)
    three = np.where(X[:, 1] > 0.0, 2.0, y)
    given = {"epsilon": 20.0, "delta": 1e-6, "data_norm": 1.0, "random_state": round(10 * power)}
    two = 0.75, 0.75, (sv.DPLogisticRegression(classes=[-1, 1], **given), sv.DPLinearSVC(classes=[-1, 1], **given))
    more = 0.98, 0.5, (sv.DPLogisticRegression(classes=[-1, 1, 2], **given), sv.DPRidge(label_bounds=(-1, 1), **given))
    for share, loose, models in (two, more):
        bound = edges[np.argmax(np.mean(lengths[:, None] <= edges, axis=0) >= share)]
        for model in models:
            found = model.fit(X, three if len(getattr(model, "classes", ())) == 3 else y).guarantee_.parameters[MOST]
            assert found == (bound if bound <= loose else 1.0)
