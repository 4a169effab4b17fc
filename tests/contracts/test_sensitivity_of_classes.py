"""What one row can do to the sums of all classes together: at most the clip, whatever row, memory and weights are."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.central.data.rows import make_rows
from sottovoce.central.kernels import multinomial
from sottovoce.central.parallel import Team
from sottovoce.central.sums.clipped_sums import sum_mechanism
from sottovoce.privacy.adjacency import Adjacency, Neighbours

wild = st.floats(allow_nan=False, allow_infinity=False, width=32)
tame = st.floats(-3, 3, width=32)
anything = st.floats(width=32)
powers = st.floats(-150.0, 150.0).map(lambda exponent: 10.0**exponent)
multipliers = st.floats(-5.0, 10.0).map(lambda exponent: 10.0**exponent)


def share_of_sensitivity(
    row, dtype, sparse, label, memory, weights, constant, clip, multiplier, n_classes, kernel="joint_pass"
):
    """Return how far a row moves the sums that production releases, over what it tells the mechanism."""
    mechanism = sum_mechanism(Neighbours(Adjacency.ADD_REMOVE), clip, multiplier)
    raw = np.array([row], dtype=dtype)
    rows = make_rows(
        sp.csr_array(raw) if sparse else raw, data_norm=1.0, constant=constant, names=None, team=Team(1, None)
    )
    w = np.resize(np.array(weights, dtype=dtype), (n_classes, rows.n_weights))
    total = np.zeros((n_classes, rows.n_weights), np.int64)
    a, before = np.resize(memory, (1, n_classes)), np.resize(memory[::-1], (1, n_classes))
    own, ticks = np.array([float(label % n_classes)]), 1.0 / mechanism.tick
    if kernel == "joint_gradient":
        multinomial.joint_gradient(rows.kernel, own, w, clip, ticks, 0, 1, total)
    else:
        multinomial.joint_pass(rows.kernel, own, a, before, 0.7, w, 0.3, clip, ticks, 0, 1, total)
    assert np.isfinite(a).all()
    return float(np.linalg.norm(total.astype(np.float64))) * (mechanism.tick / mechanism.l2_sensitivity)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", ["joint_pass", "joint_gradient"])
@settings(max_examples=80, deadline=None)
@given(
    row=st.lists(st.one_of(wild, tame, st.just(0.0)), min_size=1, max_size=70),
    label=st.integers(0, 20),
    memory=st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=7),
    weights=st.lists(st.one_of(wild, tame, anything), min_size=1, max_size=9),
    constant=st.sampled_from([0.0, 0.2, 1.0]),
    clip=powers,
    multiplier=multipliers,
    n_classes=st.integers(2, 21),
)
def test_one_row_moves_the_sums_of_all_classes_by_at_most_the_clip(
    kernel, dtype, sparse, row, label, memory, weights, constant, clip, multiplier, n_classes
):
    assert share_of_sensitivity(
        row, dtype, sparse, label, memory, weights, constant, clip, multiplier, n_classes, kernel
    ) <= 1.0  # fmt: skip


@pytest.mark.parametrize("n_classes", [2, 3, 10, 20])
def test_the_bound_is_reached_by_all_classes_together(n_classes):
    """At the start: a full step for the own class, and a little against each other one."""
    share = share_of_sensitivity([0.6, 0.8], np.float64, False, 0, [0.0, 0.0], [0.0], 0.0, 1e-3, 10.0, n_classes)
    assert share == pytest.approx(1.0, rel=1e-5)
