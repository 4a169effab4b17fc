"""What one row can do to a released sum: at most the clip that scales the noise, whatever the row is.

The proof pages rest on this bound and on nothing else about the arithmetic, so it is tried on rows and states that are
as bad as floating point allows, for every loss, both storage forms and both precisions.
"""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.central.data.holder import hold
from sottovoce.central.data.rows import make_rows
from sottovoce.central.kernels import passes
from sottovoce.central.parallel import Team
from sottovoce.central.sums.clipped_sums import sum_mechanism
from sottovoce.central.sums.largest_eigenvalue import largest_eigenvalue
from sottovoce.losses import Hinge, Logistic, SmoothedHinge, Squared
from sottovoce.papers.dp_scd.published import OneNewtonStep
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from support.asking import answered
from support.pairs import by_pairs

TEAM = Team(1, None)
# Huber and absolute are trained without noise only
LOSSES = [Squared(), Logistic(), OneNewtonStep(), Hinge(), SmoothedHinge(0.5)]
wild = st.floats(allow_nan=False, allow_infinity=False, width=32)
tame = st.floats(-3, 3, width=32)


KINDS = ["exact", "damped", "minibatch", "weighted", "weighted, damped"]
# a kernel is compiled for each loss and each form of rows, and asks either for the same two or three numbers
EACH = by_pairs(LOSSES, KINDS, [np.float32, np.float64], [sp.csr_array, np.asarray])


# all clips that a plan can make of public numbers in their ranges, and all multipliers: ticks are coarse for large ones
clips = st.floats(-150.0, 150.0).map(lambda exponent: 10.0**exponent)
multipliers = st.floats(-5.0, 10.0).map(lambda exponent: 10.0**exponent)


def share_of_sensitivity(row, dtype, form, loss, label, memory, weights, constant, clip, multiplier, kind, share=1.0):
    """Return how far a row moves the sum that production releases, over what it tells the mechanism."""
    mechanism = sum_mechanism(Neighbours(Adjacency.ADD_REMOVE), clip, multiplier)
    raw = form(np.array([row], dtype=dtype))
    rows = make_rows(raw, data_norm=1.0, constant=constant, names=None, team=TEAM)
    w = np.resize(np.array(weights, dtype=dtype), rows.n_weights)
    total = np.zeros(rows.n_weights, np.int64)
    y, a, before = np.array([label]), np.array([memory[0]]), np.array([memory[1]])
    if kind == "minibatch":
        passes.batch_pass(rows.kernel, y, a, w, 3.0, 2.0, clip, 1.0 / mechanism.tick, loss, np.array([0]), 0, 1, total)
    else:
        shares = np.array([share] if kind.startswith("weighted") else [])
        passes.accelerated_pass(
            rows.kernel, y, shares, a, before, 0.7, w, 10.0, 0.3 if kind.endswith("damped") else 0.0, clip,
            1.0 / mechanism.tick, loss, 0, 1, total,
        )  # fmt: skip
    assert np.isfinite(a).all()
    return float(np.linalg.norm(total.astype(np.float64))) * (mechanism.tick / mechanism.l2_sensitivity)


@pytest.mark.parametrize(("loss", "kind", "dtype", "form"), EACH)
@settings(max_examples=40, deadline=None)
@given(
    row=st.lists(st.one_of(wild, tame, st.just(0.0)), min_size=1, max_size=70),
    positive=st.booleans(),
    number=st.floats(-1e6, 1e6),
    memory=st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)),
    weights=st.lists(wild, min_size=1, max_size=5),
    constant=st.sampled_from([0.0, 0.2, 1.0]),
    clip=clips,
    multiplier=multipliers,
    share=st.floats(0.0, 1.0),
)
def test_one_row_moves_the_sum_by_at_most_the_clip(
    loss, dtype, form, kind, row, positive, number, memory, weights, constant, clip, multiplier, share
):
    label = (1.0 if positive else -1.0) if loss.is_classification else number
    assert share_of_sensitivity(
        row, dtype, form, loss, label, memory, weights, constant, clip, multiplier, kind, share
    ) <= 1.0  # fmt: skip


def test_the_bound_is_reached():
    """A row that is pulled hard moves the sum by the whole clip, so the test above could fail."""
    share = share_of_sensitivity(
        [0.6, 0.8], np.float64, np.asarray, Hinge(), 1.0, (0.0, 0.0), [-50.0], 0.0, 1e-3, 10.0, "exact"
    )
    assert share == pytest.approx(1.0, rel=1e-5)


def test_two_entries_in_one_place_count_as_their_sum():
    """A CSR matrix may hold the same place twice; as a norm that would be too short by up to sqrt 2."""
    import sottovoce as sv

    twice = sp.csr_matrix((np.array([0.7, 0.7, 1.0]), np.array([0, 0, 1]), np.array([0, 2, 3])), shape=(2, 2))
    once = sp.csr_matrix(np.array([[1.4, 0.0], [0.0, 1.0]]))
    fits = [
        sv.DPLinearSVC(epsilon=1.0, delta=1e-5, data_norm=1.0, classes=[0, 1], random_state=0).fit(X, [0, 1])
        for X in (twice, once)
    ]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    assert twice.nnz == 3  # the user's matrix is left as it was


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("constant", [0.0, 0.5])
def test_eigenvalue_moves_by_at_most_its_sensitivity(sparse, constant, monkeypatch):
    """Remove or replace a row in many tables; compare the value that is about to be noised with what was declared."""
    seen = []

    def record(self, ticks, noise):
        seen.append((float(ticks[0]) * self.tick, self.l2_sensitivity))
        return ticks.astype(np.float64) * self.tick, self.event

    monkeypatch.setattr(GridGaussian, "release", record)

    def eigenvalue(X):
        raw = sp.csr_array(X) if sparse else X
        rows = make_rows(raw, data_norm=1.0, constant=constant, names=None, team=TEAM)
        replaced = Neighbours(Adjacency.REPLACE_ONE)
        asks = partial(largest_eigenvalue, rows.n_weights, 30, replaced, 0.1, entry=rows.constant)
        answered(asks, hold(rows, [], TEAM), 0)
        return seen[-1]

    rng = np.random.default_rng(0)
    largest = 0.0
    for trial in range(30):
        X = rng.normal(size=(30, 4)) * (0.02 if trial % 2 else 1.0)
        X[-1] = 10 * rng.normal(size=4)
        whole, declared = eigenvalue(X)
        without, _ = eigenvalue(X[:-1])
        replaced, _ = eigenvalue(np.vstack([X[:-1], 10 * rng.normal(size=4)]))
        for other in (without, replaced):
            largest = max(largest, abs(whole - other) / declared)
    assert (0.5 if constant else 0.8) < largest <= 1.0
