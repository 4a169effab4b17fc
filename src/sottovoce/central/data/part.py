"""Rows in one place as the kernels see them, with all that belongs to them: scales, labels, dual variables.

Solvers see rows in a unit of their own: divided by a public bound, with the intercept's column, at most 1 long whatever
the data are, without a copy of the matrix: a whole table that is in memory (or mapped into it), or a block of one.
"""

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from mmap import mmap
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sottovoce._numerics import PIECE, Vector
from sottovoce.central.data.operation import Holder, Operation
from sottovoce.central.data.row_memory import DIVISOR, LABEL, LENGTH, SCALE, TARGET, WEIGHT, RowMemory
from sottovoce.central.data.streamed import StreamedTable, is_sparse, not_finite
from sottovoce.central.kernels.calls import CSR, ScaledRows, passes
from sottovoce.central.parallel import Team
from sottovoce.randomness import Streams

T = TypeVar("T")

_RANGES: Final = {size: [np.array(sign * float(np.finfo(f"f{size}").max)) for sign in (-1, 1)] for size in (4, 8)}
_AT_ONCE: Final = 1 << 16  # rows whose columns are visited at once, where the table is not read
_SMALL: Final = 2**28  # bytes; up to this a map is copied like an array, which tools that map arrays unasked rely on


class _Lengths:
    """What follows from the bound on a row and the intercept's column."""

    square: float  # of `whole`: a penalty on the user's weights is this many times smaller on those of the solver
    whole: float  # length of the longest row with its constant, in units of ``data_norm``
    scale: float  # factor of a row of norm ``data_norm``
    entry: float  # value of the intercept's column as the solver sees it


@dataclass(frozen=True)
class RowUnit(_Lengths):
    """A user's row x of norm at most ``data_norm`` is seen as (x / data_norm, constant) / whole."""

    data_norm: float  # > 0; public bound on the norm of a row
    constant: float  # >= 0; value of the intercept's column in units of ``data_norm``; 0 for none

    def __post_init__(self) -> None:
        square = 1.0 + self.constant**2
        whole = math.sqrt(square)
        vars(self).update(square=square, whole=whole, scale=1.0 / self.data_norm / whole, entry=self.constant / whole)

    def to_user(self, weights: Vector) -> tuple[Vector, Vector]:
        """Turn the weights of models, one a line, into coefficients and intercepts for the user's rows."""
        if self.constant == 0.0:
            return weights / (self.data_norm * self.whole), np.zeros(len(weights))
        return weights[:, :-1] / (self.data_norm * self.whole), weights[:, -1] * self.entry


Matrix = Any  # a C-contiguous ndarray of shape (n, d), or a scipy CSR matrix of that shape

# Below this a computed norm may be zero for a row that is not; using the floor in its place only shortens its term.
_NORM_FLOOR = 1e-140
_ROUNDED = 2e-8


class Rows(NamedTuple):
    """A table of rows x_i, scaled to norm at most 1, with the column of the intercept appended.

    Row i is (scale_i * raw_i, constant): its norm is at most 1 (`sottovoce.central.data.lengths`).
    """

    raw: Matrix  # the user's matrix, untouched
    scale: Vector  # of shape (n,)
    divisor: Vector  # of shape (n,); what kernels divide a row's clip by: an upper bound on its norm, in (0, 1]
    constant: float  # entry of the intercept's column; 0 when there is none

    @property
    def kernel(self) -> ScaledRows:
        """The same memory as the kernels take it."""
        X: Any = self.raw
        if not isinstance(X, np.ndarray):
            X = CSR(X.data, X.indices, X.indptr, X.shape[1])
        elif X.flags.writeable:  # no kernel writes to it; one that is compiled for this serves a memory map, too
            X = X.view()
            X.flags.writeable = False
        return ScaledRows(X, self.scale, self.divisor, self.constant)

    @property
    def n_samples(self) -> int:
        return int(self.raw.shape[0])

    @property
    def n_weights(self) -> int:
        return int(self.raw.shape[1]) + (self.constant > 0.0)

    @property
    def work(self) -> float:
        return float(self.raw.nnz if hasattr(self.raw, "nnz") else self.raw.size)

    def scaled_pieces(self) -> Iterator[Any]:
        """Yield the scaled rows, without the constant, in double precision: `PIECE` at a time, the last time fewer.

        The pieces are the same however the rows are stored. A dense piece is overwritten by the next one.
        """
        raw: Any = self.raw
        if is_sparse(raw):
            for lo in range(0, self.n_samples, PIECE):
                yield sp.diags_array(self.scale[lo : lo + PIECE]) @ raw[lo : lo + PIECE].astype(np.float64)
            return
        piece = np.empty((min(PIECE, self.n_samples), raw.shape[1]))
        for lo in range(0, self.n_samples, PIECE):
            hi = min(lo + PIECE, self.n_samples)
            np.multiply(raw[lo:hi], self.scale[lo:hi, None], out=piece[: hi - lo])
            yield piece[: hi - lo]

    def weighted_sum(self, factors: Vector) -> Vector:
        """Return X' times ``factors`` for the scaled rows, in double precision, piece by piece."""
        total, features, lo = np.zeros(self.n_weights), self.raw.shape[1], 0
        for piece in self.scaled_pieces():
            total[:features] += piece.T @ factors[lo : lo + piece.shape[0]]
            lo += piece.shape[0]
        total[features:] = self.constant * float(factors.sum())
        return total

    def margins(self, w: Vector, team: Team) -> Vector:
        kernel, out = self.kernel, np.empty(self.n_samples)
        team.run(lambda _, lo, hi: passes.margins(kernel, w, lo, hi, out), team.split(self.n_samples, self.work))
        return out


