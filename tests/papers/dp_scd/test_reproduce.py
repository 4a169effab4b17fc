"""What `make paper-dp_scd` shows: without data tables have the paper's shapes, and every method has a score."""

import numpy as np
import pytest

from sottovoce.papers.dp_scd import reproduce
from support.data import VARIABLE


def test_without_data_the_tables_have_the_papers_shapes(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    found = {problem.name: problem for problem in reproduce.problems()}
    assert [(each.n, each.X.shape[1]) for each in found.values()] == [(6_218, 68), (24_420, 123), (17_389, 90)]
    assert all(name.endswith("made up") for name in found)
    for each in found.values():
        np.testing.assert_allclose(np.linalg.norm(each.X, axis=1), 1.0)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared"])
def test_every_method_has_a_score(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 12))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = 5.0 * X[:, 0] if loss == "squared" else np.where(X[:, 0] > 0, 1.0, -1.0)
    scores = dict(reproduce.figure_1(reproduce.Problem("small", loss, 1e-3, 2, X, y)))
    assert len(scores) == {"logistic": 7, "hinge": 4, "squared": 6}[loss]
    assert all(np.isfinite(float(score)) for score in scores.values())


def test_where_its_condition_is_met_theorem_2_does_not_hold():
    bound, dual, excess = reproduce.theorem_2(2, 1)
    assert dual > 100 * bound > excess
