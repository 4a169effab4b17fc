"""X'X in whole numbers: exact, and the same whatever the pieces, blocks, parts and threads are."""

import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.central.data.labels import hold
from sottovoce.central.data.lengths import make_rows
from sottovoce.central.parallel import Team, team
from sottovoce.central.sums import whole_gram
from sottovoce.central.sums.whole_gram import Gram, LabelColumn, Products, WholeNumbers, WholeSum, moments_mechanism
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from sottovoce.privacy.events import GaussianEvent
from sottovoce.privacy.mechanisms.gaussian import rounding_norm

TEAM = Team(1, None)
GRID = 2**21


def holder_of(raw, y=None, *, constant=0.2, team=TEAM):
    rows = make_rows(raw, data_norm=1.0, constant=constant, names=None, team=team)
    return hold(rows, [] if y is None else [y], team)


def table(n=5000, d=7, density=1.0):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-4, 1, size=(n, 1)) * (rng.random((n, d)) < density)
    return X.astype(np.float32), rng.uniform(-3, 3, n)


def in_python(raw, y, constant, label):
    """The same with Python's whole numbers, which have no size."""
    rows = make_rows(raw, data_norm=1.0, constant=constant, names=None, team=TEAM)
    X = np.asarray(rows.raw, np.float64) * rows.scale[:, None]
    columns = [X, np.full((len(X), 1), rows.constant)]
    if label is not None:
        columns.append(np.clip((y - label.location) / label.clip, -1, 1)[:, None])
    whole = np.trunc(np.hstack(columns) * GRID).astype(np.int64).astype(object)
    return whole.T @ whole


def integers(triangle):
    high, low = (words.astype(object) for words in (triangle.high, triangle.low))
    return high * 2**32 + low


@pytest.mark.parametrize("density", [1.0, 0.02])
@pytest.mark.parametrize("label", [None, LabelColumn(location=0.3, clip=2.0)], ids=["X", "X and y"])
def test_every_entry_is_exact_however_rows_are_stored_and_divided(label, density, monkeypatch):
    d = 7 if density == 1.0 else 90
    X, y = table(n=5000 if d == 7 else 600, d=d, density=density)
    wanted = in_python(X, y, 0.2, label)[np.triu_indices(d + 1 + (label is not None))]
    gram = pickle.loads(pickle.dumps(Gram(label)))
    assert gram == Gram(label)
    for raw in (X, X.astype(np.float64), sp.csr_array(X)):
        np.testing.assert_array_equal(integers(holder_of(raw, y).ask(gram)), wanted)
    cuts = [0, 1, 400, len(X)]
    parts = [holder_of(X[lo:hi], y[lo:hi]) for lo, hi in itertools.pairwise(cuts)]
    answers = [part.ask(gram) for part in parts]
    assert all(gram.allows(answer, part.n_samples, part) for part, answer in zip(parts, answers, strict=True))
    np.testing.assert_array_equal(integers(gram.merged(answers)), wanted)
    np.testing.assert_array_equal(integers(gram.merged(answers[::-1])), wanted)
    monkeypatch.setattr("sottovoce.central.parallel._SMALL", 1)
    monkeypatch.setattr(whole_gram, "_PIECE", 300)
    with team(3) as three:
        np.testing.assert_array_equal(integers(holder_of(X, y, team=three).ask(gram)), wanted)
        monkeypatch.setattr(whole_gram, "_MOST_ENTRIES", 1)  # one matrix for three threads
        np.testing.assert_array_equal(integers(holder_of(X, y, team=three).ask(gram)), wanted)


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_blocks_of_any_sizes_fill_the_same_pieces(store):
    X, y = table(d=90, density=0.02)
    holder, label, upper = holder_of(store(X), y), LabelColumn(0.3, 2.0), np.triu_indices(92)
    sums, border = Products(92), label.of(y, holder.targets)[:, None]
    for lo, hi in ((0, 1), (1, 2), (2, 2500), (2500, 5000)):
        sums.add(holder.rows, lo, hi, border[lo:hi])
    np.testing.assert_array_equal(sums.total().doubles(2.0**42)[upper], holder.ask(Gram(label)).entries)


def test_the_largest_entries_that_a_piece_can_hold():
    """Rows along one axis: 2,048 products of 2^42, the last sums that doubles hold."""
    raw = np.zeros((5000, 2))
    raw[:, 0] = -1.0
    raw[::2, 0] = 1.0 - 2.0**-21
    found = integers(holder_of(raw, constant=0.0).ask(Gram()))
    assert found.tolist() == [2500 * GRID**2 + 2500 * (GRID - 1) ** 2, 0, 0]


