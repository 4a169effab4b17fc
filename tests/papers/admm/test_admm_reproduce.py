"""What ``make paper-admm`` prints, without any data."""

import pytest

from sottovoce.papers.admm import reproduce
from support.data import VARIABLE


@pytest.mark.slow
def test_it_prints_the_claims_beside_what_is_measured(monkeypatch, capsys):
    monkeypatch.delenv(VARIABLE, raising=False)
    reproduce.main()
    said = capsys.readouterr().out
    assert "made-up table of a9a's shape" in said
    assert said.count("the paper: ") == 4
    assert "3 parties, one column, rho 2: conditions hold    diverges" in said
    assert "shows 100% of the labels" in said


def test_theorem_1_and_the_table():
    assert [line[1] for line in reproduce.theorem_1()] == ["converges", "diverges"]


def test_the_made_up_table_has_the_shape_of_a9a(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    table = reproduce.problem()
    assert table.X.shape == (32_561, 123)
    assert table.X_test.shape == (16_281, 123)
    assert (table.X.sum(axis=1) == 14.0).all()
    assert 0.1 < (table.b > 0).mean() < 0.5
