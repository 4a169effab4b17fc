"""A training without noise that did not arrive says so."""

import math
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sottovoce.vertical import (
    VerticalLasso,
    VerticalLinearSVC,
    VerticalLogisticRegression,
    split_columns,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 6))
NUMBERS = X @ np.arange(6.0) + RNG.normal(size=300)
CLASSES = np.where(X[:, 0] + X[:, 3] + RNG.normal(size=300) > 0.0, 1, 0)


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (VerticalLogisticRegression(epsilon=math.inf, max_iter=2), CLASSES),
        (VerticalLinearSVC(epsilon=math.inf, max_iter=2), CLASSES),
        (VerticalLasso(epsilon=math.inf, radius=2.0, max_iter=2, tol=1e-9), NUMBERS),
    ],
    ids=["logistic", "hinge", "frank-wolfe"],
)
def test_too_few_rounds_are_warned_of(model: object, y: np.ndarray) -> None:
    with pytest.warns(ConvergenceWarning, match="max_iter=2") as caught:
        model.fit(split_columns(X, [3, 3]), y)  # type: ignore[attr-defined]
    assert caught[0].filename == __file__


def test_a_training_that_arrives_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        VerticalLogisticRegression(epsilon=math.inf).fit(split_columns(X, [3, 3]), CLASSES)
