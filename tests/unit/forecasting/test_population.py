"""Made-up tables: what they are told is what they have."""

import numpy as np
import pytest

from sottovoce.forecasting.trials import Classes, Numbers


@pytest.mark.parametrize(("n_classes", "largest"), [(2, 0.5), (2, 0.9), (5, 0.3)])
def test_classes_have_the_shares_and_the_best_accuracy_they_are_told(n_classes, largest):
    names = tuple("abcde"[:n_classes])
    population = Classes(30, 0.93, names, largest)
    X, y = population.table(5000, 1)
    assert set(y) == set(names)
    assert np.mean(y == "a") == pytest.approx(largest, abs=0.02)
    assert np.linalg.norm(X, axis=1).max() <= 1.0 + 1e-12
    # the best rule is linear in the rows before they are shortened, and few are
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    assert population.score(LinearDiscriminantAnalysis().fit(X, y)) == pytest.approx(0.93, abs=0.015)


@pytest.mark.parametrize("n_features", [1, 2, 3, 5, 6, 10, 40])
@pytest.mark.parametrize("n_classes", [2, 3, 5, 12, 32])
def test_classes_are_told_apart_whatever_the_number_of_columns(n_features, n_classes):
    population = Classes(n_features, 0.9999, tuple(range(n_classes)), 1.0 / n_classes)
    assert population._judges[1].max(axis=1).mean() == pytest.approx(0.9999, abs=0.002)


def test_numbers_have_the_spread_and_the_best_r2_they_are_told():
    population = Numbers(8, 0.6, (-10.0, 30.0), 0.3)
    X, y = population.table(5000, 1)
    assert y.std() == pytest.approx(0.3 * 20.0, rel=0.05)
    assert y.mean() == pytest.approx(10.0, abs=0.3)
    assert (y.min() >= -10.0, y.max() <= 30.0) == (True, True)
    from sklearn.linear_model import LinearRegression

    assert population.score(LinearRegression().fit(X, y)) == pytest.approx(0.6, abs=0.03)


def test_many_columns_and_rows_are_stood_for_by_fewer():
    wide = Classes(50_000, 0.8, (0, 1), 0.5)
    assert wide.table(10, 0)[0].shape == (10, wide.width)
    assert wide.width < 1000
    assert wide.most_rows * wide.width < 2e6


def test_columns_of_wide_tables_all_count_alike():
    """As of text: few columns do not carry it all."""
    narrow, wide = (Classes(d, 0.95, (0, 1), 0.5).table(2000, 0)[0].var(axis=0) for d in (2000, 3000))
    assert narrow.max() > 5.0 * narrow.min()
    assert wide.max() < 3.0 * wide.min()