def norms_within(divisor: Vector, constant: float) -> Vector:
    """Return an upper bound on the norm of each row without its constant, over the largest that it can be."""
    # the divisor is the norm with the constant, rounded: the root of the difference is off by 1e-8 at most
    own = np.sqrt(np.maximum(divisor**2 - constant**2, 0.0)) + _ROUNDED
    return np.minimum(own / max(math.sqrt(max(1.0 - constant**2, 0.0)), _ROUNDED), 1.0)


def norm_bounds(scale: Vector, length: Vector, constant: float) -> Vector:
    """Return upper bounds in (0, 1] on the norms of rows of a ``length`` times ``scale``, with their constant."""
    with np.errstate(invalid="ignore"):
        scaled = np.where(np.isfinite(length), scale * length, 1.0)
    return np.clip(np.sqrt(scaled**2 + constant**2), _NORM_FLOOR, 1.0)


def describe_not_finite(raw: Matrix, row: int, first_row: int, names: tuple[str, ...] | None) -> str:
    """Return the message about a row with NaN or infinity; ``first_row`` is the place of the first one of ``raw``."""
    if isinstance(raw, StreamedTable):
        values = raw.row(row)
    else:
        values = raw[[row], :].toarray().ravel() if is_sparse(raw) else np.asarray(raw[row])
    return not_finite(values, first_row + row, names).removesuffix(".")


