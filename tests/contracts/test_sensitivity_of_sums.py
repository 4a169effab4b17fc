"""What one row can do to a sum that is released as a whole: at most the sensitivity that scales its noise.

A sum is a row of `SUMS`. The value that is about to be noised is made anew for two neighbouring tables, from parts that
are cut at any row, with rows as bad as they come; what is released on the way is the same for both, as in the proof.
Kernels that clip term by term are in ``test_sensitivity``, whole fits in ``test_grey_box``.
"""

import math
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sottovoce as sv
from sottovoce.central import calibration, column_scales
from sottovoce.central.column_scales import ColumnScalesPlan
from sottovoce.central.data.labels import Targets, hold
from sottovoce.central.data.lengths import MeasureRows, ScaleRows, make_rows
from sottovoce.central.kernels.vectors import MOST_TICKS
from sottovoce.central.parallel import Team
from sottovoce.central.sums import largest_eigenvalue, shared_counts
from sottovoce.central.sums.clipped_sums import SumOfTargets, clipped_sum
from sottovoce.central.sums.histograms import (
    CountDistances,
    CountLengths,
    columns_mechanism,
    distances_mechanism,
    lengths_mechanism,
)
from sottovoce.central.sums.last_factors import score_length
from sottovoce.central.sums.shared_counts import Prior, design_for
from sottovoce.central.sums.whole_gram import CurvatureGram, gram, gram_mechanism
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from sottovoce.privacy.calibration import gaussian_mu
from support.asking import answered, calibrating, straightened, table_of
from support.many_parts import begun, cut, with_labels
from support.noise import exact_releases
from support.pairs import by_pairs
from support.replay import grey_box

TEAM = Team(1, None)
N, D, WIDE, MU = 12, 3, 300, 0.2
REMOVED, REPLACED = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
PRIOR = Prior(0.7, 0.45, 0.25)
STEP = 2.0**-21  # of the grid that entries are cut to


# --- sums: each takes rows, labels, neighbours, the intercept's entry, and weights that were released -----------------


def scaled(X, constant, ends):
    """Return a holder of rows at most 1 long, in parts."""
    holder = cut(X, None, ends)
    holder.ask(MeasureRows())
    holder.ask(ScaleRows(1.0, constant))
    return holder


def moments(X, y, neighbours, constant, w, ends):
    holder = scaled(X, constant, ends)
    answered(lambda: gram(gram_mechanism(holder.n_weights, N, neighbours, MU), ""), holder, 0)


def curvature(X, y, neighbours, constant, w, ends):
    holder = scaled(X, constant, ends)
    mechanism = gram_mechanism(holder.n_weights, N, neighbours, MU)
    answered(lambda: gram(mechanism, "", at=w[: holder.n_weights]), holder, 0)


def moments_with_labels(X, y, neighbours, constant, w, ends):
    sv.DPRidge(
        epsilon=1.0, delta=1e-5, data_norm=1.0, label_bounds=(-1.0, 1.0), solver="adassp", random_state=0,
        solver_options={"clip_labels": False}, adjacency=neighbours.adjacency.value, n_public=N,
        fit_intercept=constant > 0.0,
    ).fit(X, y)  # fmt: skip


def eigenvalue(X, y, neighbours, constant, w, ends):
    holder = scaled(X, constant, ends)
    asks = largest_eigenvalue.largest_eigenvalue
    answered(lambda: asks(holder.n_weights, N, neighbours, MU, entry=holder.constant), holder, 0)


