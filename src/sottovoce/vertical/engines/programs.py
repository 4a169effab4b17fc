"""The closed list of programs that parties run on numbers that nobody sees, each with what it is in clear.

A program is public: its kind and its whole-number constants follow from the plan, and parties compare `digest` before
any of them shares data.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final, Protocol

import numpy as np
from numpy.typing import NDArray


def product(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return left @ right modulo 2^64; by floating point, some ten times faster, where that is exact."""
    depth = left.shape[-1]
    largest = [float(max(-int(part.min()), int(part.max()))) for part in (left, right)]
    # every partial sum is a whole number below 2^53
    if depth * largest[0] * largest[1] < 2.0**53:
        return np.asarray(left.astype(np.float64) @ right.astype(np.float64)).astype(np.int64)
    return np.asarray(left @ right)


class Arithmetic(Protocol):
    """What programs compute with, beside + and * of an engine's arrays with each other and with whole numbers."""

    def cross(self, left: Any, right: Any) -> Any:
        """Return left' right, for (n, a) and (n, b)."""

    def total(self, numbers: Any) -> Any:
        """Return the sum of all numbers."""

    def clip(self, values: Sequence[Any], lows: Sequence[int], highs: Sequence[int]) -> Any:
        """Cut several arrays at once, each to bounds of its own; not every engine can."""

    def largest(self, parts: Sequence[Any], noise: Sequence[Any]) -> Any:
        """Return the place of the largest sum of ``parts``, one behind the other, and noise; the first of several."""


class _InClear:
    """Modulo 2^64."""

    def cross(self, left: Any, right: Any) -> Any:
        return product(left.T, right)

    def total(self, numbers: Any) -> Any:
        return np.sum(numbers, dtype=np.int64)

    def clip(self, values: Sequence[Any], lows: Sequence[int], highs: Sequence[int]) -> Any:
        return [np.clip(each, low, high) for each, low, high in zip(values, lows, highs, strict=True)]

    def largest(self, parts: Sequence[Any], noise: Sequence[Any]) -> Any:
        return np.array([np.argmax(sum(noise, start=np.concatenate(parts)))], dtype=np.int64)


