"""Which rows belong to a person, and which of them are used."""

import math

import numpy as np
import pandas as pd
import pytest

from sottovoce._groups import kept_rows, person_codes, rows_by_person
from sottovoce.exceptions import ParameterError, PrivacyWarning


def chance(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    "groups",
    [
        ["b", "a", None, "b", float("nan")],
        np.array([7.0, 3.0, np.nan, 7.0, np.nan]),
        pd.Series(["x", "y", pd.NA, "x", pd.NA], dtype="string"),
        pd.Categorical(["x", "y", None, "x", None]),
        pd.to_datetime(pd.Series(["2020-01-01", "2020-01-02", None, "2020-01-01", None])),
    ],
    ids=["list", "numbers", "strings", "categories", "dates"],
)
@pytest.mark.filterwarnings("ignore:groups is an array of float64")
def test_persons_get_numbers_and_missing_ones_none(groups):
    assert person_codes(groups, 5).tolist() == [0, 1, -1, 0, -1]


def test_groups_of_another_shape_are_refused():
    with pytest.raises(ParameterError, match=r"one person for each of 3 rows; got the shape \(2,\)"):
        person_codes([1, 2], 3)
    with pytest.raises(ParameterError, match=r"got the shape \(3, 1\)"):
        person_codes(np.zeros((3, 1)), 3)
    with pytest.raises(ParameterError, match="numbers or strings"):
        person_codes(np.zeros(3, complex), 3)


def test_what_cannot_be_a_name_is_nobodys():
    """Entry by entry, without a word: an error would tell of it."""
    assert person_codes(np.ma.masked_array([1, 2, 3], [True, False, False]), 3).tolist() == [-1, 0, 1]
    assert person_codes([2**53, float(2**53), float(2**53 - 1), math.inf, [1], {}, pd.NA], 7).tolist() == [
        0, -1, 1, -1, -1, -1, -1,
    ]  # fmt: skip
    with pytest.warns(PrivacyWarning, match=r"array of float32: a number of 1.67772e\+07 or more"):
        assert person_codes(np.array([2**24, 2**24 - 1, 1], np.float32), 3).tolist() == [-1, 0, 1]


@pytest.mark.parametrize("at_most", [1, 2, 5])
def test_at_most_so_many_rows_of_each_person_are_kept(at_most):
    codes = chance().integers(-1, 40, 500)
    kept = kept_rows(codes, at_most, chance())
    for person in range(40):
        assert kept[codes == person].sum() == min(at_most, np.sum(codes == person))
    assert not kept[codes < 0].any()


def test_rows_are_drawn_at_random_and_other_people_have_no_say():
    codes = np.repeat([0, 1], [4, 6])
    drawn = sum(kept_rows(codes, 1, chance(seed))[:4].astype(int) for seed in range(2000))
    assert np.all(np.abs(drawn - 500) < 100)  # five standard deviations
    alone = np.where(codes == 0, 0, -1)
    assert np.array_equal(kept_rows(codes, 2, chance())[:4], kept_rows(alone, 2, chance())[:4])


def test_rows_are_put_in_the_order_of_persons():
    codes = np.array([2, -1, 0, 2, 2, 0, 1])
    places, starts = rows_by_person(codes, 2, chance())
    assert codes[places].tolist() == [0, 0, 1, 2, 2]
    assert starts.tolist() == [0, 2, 3, 5]
    nobody, ends = rows_by_person(np.full(4, -1), 2, chance())
    assert (nobody.size, ends.tolist()) == (0, [0])
