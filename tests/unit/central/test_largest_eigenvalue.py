"""lambda_max: right within its noise and its public bounds, noised as declared; the sketch of wide tables."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import eigh

from sottovoce.central.data.labels import hold
from sottovoce.central.data.lengths import make_rows
from sottovoce.central.parallel import Team
from sottovoce.central.sums import largest_eigenvalue
from sottovoce.central.sums.largest_eigenvalue import (
    Sketch,
    bits,
    eigenvalue_mechanism,
    sketch_estimate,
    sketch_pieces,
    sum_of_squares,
)
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from sottovoce.privacy.events import GaussianEvent
from support.asking import answered
from support.pairs import by_pairs

TEAM = Team(1, None)
ZERO = Neighbours(Adjacency.ZERO_OUT)


def holder_of(raw, *, data_norm=1.0, constant=0.0):
    rows = make_rows(raw, data_norm=data_norm, constant=constant, names=None, team=TEAM)
    return hold(rows, [], TEAM)


def release(holder, n_public, mu, seed):
    entry = holder.constant
    return answered(
        lambda: largest_eigenvalue.largest_eigenvalue(holder.n_weights, n_public, ZERO, mu, entry=entry), holder, seed
    )


def table(n=20_000, d=6):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, d)) * np.linspace(1, 3, d)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def sketched_norm(holder):
    width = holder.n_weights
    return sketch_estimate(sum(sum_of_squares(holder.ask(piece), width) for piece in sketch_pieces(width)))


@pytest.mark.parametrize("constant", [0.0, 0.4])
def test_eigenvalue(constant):
    X = table()
    holder = holder_of(X, constant=constant)
    full = np.hstack([X, np.full((len(X), int(constant > 0)), constant)]) / np.sqrt(1 + constant**2)
    exact = np.linalg.eigvalsh(full.T @ full / len(X))[-1]
    mu = 0.05
    draws = np.array([release(holder, len(X), mu, k).result for k in range(300)])
    std = 1 / mu / len(X)
    assert draws.mean() == pytest.approx(exact + 2 * std, abs=4 * std / np.sqrt(300))
    assert draws.std() == pytest.approx(std, rel=0.2)


@pytest.mark.parametrize("n", [10**6, 10**9])
@pytest.mark.parametrize("width", [100, 2048])
def test_a_billion_rows_cost_no_noise_to_speak_of(n, width):
    for adjacency, rows in ((Adjacency.ZERO_OUT, 1), (Adjacency.REPLACE_ONE, 1), (Adjacency.ZERO_OUT, 3)):
        mechanism = eigenvalue_mechanism(width, n, Neighbours(adjacency, rows), 0.1)
        assert rows <= mechanism.l2_sensitivity <= rows + 0.003
    # with blocks added up in double precision it was
    assert pytest.approx(1.12, abs=0.01) == 1.0 + 8.0 * (8192 + 10**9 / 8192 + 100) * 2.0**-53 * 10**9


def certified_error(matrix):
    """Return a proved bound on what the largest eigenvalue of a matrix of whole numbers was computed wrong by.

    With W = V D^(1/2) from computed eigenvectors, lambda_max(G) is within |G - WW'| of that of WW', which is that of
    W'W, within |W'W - D| of max D. Both norms are computed in whole numbers and extended precision.
    """
    last = len(matrix) - 1
    found = float(eigh(matrix, eigvals_only=True, subset_by_index=(last, last))[0])
    values, vectors = eigh(matrix)
    values = np.maximum(values, 0.0)
    W = (vectors * np.sqrt(values)).astype(np.longdouble)
    outer = np.linalg.norm((matrix.astype(np.longdouble) - W @ W.T).astype(np.float64))
    inner = np.linalg.norm((W.T @ W - np.diag(values.astype(np.longdouble))).astype(np.float64))
    return abs(found - float(values.max())) + outer + inner


def hard_matrices(d, n):
    """Matrices of n rows of norm 1 that are hard for a solver: clustered, graded, of rank 1, of equal eigenvalues."""
    rng = np.random.default_rng(d)
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    for spectrum in (np.ones(d), 1.0 + 1e-15 * rng.normal(size=d), 2.0 ** -np.arange(d), np.eye(d)[0], rng.random(d)):
        yield (Q * (n * spectrum / spectrum.sum())) @ Q.T
    yield np.full((d, d), n / d)
    yield np.diag(np.full(d, n / d))
    few = (rng.random((d, d)) < 0.1).astype(float) + np.eye(d)
    yield few @ few.T * (n / np.sum(few**2))


@pytest.mark.parametrize("d", [2, 30, 80])
def test_the_eigensolver_is_ten_times_as_exact_as_it_is_taken_to_be(d):
    n = 10**9
    allowed = largest_eigenvalue._SOLVER * d * 2.0**-53 * n
    for matrix in hard_matrices(d, n):
        matrix = 0.5 * (matrix + matrix.T)
        assert certified_error(matrix) <= allowed  # what can be proved from outside
        last = len(matrix) - 1
        found = float(eigh(matrix, eigvals_only=True, subset_by_index=(last, last))[0])
        others = [np.linalg.eigvalsh(matrix)[-1], np.linalg.norm(matrix, 2), eigh(matrix, driver="evd")[0][-1]]
        assert max(abs(found - other) for other in others) <= 0.1 * allowed + 2.0**-50 * n


def wide(n=400, d=3000, constant=0.0, sparse=False):
    rng = np.random.default_rng(1)
    X = np.abs(rng.normal(size=(n, d))) * (rng.random((n, d)) < 0.02)
    X[:, 0] += 0.1
    return X, holder_of(sp.csr_array(X) if sparse else X, constant=constant)


@pytest.mark.parametrize(("constant", "sparse"), by_pairs([0.0, 0.4], [False, True]))
def test_wide_tables_are_sketched(constant, sparse, monkeypatch):
    X, holder = wide(constant=constant, sparse=sparse)
    rows = holder.rows
    X = np.hstack([X * rows.scale[:, None], np.full((len(X), int(rows.constant > 0)), rows.constant)])
    frobenius = np.linalg.norm(X @ X.T)  # as X'X
    assert sketched_norm(holder) == pytest.approx(frobenius * (1 + 128**-0.5), rel=0.15)
    assert frobenius >= np.linalg.norm(X, 2) ** 2
    # a value inside the public bounds, so that they do not cut
    monkeypatch.setattr(largest_eigenvalue, "sketch_estimate", lambda square: 0.3 * 10**6)
    for adjacency, factor in ((Adjacency.ZERO_OUT, 1), (Adjacency.ADD_REMOVE, 1), (Adjacency.REPLACE_ONE, 2)):
        std = factor * (1 + 128**-0.5) * np.sqrt(np.ceil(holder.n_weights / 128)) / 0.1 / 10**6
        mechanism = eigenvalue_mechanism(holder.n_weights, 10**6, Neighbours(adjacency), 0.1)
        assert mechanism.noise_std / 10**6 == pytest.approx(std, rel=1e-5)
        assert mechanism.event == GaussianEvent(10.0)
    draws = [release(holder, 10**6, 0.1, k).result for k in range(20)]
    std = eigenvalue_mechanism(holder.n_weights, 10**6, ZERO, 0.1).noise_std / 10**6
    assert np.mean(draws) == pytest.approx(0.3 + 2 * std, abs=4 * std / np.sqrt(20))


def public_matrix(d):
    public = np.random.Generator(np.random.PCG64(1))
    column = public.permutation(np.arange(d) % 128)
    return column, public.choice([-1.0, 1.0], d)


def test_the_sketch_is_the_product_in_whole_numbers(monkeypatch):
    """In every number of pieces, of parts and of columns at a time, dense and sparse."""
    monkeypatch.setattr(largest_eigenvalue, "_PIECE", 64)  # rows, fewer than the table has
    X, holder = wide(n=300, d=2100, constant=0.3)
    rows = holder.rows
    grid = 2.0 ** bits(2101)
    whole = np.trunc(np.hstack([X * rows.scale[:, None] * grid, np.full((300, 1), rows.constant * grid)]))
    column, sign = public_matrix(2101)
    Q = np.zeros((2101, 128))
    Q[np.arange(2101), column] = sign
    exact = whole.T @ (whole @ Q)  # below 2^53
    found = holder.ask(Sketch(2101, 0, 128))
    np.testing.assert_array_equal(found.doubles(1.0), exact)
    assert sketch_estimate(sum_of_squares(found, 2101)) == pytest.approx(
        (1 + 128**-0.5) * np.linalg.norm(exact) / grid**2, rel=1e-12
    )
    sparse = wide(n=300, d=2100, constant=0.3, sparse=True)[1]
    some = Sketch(2101, 5, 77)
    together = some.merged([holder_of(half, constant=0.3).ask(some) for half in (X[:130], X[130:])])
    for other, wanted in ((sparse.ask(some), exact[:, 5:77]), (together, exact[:, 5:77])):
        np.testing.assert_array_equal(other.doubles(1.0), wanted)


def test_a_very_wide_table_is_sketched_some_columns_at_a_time():
    pieces = list(sketch_pieces(10**6))
    assert [piece.first for piece in pieces] == list(range(0, 128, 8))
    assert pieces[-1].end == 128
    assert len(list(sketch_pieces(3000))) == 1
    for width in (2049, 7040, 10**4, 10**6, 10**8):
        deepest = math.ceil(width / 128)
        assert 1024 * 4.0 ** bits(width) * math.sqrt(deepest) < 2.0**53
    assert (bits(2049), bits(10**6)) == (20, 18)
