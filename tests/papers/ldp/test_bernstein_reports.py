"""Bernstein reports: protocol, device, server, receipt."""

import math
import struct
import warnings

import numpy as np
import pytest

from benchmarks.papers.ldp.linear_in_d import SIGNAL, people_needed, simulated
from sottovoce.exceptions import DataError, ParameterError, PrivacyWarning, SottovoceWarning
from sottovoce.papers.ldp import BernsteinProtocol, bernstein_reports, fit_reports
from sottovoce.papers.ldp import report as randomizer
from sottovoce.privacy.events import GaussianEvent
from sottovoce.privacy.guarantee import Guarantee


def protocol(**changed):
    return BernsteinProtocol(**{"loss": "hinge", "n_features": 3, "epsilon": 64.0, "delta": 1e-6, **changed})


def seeded(seed):
    return np.random.default_rng(seed).bytes


def people(n, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    return X, np.where(X[:, 0] + 0.2 * rng.normal(size=n) > 0, 1.0, -1.0)


def one_report(public, x, y, **given):
    return bernstein_reports(public, np.asarray(x, dtype=float)[None], np.asarray(y, dtype=float)[None], **given)[0]


def test_noise_of_each_copy():
    """Printed noise of degree 2: copy 0 has s_0, the others s_1; every column of every copy is on its own."""
    with pytest.warns(PrivacyWarning):
        public = protocol(degree=2, noise="printed", n_features=1)
    n = 20000
    X, y = np.full((n, 1), 0.5), np.ones(n)
    rows = bernstein_reports(public, X, y, random_bytes=seeded(1)) * public.tick
    flat = (rows - [0.5, 1.0]).reshape(n, -1)
    stds = np.repeat([public.first_std] + [public.other_std] * 6, 2)
    assert public.other_std == pytest.approx(3.0 * public.first_std)
    np.testing.assert_allclose(flat.std(axis=0), stds, rtol=4.0 / math.sqrt(2 * n))
    np.testing.assert_array_less(np.abs(flat.mean(axis=0)), 4.0 * stds / math.sqrt(n))
    correlations = np.corrcoef(flat.T) - np.eye(14)
    assert np.abs(correlations).max() < 4.5 / math.sqrt(n)


def test_normals_cover_the_tails():
    """All-zero and all-one bits are the ends: no infinity, 9.2 standard deviations at most; the middle is exact."""
    ends = randomizer.standard_normals(4, lambda size: struct.pack("<4Q", 0, 1, 2**64 - 2, 2**64 - 1))
    np.testing.assert_allclose(np.abs(ends[:2]), 9.155, atol=0.01)
    assert ends[0] < 0 < ends[1]
    assert np.abs(ends[2:]).max() < 1e-15
    from scipy.stats import kstest

    assert kstest(randomizer.standard_normals(200_000, seeded(3)), "norm").pvalue > 1e-4


def test_norm_is_at_most_one_in_whole_ticks(monkeypatch):
    """Whatever the record, also beyond data_norm: the ticks of x have norm at most 1, exactly, and y is one."""
    monkeypatch.setattr(randomizer, "standard_normals", lambda size, random_bytes: np.zeros(size))
    rng = np.random.default_rng(0)
    for d, scale in ((1, 5.0), (2, 1e-3), (40, 1e300), (40, 1.0)):
        public = protocol(n_features=d, data_norm=2.0)
        X = scale * rng.normal(size=(200, d))
        X[:50] *= 2.0 / np.maximum(np.linalg.norm(X[:50] / scale, axis=1, keepdims=True) * scale, 1e-300)
        X[199] = 0.0
        one = round(1.0 / public.tick)
        for x, rows in zip(X, bernstein_reports(public, X, np.ones(200)).astype(object), strict=True):
            assert (rows == rows[0]).all()
            assert sum(int(k) ** 2 for k in rows[0, :-1]) <= one**2
            assert rows[0, -1] == one
            wanted = x / max(2.0, float(np.linalg.norm(x / scale) * scale))
            np.testing.assert_allclose(rows[0, :-1].astype(float) * public.tick, wanted, atol=2 * public.tick)


def test_norm_is_at_most_one_where_rounding_hides_it(monkeypatch):
    """|(1, 2^-29)| is 1 in double precision and more than 1 in truth: ticks of 2^-29 show it."""
    monkeypatch.setattr(randomizer, "standard_normals", lambda size, random_bytes: np.zeros(size))
    public = protocol(n_features=2, epsilon=1e4)
    object.__setattr__(public, "tick", 2.0**-29)
    rows = one_report(public, [1.0, 2.0**-29], 1)
    np.testing.assert_array_equal(rows[0], [2**29 - 1, 0, 2**29])


@pytest.mark.parametrize(
    ("x", "y", "match"),
    [
        ([0.1, 0.2], 1, "3 features"),
        ([0.1, math.nan, 0.2], 1, "not finite"),
        ([0.1, math.inf, 0.2], 1, "not finite"),
        ([0.1, 0.2, 0.3], 0, "-1 or 1"),
        ([0.1, 0.2, 0.3], math.nan, "-1 or 1"),
        ([0.1, 0.2, 0.3], [1, 1], "one label"),
    ],
)
def test_records_that_are_refused_before_any_draw(x, y, match, noise_is_forbidden):
    with pytest.raises(DataError, match=match):
        one_report(protocol(), x, y)


def test_system_randomness_by_default():
    public = protocol()
    first, second = (one_report(public, [0.1, 0.2, 0.3], 1) for _ in range(2))
    assert (first != second).any()


# ----------------------------------------------------------------------------------------------------------- protocol


@pytest.mark.filterwarnings("ignore::sottovoce.exceptions.PrivacyWarning")
def test_every_parameter_changes_the_id():
    public = protocol()
    changes = {"loss": "logistic", "n_features": 4, "epsilon": 63.0, "delta": 1e-5, "degree": 2, "beta": 0.2,
               "noise": "printed", "data_norm": 2.0}  # fmt: skip
    ids = [protocol(**{name: value}).id for name, value in changes.items()]
    assert len({public.id, *ids}) == 1 + len(changes)


@pytest.mark.parametrize(
    ("name", "value"),
    [("loss", "hing"), ("n_features", 0), ("epsilon", math.inf), ("epsilon", 0.0), ("delta", 0.0), ("delta", math.nan),
     ("degree", 0), ("degree", 1.0), ("degree", 101), ("beta", 0.0), ("noise", "least"), ("data_norm", -1.0)],
)  # fmt: skip
def test_bad_parameters(name, value):
    with pytest.raises(ParameterError, match=name):
        protocol(**{name: value})


def test_budgets_too_small_for_the_format():
    with pytest.raises(ParameterError, match=r"first_std must be .*Raise epsilon"):
        protocol(epsilon=1e-6)
    with pytest.raises(ParameterError, match="lower degree or n_features"):
        protocol(degree=100, n_features=10_000)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 100.0, 1e4])
