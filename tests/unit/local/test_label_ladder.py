"""Regressions with outliers in the label: groups of people under neighbouring label bounds."""

import numpy as np
import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.local import Aggregator, NumericFeature, Protocol, Randomizer, fit_ladder, label_ladder
from sottovoce.local.server.ladder import _Ladder
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.report.comparison import made_again
from support.simulated_reports import simulate

EDGES = (0.0, 1.0, 2.0, 4.0, 10.0)


def people(n, seed=0, outliers=0.1):
    rng = np.random.default_rng(seed)
    X = 0.4 * rng.standard_normal((n, 3))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    y = np.clip(0.5 + 0.4 * X[:, 0] - 0.2 * X[:, 1] + 0.05 * rng.standard_normal(n), 0.0, 1.0)
    return X, np.where(rng.random(n) < outliers, rng.uniform(5.0, 10.0, n), y)


def collected(protocol, X, y, seed):
    """An aggregator of simulated reports: the label rounded as a device does, the report by its exact law."""
    rng = np.random.default_rng(seed)
    low, high = protocol.label_bounds
    signs = np.where(rng.random(len(y)) < np.clip((y - low) / (high - low), 0.0, 1.0), 1.0, -1.0)
    server = Aggregator(protocol)
    server.moments.add(simulate(protocol, protocol.encode_many(X) * signs[:, None], rng))
    return server


def ladder(X, y, epsilon=8.0, edges=EDGES):
    protocols = label_ladder(edges, epsilon=epsilon, n_features=3)
    group = np.arange(len(X)) % len(protocols)
    return [collected(p, X[group == g], y[group == g], g) for g, p in enumerate(protocols)]


def test_outliers_do_not_spoil_the_fit():
    """Mean absolute error on people without outliers: near that of bounds known before, far from wide bounds."""
    X, y = people(60_000)
    X_test, y_test = people(5000, 1, 0.0)
    servers = ladder(X, y)
    model = fit_ladder(servers)
    wide = collected(Protocol(epsilon=8.0, n_features=3, task="regression", label_bounds=(0.0, 10.0)), X, y, 9).fit()
    known = collected(Protocol(epsilon=8.0, n_features=3, task="regression", label_bounds=(0.0, 1.0)), X, y, 9).fit()
    error = {m: float(np.abs(m.predict(X_test) - y_test).mean()) for m in (model, wide, known)}
    assert model.protocol.label_bounds == (0.0, 1.0)
    assert error[model] < 1.1 * error[known]
    assert error[wide] > 5.0 * error[model]
    # the order in which they are given does not matter
    np.testing.assert_array_equal(fit_ladder(servers[::-1]).weights, model.weights)


def test_all_bounds_together_are_the_wide_ones():
    """The sum over all intervals estimates what one protocol over the whole range does."""
    X, y = people(60_000)
    model = fit_ladder(ladder(X, y), label_bounds=(0.0, 10.0))
    line = np.linalg.lstsq(np.column_stack([X, np.ones(len(X))]), y, rcond=None)[0]
    assert model.coef_ == pytest.approx(line[:3], abs=0.25)
    middle = model.predict(np.zeros((1, 3)))[0]
    assert middle == pytest.approx(line[3], abs=0.1)


def test_outliers_on_both_sides_and_a_share_that_keeps_them():
    X, y = people(60_000)
    X, y = np.vstack([X, X[:6000]]), np.concatenate([y, np.full(6000, -8.0)])
    turn = np.random.default_rng(5).permutation(len(X))
    servers = ladder(X[turn], y[turn], edges=(-10.0, -1.0, 0.0, 1.0, 10.0))
    assert fit_ladder(servers).protocol.label_bounds == (0.0, 1.0)
    assert fit_ladder(servers, share=0.01).protocol.label_bounds == (-10.0, 10.0)


def test_the_receipt_names_what_people_reported_under():
    X, y = people(2000)
    servers = ladder(X, y, epsilon=2.0)
    receipt = fit_ladder(servers).guarantee_
    assert receipt.epsilon == 2.0
    assert receipt.parameters["reported under"] == [server.protocol.id.hex() for server in servers]
    assert receipt.parameters["n_reports"] == 2000
    again = Guarantee.from_json(receipt.to_json())
    made = made_again(again)
    assert made.parameters == again.parameters
    assert made.assumptions == again.assumptions


def test_devices_report_under_any_step():
    """Real reports, and features with names."""
    protocols = label_ladder((0, 1, 9), epsilon=8.0, features=[NumericFeature("age", 0, 100)])
    servers = [Aggregator(protocol, n_folds=2) for protocol in protocols]
    for server in servers:
        device = Randomizer(server.protocol, max_epsilon=8.0)
        server.add([device.report({"age": age}, 0.01 * age) for age in range(60)])
    model = fit_ladder(servers)
    assert model.protocol.columns == protocols[0].columns
    assert model.quality_ is None
    assert np.isfinite(model.predict([{"age": 40}])).all()


def test_what_does_not_belong_together_is_refused():
    X, y = people(500)
    servers = ladder(X, y)
    classes = Aggregator(Protocol(epsilon=1.0, n_features=3))
    for given, match in (
        ([], "one Aggregator for each protocol"),
        ([servers[0], classes], "must be of regressions"),
        ([servers[0], servers[2]], "neighbouring label bounds"),
        ([servers[0], servers[0]], "neighbouring label bounds"),
        ([servers[0], ladder(X, y, epsilon=1.0)[1]], "differ in the label bounds"),
        ([*servers[:3], Aggregator(servers[3].protocol)], r"label bounds \(4\.0, 10\.0\) has 0 reports"),
    ):
        with pytest.raises(ParameterError, match=match):
            fit_ladder(given)
    for options, match in (
        ({"share": 0.5}, "share must be"),
        ({"label_bounds": (0.0, 3.0)}, "must be two of the edges"),
        ({"alpha": -1.0}, "alpha must be"),
    ):
        with pytest.raises(ParameterError, match=match):
            fit_ladder(servers, **options)
    for edges, options, match in (
        ((1.0,), {}, "two or more numbers"),
        ((1.0, 0.0), {}, "edges must satisfy low < high"),
        ((0.0, 1.0), {"label_bounds": (0, 1)}, "label_bounds follows from edges"),
    ):
        with pytest.raises(ParameterError, match=match):
            label_ladder(edges, epsilon=1.0, n_features=3, **options)


def test_a_first_moment_of_half_of_the_people_is_twice_as_noisy():
    """The variance that the fit shrinks by, for one person of all: half of them tell about the interval kept."""
    X, y = people(2000, outliers=0.0)
    groups = [server.moments for server in ladder(X, y, edges=(0.0, 1.0, 2.0))]
    A = label_ladder((0.0, 1.0), epsilon=8.0, n_features=3)[0].constants.A
    one = groups[0].estimate(*A[:2])
    half, both = (_Ladder(groups, np.array([1.0, 1.0]), 0, last).estimate(*A[:2]) for last in (1, 2))
    assert (half.n, half.v1) == (2000, pytest.approx(2.0 * one.v1))
    assert both.v1 == pytest.approx(one.v1)
    np.testing.assert_allclose(half.first, one.first)
