"""What one row does to the counts from which a bound on all rows follows: no more than their noise is made for."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.central.data.rows import row_norms
from sottovoce.central.parallel import Team
from sottovoce.central.released_norm import NormRelease
from sottovoce.central.sums.histograms import CountLengths
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from support.many_parts import with_lengths

TEAM = Team(1, None)
awkward = st.sampled_from([0.0, -0.0, 5e-324, 1e-200, 2.0**-166, 1e-50, 1.0, 1.0 + 2**-52, 1.000001, 2.0, 1e50, 1e200])
entries = st.one_of(awkward, st.floats(allow_nan=False, allow_infinity=False))
rows = st.lists(entries, min_size=3, max_size=3)


def exact(table, release):
    """Return the counts as they go into the mechanism, in the unit of the value."""
    norms = row_norms(np.array(table, dtype=float).reshape(-1, 3), None, TEAM)
    counts = with_lengths(norms).ask(CountLengths())
    return CountLengths().protected(counts, release.mechanism).astype(float) * release.mechanism.tick


@settings(max_examples=300, deadline=None)
@given(
    others=st.lists(rows, max_size=8),
    row=rows,
    other=rows,
    adjacency=st.sampled_from(list(Adjacency)),
    mu=st.floats(-10.0, 4.0).map(lambda exponent: 10.0**exponent),
)
def test_a_row_moves_the_counts_by_at_most_their_sensitivity(others, row, other, adjacency, mu):
    release = NormRelease(mu, 100, Neighbours(adjacency))
    neighbour = [*others, other] if adjacency is Adjacency.REPLACE_ONE else others
    moved = exact([*others, row], release) - exact(neighbour, release)
    assert np.linalg.norm(moved) <= release.mechanism.l2_sensitivity


@pytest.mark.parametrize(("adjacency", "reached"), [("add-remove", 3.0), ("replace-one", 6.0)])
def test_the_bound_is_reached(adjacency, reached):
    """A row that falls into other bins moves the counts by all of it, so the test above could fail."""
    release = NormRelease(0.1, 100, Neighbours(Adjacency.parse(adjacency)))
    near, far = [1.0, 0.0, 0.0], [1e30, 0.0, 0.0]
    moved = exact([near], release) - (exact([far], release) if adjacency == "replace-one" else exact([], release))
    assert np.linalg.norm(moved) == math.sqrt(reached) == pytest.approx(release.mechanism.l2_sensitivity, rel=1e-15)


@settings(max_examples=100, deadline=None)
@given(
    others=st.lists(rows, max_size=8),
    person=st.lists(rows, max_size=4),
    another=st.lists(rows, max_size=4),
    adjacency=st.sampled_from(list(Adjacency)),
    mu=st.floats(-10.0, 4.0).map(lambda exponent: 10.0**exponent),
)
def test_a_person_of_four_rows(others, person, another, adjacency, mu):
    release = NormRelease(mu, 100, Neighbours(adjacency, rows=4))
    neighbour = [*others, *another] if adjacency is Adjacency.REPLACE_ONE else others
    moved = exact([*others, *person], release) - exact(neighbour, release)
    assert np.linalg.norm(moved) <= release.mechanism.l2_sensitivity * (1.0 + 1e-12)


def test_a_person_reaches_it_with_rows_of_one_length():
    release = NormRelease(0.1, 100, Neighbours(Adjacency.ADD_REMOVE, rows=4))
    moved = exact([[1.0, 0.0, 0.0]] * 4, release)
    assert np.linalg.norm(moved) == pytest.approx(release.mechanism.l2_sensitivity, rel=1e-12)


def test_a_row_of_zeros_counts_nowhere():
    """A row that is zeroed out contributes nothing, like one that is not there."""
    release = NormRelease(0.1, 100, Neighbours(Adjacency.ZERO_OUT))
    assert not exact([[0.0, -0.0, 0.0]], release).any()