def projected(X, y, neighbours, constant, w, ends):
    """Of rows that are too long for their matrix."""
    if X.shape[1] == D:
        dense, most = X.toarray() if sp.issparse(X) else X, np.finfo(X.dtype).max
        with np.errstate(over="ignore"):
            wide = np.clip(np.tile(dense, WIDE // D) * SPREAD, -most, most).astype(X.dtype)
        X = sp.csr_array(wide) if sp.issparse(X) else wide
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(largest_eigenvalue, "MAX_GRAM", 100)
        eigenvalue(X, y, neighbours, constant, w, ends)


def slope_and_shift(X, y, neighbours, constant, w, ends, *, mu=0.1, prior=PRIOR):
    rows = make_rows(X, data_norm=1.0, constant=constant, names=None, team=TEAM)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibration, "_fit", lambda *_: (1.0, 0.0))  # post-processing
        calibrating(rows, y, w[: rows.n_weights], mu, prior, 0, adjacency=neighbours.adjacency, n_public=N)


def line_of_numbers(X, y, neighbours, constant, w, ends, *, mu=MU, cut=0.5):
    rows = make_rows(X, data_norm=1.0, constant=constant, names=None, team=TEAM)
    straightened(rows, y, w[: rows.n_weights], cut, mu, 0, neighbours=neighbours, n_public=N)


def length_of_scores(X, y, neighbours, constant, w, ends):
    """Of three classes."""
    rows = make_rows(X, data_norm=1.0, constant=constant, names=None, team=TEAM)
    weights = np.outer([1.0, -1.0, 0.5], w[: rows.n_weights])
    asks = partial(score_length, weights, neighbours, MU)
    answered(asks, begun(rows, np.abs(y) + 1.0 * (np.arange(len(y)) % 2)), 0)


def histograms(X, y, neighbours, constant, w, ends, *, bounds=None):
    """Of columns; a round follows from what the one before it released."""
    facts = scales_plan(adjacency=neighbours.adjacency, centred=not sp.issparse(X), bounds=bounds)
    assert len(facts.rounds) == (1 if sp.issparse(X) else 3) - (bounds is not None and not sp.issparse(X))
    answered(lambda: column_scales.column_scales(facts), table_of(X), 0)


def bounded_histograms(*given):
    histograms(*given, bounds=((0.0, -1e100, 0.0), (1.0, 1e100, 1e-100)))


def scales_plan(n_samples=30, n_features=D, **changed):
    public = {"epsilon": 20.0, "delta": 1e-5, "adjacency": Adjacency.ZERO_OUT} | changed
    return ColumnScalesPlan(n_samples=n_samples, n_features=n_features, **public)


SPREAD = np.random.default_rng(1).normal(size=WIDE) * (np.random.default_rng(2).random(WIDE) < 0.5)
SUMS = (
    moments, curvature, moments_with_labels, eigenvalue, projected, slope_and_shift, line_of_numbers, histograms,
    bounded_histograms, length_of_scores,
)  # fmt: skip


def distances(run, tables, neighbours, constant=0.0, w=None, *, cuts=((3,), (1, 7)), **options):
    """Return, for each release of a run on two tables of rows and labels, how far apart they are over what was told."""
    w, ends = np.zeros(WIDE + 1) if w is None else w, iter(cuts)
    found = grey_box(lambda X, y: run(X, y, neighbours, constant, w, next(ends), **options), *tables, noise=[0.0])
    assert found.fault == found.refusal == ""  # the noise does not depend on the data
    assert found.distances
    return found.distances


def neighbours_of(rest, row, other, labels, adjacency):
    """Return two neighbouring tables with labels; a row that is zeroed out is one that is missing."""
    one = np.vstack([rest, row[None, :]])
    y = np.append(np.ones(len(rest)), labels[0])
    if adjacency is REPLACED:
        return (one, y), (np.vstack([rest, other[None, :]]), np.append(y[:-1], labels[1]))
    return (one, y), (rest, y[:-1])


wild = st.floats(allow_nan=False, allow_infinity=False, width=32)
huge = st.sampled_from([5e-324, -1e-320, 2.0**41, 1.7e308, -1.7e308])
edges = st.integers(-6, 6).map(lambda step: step * STEP)  # on the grid
between = st.integers(-6, 6).map(lambda step: np.nextafter(step * STEP, 1.0))  # and just beside it
unit = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.6, -0.8, 0.5])
entry = st.one_of(wild, huge, edges, between, unit, st.floats(-3, 3, width=32))
row = st.lists(entry, min_size=D, max_size=D).map(np.array)
RESTS = {
    "random": lambda row: np.random.default_rng(0).normal(size=(N - 1, D)),
    "zeros": lambda row: np.zeros((N - 1, D)),
    "along": lambda row: np.tile(row, (N - 1, 1)),
    "orthogonal": lambda row: np.tile(np.eye(D), (4, 1))[: N - 1],
    "grid": lambda row: np.full((N - 1, D), STEP * 3.5),
    "far from 0": lambda row: np.random.default_rng(0).normal([1990.0, 0.0, 0.0], [1.0, 1.0, 0.0], (N - 1, D)),
}


