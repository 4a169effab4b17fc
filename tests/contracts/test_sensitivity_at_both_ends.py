"""What one row can do to a released sum where rows *and* public numbers are at the ends of their ranges at once.

Each alone was tried long before both: a clip of 2e-17 is harmless, so is a row 1e307 long, and together the factor of
the row was half of the smallest double, rounded up to a whole one. So every kernel that counts terms takes rows and
clips drawn together: at random over all that is accepted, and steered to where a step over a length is subnormal.
Distances are exact, in whole numbers.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import sottovoce as sv
from sottovoce.central.data.rows import make_bounded_rows, make_rows
from sottovoce.central.kernels import columns, multinomial, passes, persons, sequential
from sottovoce.central.parallel import Team
from sottovoce.central.sums.clipped_sums import sum_mechanism
from sottovoce.losses import Logistic, Squared
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from support.pairs import by_pairs
from support.replay import grey_box

TEAM = Team(1, None)
ONE, EVERY, ALIKE = np.array([0]), np.empty(0, np.int64), np.empty(0)
FEW = 400  # pairs of a row and a clip, for each kernel, form and precision
SQUARED, LOGISTIC = Squared(), Logistic()


def _zeros():
    return np.zeros(1)


# each takes (rows, weights, clip, ticks per unit, total) and adds the terms of the only row
KERNELS = {
    "gradient": lambda r, w, c, t, total: passes.gradient(r, _pull(), _zeros(), c, t, SQUARED, 0, 1, total),
    "full gradient": lambda r, w, c, t, total: passes.gradient_at(r, _pull(), w, c, t, SQUARED, EVERY, 0, 1, total),
    "batch gradient": lambda r, w, c, t, total: passes.gradient_at(r, _pull(), w, c, t, SQUARED, ONE, 0, 1, total),
    "accelerated": lambda r, w, c, t, total: passes.accelerated_pass(
        r, _pull(), ALIKE, _zeros(), _zeros(), 0.5, w, 1e-300, 0.0, c, t, SQUARED, 0, 1, total
    ),
    "accelerated, damped": lambda r, w, c, t, total: passes.accelerated_pass(
        r, np.ones(1), ALIKE, _zeros(), _zeros(), 0.5, w, 1.0, 0.7, c, t, LOGISTIC, 0, 1, total
    ),
    "weighted": lambda r, w, c, t, total: passes.accelerated_pass(
        r, _pull(), np.ones(1), _zeros(), _zeros(), 0.5, w, 1e-300, 0.0, c, t, SQUARED, 0, 1, total
    ),
    "minibatch": lambda r, w, c, t, total: passes.batch_pass(
        r, _pull(), _zeros(), w, 1e-300, 0.0, c, t, SQUARED, ONE, 0, 1, total
    ),
    "newton": lambda r, w, c, t, total: passes.newton_pass(r, _pull(), _zeros(), w, 1.0, c, t, SQUARED, 0, 1, total),
    "multinomial": lambda r, w, c, t, total: multinomial.joint_pass(
        r, _zeros(), np.zeros((1, 2)), np.zeros((1, 2)), 0.5, np.stack([w, w]), 1.0, c, t, 0, 1, total
    ),
    "sequential": lambda r, w, c, t, total: sequential.sequential_batch(
        r, _pull(), _zeros(), w, 1.0, c, t, SQUARED, ONE, np.zeros(1, np.int64), total
    ),
    "persons": lambda r, w, c, t, total: persons.person_pass(
        r, np.array([0, 1]), _pull(), np.ones(1), _zeros(), _zeros(), 0.5, w, 1e-300, 0.0, c, t, SQUARED, 0, 1, total
    ),
    "persons, multinomial": lambda r, w, c, t, total: persons.person_joint_pass(
        r, np.array([0, 1]), _zeros(), np.zeros((1, 2)), np.zeros((1, 2)), 0.5, np.stack([w, w]), 1.0, c, t, 0, 1, total
    ),
}  # fmt: skip


def _pull():
    """A label so far away that every step is cut, whatever the clip is."""
    return np.array([-1e300])


def ends(rng, dtype):
    """Draw a row and a clip: both anywhere, or the clip over the row's length near the smallest numbers there are."""
    most = math.log10(float(np.finfo(dtype).max))
    d = int(rng.choice([1, 3, 8, 17, 33]))
    shape = rng.choice([np.full(d, 1.0), rng.standard_normal(d), 10.0 ** rng.uniform(-5, 0, d)], axis=0)
    if rng.random() < 0.5:  # anywhere
        length, clip = 10.0 ** rng.uniform(-most - 15, most), 10.0 ** rng.uniform(-249.9, 159.9)
    else:  # a factor of a few quanta
        length = 10.0 ** rng.uniform(most - 3, most)
        clip = float(10.0 ** np.clip(rng.uniform(-324.5, -318.0) + math.log10(length), -249.9, 159.9))
    with np.errstate(over="ignore", under="ignore"):
        row = shape / np.linalg.norm(shape) * length
    return np.clip(row, -np.finfo(dtype).max, np.finfo(dtype).max).astype(dtype), clip