def test_sums_beyond_a_word_are_carried_over():
    sums, wanted = WholeSum((2,), 2**42), np.zeros(2, object)
    for step in range(9):
        n_rows = sums.most_rows - 5 * step
        terms = np.array([2**42, -(2**42) + step]) * n_rows
        words = sums.open(n_rows)
        words += terms
        wanted = wanted + terms.astype(object)
    assert np.abs(wanted).min() > 2**64
    one = sums.total()
    assert (one.high.astype(object) * 2**32 + one.low).tolist() == wanted.tolist()
    assert ((one.low >= 0) & (one.low < 2**32)).all()
    two = one + one
    assert (two.high.astype(object) * 2**32 + two.low).tolist() == (2 * wanted).tolist()
    for found, exact in zip(two.doubles(2.0**42), 2 * wanted, strict=True):
        assert found == float(exact) / 2.0**42  # rounded once
    with pytest.raises(AssertionError):
        sums.open(sums.most_rows + 1)


def words(*numbers):
    high, low = np.array([divmod(number, 2**32) for number in numbers], np.int64).reshape(-1, 2).T
    return WholeNumbers(high, low)


whole = st.integers(-(2**84), 2**84) | st.integers(-(2**33), 2**33) | st.sampled_from([-1, 0, 2**32 - 1, 2**32])


@given(one=whole, other=whole, unit=st.integers(-60, 60).map(lambda k: 2.0**k))
def test_words_add_up_as_the_numbers_do_and_are_rounded_once(one, other, unit):
    both = words(one) + words(other)
    assert [both.high.tolist(), both.low.tolist()] == [[(one + other) >> 32], [(one + other) % 2**32]]
    assert both.doubles(unit).tolist() == [float(one + other) / unit]
    most = max(abs(one), abs(other))
    assert words(one, other).are_within((2,), most)
    assert not words(one, other).are_within((2,), most - 1 - most // 2**50)  # up to its rounding
    assert not words(one, other).are_within((1, 2), most)


@pytest.mark.parametrize(
    ("high", "low", "fits"),
    [
        (2**62, 2**32 - 1, True), (-(2**62), 0, True), (2**62 + 1, 0, False), (-(2**62) - 1, 0, False),
        (0, 2**32, False), (0, -1, False),
    ],
)  # fmt: skip
def test_only_words_that_can_be_added_are_taken(high, low, fits):
    assert WholeNumbers(np.array([high]), np.array([low])).are_within((1,), 2**100) is fits
    assert words().are_within((0,), 0)


@given(steps=st.lists(st.tuples(st.sampled_from([1, 5, 2**20 - 1, 2**20]), st.integers(-4, 4)), max_size=9),
       width=st.sampled_from([1, 3, 2**14 + 1]))  # fmt: skip
def test_a_growing_sum_is_exact_whatever_is_added_and_however_wide_it_is(steps, width):
    sums, wanted = WholeSum((2, width), 2**42), 0
    for n_rows, quarters in steps:
        term = quarters * 2**40 * n_rows
        sums.add(np.full((2, width), [[float(term)], [-float(term)]]), n_rows)
        wanted += term
    total = sums.total()
    assert total.are_within((2, width), abs(wanted))
    for row, number in enumerate((wanted, -wanted)):
        assert set(zip(total.high[row].tolist(), total.low[row].tolist(), strict=True)) == {divmod(number, 2**32)}


def test_rounding_errors_are_bounded_for_ten_times_a_stand_in():
    assert {one: whole_gram.most_rows(7, one) for one in Adjacency} == {
        Adjacency.ADD_REMOVE: 70, Adjacency.REPLACE_ONE: 7, Adjacency.ZERO_OUT: 7
    }  # fmt: skip


@pytest.mark.parametrize("n", [10, 2**37])
@pytest.mark.parametrize("length", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("mu", [1e-3, 1.0, 100.0])
def test_the_noise_covers_the_rounding_of_finished_sums_and_no_more(n, length, mu):
    """Ticks are 2^30 to a deviation of the noise, or 2^58 to the largest entry."""
    mechanism = moments_mechanism(9, square=1.0, length=length, n_rows=n, mu=mu)
    rounded = mechanism.l2_sensitivity - 1.0 - rounding_norm(45, mechanism.tick)
    assert rounded == pytest.approx(2.0**-20 + 2.0**-49 * n * length, rel=1e-2)  # and what slack all sums have
    assert mechanism.event == GaussianEvent(1.0 / mu)
    largest, deviation = n * length / mechanism.tick, 1.0 / mu / mechanism.tick
    assert largest < 2**59 and 2**29.9 * (largest < 2**58) < deviation < 2**31
    for one in map(Neighbours, Adjacency):
        given = {"square": one.square_factor, "length": 1.0, "n_rows": whole_gram.most_rows(n, one.adjacency), "mu": mu}
        assert whole_gram.gram_mechanism(9, n, one, mu) == moments_mechanism(9, **given)


def test_numbers_that_are_none_count_as_zero():
    """Rows were looked at before; a table that changes on the way must not end in numbers without bounds."""
    holder = holder_of(np.ones((5, 3)), constant=0.0)
    holder.raw[:] = [np.nan, np.inf, -1e300]
    found = holder.ask(Gram()).matrix
    np.testing.assert_array_equal(found, 5.0 * np.array([[0, 0, 0], [0, 1, -1], [0, -1, 1]]))
