"""What one row can do to all that Frank-Wolfe releases, of one table or of a party: no more than the noise is for.

No two candidates move further apart than the mechanism was told. And the state of the sparse form is the one of a pass
over all rows, bit by bit.
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
from sottovoce.papers.frank_wolfe.noise import ColumnRelease, Sketch, bounded_column
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.mechanisms.noisy_max import ExponentialMechanism
from sottovoce.randomness import Purpose, Streams
from sottovoce.vertical.columns import bounded_pieces
from sottovoce.vertical.requests.frank_wolfe import TrainOnBall, scores_of, selection_mechanism, signed_column
from support.pairs import by_pairs

TEAM = Team(1, None)
D = 20
wild = st.floats(allow_nan=False, allow_infinity=False, width=32)
entry = st.one_of(wild, st.floats(-3, 3, width=32), st.sampled_from([-2.0, 0.0, 2.0]))
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
    for state in each:  # hardly any noise: down the steepest column
        sums = state.sums()
        steepest = int(np.abs(sums).argmax())
        assert state.select(ExponentialMechanism(1e6, 1.0), noise) == (steepest, -np.sign(sums[steepest]))


# --- a party ---------------------------------------------------------------------------------------------------------

SKETCH = Sketch(40, 16, 5)


class NoNoise:
    """In the place of a generator: the exact value comes out."""

    def standard_normal(self, shape):
        return np.zeros(shape)


def sums_of_party(table, labels, loss, steps, clip, intercept):
    scores = scores_of(table, 1.5, TrainOnBall(loss, labels, 3.0, clip, 4, 0.5, intercept, 1.0, "m"), TEAM)
    for place in steps:
        column, sign = signed_column(place)
        scores.move(column, 0.75 * sign)
    return scores.sums()


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize(("loss", "clip"), [("squared", 1.0), ("squared", 3.7), ("logistic", 1.4)])
@settings(max_examples=12, deadline=None)
@given(rows=st.lists(st.lists(entry, min_size=7, max_size=7), min_size=4, max_size=4),
       labels=st.tuples(*[st.floats(-5, 5)] * 4), steps=st.lists(st.integers(0, 13), max_size=3),
       intercept=st.sampled_from([0, 1]))  # fmt: skip
def test_a_person_moves_choices_of_a_party_by_at_most_the_range(sparse, loss, clip, rows, labels, steps, intercept):
    """Person 2, columns and label, is replaced by person 3."""
    rows, labels = np.array(rows), np.array(labels)
    found = []
    for keep in ([0, 1, 2], [0, 1, 3]):
        table = sp.csr_array(rows[keep]) if sparse else rows[keep]
        found.append(sums_of_party(table, labels[keep], loss, steps, clip, intercept))
    moved = found[0] - found[1]
    assert np.ptp([*moved, *-moved]) <= selection_mechanism(0.5).score_range


def test_the_worst_person_moves_choices_by_the_whole_range():
    one, two = (sums_of_party(np.array([[entry]]), [9.0], "squared", [], 1.0, 0) for entry in (1.5, -1.5))
    assert 2.0 * abs(int(one[0] - two[0])) == pytest.approx(selection_mechanism(0.5).score_range, rel=1e-5)


@pytest.mark.parametrize("multiplier", [0.02, 1.0, 30.0])
@settings(max_examples=10, deadline=None)
@given(column=st.lists(entry, min_size=40, max_size=40), place=st.integers(0, 39), other=entry)
def test_a_person_moves_a_released_column_by_at_most_the_sensitivity(multiplier, column, place, other):
    """The released value without its noise; every person in turn may be the one with the longest column of J."""
    release = ColumnRelease(multiplier, SKETCH)
    found = []
    for entry in (column[place], other):
        changed = np.array(column)
        changed[place] = entry
        bounded = bounded_column(changed[:, None], 0, 1.5)
        assert np.abs(bounded).max() <= 1.0
        found.append(release.read(release.release(bounded, NoNoise())))
    assert np.linalg.norm(found[0] - found[1]) <= release.mechanism.l2_sensitivity


def test_the_sensitivity_of_a_column_is_reached():
    release = ColumnRelease(1.0, SKETCH)
    largest = max(
        np.linalg.norm(np.subtract(*(release.read(release.release(sign * unit, NoNoise())) for sign in (1, -1))))
        for unit in np.eye(40)
    )
    assert 0.999 * release.mechanism.l2_sensitivity < largest


def test_a_sparse_column_is_the_dense_one():
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(30, 4)) * (rng.random((30, 4)) < 0.5)
    for column in range(5):
        np.testing.assert_array_equal(
            bounded_column(sp.csr_array(dense), column, 0.8), bounded_column(dense, column, 0.8)
        )


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(finite, min_size=1, max_size=40), st.floats(1e-300, 1e300), st.booleans())
def test_a_bounded_row_is_at_most_1_long_and_keeps_its_signs(row, data_norm, sparse):
    table = np.array([row])
    ((_, bounded),) = bounded_pieces(sp.csr_array(table) if sparse else table, data_norm)
    assert np.linalg.norm(bounded) <= 1.0 + 1e-14
    assert np.all(bounded * np.sign(table) >= 0.0)
    if np.abs(table).max() <= data_norm / len(row):
        np.testing.assert_array_equal(bounded, table / data_norm)


def test_two_entries_in_one_place_count_as_their_sum():
    twice = sp.csr_array((np.array([0.7, 0.7]), np.array([0, 0]), np.array([0, 2])), shape=(1, 1))
    ((_, bounded),) = bounded_pieces(twice, 1.0)
    assert bounded.tolist() == [[1.0]]