@pytest.mark.parametrize("degree", [1, 10])
def test_honest_numbers_fit_in_32_bits(epsilon, degree, monkeypatch):
    for sign in (1.0, -1.0):
        monkeypatch.setattr(randomizer, "standard_normals", lambda n, _, sign=sign: np.full(n, 9.2 * sign))
        public = protocol(epsilon=epsilon, degree=degree)
        rows = one_report(public, [sign, 0.0, 0.0], sign) * public.tick
        assert np.abs(rows[0, 0] - sign * (1.0 + 9.2 * public.first_std)) <= public.tick


def test_printed_noise_warns_with_the_true_epsilon():
    with pytest.warns(PrivacyWarning, match="claims epsilon=4 at delta=1e-06, one report really costs epsilon=4.47"):
        protocol(noise="printed", epsilon=4.0)


# ------------------------------------------------------------------------------------------------------------- server


def test_fit_without_reports():
    """Nor does it take the reports of another protocol's shape."""
    for shape in ((0, 3, 4), (2, 7, 4), (2, 3, 5)):
        with pytest.raises(DataError, match=r"of shape \(n, 3, 4\)"):
            fit_reports(protocol(), np.zeros(shape, dtype=np.int32))


@pytest.mark.slow
def test_a_model_learns_and_predicts_in_the_unit_of_the_features():
    X, y = people(20_000)
    models = []
    for scale in (1.0, 4.0):
        public = protocol(epsilon=200.0, data_norm=scale)
        reports = bernstein_reports(public, scale * X, y, random_bytes=seeded(2))
        models.append(fit_reports(public, reports, random_state=3))
        assert (models[-1].predict(scale * X) == y).mean() > 0.9
        np.testing.assert_allclose(models[-1].decision_function(scale * X), scale * X @ models[-1].coef_)
    np.testing.assert_allclose(models[1].coef_, models[0].coef_ / 4.0, rtol=1e-9)
    with pytest.raises(DataError, match="3 columns"):
        models[0].predict(X[:, :2])


def test_numeric_labels_within_their_bounds(monkeypatch):
    monkeypatch.setattr(randomizer, "standard_normals", lambda size, random_bytes: np.zeros(size))
    public = protocol(loss="huber residual")
    labels = [one_report(public, [0.1, 0.0, 0.0], y)[:, -1] * public.tick for y in (0.3, -7.0, 1e300, -1.0 / 3.0)]
    np.testing.assert_allclose([column[0] for column in labels], [0.3, -1.0, 1.0, -1.0 / 3.0], atol=public.tick)
    assert np.abs(labels).max() <= 1.0
    for y in (math.nan, math.inf):
        with pytest.raises(DataError, match="a label is not finite"):
            one_report(public, [0.1, 0.0, 0.0], y)


