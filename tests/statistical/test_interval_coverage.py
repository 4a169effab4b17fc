"""Private confidence intervals cover coefficients, and measures of an evaluation, as often as they say."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom, norm

import sottovoce as sv
from benchmarks.central.evaluation import made_up, made_up_classes, made_up_numbers, measured

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


def check_coverage(drawn, made):
    """Check each coefficient within the binomial error of its 150 fits (one in 10,000 on either side)."""
    inside = []
    for seed in range(FITS):
        X, y, beta = drawn(seed)
        low, high = made(seed).fit(X, y).confidence_intervals().T
        assert np.isfinite(high - low).all()
        inside.append((low <= beta[: len(low)]) & (beta[: len(low)] <= high))
    hits = np.sum(inside, axis=0)
    print(hits / FITS)
    assert hits.min() >= binom.ppf(1e-4, FITS, 0.95)
    assert np.mean(hits) <= binom.ppf(0.9999, FITS, 0.95)


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
    def drawn(seed):
        X, y, beta = table(seed, n, d, rho)
        return X, y - beta[-1] if "fit_intercept" in changed else y, beta

    check_coverage(drawn, lambda seed: model(seed, epsilon, **changed))


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
    check_coverage(lambda seed: odds(seed, n, d, intercept), lambda seed: classifier(seed, epsilon, **changed))


def test_where_noise_hides_the_odds_every_interval_is_infinite():
    X, y, _ = odds(0, 500, 10, 0.0)
    fitted = classifier(0, 0.1).fit(X, y)
    assert (fitted.confidence_intervals() == [-np.inf, np.inf]).all()
    assert not fitted.maximum_likelihood_.any()
    assert np.isfinite(fitted.coef_).all()


# --- evaluations, on rows whose law is known --------------------------------------------------------------------------

RUNS = 200
SOURCES = {
    "balanced": (lambda: made_up("", 0.5, 1.7, 1.3), 2000, 1.0),
    "unbalanced": (lambda: made_up("", 0.1, 1.7, 1.0), 10_000, 0.5),
    "weak scores": (lambda: made_up("", 0.3, 0.6, 0.3), 10_000, 1.0),
    "several classes": (made_up_classes, 5000, 1.0),
    "regression": (made_up_numbers, 5000, 1.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("name", list(SOURCES))
def test_coverage_of_an_evaluation(name, delta):
    source, n, epsilon = SOURCES[name]
    found = measured(source(), n, epsilon, RUNS, delta)
    wide = ("mae", "r2", "precision")  # they allow for more than is there
    for measure, line in found.items():
        print(f"{name}, {measure}: {line['population']:.3f}")
        assert line["population"] >= 0.90, measure
        assert line["population"] <= 0.99 or measure in wide, measure
