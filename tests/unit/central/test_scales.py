"""The two private scales: right within their noise, within their public bounds, and noised as declared."""

import numpy as np
import pytest
import scipy.sparse as sp

from sottovoce.central import scales
from sottovoce.central.parallel import Team
from sottovoce.central.rows import make_rows
from sottovoce.central.scales import release_label_location_and_scale, release_largest_eigenvalue
from sottovoce.central.sketch import sketch_sensitivity, sketched_norm
from sottovoce.central.targets import Given
from sottovoce.privacy.accounting import flatten
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import GaussianEvent
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.privacy.neighbours import Neighbours
from support.many_parts import with_labels

TEAM = Team(1, None)
ZERO = Neighbours(Adjacency.ZERO_OUT)


def table(n=20_000, d=6):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, d)) * np.linspace(1, 3, d)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.mark.parametrize("constant", [0.0, 0.4])
def test_eigenvalue(constant):
    X = table()
    rows = make_rows(X, data_norm=1.0, constant=constant, names=None, team=TEAM)
    full = np.hstack([X, np.full((len(X), int(constant > 0)), constant)]) / np.sqrt(1 + constant**2)
    exact = np.linalg.eigvalsh(full.T @ full / len(X))[-1]
    mu = 0.05
    draws = np.array([
        release_largest_eigenvalue(rows, n_public=len(X), neighbours=ZERO, mu=mu, noise=np.random.default_rng(seed))[0]
        for seed in range(300)
    ])  # fmt: skip
    std = 1 / mu / len(X)
    assert draws.mean() == pytest.approx(exact + 2 * std, abs=4 * std / np.sqrt(300))
    assert draws.std() == pytest.approx(std, rel=0.2)


def test_eigenvalue_keeps_to_its_public_bounds():
    rows = make_rows(table(50), data_norm=1.0, constant=0.0, names=None, team=TEAM)
    for seed in range(50):
        value, event = release_largest_eigenvalue(
            rows, n_public=50, neighbours=ZERO, mu=0.01, noise=np.random.default_rng(seed)
        )
        assert 1 / 6 <= value <= 1.0
        assert event.noise_multiplier == pytest.approx(100.0)


def wide(n=400, d=3000, constant=0.0, sparse=False):
    rng = np.random.default_rng(1)
    X = np.abs(rng.normal(size=(n, d))) * (rng.random((n, d)) < 0.02)
    X[:, 0] += 0.1
    raw = sp.csr_array(X) if sparse else X
    return make_rows(raw, data_norm=1.0, constant=constant, names=None, team=TEAM)


def as_matrix(rows):
    X = rows.raw.toarray() if sp.issparse(rows.raw) else rows.raw
    return np.hstack([X * rows.scale[:, None], np.full((len(X), int(rows.constant > 0)), rows.constant)])


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("constant", [0.0, 0.4])
def test_wide_tables_are_sketched(constant, sparse, monkeypatch):
    rows = wide(constant=constant, sparse=sparse)
    X = as_matrix(rows)
    frobenius = np.linalg.norm(X @ X.T)  # as X'X
    assert sketched_norm(rows) == pytest.approx(frobenius * (1 + 128**-0.5), rel=0.15)
    assert frobenius >= np.linalg.norm(X, 2) ** 2
    # a value inside the public bounds, so that they do not cut
    monkeypatch.setattr(scales, "sketched_norm", lambda rows: 0.3 * 10**6)
    for adjacency, factor in ((Adjacency.ZERO_OUT, 1), (Adjacency.ADD_REMOVE, 1), (Adjacency.REPLACE_ONE, 2)):
        std = factor * (1 + 128**-0.5) * np.sqrt(np.ceil(rows.n_weights / 128)) / 0.1 / 10**6
        draws = [
            release_largest_eigenvalue(
                rows, n_public=10**6, neighbours=Neighbours(adjacency), mu=0.1, noise=np.random.default_rng(k)
            )
            for k in range(400)
        ]
        values = np.array([value for value, _ in draws])
        assert values.mean() == pytest.approx(0.3 + 2 * std, abs=4 * std / 20)
        assert values.std() == pytest.approx(std, rel=0.15)
        assert {event for _, event in draws} == {GaussianEvent(10.0)}


