"""Fits from noisy moments: unbiased where they claim it, with the standard errors that they claim."""

import math

import numpy as np
import pytest

from sottovoce.local import Aggregator, Protocol, Randomizer
from sottovoce.local.fits.held_out import folds_of, held_out, quality, share_variance
from sottovoce.local.fits.moments import MomentEstimate, Moments
from sottovoce.local.fits.ridge import Layout, clean_spectrum, mean_only, ridge, ridge_by_folds

# E He_k(t) of t ~ N(1.2, 0.8^2)
MEAN, SD = 1.2, 0.8
A = (
    MEAN,
    MEAN**2 + SD**2 - 1,
    MEAN**3 + 3 * MEAN * SD**2 - 3 * MEAN,
    MEAN**4 + 6 * MEAN**2 * SD**2 + 3 * SD**4 - 6 * (MEAN**2 + SD**2) + 3,
)


def reports(Z, rng):
    """Vectors that lean toward z: the component along z is N(1.2, 0.8^2), the rest standard Gaussian."""
    t = rng.normal(MEAN, SD, len(Z))
    g = rng.standard_normal(Z.shape)
    return g + (t - (g * Z).sum(axis=1))[:, None] * Z


def people(n, d, rng, spread=1.0):
    X = rng.standard_normal((n, d)) * spread / np.sqrt(np.arange(1, d + 1)) + 0.5
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    s = np.where(rng.random(n) < 1 / (1 + np.exp(-6 * (X[:, 0] - X[:, 1]))), 1.0, -1.0)
    return X * s[:, None]


@pytest.mark.parametrize(("K", "m", "b"), [(32, 3, 0.5), (16, 1, 0.0)])
def test_moments_from_real_reports_are_those_of_the_people(K, m, b):
    """Bytes from a device, read by the server: every moment within 4 standard errors, their spread about 1."""
    rng = np.random.default_rng(8)
    protocol = Protocol(epsilon=4.0, n_features=3, K=K, m=m, b=b)
    device = Randomizer(protocol)
    device._random = rng.bytes
    X, y = rng.uniform(-0.5, 0.6, (4000, 3)), rng.choice([-1, 1], 4000, p=[0.3, 0.7])
    aggregator = Aggregator(protocol)
    assert aggregator.add(b"".join(device.report(x, label) for x, label in zip(X, y.tolist(), strict=True))) == 4000
    Z = protocol.encode_many(X) * y[:, None]
    estimate = aggregator.moments.estimate(*aggregator.constants.A[:2])
    upper = np.triu_indices(protocol.d, 1)
    z = np.concatenate(
        [
            (estimate.first - Z.mean(axis=0)) / math.sqrt(estimate.v1 / 4000),
            (estimate.second - Z.T @ Z / 4000)[upper] / math.sqrt(estimate.v2 / 8000),
        ]
    )
    assert np.abs(z).max() < 4
    assert 0.4 < np.sqrt(np.mean(z * z)) < 1.7
    assert np.abs(estimate.first + Z.mean(axis=0)).max() > 8 * math.sqrt(estimate.v1 / 4000)  # so it could fail


def test_share_variance_is_that_of_the_reports():
    rng = np.random.default_rng(2)
    Z = people(200_000, 4, rng)
    w = np.array([0.7, -0.6, 0.2, 0.1])
    x, u = reports(Z, rng) @ w, Z @ w
    for noisy in (True, False):
        shares = -2.0 * x / A[0] + noisy * (x * x - w @ w) / A[1]
        expected = share_variance(float(w @ w), u.mean(), (u * u).mean(), A, noisy=noisy)
        assert shares.var() == pytest.approx(expected, rel=0.04)
        assert shares.mean() == pytest.approx((noisy * u * u - 2.0 * u).mean(), abs=5 * math.sqrt(expected / len(x)))


def test_held_out_estimates_are_unbiased_and_their_errors_right():
    rng = np.random.default_rng(3)
    population = people(50_000, 4, rng)
    S, m = population.T @ population / 50_000, population.mean(axis=0)
    errors, claimed, naive = [], [], []
    for _ in range(400):
        Z = population[rng.integers(0, 50_000, 500)]
        moments = Moments(4).add(reports(Z, rng))
        folds = folds_of(moments, A[0], A[1])
        fits = [ridge(rest, 0.05) for rest, _ in folds]
        estimate = held_out(fits, folds, A)
        truth = np.mean([1 - 2 * w @ m + w @ S @ w for w in fits])
        errors.append(estimate.value - truth)
        claimed.append(estimate.standard_error)
        whole = moments.estimate(A[0], A[1])
        w = ridge(whole, 0.05)
        naive.append(1 - 2 * w @ whole.first + w @ whole.second @ w - (1 - 2 * w @ m + w @ S @ w))
    assert abs(np.mean(errors)) < 4 * np.std(errors) / 20
    assert np.std(errors) == pytest.approx(np.sqrt(np.mean(np.square(claimed))), rel=0.15)
    assert np.mean(naive) < -4 * np.std(naive) / 20  # on its own reports a model looks better than it is


