"""What one row, or one person, adds to a released sum: at most the clip that scales its noise, whatever the row is.

The proof pages rest on this bound and on nothing else about the arithmetic. So every kernel that counts terms is a row
of one table, and is tried with every loss, both storage forms and both precisions, on rows, states and clips that are
as bad as floating point allows. Half of them are at the ends of their ranges at once: a clip of 2e-17 is harmless, so
is a row 1e307 long, and together the factor of the row was half of the smallest double, rounded up to a whole one.
Distances are exact, in whole numbers.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import sottovoce as sv
from sottovoce.central.data.lengths import make_bounded_rows, make_rows
from sottovoce.central.kernels import multinomial, passes, persons
from sottovoce.central.kernels.persons import person_pass
from sottovoce.central.parallel import Team
from sottovoce.central.plan import TrainingFacts
from sottovoce.central.sums.clipped_sums import clipped_sum
from sottovoce.losses import Hinge, Logistic, SmoothedHinge, Squared
from sottovoce.papers.dp_scd import kernels
from sottovoce.papers.dp_scd import kernels as dp_scd_kernels
from sottovoce.papers.dp_scd.primal import _blocks_of
from sottovoce.papers.dp_scd.published import OneNewtonStep, Sequential
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from support.grey_box import form_of
from support.pairs import by_pairs
from support.replay import grey_box

TEAM = Team(1, None)
ONE, ALIKE = np.array([0]), np.empty(0)
DRAWS = 120  # of a row and a state, for each kernel, loss, form and precision
FORMS = [(form, dtype) for form in (np.asarray, sp.csr_array) for dtype in (np.float32, np.float64)]


@dataclass(frozen=True)
class State:
    """What a kernel finds beside rows: labels, what it remembers of them, weights, and numbers of the plan."""

    y: np.ndarray
    a: np.ndarray
    before: np.ndarray
    shares: np.ndarray
    w: np.ndarray
    scale: float


def _total(rows, run):
    total = np.zeros(rows.n_weights, np.int64)
    run(total)
    return [total]


def accelerated(damping, shares, rows, s, clip, ticks, loss):
    shares = s.shares if shares else ALIKE
    return _total(rows, lambda total: passes.accelerated_pass(
        rows.kernel, s.y, shares, s.a, s.before, 0.7, s.w, s.scale, damping, clip, ticks, loss, 0, 1, total
    ))  # fmt: skip


def minibatch(rows, s, clip, ticks, loss):
    return _total(rows, lambda total: dp_scd_kernels.batch_pass(
        rows.kernel, s.y, s.a, s.w, s.scale, 2.0, clip, ticks, loss, ONE, 0, 1, total
    ))  # fmt: skip


def newton(rows, s, clip, ticks, loss):
    return _total(rows, lambda total: passes.newton_pass(
        rows.kernel, s.y, s.a, s.w, s.shares[0], clip, ticks, loss, 0, 1, total
    ))  # fmt: skip


def gradient_at(kernel, batch, rows, s, clip, ticks, loss):
    return _total(rows, lambda total: kernel(rows.kernel, s.y, s.w, clip, ticks, loss, *batch, 0, 1, total))


def gradient(rows, s, clip, ticks, loss):
    """Of all columns, and of blocks of three."""
    return [
        _total(block, lambda total, block=block: passes.gradient(
            block.kernel, s.y, s.a, clip, ticks, loss, 0, 1, total
        ))[0]
        for block in (rows, *_blocks_of(rows, 3))
    ]  # fmt: skip


def sequential_batch(rows, s, clip, ticks, loss):
    """The dual variable and v together: independent parts of at most the clip each."""
    moves = np.zeros(1, np.int64)
    return [moves, *_total(rows, lambda total: dp_scd_kernels.sequential_batch(
        rows.kernel, s.y, s.a, s.w.astype(np.float64), 0.1, clip, ticks, loss, ONE, moves, total
    ))]  # fmt: skip


def person(rows, s, clip, ticks, loss):
    damping = 0.3 if loss.is_classification and loss.smoothness < math.inf else 0.0
    return _total(rows, lambda total: persons.person_pass(
        rows.kernel, np.array([0, rows.n_samples]), s.y, s.shares, s.a, s.before, 0.7, s.w, s.scale, damping,
        clip, ticks, loss, 0, 1, total,
    ))  # fmt: skip


def jointly(kind, rows, s, clip, ticks, n_classes):
    """The sums of all classes at once: a row's term is one vector."""
    total = np.zeros((n_classes, rows.n_weights), np.int64)
    w = np.stack([s.w * (-1.0) ** k for k in range(n_classes)])
    y, a, before = np.abs(s.y) % n_classes // 1, *(np.outer(one, np.cos(range(n_classes))) for one in (s.a, s.before))
    if kind == "gradient":
        multinomial.joint_gradient(rows.kernel, y, w, clip, ticks, 0, 1, total)
    elif kind == "pass":
        multinomial.joint_pass(rows.kernel, y, a, before, 0.7, w, 0.3, clip, ticks, 0, 1, total)
    else:
        starts = np.array([0, rows.n_samples])
        given = y, ALIKE, a, before, 0.7, w, 0.0, 0.3, clip, ticks, None
        persons.person_pass(rows.kernel, starts, *given, 0, 1, total)
    return [total]


