"""Scores of rows do not depend on how a table is cut, bit by bit."""

from itertools import pairwise

import numpy as np
import pytest

from sottovoce.estimators.reading import products


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("d", "k"), [(3, 1), (20, 7), (100, 1), (101, 2), (700, 1)])
def test_the_same_bits_however_rows_are_cut(d, k, dtype):
    rng = np.random.default_rng(d)
    n = 9001
    X, weights = rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(d, k))
    whole = products(X, weights)
    np.testing.assert_allclose(whole, X.astype(np.float64) @ weights, rtol=1e-12, atol=1e-12)
    for cut in ([0, 1, 4, 8191, 8194, 9000, n], [0, 5003, n], [0, *sorted(rng.choice(n, 9, replace=False)), n]):
        pieces = [products(X[a:b], weights, int(a), n) for a, b in pairwise(cut)]
        np.testing.assert_array_equal(np.concatenate(pieces), whole)