def beyond(total, tick, bound):
    """Return how far whole ticks are, over the bound: exactly, but for the last root."""
    squares = sum(int(ticks) ** 2 for ticks in np.ravel(total))
    return math.sqrt(float(squares * (Fraction(tick) / Fraction(bound)) ** 2))


@pytest.mark.parametrize(("name", "sparse", "dtype"), by_pairs(list(KERNELS), [False, True], [np.float32, np.float64]))
def test_a_row_adds_at_most_its_clip(name, sparse, dtype):
    rng = np.random.default_rng([list(KERNELS).index(name), sparse, np.dtype(dtype).itemsize])
    worst, reached = 0.0, 0.0
    for _ in range(FEW):
        row, clip = ends(rng, dtype)
        constant = float(rng.choice([0.0, 0.0, 1e-50, 0.3, 1e50]))
        mechanism = sum_mechanism(Neighbours(Adjacency.ADD_REMOVE), clip, 10.0 ** rng.uniform(-3, 3))
        raw = row[None]
        rows = make_rows(
            sp.csr_array(raw) if sparse else raw,
            data_norm=10.0 ** rng.uniform(-50, 50), constant=constant, names=None, team=TEAM,
        )  # fmt: skip
        total = np.zeros((2, rows.n_weights) if "multinomial" in name else rows.n_weights, np.int64)
        KERNELS[name](rows.kernel, np.zeros(rows.n_weights, dtype), clip, 1.0 / mechanism.tick, total)
        share = beyond(total, mechanism.tick, mechanism.l2_sensitivity)
        worst, reached = max(worst, share), max(reached, share)
    assert worst <= 1.0
    assert reached > 0.99


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_entry_of_bounded_rows_adds_at_most_its_clip(dtype):
    """Frank-Wolfe bounds each entry: the largest change of a column's sum is one clip."""
    rng = np.random.default_rng(np.dtype(dtype).itemsize)
    worst, reached = 0.0, 0.0
    for _ in range(FEW):
        row, clip = ends(rng, dtype)
        bound = float(10.0 ** rng.uniform(-50, 50))
        tick = sum_mechanism(Neighbours(Adjacency.ADD_REMOVE), clip, 1.0).tick
        rows = make_bounded_rows(sp.csr_array(row[None]), data_bound=bound, constant=0.5, names=None, team=TEAM)
        width = rows.n_weights
        sums, touched, before, mark = (np.zeros(width, kind) for kind in (np.int64, np.int64, np.int64, np.bool_))
        columns.change_rows(
            rows.kernel, _pull(), _zeros(), clip, 1.0 / tick, SQUARED, ONE,
            (np.zeros(1, dtype), np.zeros(1, np.int64)), sums, touched, before, mark, 0,
        )  # fmt: skip
        share = max(beyond(entry, tick, clip * (1.0 + 2.0**-20)) for entry in sums)
        worst, reached = max(worst, share), max(reached, share)
    assert worst <= 1.0
    assert reached > 0.99


@pytest.mark.parametrize("bound", [1e-50, 3e-17, 1.0, 4e49])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one", "zero-out"])
def test_a_label_moves_a_noisy_mean_by_at_most_its_bound(bound, adjacency):
    X, y = np.ones((9, 2)), np.full(9, bound)
    other = (X, np.append(y[:-1], -bound)) if adjacency == "replace-one" else (X[:-1], y[:-1])

    def run(X, y):
        return sv.DPRidge(
            epsilon=1.0, delta=1e-6, data_norm=1.0, label_bounds=(-bound, bound), solver="constant",
            adjacency=adjacency, n_public=9,
        ).fit(X, y).predict(X[:3])  # fmt: skip

    found = grey_box(run, (X, y), other)
    assert found.fault == ""
    assert 0.999 < found.largest <= 1.0
