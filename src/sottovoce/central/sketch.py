r"""The Frobenius norm of G = X'X from a sketch: for tables so wide that G would cost more than the training.

It is at least lambda_max(G), and near it when few directions carry the rows. Q is a public random d x k matrix with one
entry +1 or -1 in each row, its columns as equally filled as can be. Then E |GQ|_F^2 = |G|_F^2, and GQ = X'(XQ) costs
2k passes over X at the speed of matrix products. G -> |GQ|_F is a seminorm: when a row |x| <= 1 is added, removed or
zeroed it moves by at most

.. math:: |x x^\top Q|_F \le |Q^\top x| \le \sqrt{\lceil d/k \rceil},

and by twice that when the row is replaced. Proof: ``docs/privacy/dp_scd.md``, Proposition 3.
"""

import math
from typing import Any, Final

import numpy as np
import scipy.sparse as sp

from sottovoce.central.rows import Rows

__all__ = ["sketch_sensitivity", "sketched_norm"]

_COLUMNS: Final = 128  # k
_SPREAD: Final = 1.0 + 1.0 / math.sqrt(_COLUMNS)  # a public factor: a sketch may fall short of the norm
_ENTRIES: Final = 2**24  # of GQ, held at once
_SEED: Final = 1  # Q is public: any fixed value will do


def sketch_sensitivity(width: int) -> float:
    """Return how far `sketched_norm` moves when one row of norm at most 1 is added, removed or zeroed."""
    return _SPREAD * math.sqrt(math.ceil(width / _COLUMNS))


def sketched_norm(rows: Rows) -> float:
    """Return an estimate of |X'X|_F, a little upward, in double precision."""
    width = rows.n_weights
    features = width - (rows.constant > 0.0)
    rng = np.random.Generator(np.random.PCG64(_SEED))
    column = rng.permutation(np.arange(width) % _COLUMNS)
    sign = rng.choice([-1.0, 1.0], width)
    Q = sp.csr_array((sign, (np.arange(width), column)), shape=(width, _COLUMNS))
    at_once = max(1, _ENTRIES // width)
    total = 0.0
    for first in range(0, _COLUMNS, at_once):
        part: Any = Q[:, first : first + at_once].toarray()
        product = np.zeros(part.shape)
        for scaled in rows.scaled_pieces():
            projected = scaled @ part[:features]
            if rows.constant > 0.0:
                projected += rows.constant * part[-1]
                product[-1] += rows.constant * projected.sum(axis=0)
            product[:features] += scaled.T @ projected
        total += float(np.sum(product**2))
    return _SPREAD * math.sqrt(total)
