"""What ``make paper-admm`` and ``make paper-dp_scd`` print without any data, and what the four papers share in it."""

import numpy as np
import pytest

from sottovoce.papers import showing
from sottovoce.papers.admm import reproduce as admm
from sottovoce.papers.dp_scd import reproduce as dp_scd
from support.data import VARIABLE


def test_a_table_is_aligned(capsys):
    showing.show("Title", ("a", "long head"), [("value", 1), ("b", 22)])
    assert capsys.readouterr().out == "\nTitle\n  a      long head\n  value  1\n  b      22\n"


def test_files_are_read_only_where_all_are_there(tmp_path, monkeypatch):
    for name, label in (("one", 1), ("two", -1)):
        (tmp_path / name).write_text(f"{label} 1:0.5 3:2\n", encoding="utf-8")
    monkeypatch.delenv(VARIABLE, raising=False)
    assert showing.libsvm("one", width=3) is None
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert showing.libsvm("one", "three", width=3) is None
    X, y = showing.libsvm("one", "two", width=3)
    assert X.tolist() == [[0.5, 0.0, 2.0]] * 2
    assert y.tolist() == [1.0, -1.0]


@pytest.mark.slow
def test_it_prints_the_claims_beside_what_is_measured(monkeypatch, capsys):
    monkeypatch.delenv(VARIABLE, raising=False)
    admm.main()
    said = capsys.readouterr().out
    assert "made-up table of a9a's shape" in said
    assert said.count("the paper: ") == 4
    assert "3 parties, one column, rho 2: conditions hold    diverges" in said
    assert "shows 100% of the labels" in said


def test_theorem_1_and_the_table():
    assert [line[1] for line in admm.theorem_1()] == ["converges", "diverges"]


def test_the_made_up_table_has_the_shape_of_a9a(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    table = admm.problem()
    assert table.X.shape == (32_561, 123)
    assert table.X_test.shape == (16_281, 123)
    assert (table.X.sum(axis=1) == 14.0).all()
    assert 0.1 < (table.b > 0).mean() < 0.5


def test_without_data_the_tables_have_the_papers_shapes(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    found = {problem.name: problem for problem in dp_scd.problems()}
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
    scores = dict(dp_scd.figure_1(dp_scd.Problem("small", loss, 1e-3, 2, X, y)))
    assert len(scores) == {"logistic": 7, "hinge": 4, "squared": 6}[loss]
    assert all(np.isfinite(float(score)) for score in scores.values())


def test_where_its_condition_is_met_theorem_2_does_not_hold():
    bound, dual, excess = dp_scd.theorem_2(2, 1)
    assert dual > 100 * bound > excess
