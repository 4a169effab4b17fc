"""Rows that are set aside: by coins that know nothing of them, people whole, nothing read before it is asked for."""

import numpy as np
import pytest

from sottovoce.cli._holdout import split_by_coins
from sottovoce.estimators.reading import UnreadTable
from sottovoce.exceptions import ParameterError

X = np.arange(400.0).reshape(200, 2)
Y = np.arange(200)
PEOPLE = np.array([None if row % 10 == 0 else f"p{row % 61}" for row in range(200)], dtype=object)


def table(*, groups: bool = False) -> tuple[UnreadTable, list[str]]:
    looked: list[str] = []

    def read():
        looked.append("rows")
        return X, Y

    def people():
        looked.append("people")
        return PEOPLE

    return UnreadTable(X.shape, read, groups=people if groups else None), looked


@pytest.mark.parametrize("seed", range(5))
def test_each_row_is_in_one_part(seed: int) -> None:
    rows, looked = table()
    split = split_by_coins(rows, 0.3, seed)
    n_trained, n_held = split.training.shape[0], split.held_out.shape[0]
    assert (n_trained + n_held, looked) == (200, [])
    assert 30 < n_held < 90
    (X0, y0), (X1, y1) = split.training.read(), split.held_out.read()
    assert looked == ["rows"]
    assert y1.tolist() == Y[split.chosen()].tolist()
    assert sorted([*y0, *y1]) == Y.tolist()
    assert X0[:, 0].tolist() == (2 * y0).tolist()
    assert X1[:, 0].tolist() == (2 * y1).tolist()


@pytest.mark.parametrize("seed", range(20))
def test_people_are_whole_and_nobody_is_in_neither_part(seed: int) -> None:
    rows, looked = table(groups=True)
    split = split_by_coins(rows, 0.5, seed)
    assert split.training.shape == split.held_out.shape == X.shape
    assert looked == []
    trained, held = split.training.groups(), split.held_out.groups()
    nobody = np.equal(PEOPLE, None)
    assert np.array_equal(np.equal(trained, None), nobody | split.chosen())
    assert np.array_equal(np.equal(held, None), nobody | ~split.chosen())
    assert not split.chosen()[nobody].any()
    assert not set(trained[~np.equal(trained, None)]) & set(held[~np.equal(held, None)])
    assert looked == ["people"]


def test_the_operating_system_throws_the_coins_unless_there_is_a_seed() -> None:
    def chosen(seed):
        return split_by_coins(table()[0], 0.5, seed).chosen().tolist()

    assert chosen(1) == chosen(1) != chosen(2)
    assert chosen(None) != chosen(None)


def test_coins_that_leave_a_part_empty_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"--holdout 1e-09: the coins left one part of 200 rows empty"):
        split_by_coins(table()[0], 1e-9, 0)
    for share in (0, 1, float("nan")):
        with pytest.raises(ParameterError, match=r"--holdout must be a finite number > 0 and < 1"):
            split_by_coins(table()[0], share, 0)
