"""What one row can do to a whole batch of sequential DP-SCD, and what the blocks of primal DP-SCD are told of it."""

import numpy as np
import pytest

from sottovoce.central.data.lengths import make_rows
from sottovoce.central.parallel import Team
from sottovoce.central.plan import TrainingFacts
from sottovoce.losses import Hinge, Logistic, SmoothedHinge, Squared
from sottovoce.papers.dp_scd import kernels
from sottovoce.papers.dp_scd.primal import _blocks_of
from sottovoce.papers.dp_scd.published import Sequential
from sottovoce.privacy.adjacency import Adjacency
from support.grey_box import form_of

TEAM = Team(1, None)
LOSSES = [Squared(), Logistic(), Hinge(), SmoothedHinge(0.5)]


def moved(pair, size, clip, adjacency, loss, a, v, alpha_n):
    """Return how far the moves of one batch are apart, over what the mechanism was told: of two neighbours.

    ``pair``: rows, labels and the row that keeps its place and contributes nothing, if any, of each.
    """
    plan = Sequential(
        facts=TrainingFacts(
            loss=loss, n_samples=size, n_features=3, n_models=1, alpha=1e-3, constant=0.0, epsilon=1.0,
            delta=1e-5, adjacency=adjacency, label_bound=None,
        ),
        batch_size=size, clipping_norm=clip, epochs=1,
    )  # fmt: skip
    mechanism, found = plan.batch_mechanism(), []
    for raw, y, left_out in pair:
        rows = make_rows(raw, data_norm=1.0, constant=0.0, names=None, team=TEAM)
        places = np.delete(np.arange(size), [] if left_out is None else [left_out])
        moves, total = np.zeros(len(places), np.int64), np.zeros(rows.n_weights, np.int64)
        kernels.sequential_batch(
            rows.kernel, y, a.copy(), v / alpha_n, alpha_n, plan.clip, 1.0 / mechanism.tick, loss, places, moves, total
        )
        found.append(np.concatenate([moves if left_out is None else np.insert(moves, left_out, 0), total]))
    return float(np.linalg.norm((found[0] - found[1]).astype(np.float64))) * (mechanism.tick / mechanism.l2_sensitivity)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_one_row_of_a_sequential_batch(loss):
    """Zero a row out, or replace it, in many random batches whose steps are all clipped and easily turned around."""
    rng, (form, dtype) = np.random.default_rng(0), form_of(loss)
    largest = 0.0

    def stored(table):
        return form(table.astype(dtype))

    for _ in range(300):
        clip, alpha_n = 10.0 ** rng.uniform(-50.0, 10.0), 10.0 ** rng.uniform(-8, 0)
        size, width = int(rng.integers(1, 12)), int(rng.integers(1, 4))
        table, k = rng.normal(size=(size, width)), int(rng.integers(size))
        y = np.sign(rng.normal(size=size)) if loss.is_classification else 0.1 * clip * rng.normal(size=size)
        a, v = y * rng.uniform(0, 1, size), clip * rng.normal(size=width)
        other, turned = table.copy(), y.copy()
        other[k], turned[k] = rng.normal(size=width), -y[k]
        whole = stored(table), y, None
        given = loss, a, v, alpha_n
        largest = max(largest, moved((whole, (stored(table), y, k)), size, clip, Adjacency.ZERO_OUT, *given))
        assert moved((whole, (stored(other), turned, None)), size, clip, Adjacency.REPLACE_ONE, *given) <= 1.0
    assert 0.7 < largest <= 1.0  # the bound is not far from what happens, so the test could fail


def test_the_sequential_bound_is_met_by_one_row():
    pair = [(np.array([[0.6, 0.8]]), np.ones(1), left_out) for left_out in (None, 0)]
    found = moved(pair, 1, 2.0**-10, Adjacency.ZERO_OUT, Squared(), np.zeros(1), np.zeros(2), 1.0)
    assert found == pytest.approx(1.0, rel=2e-6)


def test_the_norms_of_blocks_are_upper_bounds():
    rng = np.random.default_rng(0)
    raw = rng.normal(size=(50, 7)) * 10.0 ** rng.uniform(-150, 150, (50, 7))
    rows = make_rows(raw, data_norm=1.0, constant=0.2, names=None, team=TEAM)
    blocks = _blocks_of(rows, 3)
    assert [block.n_weights for block in blocks] == [3, 3, 2]  # the intercept belongs to the last one
    for block in blocks:
        part = np.hstack([block.scale[:, None] * block.raw, np.full((50, int(block.constant > 0.0)), block.constant)])
        assert (np.linalg.norm(part, axis=1) <= block.divisor * (1 + 1e-12)).all()
    np.testing.assert_allclose(sum(block.divisor**2 for block in blocks), rows.divisor**2, rtol=1e-9)
