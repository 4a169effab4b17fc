r"""The scores of all columns for steps along one of them, and the choice among them by the exponential mechanism.

Dense rows have their scores made again for each step. Sparse rows keep them, and have them brought up to date (after
Raff, Khanna, Lu 2023): a step adds to one weight, so that only the predictions of rows that hold that column change,
and only the sums of the columns of those rows. All terms are whole numbers of ticks: the old term is taken off and the
new one added, exactly, and the state is bit by bit the one of a pass over all rows. Frank-Wolfe as usually stated, [1]_
too, shrinks all weights by a common factor in every step, which moves every prediction. Here nothing shrinks.

A step costs a draw among all columns and the entries of the rows that changed. A column that all rows hold (the
intercept's) costs a whole pass when it is taken. The published sampler, and ours before, looks at fewer columns for a
draw: a thousandth of a second in place of some thirty, for a million of them.

References
----------
.. [1] Raff, Khanna, Lu (2023). Scaling Up Differentially Private LASSO Regularized Logistic Regression via Faster
   Frank-Wolfe Iterations. NeurIPS 2023, arXiv:2310.19978.
"""

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
from sottovoce.central.kernels.calls import CSR, passes
from sottovoce.central.parallel import Team
from sottovoce.losses import Loss
from sottovoce.privacy.events import Event
from sottovoce.privacy.mechanisms.noisy_max import ExponentialMechanism

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
        n = rows.n_samples
        self._terms = np.zeros(n, rows.raw.dtype), np.zeros(n, np.int64)  # of each row, factor and constant
        self._sums = np.zeros(rows.n_weights, np.int64)
        self._change(np.arange(n))

    def sums(self) -> NDArray[np.int64]:
        return self._sums.copy()

    def move(self, column: int, step: float) -> NDArray[Any] | None:
        held = super().move(column, step)
        self._change(np.arange(self._rows.n_samples) if held is None else held.astype(np.int64))
        return held

    def _change(self, held: NDArray[Any]) -> None:
        passes.change_terms(
            self._rows.kernel, self._y, self._margins, self._clip, self._per_unit, self._loss, held, *self._terms,
            self._sums,
        )  # fmt: skip


@dataclass(frozen=True)
class ColumnChoice:
    """The choice of a column and its sign from the scores of all of them; the sign is 0 for none."""

    mechanism: ExponentialMechanism
    corners: CoefficientSet | None = None  # None: all of the ball

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