@dataclass(frozen=True)
class Term:
    """A kernel with a loss, or for so many classes."""

    kernel: str
    add: Callable[..., Any]
    loss: Any

    @property
    def name(self):
        return f"{self.kernel}, {getattr(self.loss, 'name', self.loss)}"


LOSSES = [Squared(), Logistic(), Hinge(), SmoothedHinge(0.5)]
CLASSES = [2, 3, 21]
TERMS = [
    Term(name, add, loss)
    for name, add, losses in (
        ("accelerated", partial(accelerated, 0.0, False), LOSSES),
        ("accelerated, damped", partial(accelerated, 0.3, False), LOSSES),
        ("weighted", partial(accelerated, 0.0, True), LOSSES),
        ("weighted, damped", partial(accelerated, 0.3, True), LOSSES),
        ("minibatch", minibatch, [*LOSSES, OneNewtonStep()]),
        ("newton", newton, [Logistic(), SmoothedHinge(0.5), SmoothedHinge(2.0), Squared()]),
        ("full gradient", partial(gradient_at, passes.gradient_at, ()), LOSSES),
        ("batch gradient", partial(gradient_at, passes.gradient_of, (ONE,)), LOSSES),
        ("gradient", gradient, LOSSES),
        ("sequential", sequential_batch, LOSSES),
        ("person", person, LOSSES),
        ("multinomial", partial(jointly, "pass"), CLASSES),
        ("multinomial gradient", partial(jointly, "gradient"), CLASSES),
        ("person, multinomial", partial(jointly, "person"), CLASSES),
    )
    for loss in losses
]


def any_numbers(rng, size):
    """Draw numbers of any exponent, of everyday size, and zeros, beside one another."""
    most = float(np.finfo(np.float32).max)
    wild = np.clip(np.ldexp(rng.uniform(-1.0, 1.0, size), rng.integers(-149, 129, size)), -most, most)
    return rng.choice([0.0, 1.0], size, p=[0.2, 0.8]) * np.where(rng.random(size) < 0.5, wild, rng.uniform(-3, 3, size))


def anything(rng, dtype, n):
    """Draw rows, weights, memory and a clip, all without regard for one another."""
    row, alike = any_numbers(rng, int(rng.choice([1, 3, 8, 9, 33, 70]))), rng.random() < 0.5
    X = np.ones((n, 1)) * row if alike else rng.uniform(-1.0, 1.0, (n, len(row))) * row
    label = float(rng.choice([rng.uniform(-1e6, 1e6), 1.0, -1.0]))
    memory = rng.uniform(-1e3, 1e3, 2)
    return X.astype(dtype), any_numbers(rng, 5), label, memory, 10.0 ** rng.uniform(-150.0, 150.0), 10.0


def ends(rng, dtype, n):
    """Draw a row and a clip far from one, half the time the clip over the row's length near the smallest numbers.

    The label is so far away that every step is cut, whatever the clip is.
    """
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
    row = np.clip(row, -np.finfo(dtype).max, np.finfo(dtype).max).astype(dtype)
    return np.repeat(row[None], n, axis=0), np.zeros(1), -1e300, np.zeros(2), clip, 1e-300


def beyond(total, tick, bound):
    """Return how far whole ticks are, over the bound: exactly, but for the last root."""
    squares = sum(int(ticks) ** 2 for ticks in np.ravel(total))
    return math.sqrt(float(squares * (Fraction(tick) / Fraction(bound)) ** 2))


def is_slow(term, form):
    """Tell whether it is not the loss's form, or a loss that no estimator trains by this kernel."""
    is_smoothed, smooths = isinstance(term.loss, SmoothedHinge), term.kernel.startswith(("acc", "weighted", "newton"))
    return form != form_of(term.loss) or (is_smoothed and not smooths)


