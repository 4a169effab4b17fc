"""What one row, or one person, can do to lambda_max and to its sketch: at most the sensitivity that scales the noise.

The value that is about to be noised is made anew for both tables, from parts that are cut at any row.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.central.data.lengths import MeasureRows, ScaleRows
from sottovoce.central.sums import largest_eigenvalue
from sottovoce.central.sums.largest_eigenvalue import eigenvalue_mechanism
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from support.asking import answered
from support.many_parts import cut

N, NARROW, WIDE, MU = 12, 4, 300, 0.2
STEP = 2.0**-21  # of the grid that entries are cut to
wild = st.floats(allow_nan=False, allow_infinity=False, width=32)
edges = st.integers(-6, 6).map(lambda step: step * STEP)  # on the grid
between = st.integers(-6, 6).map(lambda step: np.nextafter(step * STEP, 1.0))  # and just beside it
unit = st.sampled_from([0.0, 1.0, -1.0, 0.6, -0.8, 0.5])
entries = st.one_of(wild, edges, between, unit, st.floats(-2, 2, width=32))
narrow_rows = st.lists(entries, min_size=NARROW, max_size=NARROW).map(np.array)
KINDS = [Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE]


def about_to_be_noised(raw, ends, constant, neighbours, *, sparse=False):
    """Return the exact value in the unit of the release, and the sensitivity declared for it."""
    seen = []

    def record(self, ticks, noise):
        seen.append((float(ticks[0]) * self.tick, self.l2_sensitivity))
        return ticks.astype(np.float64) * self.tick, self.event

    holder = cut(sp.csr_array(raw) if sparse else raw, None, ends)
    holder.ask(MeasureRows())
    holder.ask(ScaleRows(1.0, constant))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GridGaussian, "release", record)
        entry = holder.constant
        answered(
            lambda: largest_eigenvalue.largest_eigenvalue(holder.n_weights, N, neighbours, MU, entry=entry), holder, 0
        )
    return seen[0]


def ratio(one, other, neighbours, constant, *, sparse=False, cuts=((3,), (1, 7))):
    """Return the distance of two tables that are cut differently, over the declared sensitivity."""
    values = [
        about_to_be_noised(raw, ends, constant, neighbours, sparse=sparse)
        for raw, ends in zip((one, other), cuts, strict=True)
    ]
    assert values[0][1] == values[1][1]  # the noise does not depend on the data
    return abs(values[0][0] - values[1][0]) / values[0][1]


def neighbours_of(rest, row, other, adjacency, constant):
    """Return two neighbouring tables; with a constant a row that is zeroed out is one that is missing."""
    with_row = np.vstack([rest, row[None, :]])
    if adjacency is Adjacency.REPLACE_ONE:
        return with_row, np.vstack([rest, other[None, :]])
    if adjacency is Adjacency.ZERO_OUT and constant == 0.0:
        return with_row, np.vstack([rest, 0.0 * row[None, :]])
    return with_row, rest


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("adjacency", KINDS, ids=lambda one: one.value)
@settings(max_examples=40, deadline=None)
@given(
    row=narrow_rows,
    other=narrow_rows,
    rest=st.sampled_from(["random", "zero", "along", "orthogonal", "grid"]),
    constant=st.sampled_from([0.0, 0.3, 1.0, STEP]),
)
def test_lambda_max(adjacency, sparse, row, other, rest, constant):
    tables = {
        "random": np.random.default_rng(0).normal(size=(N - 1, NARROW)),
        "zero": np.zeros((N - 1, NARROW)),
        "along": np.tile(row, (N - 1, 1)),
        "orthogonal": np.tile(np.eye(NARROW), (3, 1))[: N - 1],
        "grid": np.full((N - 1, NARROW), STEP * 3.5),
    }
    one, two = neighbours_of(tables[rest], row, other, adjacency, constant)
    assert ratio(one, two, Neighbours(adjacency), constant, sparse=sparse) <= 1.0


def test_two_rows_of_a_person():
    rng = np.random.default_rng(0)
    rest = np.zeros((N - 2, NARROW))
    rest[:, 0] = 1.0
    for first in ([1.0, 0, 0, 0], rng.normal(size=NARROW)):
        pair = np.vstack([first, first])
        both = np.vstack([rest, pair])
        assert ratio(both, rest, Neighbours(Adjacency.ZERO_OUT, 2), 0.0) <= 1.0
    assert ratio(np.vstack([rest, rest[:2]]), rest, Neighbours(Adjacency.ZERO_OUT, 2), 0.0) > 0.9999  # it is reached


def test_the_bound_is_reached():
    """So that the tests above could fail."""
    rest = np.tile(np.eye(NARROW)[0], (N - 1, 1))
    for adjacency in KINDS:
        one, two = neighbours_of(rest, np.eye(NARROW)[0], np.eye(NARROW)[1], adjacency, 0.0)
        assert 0.9999 < ratio(one, two, Neighbours(adjacency), 0.0) <= 1.0


def worst_row(width):
    """Return a row along the longest column of the public matrix."""
    public = np.random.Generator(np.random.PCG64(1))
    column = public.permutation(np.arange(width) % 128)
    sign = public.choice([-1.0, 1.0], width)
    fullest = np.bincount(column).argmax()
    return np.where(column == fullest, sign, 0.0)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("adjacency", KINDS, ids=lambda one: one.value)
@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([1e-30, STEP, 0.01, 1.0, 1e30]),
    share=st.sampled_from([1.0, 0.01]),
    constant=st.sampled_from([0.0, 0.3]),
)
def test_the_sketch(adjacency, sparse, seed, scale, share, constant):
    rng = np.random.default_rng(seed)
    rest = rng.normal(size=(N - 1, WIDE)) * (rng.random((N - 1, WIDE)) < share)
    row, other = scale * rng.normal(size=(2, WIDE)) * (rng.random(WIDE) < share)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(largest_eigenvalue, "MAX_GRAM", 100)
        one, two = neighbours_of(rest, row, other, adjacency, constant)
        assert ratio(one, two, Neighbours(adjacency), constant, sparse=sparse) <= 1.0


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_the_bound_on_the_sketch_is_reached(sparse, monkeypatch):
    monkeypatch.setattr(largest_eigenvalue, "MAX_GRAM", 100)
    row, rest = 1e9 * worst_row(WIDE), np.zeros((N - 1, WIDE))
    rest[:5] = row
    reached = ratio(np.vstack([rest, row]), rest, Neighbours(Adjacency.ADD_REMOVE), 0.0, sparse=sparse)
    assert 0.9999 < reached <= 1.0


def test_the_noise_follows_from_public_facts():
    mechanism = eigenvalue_mechanism(NARROW, N, Neighbours(Adjacency.ZERO_OUT), MU)
    _, sensitivity = about_to_be_noised(np.ones((N, NARROW)), (2,), 0.0, Neighbours(Adjacency.ZERO_OUT))
    assert sensitivity == mechanism.l2_sensitivity
    assert mechanism.noise_std == pytest.approx(1.0 / MU, rel=1e-5)
