"""The relation between neighbouring tables: names, factors, sentences."""

from functools import partial

import numpy as np
import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.privacy.adjacency import (
    PERSON_UNIT,
    ROW_UNIT,
    Adjacency,
    Neighbours,
    checked_max_rows,
    is_of_persons,
    unit_of,
)

REPLACED = Adjacency.REPLACE_ONE


@pytest.mark.parametrize(("name", "factor"), [("zero-out", 1.0), ("add-remove", 1.0), ("replace-one", 2.0)])
def test_names_and_factors(name, factor):
    adjacency = Adjacency.parse(name)
    assert adjacency.value == name
    assert Adjacency.parse(adjacency) is adjacency
    assert adjacency.sum_factor == factor


def test_factors_are_the_largest_distances():
    """All neighbours of sums of terms on the unit sphere: a term leaves, or leaves and another comes."""
    angles = np.linspace(0.0, 2.0 * np.pi, 65)
    terms = np.column_stack([np.cos(angles), np.sin(angles)])
    assert Adjacency.ZERO_OUT.sum_factor == pytest.approx(np.linalg.norm(terms, axis=1).max())
    assert Adjacency.ADD_REMOVE.sum_factor == pytest.approx(np.linalg.norm(terms, axis=1).max())
    replaced = np.linalg.norm(terms[:, None] - terms[None, :], axis=2).max()
    assert Adjacency.REPLACE_ONE.sum_factor == pytest.approx(replaced)


def test_statements_tell_who_is_a_neighbour():
    assert "replaced by an all-zero row" in Adjacency.ZERO_OUT.statement(ROW_UNIT)
    assert "the number of rows is public" in Adjacency.ZERO_OUT.statement(ROW_UNIT)
    assert "one row more than the other" in Adjacency.ADD_REMOVE.statement(ROW_UNIT)
    assert "the number of rows is secret" in Adjacency.ADD_REMOVE.statement(ROW_UNIT)
    assert "replaced by any other row" in Adjacency.REPLACE_ONE.statement(ROW_UNIT)


@pytest.mark.parametrize("value", ["", "ZERO-OUT", "zero_out", None, 0, True, [], np.array(["zero-out", "x"])])
def test_other_names_are_refused(value):
    with pytest.raises(ParameterError, match="adjacency must be one of 'zero-out', 'add-remove', 'replace-one'; got"):
        Adjacency.parse(value)


def test_statements_about_persons():
    for adjacency in Adjacency:
        assert "all rows of one person" in adjacency.statement(unit_of(3))
        assert adjacency.statement(unit_of(3)) == adjacency.statement(PERSON_UNIT)
    assert is_of_persons(unit_of(1)) and is_of_persons(PERSON_UNIT)
    assert not is_of_persons(unit_of(None))
    assert unit_of(None) == ROW_UNIT
    assert "at most 1 row is used" in unit_of(1) and "at most 2 rows are used" in unit_of(2)


@pytest.mark.parametrize(("take", "most"), [(checked_max_rows, 2**20), (partial(Neighbours, REPLACED), 2**53)])
def test_the_rows_of_a_person_are_a_number_within_limits(take, most):
    for rows in (1, most):
        taken = take(rows)
        assert getattr(taken, "rows", taken) == rows
    for rows in (0, -1, most + 1, 1.5):
        with pytest.raises(ParameterError, match=r"rows(_per_group)? must be"):
            take(rows)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_persons_move_sums_as_often_as_they_have_rows(adjacency):
    one, five = Neighbours(adjacency), Neighbours(adjacency, 5)
    assert five.sum_factor == 5 * one.sum_factor == 5 * adjacency.sum_factor
    assert five.square_factor == 5 * one.square_factor
    assert one.square_factor**2 == pytest.approx(adjacency.sum_factor)  # a row leaves one bin, or one for another
    assert (one.count, five.count) == (1.0, 5.0)
    with pytest.raises(ParameterError, match="rows must be"):
        Neighbours(adjacency, 0)
