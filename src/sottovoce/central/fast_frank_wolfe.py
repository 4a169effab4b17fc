r"""Frank-Wolfe on sparse rows with work far below the number of columns for each step (after Raff, Khanna, Lu 2023).

The mechanism is the one of `sottovoce.central.solvers.frank_wolfe`, with the same probabilities; only the work differs.

*Sums of slopes.* A step adds to one weight, so that only the predictions of rows that hold that column change, and only
the sums of the columns of those rows. All terms are whole numbers of ticks: the old term is taken off and the new one
added, exactly, and the state is bit by bit the one of a pass over all rows. Frank-Wolfe as usually stated, [1]_ too,
shrinks all weights by a common factor in every step, which moves every prediction. Here nothing shrinks.

*The draw.* Columns are kept in about sqrt(d) groups (`sottovoce.central.kernels.columns`). A group is drawn by its
weight and a column inside it by its own, both by rejection with exact probabilities, which only need upper bounds on
the other groups' weights. The published sampler is an exponential race with skips over groups.

A step costs the entries of the rows that changed plus some multiples of sqrt(d). A column that all rows hold (the
intercept's) still costs a whole pass when it is taken.

References
----------
.. [1] Raff, Khanna, Lu (2023). Scaling Up Differentially Private LASSO Regularized Logistic Regression via Faster
   Frank-Wolfe Iterations. NeurIPS 2023, arXiv:2310.19978.
"""

import math
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce.central.data.rows import Rows
from sottovoce.central.kernels import columns
from sottovoce.central.parallel import Team
from sottovoce.privacy.mechanisms.noisy_max import ExponentialMechanism

__all__ = ["SparseScores"]

_WORDS: Final = 4096  # random words that are drawn at a time


class SparseScores:
    """The state of one model on sparse rows: predictions, slopes, and the sum of clipped slopes for each column.

    The parameters are those of `sottovoce.central.solvers.frank_wolfe.DenseScores`.
    """

    def __init__(self, rows: Rows, y: Vector, loss: Any, clip: float, ticks: int, team: Team) -> None:
        self._rows, self._y, self._loss = rows, y, loss
        self._clip, self._per_unit = clip, ticks / clip
        n, d = rows.n_samples, rows.n_weights
        self._margins = np.zeros(n)
        self._terms = np.zeros(n, rows.dtype), np.zeros(n, np.int64)  # of each row, factor and constant
        self._sums = np.zeros(d, np.int64)
        self._touched, self._before, self._mark = np.empty(d, np.int64), np.empty(d, np.int64), np.zeros(d, np.bool_)
        self._columns = sp.csc_array(rows.raw)
        self._noted = 0  # columns that changed since the bounds of the groups were brought up to date
        self._change(np.arange(n))
        self._mark[:], self._noted = False, 0
        size = math.ceil(math.sqrt(d))
        n_groups = math.ceil(d / size)
        largest = np.maximum.reduceat(np.abs(self._sums), np.arange(0, d, size))
        self._groups = columns.Groups(
            size,
            largest,
            np.ones(n_groups, np.bool_),
            np.full(n_groups, 2.0 * size),  # no weight is above 1, that of the largest
            np.zeros(n_groups, np.bool_),
            np.array([float(largest.max())]),
        )
        self._words = np.empty(0, np.uint64)
        self._place = 0

    def sums(self) -> NDArray[np.int64]:
        """Return sum_i l'(m_i) x_ij of every column, in ticks."""
        return self._sums.copy()

    def select(self, mechanism: ExponentialMechanism, noise: np.random.Generator) -> tuple[int, int]:
        rate = mechanism.rate
        columns.note_changes(self._groups, self._sums, self._touched, self._before, self._noted, self._mark, rate)
        self._noted = 0
        group = column = -1
        sign = 0
        while group < 0:
            self._refill(noise)
            group, self._place = columns.draw_group(self._groups, self._sums, rate, self._words, self._place)
        while column < 0:
            self._refill(noise)
            column, sign, self._place = columns.draw_column(
                self._groups, group, self._sums, rate, self._words, self._place
            )
        return int(column), int(sign)

    def move(self, column: int, step: float) -> None:
        rows = self._rows
        if column == rows.raw.shape[1]:
            held: NDArray[Any] = np.arange(rows.n_samples)
            self._margins += step * rows.constant
        else:
            lo, hi = self._columns.indptr[column : column + 2]
            held = self._columns.indices[lo:hi]
            self._margins[held] += step * (rows.scale[held] * self._columns.data[lo:hi])
        self._change(held)

    def _change(self, held: NDArray[Any]) -> None:
        self._noted = columns.change_rows(
            self._rows.kernel, self._y, self._margins, self._clip, self._per_unit, self._loss, held, self._terms,
            self._sums, self._touched, self._before, self._mark, self._noted,
        )  # fmt: skip

    def _refill(self, noise: np.random.Generator) -> None:
        if self._place >= len(self._words) - columns.SPARE:
            self._words = noise.integers(0, 2**64, _WORDS, dtype=np.uint64)
            self._place = 0