@pytest.mark.parametrize(
    ("term", "form"),
    [
        pytest.param(term, form, id=f"{term.name}-{form[0].__name__}-{form[1].__name__}",
                     marks=[pytest.mark.slow] * is_slow(term, form))
        for term, form in product(TERMS, FORMS)
    ],
)  # fmt: skip
def test_a_row_adds_at_most_its_clip(term, form):
    """A person too, whose rows may be many and all alike."""
    store, dtype = form
    rng = np.random.default_rng([TERMS.index(term), FORMS.index(form)])
    reached = 0.0
    for draw in range(DRAWS):
        n = int(rng.choice([1, 2, 3, 64, 65, 150])) if term.kernel.startswith("person") else 1
        far = draw % 2 == 0
        X, w, label, memory, clip, scale = (ends if far else anything)(rng, dtype, n)
        if getattr(term.loss, "is_classification", False):
            label, scale = math.copysign(1.0, label), float(rng.choice([scale, 1.0]))
        rows = make_rows(
            store(X), data_norm=10.0 ** rng.uniform(-50, 50) if far else 1.0,
            constant=float(rng.choice([0.0, 0.0, 1e-50, 0.2, 1.0, 1e50])), names=None, team=TEAM,
        )  # fmt: skip
        with np.errstate(over="ignore"):
            w = np.resize(w, rows.n_weights).astype(dtype)
        shares = np.ones(n) if far else rng.uniform(0.01, 1.0, n)
        state = State(np.full(n, label), np.full(n, memory[0]), np.full(n, memory[1]), shares, w, scale)
        mechanism = clipped_sum(Neighbours(Adjacency.ADD_REMOVE), clip, 10.0 ** rng.uniform(-5.0, 10.0)).mechanism
        for total in term.add(rows, state, clip, 1.0 / mechanism.tick, term.loss):
            share = beyond(total, mechanism.tick, mechanism.l2_sensitivity)
            assert share <= 1.0
            reached = max(reached, share)
        assert np.isfinite(state.a).all()
    assert reached > 0.99  # so the bound is no larger than it must be, and the test could fail


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_entry_of_bounded_rows_adds_at_most_its_clip(dtype):
    """Frank-Wolfe bounds each entry: the largest change of a column's sum is one clip."""
    rng = np.random.default_rng(np.dtype(dtype).itemsize)
    reached = 0.0
    for _ in range(2 * DRAWS):
        X, _, _, _, clip, _ = ends(rng, dtype, 1)
        bound = float(10.0 ** rng.uniform(-50, 50))
        tick = clipped_sum(Neighbours(Adjacency.ADD_REMOVE), clip, 1.0).mechanism.tick
        rows = make_bounded_rows(sp.csr_array(X), data_bound=bound, constant=0.5, names=None, team=TEAM)
        sums = np.zeros(rows.n_weights, np.int64)
        passes.change_terms(
            rows.kernel, np.array([-1e300]), np.zeros(1), clip, 1.0 / tick, Squared(), ONE, np.zeros(1, dtype),
            np.zeros(1, np.int64), sums,
        )  # fmt: skip
        share = max(beyond(entry, tick, clip * (1.0 + 2.0**-20)) for entry in sums)
        assert share <= 1.0
        reached = max(reached, share)
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


# --- a whole batch of sequential DP-SCD, and blocks of columns --------------------------------------------------------


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


# --- all rows of a person are cut alike -------------------------------------------------------------------------------

OF_ONE = Neighbours(Adjacency.ZERO_OUT)


@pytest.mark.parametrize(("sparse", "joint"), by_pairs([False, True], [False, True]))
def test_steps_of_a_person_are_cut_alike_and_sum_to_what_is_released(sparse, joint):
    """The duals move by what is added: v stays the sum of a_i x_i; people beside one another do not matter."""
    rng = np.random.default_rng(0)
    starts = np.array([0, 1, 4, 90, 91, 200])
    n, d, clip = 200, 7, 0.05
    raw = rng.standard_normal((n, d))
    raw = sp.csr_array(np.where(rng.random((n, d)) < 0.3, raw, 0), dtype=np.float32) if sparse else raw
    rows = make_rows(raw, data_norm=2.0, constant=0.2, names=None, team=TEAM)
    sums = clipped_sum(OF_ONE, clip, 10.0)
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
