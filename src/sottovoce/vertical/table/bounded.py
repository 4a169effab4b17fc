"""The rows of a party as its private mechanisms see them: each at most 1 long, in units of its public bound."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import PIECE


def bounded_pieces(table: Any, data_norm: float) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Yield pieces of the table and their places: each row divided by ``data_norm``, or by its norm if that is larger.

    ``table``, of shape (n_rows, n_features): finite numbers.
    ``data_norm``, > 0: public bound on the norm of a row.

    Notes
    -----
    What is yielded is dense and in double precision; a row is longer than 1 by rounding only, by less than 2^-20 for up
    to 2^30 columns. It is a function of that row alone.
    """
    for low in range(0, table.shape[0], PIECE):
        place = slice(low, min(low + PIECE, table.shape[0]))
        piece: Any = table[place]
        rows = np.asarray(piece if isinstance(piece, np.ndarray) else piece.toarray(), dtype=np.float64)
        # by its largest entry first, so that no square overflows or vanishes
        largest = np.maximum(np.abs(rows).max(axis=1, initial=0.0), data_norm)[:, None]
        rows = rows / largest
        yield place, rows / np.maximum(data_norm / largest, np.linalg.norm(rows, axis=1, keepdims=True))
