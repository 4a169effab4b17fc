"""What one row can do to a whole batch of sequential DP-SCD, and what the blocks of primal DP-SCD are told of it."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from sottovoce.central.data.lengths import make_rows
from sottovoce.central.parallel import Team
from sottovoce.central.plan import TrainingFacts
from sottovoce.losses import Hinge, Logistic, SmoothedHinge, Squared
from sottovoce.papers.dp_scd import kernels
from sottovoce.papers.dp_scd.primal import _blocks_of
from sottovoce.papers.dp_scd.published import Sequential
from sottovoce.privacy.adjacency import Adjacency

TEAM = Team(1, None)
LOSSES = [Squared(), Logistic(), Hinge(), SmoothedHinge(0.5)]


def rows_of(table, dtype, sparse, constant):
    raw = np.array(table, dtype=dtype)
    return make_rows(sp.csr_array(raw) if sparse else raw, data_norm=1.0, constant=constant, names=None, team=TEAM)


def share(ticks, mechanism):
    """Return the length of a number of ticks over what the mechanism was told."""
    return float(np.linalg.norm(ticks.astype(np.float64))) * (mechanism.tick / mechanism.l2_sensitivity)


def plan_of(size, clip, adjacency, loss=None):
    """Return the plan of sequential batches of ``size`` rows; it makes the mechanism."""
    return Sequential(
        facts=TrainingFacts(
            loss=loss or Logistic(), n_samples=size, n_features=3, n_models=1, alpha=1e-3, constant=0.0, epsilon=1.0,
            delta=1e-5, adjacency=adjacency, label_bound=None,
        ),
        batch_size=size, clipping_norm=clip, epochs=1,
    )  # fmt: skip


def batch_of(rows, y, a, v, plan, alpha_n, left_out=None):
    """Return the moves of one batch; the row ``left_out`` contributes nothing and keeps its place."""
    places = np.arange(rows.n_samples) if left_out is None else np.delete(np.arange(rows.n_samples), left_out)
    moves, total = np.zeros(len(places), np.int64), np.zeros(rows.n_weights, np.int64)
    kernels.sequential_batch(
        rows.kernel, y, a, v / alpha_n, alpha_n, plan.clip,
        1.0 / plan.batch_mechanism().tick, plan.loss, places, moves, total,
    )  # fmt: skip
    return np.concatenate([moves if left_out is None else np.insert(moves, left_out, 0), total])


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_one_row_of_a_sequential_batch(loss, sparse):
    """Zero a row out, or replace it, in many random batches whose steps are all clipped and easily turned around."""
    rng = np.random.default_rng(0)
    largest = 0.0
    for _ in range(300):
        clip = 10.0 ** rng.uniform(-50.0, 10.0)
        size, width = int(rng.integers(1, 12)), int(rng.integers(1, 4))
        zeroed, replaced = (plan_of(size, clip, one, loss) for one in (Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE))
        table, k = rng.normal(size=(size, width)), int(rng.integers(size))
        y = np.sign(rng.normal(size=size)) if loss.is_classification else 0.1 * clip * rng.normal(size=size)
        a, v = y * rng.uniform(0, 1, size), clip * rng.normal(size=width)
        alpha_n = 10.0 ** rng.uniform(-8, 0)
        rows = rows_of(table, np.float64, sparse, 0.0)
        full = batch_of(rows, y, a, v, zeroed, alpha_n)
        without = batch_of(rows, y, a, v, zeroed, alpha_n, left_out=k)
        largest = max(largest, share(full - without, zeroed.batch_mechanism()))
        full = batch_of(rows, y, a, v, replaced, alpha_n)
        table[k] = rng.normal(size=width)
        y[k] = -y[k]
        other = batch_of(rows_of(table, np.float64, sparse, 0.0), y, a, v, replaced, alpha_n)
        assert share(full - other, replaced.batch_mechanism()) <= 1.0
    assert 0.7 < largest <= 1.0  # the bound is not far from what happens, so the test could fail


def test_the_sequential_bound_is_met_by_one_row():
    rows = rows_of([[0.6, 0.8]], np.float64, False, 0.0)
    plan = plan_of(1, 2.0**-10, Adjacency.ZERO_OUT, Squared())
    pair = [batch_of(rows, np.ones(1), np.zeros(1), np.zeros(2), plan, 1.0, left_out) for left_out in (None, 0)]
    assert share(pair[0] - pair[1], plan.batch_mechanism()) == pytest.approx(1.0, rel=2e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_exact_steps_of_unit_rows_move_less_than_is_accounted(loss):
    """The remark of the proof page: sqrt(2) C whatever L is, in exact arithmetic; the larger bound is accounted."""
    rng = np.random.default_rng(1)
    clip, largest = 1e-3, 0.0
    for _ in range(100):
        size = int(rng.integers(1, 40))
        plan = plan_of(size, clip, Adjacency.ZERO_OUT, loss)
        table = rng.normal(size=(size, 3))
        rows = rows_of(2 * table / np.linalg.norm(table, axis=1, keepdims=True), np.float64, False, 0.0)
        y = np.sign(rng.normal(size=size)) if loss.is_classification else 1e-2 * rng.normal(size=size)
        a, v = y * rng.uniform(0, 1, size), clip * rng.normal(size=3)
        alpha_n = 10.0 ** rng.uniform(-4, 1)
        pair = [batch_of(rows, y, a, v, plan, alpha_n, left_out) for left_out in (None, 0)]
        moved = float(np.linalg.norm((pair[0] - pair[1]).astype(np.float64))) * plan.batch_mechanism().tick
        largest = max(largest, moved / (clip * math.sqrt(2)))
    assert 0.9 < largest < 1 + 1e-4


def test_the_norms_of_blocks_are_upper_bounds():
    rng = np.random.default_rng(0)
    rows = rows_of(rng.normal(size=(50, 7)) * 10.0 ** rng.uniform(-150, 150, (50, 7)), np.float64, False, 0.2)
    whole = np.zeros(50)
    blocks = _blocks_of(rows, 3)
    assert [block.n_weights for block in blocks] == [3, 3, 2]  # the intercept belongs to the last one
    for block in blocks:
        part = block.scale[:, None] * block.raw
        if block.constant > 0.0:
            part = np.hstack([part, np.full((50, 1), block.constant)])
        assert part.shape[1] == block.n_weights
        assert (np.linalg.norm(part, axis=1) <= block.divisor * (1 + 1e-12)).all()
        whole += block.divisor**2
    np.testing.assert_allclose(whole, rows.divisor**2, rtol=1e-9)
