"""What one row can do to the scores of Frank-Wolfe: no two candidates move further apart than the mechanism was told.

And the state of the sparse form is the one of a pass over all rows, bit by bit.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.central.data.lengths import make_bounded_rows
from sottovoce.central.parallel import Team
from sottovoce.central.plan import TrainingFacts
from sottovoce.central.solvers.frank_wolfe import FrankWolfePlan
from sottovoce.central.sums.selection import TICKS, DenseScores, SparseScores
from sottovoce.losses import Logistic, Squared
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.mechanisms.noisy_max import ExponentialMechanism
from sottovoce.randomness import Purpose, Streams
from support.pairs import by_pairs

TEAM = Team(1, None)
D = 20
wild = st.floats(allow_nan=False, allow_infinity=False, width=32)
entry = st.one_of(wild, st.floats(-3, 3, width=32), st.just(0.0))
LOSSES = {"squared": (Squared(), (-1.0, 0.25, 1.0)), "logistic": (Logistic(), (-1.0, 1.0))}
SETS = [("l1", 0.0), ("l1", 1.0), ("nonnegative", 0.0), ("nonnegative", 1.0), ("simplex", 0.0)]


def plan(adjacency, loss, constraint, constant, d=D):
    return FrankWolfePlan(
        facts=TrainingFacts(
            loss=loss, n_samples=10, n_features=d, n_models=1, alpha=0.0, constant=constant, epsilon=1.0,
            delta=1e-5, adjacency=adjacency, label_bound=1.0,
        ),
        radius=1.0, n_steps_given=5, constraint=constraint,
    )  # fmt: skip


def states(raw, y, loss, constant, kind=None, bound=1.5):
    """Return the scores of rows by the form that fits the storage."""
    rows = make_bounded_rows(raw, data_bound=bound, constant=constant, names=None, team=TEAM)
    kind = kind or (SparseScores if sp.issparse(raw) else DenseScores)
    return kind(rows, y, loss, 1.0, TICKS, TEAM)


def moved_apart(made, tables, loss, moves=()):
    """Return by how much candidates move apart between two tables, over what the mechanism was told."""
    found = []
    for raw, y in tables:
        scores = states(raw, y, loss, made.facts.constant)
        for column, step in moves:
            scores.move(column % made.n_weights, step)
        found.append(made.set.scores(scores.sums()))
    return np.ptp(found[0] - found[1]) / made.selection().score_range


@pytest.mark.parametrize(
    ("chosen", "sparse", "dtype", "loss"), by_pairs(SETS, [False, True], [np.float32, np.float64], list(LOSSES))
)
@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(st.lists(entry, min_size=D, max_size=D), min_size=3, max_size=3),
    places=st.tuples(*[st.integers(0, 2)] * 3),
    moves=st.lists(st.tuples(st.integers(0, D), st.floats(-1e3, 1e3)), max_size=4),
)
def test_one_row_moves_the_scores_by_at_most_the_range(chosen, sparse, dtype, loss, rows, places, moves):
    """The corner 0 is among the candidates of one set: its score never moves."""
    loss, labels = LOSSES[loss]
    raw, y = np.array(rows, dtype), np.array([labels[place % len(labels)] for place in places])
    stored = sp.csr_array if sparse else np.asarray
    first, replaced, without = ((stored(raw[keep]), y[keep]) for keep in ([0, 1], [0, 2], [0]))
    for adjacency, other in ((Adjacency.ZERO_OUT, without), (Adjacency.REPLACE_ONE, replaced)):
        made = plan(adjacency, loss, *chosen)
        assert moved_apart(made, (first, other), loss, moves) <= 1.0


@pytest.mark.parametrize("constraint", ["l1", "nonnegative", "simplex"])
def test_the_range_is_reached(constraint):
    """With one sign of each column too: a row whose entries have both signs moves two columns apart."""
    raw = np.array([[1.5, -1.5, 0.0], [-1.5, 1.5, 0.0]])
    for adjacency, low in ((Adjacency.ZERO_OUT, np.zeros((1, 3))), (Adjacency.REPLACE_ONE, raw[[1]])):
        made = plan(adjacency, Squared(), constraint, 0.0, 3)
        pair = [(table, np.ones(1)) for table in (raw[[0]], low)]
        assert moved_apart(made, pair, Squared()) == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize(("loss", "constant", "dtype"), by_pairs(list(LOSSES), [0.0, 1.0], [np.float32, np.float64]))
def test_incremental_sums_are_those_of_a_whole_pass(loss, constant, dtype):
    rng, (loss, labels) = np.random.default_rng(0), LOSSES[loss]
    raw = (rng.normal(0, 1, (120, 70)) * (rng.random((120, 70)) < 0.15)).astype(dtype)
    y, csr = rng.choice(labels, 120), sp.csr_array(raw)
    each = [states(*one) for one in ((raw, y, loss, constant), (csr, y, loss, constant, DenseScores),
                                     (csr, y, loss, constant))]  # fmt: skip
    mechanism, noise = ExponentialMechanism(0.5, 2.0 * TICKS), Streams(0).generator(Purpose.NOISE)
    for _ in range(60):
        column, sign = each[-1].select(mechanism, noise)
        for state in each:
            state.move(column, 0.07 * sign)
        whole, from_sparse, incremental = (state.sums() for state in each)
        np.testing.assert_array_equal(incremental, from_sparse)
        # dense sums are cut to ticks in other places of the vector units, never by more than a tick a row
        assert np.abs(whole - from_sparse).max() <= 120
