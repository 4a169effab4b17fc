"""What one replaced person can do to all that a party releases in Frank-Wolfe: never more than the noise is for."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.central.parallel import Team
from sottovoce.papers.frank_wolfe.noise import ColumnRelease, Sketch, bounded_column
from sottovoce.vertical.protocols.frank_wolfe.messages import TrainOnBall
from sottovoce.vertical.protocols.frank_wolfe.worker import scores_of, selection_mechanism, signed_column

WILD = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, width=32), st.floats(-3, 3, width=32), st.sampled_from([-2.0, 2.0])
)

SKETCH = Sketch(40, 16, 5)


class NoNoise:
    """In the place of a generator: the exact value comes out."""

    def standard_normal(self, shape):
        return np.zeros(shape)


def sums(table, labels, loss, steps, clip, intercept):
    scores = scores_of(table, 1.5, TrainOnBall(loss, labels, 3.0, clip, 4, 0.5, intercept, 1.0, "m"), Team(1, None))
    for place in steps:
        column, sign = signed_column(place)
        scores.move(column, 0.75 * sign)
    return scores.sums()


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize(("loss", "clip"), [("squared", 1.0), ("squared", 3.7), ("logistic", 1.4)])
@settings(max_examples=12, deadline=None)
@given(
    rows=st.lists(st.lists(WILD, min_size=7, max_size=7), min_size=4, max_size=4),
    labels=st.tuples(*[st.floats(-5, 5)] * 4),
    steps=st.lists(st.integers(0, 13), max_size=3),
    intercept=st.sampled_from([0, 1]),
)
def test_choices(sparse, loss, clip, rows, labels, steps, intercept):
    """Person 2, columns and label, is replaced by person 3."""
    rows, labels = np.array(rows), np.array(labels)
    found = []
    for keep in ([0, 1, 2], [0, 1, 3]):
        table = sp.csr_array(rows[keep]) if sparse else rows[keep]
        found.append(sums(table, labels[keep], loss, steps, clip, intercept))
    moved = found[0] - found[1]
    both = np.concatenate([moved, -moved])
    assert both.max() - both.min() <= selection_mechanism(0.5).score_range


def test_the_worst_person_moves_choices_by_the_whole_range():
    one, two = (sums(np.array([[entry]]), [9.0], "squared", [], 1.0, 0) for entry in (1.5, -1.5))
    assert 2.0 * abs(int(one[0] - two[0])) == pytest.approx(selection_mechanism(0.5).score_range, rel=1e-5)


@pytest.mark.parametrize("multiplier", [0.02, 1.0, 30.0])
@settings(max_examples=10, deadline=None)
@given(column=st.lists(WILD, min_size=40, max_size=40), place=st.integers(0, 39), other=WILD)
def test_columns(multiplier, column, place, other):
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
