"""A person in a pass of DP-SCD: all their rows are cut alike. How much a person adds is in `test_sensitivity`."""

import numpy as np
import pytest
import scipy.sparse as sp

from sottovoce.central.data.lengths import make_rows
from sottovoce.central.kernels.persons import person_pass
from sottovoce.central.parallel import Team
from sottovoce.central.sums.clipped_sums import clipped_sum
from sottovoce.losses import Logistic
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from support.pairs import by_pairs

TEAM = Team(1, None)
ONE = Neighbours(Adjacency.ZERO_OUT)


@pytest.mark.parametrize(("sparse", "joint"), by_pairs([False, True], [False, True]))
def test_steps_of_a_person_are_cut_alike_and_sum_to_what_is_released(sparse, joint):
    """The duals move by what is added: v stays the sum of a_i x_i; people beside one another do not matter."""
    rng = np.random.default_rng(0)
    starts = np.array([0, 1, 4, 90, 91, 200])
    n, d, clip = 200, 7, 0.05
    raw = rng.standard_normal((n, d))
    raw = sp.csr_array(np.where(rng.random((n, d)) < 0.3, raw, 0), dtype=np.float32) if sparse else raw
    rows = make_rows(raw, data_norm=2.0, constant=0.2, names=None, team=TEAM)
    sums = clipped_sum(ONE, clip, 10.0)
    w = rng.standard_normal(rows.n_weights).astype(raw.dtype)
    dense = rows.raw.toarray() if sparse else rows.raw
    scaled = np.column_stack([dense * rows.scale[:, None], np.full(n, rows.constant)])
    classes = 3 if joint else 1
    y = rng.integers(0, 3, n).astype(float) if joint else rng.choice([-1.0, 1.0], n)
    shares = np.ones(n) if joint else rng.random(n)

    def run(lo, hi):
        a = np.zeros((n, 3)) if joint else np.zeros(n)
        total = np.zeros((classes, rows.n_weights), np.int64)
        weights, weighed = (np.stack([w, -w, w]), shares[:0]) if joint else (w, shares)
        person_pass(
            rows.kernel, starts, y, weighed, a, np.zeros_like(a), 0.0, weights, 1.0, 0.5, clip, sums.ticks_per_unit,
            None if joint else Logistic(), lo, hi, total if joint else total[0],
        )  # fmt: skip
        return a.reshape(n, -1), total

    a, total = run(0, 5)
    for person in range(5):
        mine = slice(starts[person], starts[person + 1])
        moved = (a[mine] * shares[mine, None]).T @ scaled[mine]
        assert np.linalg.norm(moved) <= clip * (1.0 + 1e-9)
        alone_a, alone = run(person, person + 1)
        assert np.array_equal(alone_a[mine], a[mine])
        assert np.allclose(alone * sums.mechanism.tick, moved, atol=1e-6 * clip)
    assert np.array_equal(total, run(0, 2)[1] + run(2, 5)[1])
    # a person of many rows is cut, and a single row is not cut twice
    big = slice(starts[2], starts[3])
    assert np.linalg.norm((a[big] * shares[big, None]).T @ scaled[big]) > 0.99 * clip