@pytest.mark.parametrize(("run", "sparse", "dtype"), by_pairs(SUMS, [False, True], [np.float32, np.float64]))
@settings(max_examples=40)
@given(
    one=row, other=row, labels=st.tuples(*[st.sampled_from([-1.0, 1.0])] * 2),
    rest=st.sampled_from(list(RESTS)), adjacency=st.sampled_from(list(Adjacency)),
    constant=st.sampled_from([0.0, 0.2, 1.0, STEP]),
    w=st.lists(wild | st.floats(-20, 20), min_size=D + 1, max_size=D + 1).map(np.array),
)  # fmt: skip
@example(np.ones(3), np.array([-1.0, 2.0, 1e308]), (1.0, 1.0), "far from 0", REPLACED, 0.0, np.zeros(4))
def test_a_row_moves_it_by_at_most_the_sensitivity(
    run, sparse, dtype, one, other, labels, rest, adjacency, constant, w
):  # fmt: skip
    most = float(np.finfo(dtype).max)
    tables = [
        (np.clip(X, -most, most).astype(dtype), y)
        for X, y in neighbours_of(RESTS[rest](one), one, other, labels, adjacency)
    ]
    tables = [(sp.csr_array(X) if sparse else X, y) for X, y in tables]
    assert max(distances(run, tables, Neighbours(adjacency), constant, w)) <= 1.0 + 1e-12


@settings(max_examples=60)
@given(one=row, other=row, adjacency=st.sampled_from(list(Adjacency)), w=st.floats(-20, 20) | wild,
       exponent=st.floats(-3.0, 12.0), share=st.sampled_from([1, 16, 32]))  # fmt: skip
def test_slope_and_shift_with_any_noise_and_prior(one, other, adjacency, w, exponent, share):
    tables = neighbours_of(RESTS["random"](one), one, other, (-1.0, 1.0), adjacency)
    given = {"mu": 10.0**-exponent, "prior": Prior(0.7 * share / 32, 0.45, 1.3 - share / 32)}
    found = distances(slope_and_shift, tables, Neighbours(adjacency), 0.2, np.full(D + 1, w), **given)
    assert max(found) <= 1.0 + 1e-12


numbers = st.floats(allow_nan=False) | st.floats(-3.0, 3.0)


@settings(max_examples=200)
@given(one=row, other=row, adjacency=st.sampled_from(list(Adjacency)), labels=st.tuples(numbers, numbers),
       w=st.floats(-20, 20) | wild, exponent=st.floats(-3.0, 12.0),
       cut=st.floats(1e-12, 1e12) | st.just(5e-324))  # fmt: skip
def test_the_line_of_numbers_with_any_label_cut_and_noise(one, other, adjacency, labels, w, exponent, cut):
    tables = neighbours_of(RESTS["random"](one), one, other, labels, adjacency)
    given = {"mu": 10.0**-exponent, "cut": cut}
    found = distances(line_of_numbers, tables, Neighbours(adjacency), 0.2, np.full(D + 1, w), **given)
    assert max(found) <= 1.0 + 1e-12


# --- and it is no larger than it must be ------------------------------------------------------------------------------