@dataclass(frozen=True)
class Program(ABC):
    """A listed program, written once for all engines."""

    opens: ClassVar[bool] = False
    """Whether its result may be revealed."""

    @abstractmethod
    def on(self, inputs: Sequence[Any], by: Arithmetic) -> tuple[Any, ...]:
        """Return what the program computes of an engine's arrays."""

    def in_clear(self, *inputs: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Return what the program computes, modulo 2^64."""
        return self.on(inputs, _InClear())


@dataclass(frozen=True)
class Add(Program):
    """The sum of arrays of one shape."""

    def on(self, inputs: Sequence[Any], by: Arithmetic) -> tuple[Any, ...]:
        return (sum(inputs[1:], start=inputs[0]),)


@dataclass(frozen=True)
class Mask(Add):
    """The same, of a result and every party's share of noise: what may be revealed."""

    opens: ClassVar[bool] = True


@dataclass(frozen=True)
class CrossProduct(Program):
    """Add A'B to a sum: inputs are the sum (a, b), A (n, a) and B (n, b)."""

    def on(self, inputs: Sequence[Any], by: Arithmetic) -> tuple[Any, ...]:
        total, left, right = inputs
        return (total + by.cross(left, right),)


@dataclass(frozen=True)
class OverRows(Program):
    """A program that makes one number of every row, and adds up these numbers and their products with the rows.

    Inputs, n rows of M data parties: what rows keep (n), labels y of -1 and +1 (n), the sums for each data party's
    columns (d_m), that of all numbers (1), and for each data party its margins z_m (n) and its rows X_m (n, d_m), in
    the order: kept, y, sums_1, ..., sums_M, total, z_1, ..., z_M, X_1, ..., X_M. Results: what is kept, moved by the
    number, sums_1, ..., sums_M and the total. Rows of zeros that fill up a piece have y = 0 and z = 0: their number
    is 0.
    """

    n_kept: ClassVar[int] = 0

    @abstractmethod
    def number(self, z: Any, *rows: Any, by: Arithmetic) -> Any:
        """Return the number of every row, for z = z_1 + ... + z_M, what is kept, and labels."""

    def on(self, inputs: Sequence[Any], by: Arithmetic) -> tuple[Any, ...]:
        own = self.n_kept + 1
        n_parties = (len(inputs) - own - 1) // 3
        rows, sums, total = inputs[:own], inputs[own : own + n_parties], inputs[own + n_parties]
        margins, tables = inputs[-2 * n_parties : -n_parties], inputs[-n_parties:]
        number = self.number(sum(margins[1:], start=margins[0]), *rows, by=by)
        column = number[:, None]
        added = (each + by.cross(column, table)[0] for each, table in zip(sums, tables, strict=True))
        return (*(each + number for each in rows[:-1]), *added, total + by.total(column))


@dataclass(frozen=True)
class AddSlopes(OverRows):
    r"""Slopes that are a polynomial of margins: for engines that cannot compare.

    The number of a row is, with coefficients c_0, ..., c_3 in ``coefficients``, c_1 z + c_3 z^3 + y (c_0 + c_2 z^2).
    """

    coefficients: tuple[int, int, int, int]

    def number(self, z: Any, *rows: Any, by: Arithmetic) -> Any:
        (labels,) = rows
        square = z * z
        free, linear, quadratic, cubic = self.coefficients
        return linear * z + cubic * (square * z) + labels * (free + quadratic * square)


@dataclass(frozen=True)
class AddScores(OverRows):
    r"""Slopes that are made of clips: how fast the loss falls along every column.

    The number of a row is y ``offset`` - sum_k clip(``factors[k]`` z - ``shift`` y, -``bounds[k]``, ``bounds[k]``); for
    abs(y) <= 1, or ``offset`` 0, it is never beyond `largest`.
    """

    offset: int
    factors: tuple[int, ...]
    bounds: tuple[int, ...]
    shift: int = 0

    @property
    def largest(self) -> int:
        """Bound on a slope, whatever the margins are."""
        return self.offset + sum(self.bounds)

    def number(self, z: Any, *rows: Any, by: Arithmetic) -> Any:
        labels = rows[-1]
        moved = [factor * z - self.shift * labels for factor in self.factors]
        cut = by.clip(moved, [-bound for bound in self.bounds], self.bounds)
        return labels * self.offset - sum(cut[1:], start=cut[0])


@dataclass(frozen=True, kw_only=True)
class MoveDuals(AddScores):
    """Move dual variables a, which rows keep, toward such slopes; the number of a row is by how much.

    It is clip(slope - a, -``clip``, ``clip``).
    """

    n_kept: ClassVar[int] = 1

    clip: int

    def number(self, z: Any, *rows: Any, by: Arithmetic) -> Any:
        slopes = super().number(z, *rows, by=by)
        return by.clip([slopes - rows[0]], [-self.clip], [self.clip])[0]


@dataclass(frozen=True)
class ChooseColumn(Program):
    r"""Where the largest of noisy scores is: the one result here that is opened and is no noisy sum.

    Inputs: the sums s_1, ..., s_M of `AddScores` (d_m), that of all slopes (1), and of every party that computes its
    noise (2 D). The scores are s_1, ..., s_M and, where ``constant`` is not 0, ``constant`` times the sum of all
    slopes: D numbers. Candidates are the scores and then their negatives, with the noise of all parties added; the
    result is the place of the largest, the first one of several. Scores with noise must stay below 2^62.
    """

    constant: int
    n_data_parties: int

    opens: ClassVar[bool] = True

    def on(self, inputs: Sequence[Any], by: Arithmetic) -> tuple[Any, ...]:
        scores = list(inputs[: self.n_data_parties])
        if self.constant:
            scores.append(self.constant * inputs[self.n_data_parties])
        return (by.largest([*scores, *(-each for each in scores)], inputs[self.n_data_parties + 1 :]),)


PROGRAMS: Final[tuple[type[Program], ...]] = (
    Add, Mask, CrossProduct, MoveDuals, AddSlopes, AddScores, ChooseColumn,
)  # fmt: skip
"""All of them."""

COMPARES: Final[tuple[type[Program], ...]] = (MoveDuals, AddScores, ChooseColumn)
"""Those that compare secret numbers, which not every engine can."""


def program_text(program: Program) -> str:
    return json.dumps([type(program).__name__, asdict(program)], sort_keys=True)


def program_from(text: str) -> Program:
    kind, constants = json.loads(text)
    listed = {program.__name__: program for program in PROGRAMS}
    return listed[kind](**{key: tuple(value) if isinstance(value, list) else value for key, value in constants.items()})


def digest_of(programs: Sequence[Program]) -> str:
    """Return what parties compare: programs in order, with their constants, as a SHA-256 digest."""
    listed = [[type(program).__name__, asdict(program)] for program in programs]
    return hashlib.sha256(json.dumps(listed, sort_keys=True).encode()).hexdigest()