def test_sensitivity_of_the_sketch_is_reached_and_kept():
    rng = np.random.default_rng(1)
    d = 2560  # 20 entries in each of the 128 columns of Q
    bound = sketch_sensitivity(d)
    empty = make_rows(np.zeros((2, d)), data_norm=1.0, constant=0.0, names=None, team=TEAM)
    assert sketched_norm(empty) == 0.0
    moves = []
    for k in range(40):
        X = rng.normal(size=(3, d)) * (rng.random(d) < (1.0 if k % 2 else 0.002))
        both = make_rows(X, data_norm=1e-9, constant=0.0, names=None, team=TEAM)
        X[2] = 0.0
        without = make_rows(X, data_norm=1e-9, constant=0.0, names=None, team=TEAM)
        moves.append(abs(sketched_norm(both) - sketched_norm(without)))
    assert max(moves) <= bound
    # the worst row lies along a column of Q, whose signs and places show in the sketch of single features
    public = np.random.Generator(np.random.PCG64(1))
    column = public.permutation(np.arange(d) % 128)
    sign = public.choice([-1.0, 1.0], d)
    worst = np.where(column == 7, sign, 0.0)[None, :]
    rows = make_rows(worst, data_norm=1e-9, constant=0.0, names=None, team=TEAM)
    assert sketched_norm(rows) == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize(("centre", "spread"), [(0.0, 1.0), (-30.0, 0.05), (17.0, 5.0)])
def test_location_and_scale(centre, spread):
    rng = np.random.default_rng(1)
    y = centre + spread * rng.normal(size=10_000)
    grid = 2 * 50.0 / 4096
    for seed in range(20):
        location, scale, event = release(y, seed, mu=0.1)
        assert abs(location - np.median(y)) <= grid + 0.1 * spread
        exact = np.quantile(np.abs(y - location), 0.9)
        assert 0.93 * exact <= scale <= exact * 2**0.5 * 1.07  # the next of the edges, two a factor of 2
        # 17 counts that together cost mu
        assert flatten(event) == {GaussianEvent(np.sqrt(17) / 0.1): 17}


def test_without_an_intercept_only_the_scale_is_released():
    rng = np.random.default_rng(1)
    location, scale, event = release(3 + rng.normal(size=10_000), 0, mu=0.1, located=False)
    assert location == 0.0
    assert 4.0 < scale < 7.0
    assert flatten(event) == {GaussianEvent(np.sqrt(5) / 0.1): 5}


def test_nothing_but_noise_stays_within_the_public_bounds():
    for seed in range(50):
        location, scale, _ = release(np.zeros(3), seed, mu=0.01)
        assert -50.0 <= location <= 50.0
        assert (50.0 + abs(location)) / 4096 <= scale <= 50.0 + abs(location)


def test_counts_are_noised_as_declared(monkeypatch):
    """What is added to a count has the declared scale."""
    added = []
    original = GridGaussian.release

    def record(self, ticks, noise):
        value, event = original(self, ticks, noise)
        added.append((value[0] - ticks[0] * self.tick) / self.noise_multiplier)
        return value, event

    monkeypatch.setattr(GridGaussian, "release", record)
    for seed in range(100):
        release(np.zeros(1000), seed, mu=0.3)
    assert np.std(added) == pytest.approx(1.0, rel=0.06)


def release(y, seed, mu, located=True):
    return release_label_location_and_scale(
        with_labels(y),
        Given(1),
        n_public=len(y),
        bound=50.0,
        located=located,
        neighbours=ZERO,
        mu=mu,
        noise=np.random.default_rng(seed),
    )