E1, E2, _ = np.eye(D)
# |uu' - ww'| is sqrt(2) |u|^2 where u = (x, c) and w = (z, c) are orthogonal; c is the entry of the label
ACROSS = np.array([-0.5, math.sqrt(0.75), 0.0])
ZEROS, ONES = np.zeros((N - 1, D)), np.tile(E1, (N - 1, 1))


@pytest.mark.parametrize("adjacency", [REMOVED, REPLACED], ids=lambda one: one.value)
@pytest.mark.parametrize(
    ("run", "rest", "one", "other", "least"),
    [
        (moments, ZEROS, E1, E2, 1.0 - 1e-5),
        (curvature, ZEROS, E1, E2, 1.0 - 1e-5),
        (moments_with_labels, RESTS["random"](E1), E1, ACROSS, 1.0 - 1e-4),
        (eigenvalue, ONES, E1, E2, 0.9999),
        (histograms, ONES + E2, np.ones(D), np.array([2.0, -2.0, 0.0]), 1.0 - 1e-9),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_bound_is_reached(run, rest, one, other, least, adjacency):
    found = distances(run, neighbours_of(rest, one, other, (1.0, 1.0), adjacency), Neighbours(adjacency))
    assert least < found[0] <= 1.0


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_the_bound_on_projected_rows_is_reached(store):
    """By rows that are shortened after they are projected, of some."""
    found = []
    for worst in np.random.default_rng(0).choice([-1e9, 1e9], (6, WIDE)):
        rest = np.outer(np.arange(N - 1) < 5, worst)
        tables = [(store(X), np.ones(N)) for X in (np.vstack([rest, worst]), rest)]
        found += distances(projected, tables, Neighbours(REMOVED))
    assert 0.9999 < max(found) <= 1.0


@pytest.mark.parametrize("run", [eigenvalue, line_of_numbers], ids=lambda run: run.__name__)
def test_the_bound_for_two_rows_of_a_person_is_reached(run):
    tables = [(np.tile(E1, (n, 1)), np.ones(n)) for n in (N, N - 2)]
    assert 0.9999 < distances(run, tables, Neighbours(Adjacency.ZERO_OUT, 2))[0] <= 1.0


@pytest.mark.parametrize(("adjacency", "least"), [(REMOVED, 0.95), (Adjacency.ZERO_OUT, 0.95), (REPLACED, 0.6)])
def test_the_bound_on_slope_and_shift_is_nearly_reached(adjacency, least):
    one = np.array([1.0])
    tables = neighbours_of(np.array([[0.5]]), one, -one, (1.0, 1.0), adjacency)
    found = [
        distances(slope_and_shift, tables, Neighbours(adjacency), 0.0, np.array([w]))[0]
        for w in np.linspace(-14, 14, 29)
    ]
    assert least < max(found) <= 1.0


signed = st.floats() | st.floats(-9.0, 9.0)
LENGTHS, DISTANCES, PARTS = (
    lambda values: CountLengths().counts(None, [np.abs(values)]), CountDistances(None, 4.0).counts,
    CountDistances(None, 4.0, 16).counts,
)  # fmt: skip


@pytest.mark.parametrize("adjacency", list(Adjacency))
@given(one=signed, other=signed, rest=st.lists(signed, max_size=4))
@example(1.0, -1e9, [])
def test_a_row_is_in_as_many_bins_of_lengths_and_distances_as_the_noise_covers(adjacency, one, other, rest):
    for counts, bins, made in (
        (LENGTHS, 3, lengths_mechanism), (DISTANCES, 1, distances_mechanism), (PARTS, 1, distances_mechanism)
    ):  # fmt: skip
        most = math.sqrt(bins * adjacency.sum_factor)
        assert made(Neighbours(adjacency, 5), MU).l2_sensitivity == pytest.approx(5.0 * most)
        replaced = [other] if adjacency is REPLACED else []
        moved = np.linalg.norm(counts(np.array([*rest, one])) - counts(np.array([*rest, *replaced])))
        assert moved <= made(Neighbours(adjacency), MU).l2_sensitivity
        assert moved == pytest.approx(most) or (one, other) != (1.0, -1e9)  # the bound is reached


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_sensitivity_of_counts_is_not_a_bit_below_its_root(adjacency):
    """In exact arithmetic, whatever a person has of rows and a table of columns."""
    for rows in (*range(1, 40), 2**26 + 1, 2**53):
        neighbours = Neighbours(adjacency, rows)
        stated = {n: [columns_mechanism(n, n, neighbours.square_factor, 1.0)] for n in range(1, 30)}
        stated[1].append(distances_mechanism(neighbours, 1.0))
        stated[3].append(lengths_mechanism(neighbours, 1.0))
        for bins, mechanisms in stated.items():
            least = bins * rows**2 * int(adjacency.sum_factor)
            assert all(Fraction(each.l2_sensitivity) ** 2 >= least for each in mechanisms)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_bound_on_the_line_of_numbers_is_reached(adjacency):
    """By rows without a prediction, whose residuals are beyond the cut."""
    tables = neighbours_of(np.array([[0.5]]), np.zeros(1), np.zeros(1), (4.0, -4.0), adjacency)
    assert 0.9999 < distances(line_of_numbers, tables, Neighbours(adjacency), 0.0, np.ones(1))[0] <= 1.0


# --- what else the noise must cover -----------------------------------------------------------------------------------


@pytest.mark.parametrize("run", SUMS[:7], ids=lambda run: run.__name__)
def test_the_noise_is_that_of_its_share(run):
    with exact_releases() as seen:
        run(RESTS["random"](E1), np.ones(N - 1), Neighbours(REMOVED), 0.2, np.zeros(D + 1), ())
    mu = {slope_and_shift: 0.1, moments_with_labels: gaussian_mu(1.0, 1e-5)}.get(run, MU)
    assert [one.mechanism.event.noise_multiplier for one in seen] == pytest.approx([1.0 / mu], rel=1e-6)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_moments_at_weights_are_whole_numbers_that_no_order_changes(sparse):
    """Without weights: tests/unit/central/test_whole_gram.py."""
    rng = np.random.default_rng(0)
    raw = rng.normal(size=(20_000, 7))
    raw /= np.minimum(np.linalg.norm(raw, axis=1, keepdims=True), 1.0)
    ask, order = CurvatureGram(w=rng.normal(size=8)), rng.permutation(len(raw))

    def asked(raw):
        raw = sp.csr_array(raw) if sparse else raw
        return hold(make_rows(raw, data_norm=1.0, constant=0.2, names=None, team=TEAM), [], TEAM).ask(ask).matrix

    found = asked(raw)
    np.testing.assert_array_equal(found, asked(raw[order]))
    np.testing.assert_array_equal(found * 2.0**42, np.rint(found * 2.0**42))
    rows = np.hstack([raw / np.linalg.norm(raw, axis=1, keepdims=True), np.full((len(raw), 1), 0.2)]) / 1.04**0.5
    p = 1.0 / (1.0 + np.exp(-rows @ ask.w))
    np.testing.assert_allclose(found, rows.T @ (4.0 * (p * (1.0 - p))[:, None] * rows), atol=len(raw) * 2.0**-20)


@pytest.mark.parametrize("multiplier", [1e3, 1e8, 1e12])
def test_the_rounding_to_coarse_ticks_is_counted(multiplier):
    """Each entry may be rounded by a tick; two sums, by a tick more than they are apart."""
    design = design_for(PRIOR)
    with exact_releases() as seen:
        slope_and_shift(np.array([[0.5]]), np.ones(1), Neighbours(REMOVED), 0.0, np.ones(1), (), mu=1.0 / multiplier)
    mechanism = seen[0].mechanism
    rounded = mechanism.tick > shared_counts._TICK
    assert rounded == (multiplier > 1e5)
    coarse = mechanism.tick * np.sqrt(len(design.matrix)) if rounded else 0.0
    assert mechanism.l2_sensitivity >= design.longest + coarse


@pytest.mark.parametrize(("epsilon", "rows"), list(product([1e-9, 1e-3, 1.0, 50.0], [1, 7])))
def test_the_noise_of_a_round_of_histograms_is_that_of_the_plan(epsilon, rows):
    facts = scales_plan(2**37, 5, epsilon=epsilon, max_rows_per_group=None if rows == 1 else rows)
    for share in (0.25, 1.0):
        mechanism = columns_mechanism(2, 2 * 161, facts.per_column, share**0.5 * facts.mu)
        assert mechanism.l2_sensitivity >= rows * 2**0.5
        assert math.isclose(mechanism.noise_std, rows * 2**0.5 / (share**0.5 * facts.mu), rel_tol=1e-6)


# --- clips and their ticks --------------------------------------------------------------------------------------------
# with a clip below 5e-302 ticks per unit were infinite, and each entry counted as -2^31 ticks in place of 2^24


@pytest.mark.parametrize("clip", [5e-302, 1e-251, 1e161, 0.0, np.nan])
def test_a_clip_outside_the_range_has_no_mechanism(clip):
    with pytest.raises(ParameterError, match="the clip of a row's term must be"):
        clipped_sum(Neighbours(Adjacency.ADD_REMOVE), clip, 1.0)


@given(clip=st.floats(1e-250, 1e160), exponent=st.floats(-4.0, 12.0), adjacency=st.sampled_from(list(Adjacency)),
       rows=st.integers(1, 9))  # fmt: skip
@example(1e-250, 0.0, Adjacency.ZERO_OUT, 1)
@example(1e160, 0.0, Adjacency.ZERO_OUT, 1)
def test_a_clip_is_as_many_ticks_as_a_kernel_counts_or_the_noise_shows(clip, exponent, adjacency, rows):
    neighbours, noise = Neighbours(adjacency, rows), 10.0**exponent
    total = clipped_sum(neighbours, clip, noise)
    mechanism = total.mechanism
    factor = rows * (2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0)
    assert factor * clip <= mechanism.l2_sensitivity / (1.0 + 2.0**-21) <= factor * clip * (1.0 + 2.0**-20)
    assert (total.clip, mechanism.noise_multiplier) == (clip, noise)
    assert total.ticks_per_unit * mechanism.tick == 1.0
    kernel, spread = clip / mechanism.tick, mechanism.noise_std / mechanism.tick
    assert kernel < MOST_TICKS
    assert spread < 2.0**33
    assert kernel >= MOST_TICKS / 2 or spread >= 2.0**32


@given(labels=st.lists(st.floats(allow_nan=False), max_size=9), bound=st.floats(1e-3, 1e3),
       exponent=st.integers(-40, 40))  # fmt: skip
@example([1.0, -1.0], 1.0, 24)
@example([5.0, 5.0], 1.0, 24)
def test_a_sum_of_labels_is_that_of_whole_ticks_each_within_its_bounds(labels, bound, exponent):
    ask, n = SumOfTargets(bound, 2.0**exponent), len(labels)
    most = min(bound * 2.0**exponent, float(MOST_TICKS))
    (found,) = ask.on(with_labels(labels))
    assert found == sum(math.trunc(max(-most, min(most, label * 2.0**exponent))) for label in labels)
    for answer, fits in ((n * MOST_TICKS, True), (n * MOST_TICKS + 1, False)):
        for sign in (1, -1):
            assert ask.allows(np.array([sign * answer]), n, None) is fits
            assert not ask.allows(np.array([sign * answer] * 2), n, None)
    part = with_labels([0.0, 2.0, 1.0, 0.0, 0.0])
    part.targets = Targets(against_rest=3)
    assert SumOfTargets(1.0, 8.0).on(part) == 8  # of the first of three models
