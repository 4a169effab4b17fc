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

TEAM = Team(1, None)
wild = st.floats(allow_nan=False, allow_infinity=False, width=32)
tame = st.floats(-3, 3, width=32)
PAIRS = pytest.mark.parametrize(("loss", "labels"), [(Squared(), (-1.0, 0.25, 1.0)), (Logistic(), (-1.0, 1.0))])


def plan(adjacency, loss=None, constraint="l1", constant=1.0):
    return FrankWolfePlan(
        facts=TrainingFacts(
            loss=loss or Squared(), n_samples=10, n_features=3, n_models=1, alpha=0.0, constant=constant, epsilon=1.0,
            delta=1e-5, adjacency=adjacency, label_bound=1.0,
        ),
        radius=1.0, n_steps_given=5, constraint=constraint,
    )  # fmt: skip


def signed_sums(raw, y, loss, moves, constant):
    """Return the scores of all candidates after the public moves, by the form that fits the storage."""
    rows = make_bounded_rows(raw, data_bound=1.5, constant=constant, names=None, team=TEAM)
    kind = SparseScores if sp.issparse(raw) else DenseScores
    scores = kind(rows, y, loss, 1.0, TICKS, TEAM)
    for column, step in moves:
        scores.move(column % rows.n_weights, step)
    sums = scores.sums()
    return np.concatenate([-sums, sums])


@PAIRS
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(st.lists(st.one_of(wild, tame, st.just(0.0)), min_size=20, max_size=20), min_size=3, max_size=3),
    places=st.tuples(*[st.integers(0, 2)] * 3),
    moves=st.lists(st.tuples(st.integers(0, 20), st.floats(-1e3, 1e3)), max_size=4),
    constant=st.sampled_from([0.0, 1.0]),
)
def test_one_row_moves_the_scores_by_at_most_the_range(dtype, sparse, loss, labels, rows, places, moves, constant):
    y = np.array([labels[place % len(labels)] for place in places])
    raw = np.array(rows, dtype)
    others, other_labels = raw[[0, 2]], y[[0, 2]]  # row 1 replaced by row 2
    first, replaced, without = (
        signed_sums(sp.csr_array(X) if sparse else X, t, loss, moves, constant)
        for X, t in ((raw[:2], y[:2]), (others, other_labels), (raw[:1], y[:1]))
    )
    for adjacency, other in ((Adjacency.ZERO_OUT, without), (Adjacency.REPLACE_ONE, replaced)):
        change = first - other
        assert change.max() - change.min() <= plan(adjacency, loss).selection().score_range


@pytest.mark.parametrize(("constraint", "constant"), [("nonnegative", 0.0), ("nonnegative", 1.0), ("simplex", 0.0)])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@settings(max_examples=20, deadline=None)
@given(
    rows=st.lists(st.lists(st.one_of(wild, tame), min_size=3, max_size=3), min_size=3, max_size=3),
    labels=st.tuples(*[st.sampled_from([-1.0, 0.25, 1.0])] * 3),
    moves=st.lists(st.tuples(st.integers(0, 20), st.floats(-1e3, 1e3)), max_size=4),
)
def test_one_row_moves_the_scores_of_other_sets_by_at_most_the_range(constraint, constant, sparse, rows, labels, moves):
    """The corner 0 is among the candidates of one of them: its score never moves."""
    raw, y = np.array(rows), np.array(labels)
    found = []
    for keep in ([0, 1], [0, 2], [0]):
        table = sp.csr_array(raw[keep]) if sparse else raw[keep]
        both = signed_sums(table, y[keep], Squared(), moves, constant)
        sums = both[len(both) // 2 :]
        made = plan(Adjacency.ZERO_OUT, constraint=constraint, constant=constant)
        assert made.n_weights == len(sums)
        found.append(made.set.scores(sums))
    for adjacency, other in ((Adjacency.ZERO_OUT, found[2]), (Adjacency.REPLACE_ONE, found[1])):
        change = found[0] - other
        limit = plan(adjacency, constraint=constraint, constant=constant).selection().score_range
        assert change.max() - change.min() <= limit


@pytest.mark.parametrize("constraint", ["nonnegative", "simplex"])
def test_the_range_is_reached_with_one_sign_of_each_column(constraint):
    """So it is not half as large: a row whose entries have both signs moves two columns apart."""
    raw = np.array([[1.5, -1.5, 0.0], [-1.5, 1.5, 0.0]])
    for adjacency, low in ((Adjacency.ZERO_OUT, np.zeros((1, 3))), (Adjacency.REPLACE_ONE, raw[[1]])):
        made = plan(adjacency, constraint=constraint, constant=0.0)
        one, two = (
            made.set.scores(signed_sums(table, np.ones(1), Squared(), [], 0.0)[3:]) for table in (raw[[0]], low)
        )
        assert np.ptp(one - two) == pytest.approx(made.selection().score_range, rel=1e-5)


def test_the_range_is_reached():
    raw = np.array([[1.5, -1.5], [-1.5, 1.5]])
    one, two = (signed_sums(raw[[place]], np.ones(1), Squared(), [], 0.0) for place in (0, 1))
    assert np.ptp(one) == pytest.approx(plan(Adjacency.ZERO_OUT).selection().score_range, rel=1e-5)
    assert np.ptp(one - two) == pytest.approx(plan(Adjacency.REPLACE_ONE).selection().score_range, rel=1e-5)


@PAIRS
@pytest.mark.parametrize("constant", [0.0, 1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_incremental_sums_are_those_of_a_whole_pass(loss, labels, constant, dtype):
    rng = np.random.default_rng(0)
    dense = (rng.normal(0, 1, (120, 70)) * (rng.random((120, 70)) < 0.15)).astype(dtype)
    y = rng.choice(labels, 120)
    states = []
    for raw, kind in ((dense, DenseScores), (sp.csr_array(dense), DenseScores), (sp.csr_array(dense), SparseScores)):
        rows = make_bounded_rows(raw, data_bound=1.5, constant=constant, names=None, team=TEAM)
        states.append(kind(rows, y, loss, 1.0, TICKS, TEAM))
    mechanism = ExponentialMechanism(0.5, 2.0 * TICKS)
    noise = Streams(0).generator(Purpose.NOISE)
    for _ in range(60):
        column, sign = states[-1].select(mechanism, noise)
        for state in states:
            state.move(column, 0.07 * sign)
        whole, from_sparse, incremental = (state.sums() for state in states)
        np.testing.assert_array_equal(incremental, from_sparse)
        # dense sums are cut to ticks in other places of the vector units, never by more than a tick a row
        assert np.abs(whole - from_sparse).max() <= 120


def test_moves_between_two_draws_add_up():
    rng = np.random.default_rng(1)
    raw = sp.csr_array(rng.normal(0, 1, (50, 30)) * (rng.random((50, 30)) < 0.2))
    rows = make_bounded_rows(raw, data_bound=1.0, constant=0.0, names=None, team=TEAM)
    y = rng.choice([-1.0, 1.0], 50)
    sparse, dense = (kind(rows, y, Logistic(), 1.0, TICKS, TEAM) for kind in (SparseScores, DenseScores))
    mechanism, noise = ExponentialMechanism(20.0, 2.0 * TICKS), Streams(0).generator(Purpose.NOISE)
    for column in (3, 4, 3, 9):
        for state in (sparse, dense):
            state.move(column, 0.5)
    np.testing.assert_array_equal(sparse.sums(), dense.sums())
    best = int(np.abs(dense.sums()).argmax())
    drawn = [sparse.select(mechanism, noise)[0] for _ in range(50)]
    assert np.bincount(drawn).argmax() == best
