"""What one row can do to the second moments of `solver="newton"`: at most the sensitivity that scales their noise."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.central.data.holder import hold
from sottovoce.central.data.rows import make_rows
from sottovoce.central.parallel import Team
from sottovoce.central.sums.whole_gram import CurvatureGram, Gram, coordinate_factors, gram_mechanism
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from sottovoce.privacy.mechanisms.gaussian import to_ticks

TEAM = Team(1, None)
GRAM = Gram()
D = 3
wild = st.floats(allow_nan=False, allow_infinity=False, width=32)
tame = st.floats(-3, 3, width=32)
edges = st.integers(-4, 4).map(lambda step: step * 2.0**-21)  # of the grid that the second moments are cut to
entries = st.one_of(wild, tame, edges, st.sampled_from([0.0, 1.0, -1.0, 0.6, 0.8]))
BOTH = pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])


def rows_of(raw, dtype, sparse, constant):
    raw = np.array(raw, dtype=dtype)
    return make_rows(sp.csr_array(raw) if sparse else raw, data_norm=1.0, constant=constant, names=None, team=TEAM)


def whole_gram(rows, ask=GRAM):
    return hold(rows, [], TEAM).ask(ask)


def about_to_be_noised(raw, dtype, sparse, constant, mechanism, ask=GRAM):
    triangle = whole_gram(rows_of(raw, dtype, sparse, constant), ask)
    coordinates = triangle.entries * coordinate_factors(triangle.width)
    return to_ticks(coordinates, mechanism.tick).astype(np.float64) * mechanism.tick


@BOTH
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE], ids=lambda one: one.value)
@settings(max_examples=40, deadline=None)
@given(
    row=st.lists(entries, min_size=D, max_size=D),
    other=st.lists(entries, min_size=D, max_size=D),
    constant=st.sampled_from([0.0, 0.2, 1.0]),
    weights=st.none() | st.lists(wild | tame, min_size=D + 1, max_size=D + 1),
)
def test_one_row_moves_the_moments_by_at_most_their_sensitivity(
    adjacency, dtype, sparse, row, other, constant, weights
):
    """Those of the rows themselves, and those of rows that are shortened by what weights make of them."""
    ask = Gram() if weights is None else CurvatureGram(w=np.array(weights[: D + (constant > 0.0)]))
    mechanism = gram_mechanism(D + (constant > 0.0), 40, Neighbours(adjacency), 0.3)
    rest = np.random.default_rng(0).normal(size=(39, D))
    neighbour = [other] if adjacency is Adjacency.REPLACE_ONE else np.empty((0, D))
    values = [about_to_be_noised(np.vstack([rest, last]), dtype, sparse, constant, mechanism, ask)
              for last in ([row], neighbour)]  # fmt: skip
    assert np.linalg.norm(values[0] - values[1]) <= mechanism.l2_sensitivity


def test_the_bounds_are_reached():
    """So that the tests above could fail."""
    rest, one, across = np.zeros((3, D)), [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]
    pairs = ((Adjacency.ADD_REMOVE, [0.0] * D), (Adjacency.REPLACE_ONE, across))
    for (adjacency, other), ask in product(pairs, (Gram(), CurvatureGram(w=np.zeros(D)))):
        mechanism = gram_mechanism(D, 4, Neighbours(adjacency), 0.3)
        values = [about_to_be_noised(np.vstack([rest, [last]]), np.float64, False, 0.0, mechanism, ask)
                  for last in (one, other)]  # fmt: skip
        assert np.linalg.norm(values[0] - values[1]) == pytest.approx(mechanism.l2_sensitivity, rel=1e-5)


@BOTH
def test_the_moments_are_whole_numbers_that_no_order_changes(sparse):
    rng = np.random.default_rng(0)
    raw = rng.normal(size=(20_000, 7))
    raw /= np.minimum(np.linalg.norm(raw, axis=1, keepdims=True), 1.0)
    order = rng.permutation(len(raw))
    gram = whole_gram(rows_of(raw, np.float64, sparse, 0.2)).matrix
    np.testing.assert_array_equal(gram * 2.0**42, np.rint(gram * 2.0**42))
    np.testing.assert_array_equal(gram, whole_gram(rows_of(raw[order], np.float64, sparse, 0.2)).matrix)
    np.testing.assert_array_equal(gram, whole_gram(rows_of(raw, np.float64, not sparse, 0.2)).matrix)
    scaled = np.hstack([raw / np.linalg.norm(raw, axis=1, keepdims=True), np.full((len(raw), 1), 0.2)]) / 1.04**0.5
    np.testing.assert_allclose(gram, scaled.T @ scaled, atol=len(raw) * 2.0**-20)
    w = rng.normal(size=8)
    bent = whole_gram(rows_of(raw, np.float64, sparse, 0.2), CurvatureGram(w=w)).matrix
    np.testing.assert_array_equal(
        bent, whole_gram(rows_of(raw[order], np.float64, sparse, 0.2), CurvatureGram(w=w)).matrix
    )
    p = 1.0 / (1.0 + np.exp(-scaled @ w))
    np.testing.assert_allclose(bent, scaled.T @ (4.0 * (p * (1.0 - p))[:, None] * scaled), atol=len(raw) * 2.0**-20)
