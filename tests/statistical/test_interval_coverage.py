"""Private confidence intervals cover the coefficients as often as they say; intervals that ignore the noise do not."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom, norm

import sottovoce as sv

FITS = 150
NORM = 3.0  # public bound on a row


def table(seed, n, d, rho):
    """Equally correlated columns and a linear model with Gaussian errors; no row beyond the bound, no label clipped."""
    rng = np.random.default_rng(seed)
    X = np.sqrt(1 - rho) * rng.uniform(-1, 1, (n, d)) + np.sqrt(rho) * rng.uniform(-1, 1, (n, 1))
    X *= NORM / np.sqrt(d) / (np.sqrt(1 - rho) + np.sqrt(rho))
    beta = np.append(np.linspace(-1.0, 1.0, d), 4.0)
    y = X @ beta[:-1] + beta[-1] + rng.normal(size=n)
    return X, np.clip(y, -20.0, 30.0), beta


def model(seed, epsilon, **changed):
    return sv.DPRidge(**{
        "epsilon": epsilon, "delta": 1e-6, "data_norm": NORM, "label_bounds": (-20.0, 30.0), "solver": "adassp",
        "random_state": seed, **changed,
    })  # fmt: skip


# n is taken from the released column of the intercept, not from its public stand-in
SECRET_N = {"adjacency": "add-remove", "n_public": 2_000, "solver_options": {"clip_labels": False}}


@pytest.mark.parametrize(
    ("epsilon", "n", "d", "rho", "changed"),
    [
        (10.0, 2_000, 4, 0.5, {}),
        (2.0, 8_000, 12, 0.0, {}),
        *(
            pytest.param(*more, marks=pytest.mark.slow)
            for more in (
                (0.5, 20_000, 4, 0.0, {}),
                (1.0, 20_000, 4, 0.5, {}),
                (2.0, 5_000, 4, 0.0, {}),
                (1e4, 1_000, 4, 0.0, {}),
                (1.0, 20_000, 4, 0.0, {"fit_intercept": False}),
            )
        ),
        (10.0, 8_000, 4, 0.0, SECRET_N),
    ],
)
def test_coverage(epsilon, n, d, rho, changed):
    inside = []
    for seed in range(FITS):
        X, y, beta = table(seed, n, d, rho)
        if "fit_intercept" in changed:
            y, beta = y - beta[-1], beta[:-1]
        low, high = model(seed, epsilon, **changed).fit(X, y).confidence_intervals().T
        assert np.isfinite(high - low).all()
        inside.append((low <= beta) & (beta <= high))
    hits = np.sum(inside, axis=0)
    print(f"epsilon = {epsilon}, n = {n}, d = {d}: {hits / FITS}")
    # each coefficient within the binomial error of its 150 fits (one in 10,000 on either side)
    assert hits.min() >= binom.ppf(1e-4, FITS, 0.95)
    assert np.mean(hits) <= binom.ppf(0.9999, FITS, 0.95)


def test_intervals_that_ignore_the_noise_cover_far_too_little():
    """The classical standard errors around the private estimates: sampling counts, the noise does not."""
    n, d = 20_000, 4
    naive, private = [], []
    for seed in range(60):
        X, y, beta = table(seed, n, d, 0.5)
        fitted = model(seed, 0.5).fit(X, y)
        U = np.column_stack([X, np.ones(n)])
        exact = np.linalg.lstsq(U, y, rcond=None)[0]
        classical = np.sqrt(np.diag(np.linalg.inv(U.T @ U)) * np.sum((y - U @ exact) ** 2) / (n - d - 1))
        error = np.abs(fitted.least_squares_ - beta)
        naive.append(error <= norm.ppf(0.975) * classical)
        private.append(error <= norm.ppf(0.975) * fitted.standard_errors_)
    assert np.mean(naive) < 0.6
    assert np.mean(private) > 0.9


def test_a_level_is_a_level():
    X, y, _ = table(0, 20_000, 4, 0.0)
    fitted = model(0, 1.0).fit(X, y)
    half, wide = (np.ptp(fitted.confidence_intervals(level), axis=1) for level in (0.5, 0.99))
    np.testing.assert_allclose(wide / half, norm.ppf(0.995) / norm.ppf(0.75))
    np.testing.assert_allclose(half / 2 / norm.ppf(0.75), fitted.standard_errors_)


# --- logistic regression ----------------------------------------------------------------------------------------------


def odds(seed, n, d, intercept):
    """Equally correlated columns, no row beyond the bound, and labels of a logistic model; its coefficients too."""
    X, _, beta = table(seed, n, d, 0.3)
    beta[-1] = intercept
    rng = np.random.default_rng([seed, 1])
    return X, (rng.random(n) < expit(X @ beta[:-1] + intercept)).astype(int), beta


def classifier(seed, epsilon, **changed):
    return sv.DPLogisticRegression(**{
        "epsilon": epsilon, "delta": 1e-6, "data_norm": NORM, "classes": [0, 1], "solver": "one-step",
        "random_state": seed, **changed,
    })  # fmt: skip


@pytest.mark.parametrize(
    ("epsilon", "n", "d", "intercept", "changed"),
    [
        (0.5, 10_000, 4, -1.0, {}),
        *(
            pytest.param(*more, marks=pytest.mark.slow)
            for more in (
                (1.0, 10_000, 4, -1.0, {"adjacency": "add-remove", "n_public": 7_000}),
                (1.0, 20_000, 4, -3.0, {}),  # a class in twenty
                (1.0, 10_000, 4, 0.5, {"data_norm": "auto"}),
                (2.0, 10_000, 4, 0.0, {"adjacency": "replace-one"}),
                (1.0, 10_000, 4, 0.0, {"fit_intercept": False}),
                (2.0, 20_000, 10, -1.0, {}),
                (1e4, 1_000, 4, -1.0, {}),
            )
        ),
    ],
)
def test_coverage_of_odds(epsilon, n, d, intercept, changed):
    inside = []
    for seed in range(FITS):
        X, y, beta = odds(seed, n, d, intercept)
        low, high = classifier(seed, epsilon, **changed).fit(X, y).confidence_intervals().T
        assert np.isfinite(high - low).all()
        beta = beta[: len(low)]
        inside.append((low <= beta) & (beta <= high))
    hits = np.sum(inside, axis=0)
    print(f"epsilon = {epsilon}, n = {n}, d = {d}: {hits / FITS}")
    assert hits.min() >= binom.ppf(1e-4, FITS, 0.95)
    assert np.mean(hits) <= binom.ppf(0.9999, FITS, 0.95)


def test_where_noise_hides_the_odds_every_interval_is_infinite():
    X, y, _ = odds(0, 500, 10, 0.0)
    fitted = classifier(0, 0.1).fit(X, y)
    assert (fitted.confidence_intervals() == [-np.inf, np.inf]).all()
    assert not fitted.maximum_likelihood_.any()
    assert np.isfinite(fitted.coef_).all()
