r"""The scores of all columns for steps along one of them, and the choice among them by the exponential mechanism.

Dense rows have their scores made again for each step. Sparse rows keep them, with work far below the number of columns
for each step (after Raff, Khanna, Lu 2023): the mechanism is the same, with the same probabilities.

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
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce.central.coefficient_sets import CoefficientSet
from sottovoce.central.data.operation import AtHome, Change
from sottovoce.central.data.part import Part, Rows
from sottovoce.central.data.row_memory import TARGET
from sottovoce.central.kernels import columns, passes
from sottovoce.central.kernels.rows import CSR
from sottovoce.central.parallel import Team
from sottovoce.losses import Loss
from sottovoce.privacy.events import Event
from sottovoce.privacy.mechanisms.noisy_max import ExponentialMechanism

_RANDOM_WORDS: Final = 4096  # random words that are drawn at a time
TICKS: Final = 2**23  # of a row's largest term: 64 rows of 32-bit sums can hold it


class DenseScores:
    """The state of one model: predictions, and the sum of clipped slopes for each column, made again for each step.

    ``rows``: entries within [-1, 1]; the divisor of each is 1.
    ``y``: of shape (n,).
    ``clip``: bound on a slope.
    ``ticks``: ticks to a clipped slope times an entry of 1.
    """

    def __init__(self, rows: Rows, y: Vector, loss: Any, clip: float, ticks: int, team: Team) -> None:
        self._rows, self._y, self._loss, self._team = rows, y, loss, team
        self._clip, self._per_unit = clip, ticks / clip
        self._margins = np.zeros(rows.n_samples)
        raw: Any = rows.raw
        self._columns: Any = sp.csc_array(raw) if isinstance(rows.kernel.X, CSR) else None

    def sums(self) -> NDArray[np.int64]:
        """Return sum_i l'(m_i) x_ij of every column, in ticks."""
        rows = self._rows
        return self._team.total(
            lambda lo, hi, sums: passes.gradient(
                rows.kernel, self._y, self._margins, self._clip, self._per_unit, self._loss, lo, hi, sums
            ),
            rows.n_samples, rows.work, np.zeros(rows.n_weights, np.int64),
        )  # fmt: skip

    def select(self, mechanism: ExponentialMechanism, noise: np.random.Generator) -> tuple[int, int]:
        sums = self.sums()
        place, _ = mechanism.select(np.concatenate([-sums, sums]), noise)
        return place % len(sums), 1 if place < len(sums) else -1

    def move(self, column: int, step: float) -> NDArray[Any] | None:
        """Move the model along a column, and return the rows that hold it; None for all of them."""
        rows = self._rows
        if column == rows.raw.shape[1]:
            self._margins += step * rows.constant
            return None
        if self._columns is None:
            self._margins += step * (rows.scale * rows.raw[:, column])
            return None
        lo, hi = self._columns.indptr[column : column + 2]
        held: NDArray[Any] = self._columns.indices[lo:hi]
        self._margins[held] += step * (rows.scale[held] * self._columns.data[lo:hi])
        return held


class SparseScores(DenseScores):
    """The same on sparse rows, with the sums brought up to date after each step."""

    def __init__(self, rows: Rows, y: Vector, loss: Any, clip: float, ticks: int, team: Team) -> None:
        super().__init__(rows, y, loss, clip, ticks, team)
        n, d = rows.n_samples, rows.n_weights
        self._terms = np.zeros(n, rows.raw.dtype), np.zeros(n, np.int64)  # of each row, factor and constant
        self._sums = np.zeros(d, np.int64)
        self._touched, self._before, self._mark = np.empty(d, np.int64), np.empty(d, np.int64), np.zeros(d, np.bool_)
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

    def move(self, column: int, step: float) -> NDArray[Any] | None:
        held = super().move(column, step)
        self._change(np.arange(self._rows.n_samples) if held is None else held.astype(np.int64))
        return held

    def _change(self, held: NDArray[Any]) -> None:
        self._noted = columns.change_rows(
            self._rows.kernel, self._y, self._margins, self._clip, self._per_unit, self._loss, held, self._terms,
            self._sums, self._touched, self._before, self._mark, self._noted,
        )  # fmt: skip

    def _refill(self, noise: np.random.Generator) -> None:
        if self._place >= len(self._words) - columns.SPARE:
            self._words = noise.integers(0, 2**64, _RANDOM_WORDS, dtype=np.uint64)
            self._place = 0


@dataclass(frozen=True)
class ColumnChoice:
    """The choice of a column and its sign from the scores of all of them; the sign is 0 for none."""

    mechanism: ExponentialMechanism
    corners: CoefficientSet | None = None  # None: all of the ball, in groups where rows are sparse

    @property
    def event(self) -> Event:
        return self.mechanism.event

    def release(self, scores: DenseScores, noise: np.random.Generator) -> tuple[tuple[int, int], Event]:
        if self.corners is None:
            return scores.select(self.mechanism, noise), self.event
        place, event = self.mechanism.select(self.corners.scores(scores.sums()), noise)
        return self.corners.corner(place), event


@dataclass(frozen=True)
class BeginScores(Change):
    """Begins the scores of a model, of rows in memory."""

    loss: Loss
    clip: float

    def on(self, part: Part) -> None:
        kind = SparseScores if sp.issparse(part.raw) else DenseScores
        part.scores = kind(part.rows, part.memory.whole(TARGET), self.loss, self.clip, TICKS, part.team)


@dataclass(frozen=True)
class MoveAlong(Change):
    """Moves the model along a column."""

    column: int
    step: float

    def on(self, part: Part) -> None:
        part.scores.move(self.column, self.step)


class Scores(AtHome[Any]):
    """The scores of the model at work."""

    def on(self, part: Part) -> Any:
        return part.scores

    def blank(self) -> Any:
        return 0, 0