def test_cleaning_recovers_the_eigenvalues():
    rng = np.random.default_rng(4)
    d, n, v2 = 40, 10_000, 3.0
    truth = np.array([0.5, 0.25] + [0.25 / 38] * 38)
    noise = rng.standard_normal((d, d)) * math.sqrt(v2 / n)
    estimate = MomentEstimate(n, np.zeros(d), np.diag(truth) + (noise + noise.T) / 2, 0.0, v2)
    assert estimate.edge == pytest.approx(2 * math.sqrt(d * v2 / (2 * n)))
    noise_alone = np.linalg.eigvalsh((noise + noise.T) / 2)
    assert noise_alone[-1] == pytest.approx(estimate.edge, rel=0.1)
    cleaned = clean_spectrum(estimate)
    np.testing.assert_allclose(np.sort(cleaned.values)[-2:], [0.25, 0.5], atol=0.03)
    assert cleaned.values.sum() == pytest.approx(1.0)
    raw = np.linalg.eigvalsh(estimate.second)
    assert abs(raw[-2] - 0.25) > abs(np.sort(cleaned.values)[-2] - 0.25)


def test_quality_of_a_good_and_of_a_useless_model():
    rng = np.random.default_rng(6)
    Z = people(40_000, 4, rng)
    folds = folds_of(Moments(4).add(reports(Z, rng)), A[0], A[1])
    good = quality(lambda rest, inner: ridge_by_folds(rest, inner), folds, A)
    w = ridge(MomentEstimate(len(Z), Z.mean(axis=0), Z.T @ Z / len(Z), 0.0, 0.0), 0.0)
    best = 1 - 2 * w @ Z.mean(axis=0) + w @ (Z.T @ Z / len(Z)) @ w
    assert good.squared_error.value == pytest.approx(best, abs=4 * good.squared_error.standard_error + 0.02)
    assert good.accuracy_if_normal == pytest.approx(np.mean(Z @ w > 0), abs=0.05)
    useless = quality(lambda estimate, inner: np.zeros(4), folds, A)
    assert (useless.squared_error.value, useless.squared_error.standard_error) == (1.0, 0.0)
    assert useless.explained == 0.0
    assert math.isnan(useless.accuracy_if_normal)


def test_a_regression_is_never_much_worse_than_the_mean_and_learns_where_it_can():
    """Labels far from the middle, rows far from 0: the level is most of the risk, where the incautious fit fails."""
    rng = np.random.default_rng(9)
    d, level = 60, 0.3
    X = rng.standard_normal((20_000, d)) * np.where(np.arange(d) < 2, 0.25, 0.05) + 0.11
    X = math.sqrt(1 - level**2) * X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    slack = np.sqrt(np.maximum(1 - level**2 - (X * X).sum(axis=1, keepdims=True), 0))
    Z = np.hstack([X, np.full((len(X), 1), level), slack])
    mean = np.clip(-0.8 + 0.8 * (X[:, 0] - X[:, 1]), -1, 1)
    layout = Layout(d + 2, d + 1, d, level)

    def risks(n, cautious, times=12):
        found = []
        for _ in range(times):
            people = rng.integers(0, len(Z), n)
            s = np.where(rng.random(n) < 0.5 * (1 + mean[people]), 1.0, -1.0)
            moments = Moments(d + 2).add(reports(Z[people] * s[:, None], rng))
            estimate = moments.estimate(A[0], A[1])
            w = ridge_by_folds(estimate, folds_of(moments, A[0], A[1]), None, layout, cautious=cautious)
            both = [np.mean((np.clip(Z @ v, -1, 1) - mean) ** 2) for v in (w, mean_only(estimate, layout))]
            found.append((*both, estimate.edge))
        return np.mean(found, axis=0)

    careful, plain, edge = risks(1200, True)
    assert edge > 0.35
    assert careful < 1.15 * plain
    careless, plain, _ = risks(1200, False)
    assert careless > 1.4 * plain
    careful, plain, edge = risks(40_000, True, 2)
    assert edge < 0.1
    assert careful < 0.5 * plain


def test_the_careful_slope_is_the_stated_one():
    """Slopes of two fits of the same direction: their ratio is that of step 4 of the module, share and caution."""
    rng = np.random.default_rng(10)
    layout, level = Layout(4, 3, 2, 0.3), 0.3
    X = rng.uniform(0.1, 0.5, (600, 2))
    Z = np.hstack([X, np.full((600, 1), level), np.sqrt(1 - level**2 - (X * X).sum(axis=1, keepdims=True))])
    moments = Moments(4, n_folds=1).add(reports(Z * np.sign(X[:, :1] - 0.2), rng))
    estimate = moments.estimate(A[0], A[1])
    folds = [(estimate, estimate)]
    lead = mean_only(estimate, layout)
    careless = ridge_by_folds(estimate, folds, None, layout) - lead
    careful = ridge_by_folds(estimate, folds, None, layout, cautious=True) - lead
    ratio = (estimate.edge / 0.2) ** 2
    v = careless / np.linalg.norm(careless)
    gain, size, mixed = v @ estimate.first, v @ estimate.second @ v, lead @ estimate.second @ v
    error = math.sqrt(estimate.v2 / estimate.n)
    assert size > 0.02  # not at its floor
    assert min(gain, gain - min(1, ratio) * mixed) > 0
    expected = (gain - min(1, ratio) * mixed) / (size + (1 + 0.5 * ratio**2) * error)
    np.testing.assert_allclose(careful, expected * v, rtol=1e-9)
    np.testing.assert_allclose(careless, gain / (size + error) * v, rtol=1e-9)
