"""The competitor of `benchmarks.papers.frank_wolfe.random_features` keeps the account that its table states."""

import numpy as np
import pytest

from benchmarks.papers.frank_wolfe.random_features import project

N, D, BOUND, MU = 400, 20, 3.0, 0.7


def moved(first, second, size, cut, nonnegative):
    """Return how far one replaced row moves what is sent, in units of its noise."""

    def sent(row):
        block = np.zeros((N, D))
        block[0] = row
        rng = np.random.default_rng(5)  # the same projection and the same noise
        return project(block, block, BOUND, size, cut, MU, nonnegative, rng).noisy

    noise = sent(np.zeros(D)).std()
    return np.linalg.norm(sent(first) - sent(second)) / noise


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize(("size", "cut"), [(D, 1.0), (D, 0.5), (10, 1.0), (10, 1.5), (2, 1.0)])
def test_a_replaced_row_moves_what_is_sent_by_mu_at_most(size, cut, nonnegative):
    """Rows far beyond the bound; the worst pair is tried too, and comes near mu, so that noise is not wasted either."""
    rng = np.random.default_rng(0)
    pairs = [10.0 * rng.normal(size=(2, D)) for _ in range(20)]
    Pi = np.linalg.qr(np.random.default_rng(5).normal(size=(D, size)))[0]
    pairs += [(100.0 * column, -100.0 * column) for column in Pi.T]
    if nonnegative:
        pairs = [np.abs(pair) for pair in pairs] + [100.0 * np.eye(D)[[0, k]] for k in range(1, D)]
    worst = max(moved(*pair, size, cut, nonnegative) for pair in pairs)
    assert worst <= MU * 1.1  # the noise is measured, to a few per cent
    if not nonnegative or size == D:
        assert worst >= MU * 0.9
