"""lambda_max: right within its noise and its public bounds, noised as declared; wide tables are projected first."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import eigh

from sottovoce.central.core import drive
from sottovoce.central.data.labels import hold
from sottovoce.central.data.lengths import make_rows
from sottovoce.central.data.part import Part
from sottovoce.central.parallel import Team
from sottovoce.central.sums import largest_eigenvalue
from sottovoce.central.sums.largest_eigenvalue import OfProjectedRows, eigenvalue_mechanism
from sottovoce.privacy.adjacency import Adjacency, Neighbours
from sottovoce.privacy.events import GaussianEvent
from sottovoce.randomness import Streams
from support.asking import answered
from support.pairs import by_pairs

TEAM = Team(1, None)
ZERO = Neighbours(Adjacency.ZERO_OUT)
ORDER = tuple(range(40))


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
@pytest.mark.parametrize("width", [100, 2048, 10**6])
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
def test_wide_tables_are_projected(constant, sparse):
    """Near the true value, or above it, and with the noise of a narrow table."""
    X, holder = wide(constant=constant, sparse=sparse)
    rows = holder.rows
    X = np.hstack([X * rows.scale[:, None], np.full((len(X), int(rows.constant > 0)), rows.constant)])
    exact, public = np.linalg.norm(X, 2) ** 2 / len(X), 10**6
    for adjacency in Adjacency:
        narrow, mechanism = (eigenvalue_mechanism(d, public, Neighbours(adjacency), 0.1) for d in (30, X.shape[1]))
        assert mechanism.noise_std == pytest.approx(narrow.noise_std, rel=1e-3)
        assert mechanism.event == GaussianEvent(10.0)
    draws = [release(holder, len(X), 1e4, k).result for k in range(5)]
    assert np.ptp(draws) < 1e-3
    assert exact <= np.mean(draws) <= largest_eigenvalue._SPREAD * (1.25 * exact + 1.0 / 128)


def projection(d, order=ORDER):
    rng = np.random.Generator(np.random.PCG64(order))
    columns = [rng.permutation(np.arange(d) % 32) + 32 * block for block in range(4)]
    signs, matrix = rng.choice([-0.5, 0.5], (4, d)), np.zeros((d, 128))
    for column, sign in zip(columns, signs, strict=True):
        matrix[np.arange(d), column] = sign
    return matrix


def test_no_few_columns_hide_from_the_projection():
    """Pairs of columns that carry the rows, and random directions: what is lost is within the public factor's reach."""
    rng, matrix = np.random.default_rng(0), projection(3000)
    pairs = np.array([rng.choice(3000, 2, replace=False) for _ in range(20_000)])
    seen = np.square(matrix[pairs[:, 0]] + rng.choice([-1.0, 1.0], (20_000, 1)) * matrix[pairs[:, 1]]).sum(axis=1) / 2
    directions = rng.normal(size=(500, 3000))
    along = np.square(directions @ matrix).sum(axis=1) / np.square(directions).sum(axis=1)
    assert largest_eigenvalue._SPREAD * min(np.quantile(seen, 1e-3), along.min()) > 0.6
    assert seen.min() >= 0.25


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_that_one_projection_hides_are_seen_by_those_of_other_fits(monkeypatch, sparse):
    """All along a direction that the first fit's projection maps to 0, among them two columns that cancel there."""
    d, asked, ask = 2100, [], Part.ask
    monkeypatch.setattr(Part, "ask", lambda part, operation: asked.append(operation) or ask(part, operation))

    def found(hidden, seed):
        raw = np.tile(hidden, (50, 1))
        holder = holder_of(sp.csr_array(raw) if sparse else raw)
        return drive(lambda: largest_eigenvalue.largest_eigenvalue(d, 50, ZERO, 1e4, entry=0.0), holder, Streams(seed))

    found(np.eye(d)[0], 0)
    matrix = projection(d, asked[-1].order)
    overlap = np.abs(matrix @ matrix.T - np.eye(d))
    first, second = np.unravel_index(np.argmax(overlap), overlap.shape)
    pair = np.eye(d)[first] - np.sign(matrix[first] @ matrix[second]) * np.eye(d)[second]
    nothing = np.linalg.svd(matrix)[0][:, -1]
    for hidden in (pair / np.sqrt(2.0), nothing):
        assert found(hidden, 0).result < 1.0
        assert min(found(hidden, seed).result for seed in (1, 2, 3)) > 0.9


def test_projected_rows_are_shortened_and_multiplied_in_whole_numbers(monkeypatch):
    """In every number of pieces and parts, dense and sparse."""
    monkeypatch.setattr(largest_eigenvalue, "_ENTRIES", 2100 * 40)
    X, holder = wide(n=300, d=2100, constant=0.3)
    rows, found = holder.rows, holder.ask(OfProjectedRows(order=ORDER))
    projected = np.hstack([X * rows.scale[:, None], np.full((300, 1), rows.constant)]) @ projection(2101)
    lengths = np.linalg.norm(projected, axis=1)
    assert 0.1 < np.mean(lengths > 1.0) < 0.9
    wanted = projected / np.maximum(1.0, lengths)[:, None]
    np.testing.assert_allclose(found.matrix, wanted.T @ wanted, rtol=0.0, atol=300 * 2.0**-20)
    assert np.trace(found.matrix) <= 300.0
    sparse = wide(n=300, d=2100, constant=0.3, sparse=True)[1]
    first, second = (holder_of(half, constant=0.3).ask(OfProjectedRows(order=ORDER)) for half in (X[:130], X[130:]))
    for other in (sparse.ask(OfProjectedRows(order=ORDER)), first + second):
        np.testing.assert_array_equal(other.entries, found.entries)