def test_a_warning_when_the_noise_swamps_the_reports():
    X, y = people(50)
    for loss, least in (("hinge", "0.5"), ("logistic", "0.38")):
        public = protocol(epsilon=1.0, loss=loss)
        reports = bernstein_reports(public, X, y, random_bytes=seeded(0))
        with pytest.warns(SottovoceWarning, match=f"the noise swamps 50 reports: .* not less than the {least}"):
            model = fit_reports(public, reports, random_state=0)
        assert model.noise_error_ > float(least)


def test_hostile_numbers_cannot_leave_the_ball():
    public = protocol(epsilon=200.0)
    edge = int(np.ceil((1 + 9.2 * public.first_std) / public.tick))
    body = [[*(edge if i % 2 else -edge for i in range(11)), k] for k in range(300)]
    model = fit_reports(public, np.array(body, dtype=np.int32).reshape(300, 3, 4), random_state=0)
    assert np.linalg.norm(model.coef_) <= 1.0 + 1e-12


# ------------------------------------------------------------------------------------------------------------ receipt


@pytest.mark.parametrize(
    ("noise", "degree", "epsilon", "real"),
    [("tight", 1, 4.0, 4.0), ("printed", 1, 4.0, 4.4702), ("printed", 2, 1.0, 0.71059)],
)
def test_the_receipt_says_what_the_noise_gives(noise, degree, epsilon, real):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SottovoceWarning)
        public = protocol(noise=noise, degree=degree, epsilon=epsilon)
        receipt = fit_reports(public, bernstein_reports(public, [[0.1, 0.2, 0.3]], [1])).guarantee_
    assert receipt.epsilon == pytest.approx(real, abs=1e-4)
    assert receipt.delta == 1e-6
    assert receipt.adjacency == "replace-one"
    assert receipt.is_private
    assert receipt.epsilon_at(1e-6) <= receipt.epsilon
    assert receipt.parameters["claimed epsilon"] == epsilon
    # the event is the noise that the device adds
    shift = 8 / public.first_std**2 + 8 * degree * (degree + 1) / public.other_std**2
    assert isinstance(receipt.event, GaussianEvent)
    assert receipt.event.noise_multiplier == pytest.approx(1 / math.sqrt(shift))
    assert Guarantee.from_json(receipt.to_json()) == receipt
    said = [text for text in receipt.not_covered if "The paper claims" in text]
    assert bool(said) == (noise == "printed")
    if said:
        assert f"claims epsilon = {epsilon:g}" in said[0]
        assert f"really costs {real:.4f}"[:-1] in said[0]
        assert ("more than claimed" in said[0]) == (real > epsilon)


# --- the simulated pass of the benchmark ------------------------------------------------------------------------------

N = 400


def population(n=2000):
    rng = np.random.default_rng(0)
    X = 0.4 * rng.normal(size=(n, SIGNAL))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    return X, np.where(X @ [2.0, -1.0, 0.0, 0.5, 0.0] + 0.2 * rng.normal(size=n) > 0, 1.0, -1.0)


def by_reports(public, X, y, runs):
    found = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        some = rng.integers(len(X), size=N)
        rows = np.zeros((N, public.n_features))
        rows[:, :SIGNAL] = X[some]
        reports = bernstein_reports(public, rows, y[some], random_bytes=rng.bytes)
        found.append(fit_reports(public, reports, random_state=seed).coef_[:SIGNAL])
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "degree", "d"), [("hinge", 2, 5), ("hinge", 1, 12), ("logistic", 2, 6)])
@pytest.mark.filterwarnings("ignore:the noise swamps")
def test_simulated_weights_have_the_law_of_those_from_reports(loss, degree, d):
    """Means and spreads of all five weights over 120 passes of each kind, at a noise where both matter."""
    public = BernsteinProtocol(loss, d, 150.0, 1e-6, degree=degree)
    X, y = population()
    runs = 120
    real = by_reports(public, X, y, runs)
    stops = np.array([N])
    made = np.array([simulated(X, y, d, public.oracle, public.copy_noise, stops, seed)[0] for seed in range(runs)])
    errors = np.sqrt((real.var(axis=0, ddof=1) + made.var(axis=0, ddof=1)) / runs)
    assert np.abs((real.mean(axis=0) - made.mean(axis=0)) / errors).max() < 4.0
    assert np.abs(real.mean(axis=0)).max() > 8.0 * errors.max()  # there is something to miss
    ratio = real.std(axis=0, ddof=1) / made.std(axis=0, ddof=1)
    assert np.abs(np.log(ratio)).max() < 4.0 / np.sqrt(runs)


def test_people_needed_between_two_stops():
    assert people_needed(np.array([1.0, 0.4, 0.1]), np.array([100, 1000, 10_000]), 0.2) == pytest.approx(1000 * 10**0.5)
    assert np.isnan(people_needed(np.array([1.0, 0.4]), np.array([100, 1000]), 0.2))