class Part(Holder):
    """Consecutive rows of a table, in memory or on disk, and what is remembered of each.

    A part that is the whole table is its own holder.

    ``raw``: of shape (n, d); untouched.
    ``memory``: None keeps all in memory.
    ``first_row``: place of the first row in the whole table, for messages.
    ``labels``: of each row, as they came: numbers, booleans or texts. None where they are kept elsewhere, or there are
        none.
    """

    def __init__(
        self,
        raw: Matrix,
        team: Team,
        memory: RowMemory | None = None,
        *,
        first_row: int = 0,
        labels: NDArray[Any] | None = None,
    ) -> None:
        self.raw = raw
        self.labels = labels
        self.team = team
        self.first_row = first_row
        self.persons: NDArray[np.int64] | None = None  # where each begins, and their number
        self.is_copy = False  # whether the matrix is the fit's own, and may be written to
        self.constant = 0.0  # entry of the intercept's column; 0 when there is none
        self.targets: Any = None  # the rule that makes what models are trained on from the labels
        self.scores: Any = None  # of the columns, for steps along one of them
        self.coins: Any = None  # the holder's own random streams, for operations that sample or shuffle
        self.progress: Callable[[int, int], None] = lambda done, of: None
        self.n_samples, self.n_features = int(raw.shape[0]), int(raw.shape[1])
        self.memory = RowMemory(self.n_samples) if memory is None else memory
        self._is_at_hand = memory is None and not isinstance(raw, StreamedTable)
        self._few: ScaledRows | None = None
        self._few_of: Any = (None,) * 4
        for name in (SCALE, DIVISOR):
            self.memory.fill(name, 1.0)

    def ask(self, operation: Operation[T]) -> T:
        return operation.on(self)

    def begin(self, streams: Streams, progress: Callable[[int, int], None]) -> None:
        self.coins, self.progress = streams, progress

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        """Precision of the matrix."""
        dtype: np.dtype[Any] = self.raw.dtype
        return dtype

    @property
    def work(self) -> float:
        """Entries touched by one visit."""
        return float(self.raw.nnz if hasattr(self.raw, "nnz") else self.raw.size)

    @property
    def rows(self) -> Rows:
        """All rows at once; not for a table on disk."""
        return Rows(self.raw, self.memory.whole(SCALE), self.memory.whole(DIVISOR), self.constant)

    def blocks(self) -> Generator[tuple[slice, Rows]]:
        """Yield consecutive blocks of all rows, in memory, with their places."""
        if not isinstance(self.raw, StreamedTable):
            yield slice(0, self.n_samples), self.rows
            return
        with closing(self.raw.blocks(self.team.n_threads, self.team.ahead)) as blocks:
            for place, raw in blocks:
                yield place, Rows(raw, self.memory.get(SCALE, place), self.memory.get(DIVISOR, place), self.constant)

    def columns(
        self, reads: Sequence[str] = (), writes: Sequence[str] = ()
    ) -> Generator[tuple[slice, list[NDArray[Any]]]]:
        """Yield consecutive ranges of all rows, with their parts of some columns; the table itself is not read.

        What is written to those of ``writes``, which come last, is kept. There is one range, of no rows, in a part
        without rows.
        """
        for start in range(0, max(1, self.n_samples), _AT_ONCE):
            place = slice(start, min(start + _AT_ONCE, self.n_samples))
            views = {name: self.memory.get(name, place) for name in (*reads, *writes)}
            yield place, list(views.values())
            for name in writes:
                self.memory.put(name, place, views[name])

    def take(self, raw: Matrix, places: NDArray[np.intp] | None, persons: NDArray[np.int64] | None) -> None:
        """Go on with a copy of the rows at some places, in their order, and with what is remembered of these.

        ``places``: None: all rows, as they are.
        ``persons``: where the rows of each person begin among them, and their number.
        """
        before, memory = self.memory, RowMemory(int(raw.shape[0]))
        for name in (SCALE, DIVISOR, LENGTH, LABEL, TARGET, WEIGHT):
            if name in before:
                memory.set(name, before.whole(name) if places is None else before.whole(name)[places])
        before.close()
        self.raw, self.memory, self.persons, self.is_copy = raw, memory, persons, True
        self.n_samples = memory.n_rows

    def weights(self, w: NDArray[Any]) -> NDArray[Any]:
        """Return released weights in the precision of the matrix, cut to what it can hold; one entry stands for all."""
        least, most = _RANGES[self.dtype.itemsize]  # arrays, as numpy would make them of numbers at each use
        cut: NDArray[Any] = np.minimum(np.maximum(w, least), most).astype(self.dtype, copy=False)
        n_weights = self.n_weights
        return cut if cut.shape[-1] == n_weights else np.broadcast_to(cut, (*cut.shape[:-1], n_weights)).copy()

    def sweep(self, task: Callable[..., None], reads: Sequence[str] = (), writes: Sequence[str] = ()) -> None:
        """Visit all rows once: call ``task(part, lo, hi, block, *views)`` on ranges lo:hi of one block after another.

        ``part`` < `n_parts` differs between calls that run at once; lo and hi count from the start of the block, as do
        the views of the columns; a task may write to those of ``writes``.
        """
        with closing(self.blocks()) as blocks:
            for place, block in blocks:
                views = [self.memory.get(name, place) for name in (*reads, *writes)]
                self.team.run(_bound(task, block, views), self.team.split(block.n_samples, block.work))
                for name, view in zip(writes, views[len(reads) :], strict=True):
                    self.memory.put(name, place, view)

    @property
    def n_parts(self) -> int:
        """Number of parts that `sweep` counts at most."""
        return len(self.team.split(self.n_samples, self.work))

    @property
    def few(self) -> ScaledRows | None:
        """All rows as a kernel takes them, where they are few; made once, while what they are made of stays."""
        if not self._is_at_hand:
            return None
        raw, scale, divisor, constant = self._few_of
        memory = self.memory
        if not (
            raw is self.raw
            and scale is memory.whole(SCALE)
            and divisor is memory.whole(DIVISOR)
            and constant is self.constant
        ):
            rows = self.rows
            self._few = rows.kernel if self.n_parts == 1 else None
            self._few_of = rows
        return self._few


def _bound(task: Callable[..., None], block: Rows, views: Sequence[NDArray[Any]]) -> Callable[[int, int, int], None]:
    return lambda part, lo, hi: task(part, lo, hi, block, *views)


def is_large_map(X: Any) -> bool:
    """Tell whether this is an array of a memory map that had better not be copied into memory."""
    array = X
    while isinstance(X, np.ndarray):
        if isinstance(X, np.memmap):
            break
        X = X.base
    is_map = isinstance(X, np.memmap) or isinstance(X.obj if isinstance(X, memoryview) else X, mmap)
    return is_map and array.size * max(array.itemsize, 4) > _SMALL
