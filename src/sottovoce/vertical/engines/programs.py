"""The closed list of programs that parties run on numbers that nobody sees, each with what it is in clear.

A program is public: its kind and its whole-number constants follow from the plan, and parties compare `digest` before
any of them shares data.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "COMPARES",
    "PROGRAMS",
    "Add",
    "AddScores",
    "AddSlopes",
    "ChooseColumn",
    "CrossProduct",
    "Mask",
    "MoveDuals",
    "Program",
    "digest_of",
    "product",
    "program_from",
    "program_text",
]

_Shape = tuple[int, ...]


def product(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return left @ right modulo 2^64; by floating point, some ten times faster, where that is exact."""
    depth = left.shape[-1]
    largest = [float(max(-int(part.min()), int(part.max()))) for part in (left, right)]
    # every partial sum is a whole number below 2^53
    if depth * largest[0] * largest[1] < 2.0**53:
        return np.asarray(left.astype(np.float64) @ right.astype(np.float64)).astype(np.int64)
    return np.asarray(left @ right)


@dataclass(frozen=True)
class Program(ABC):
    """A listed program."""

    opens: ClassVar[bool] = False
    """Whether its result may be revealed."""

    @abstractmethod
    def in_clear(self, *inputs: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Return what the program computes, modulo 2^64."""

    @abstractmethod
    def shapes(self, *inputs: _Shape) -> tuple[_Shape, ...]:
        """Return the shapes of the results for inputs of these shapes; ValueError where they do not fit."""


@dataclass(frozen=True)
class Add(Program):
    """The sum of arrays of one shape."""

    def in_clear(self, *inputs: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Return (sum,)."""
        return (np.sum(inputs, axis=0, dtype=np.int64),)

    def shapes(self, *inputs: _Shape) -> tuple[_Shape, ...]:
        _fits(bool(inputs) and len(set(inputs)) == 1, "arrays of one shape", inputs)
        return (inputs[0],)


@dataclass(frozen=True)
class Mask(Add):
    """The same, of a result and every party's share of noise: what may be revealed."""

    opens: ClassVar[bool] = True


@dataclass(frozen=True)
class CrossProduct(Program):
    """Add A'B to a sum: inputs are the sum (a, b), A (n, a) and B (n, b)."""

    def in_clear(self, *inputs: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Return (sum + A'B,)."""
        total, left, right = inputs
        return (total + product(left.T, right),)

    def shapes(self, *inputs: _Shape) -> tuple[_Shape, ...]:
        """Return (a, b)."""
        fits = len(inputs) == 3 and all(len(shape) == 2 for shape in inputs)
        fits = fits and inputs[1][0] == inputs[2][0] and inputs[0] == (inputs[1][1], inputs[2][1])
        _fits(fits, "a sum (a, b), A (n, a) and B (n, b)", inputs)
        return (inputs[0],)


@dataclass(frozen=True)
class MoveDuals(Program):
    r"""Move dual variables toward what the rows ask for, by at most ``clip``, and add up by how much.

    Inputs: dual variables a (n), labels y of -1 and +1 (n), the sums for each data party's columns (d_m), that of all
    moves (1), and for each data party its margins z_m (n) and its rows X_m (n, d_m), in the order: a, y, sums_1, ...,
    sums_M, moves, z_1, ..., z_M, X_1, ..., X_M. With z = z_1 + ... + z_M the target is

    - ``by_label`` False: y ``offset`` - sum_k ``factors[k]`` clip(z, -``bounds[k]``, ``bounds[k]``), and
    - ``by_label`` True: y clip(``offset`` - ``factors[0]`` y z, 0, ``bounds[0]``),

    and every row moves by clip(target - a, -``clip``, ``clip``). Rows of zeros that fill up a piece have y = 0 and z =
    0, so they do not move.
    """

    clip: int
    offset: int
    factors: tuple[int, ...]
    bounds: tuple[int, ...]
    by_label: bool = False

    def in_clear(self, *inputs: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Return (a', sums_1', ..., sums_M', moves')."""
        n_parties = (len(inputs) - 3) // 3
        duals, labels = inputs[:2]
        sums, moves = inputs[2 : 2 + n_parties], inputs[2 + n_parties]
        margins, tables = inputs[3 + n_parties : 3 + 2 * n_parties], inputs[3 + 2 * n_parties :]
        z = np.sum(margins, axis=0, dtype=np.int64)
        if self.by_label:
            target = labels * np.clip(self.offset - self.factors[0] * labels * z, 0, self.bounds[0])
        else:
            target = labels * self.offset
            for factor, bound in zip(self.factors, self.bounds, strict=True):
                target = target - factor * np.clip(z, -bound, bound)
        move = np.clip(target - duals, -self.clip, self.clip)
        added = tuple(each + product(move, table) for each, table in zip(sums, tables, strict=True))
        return (duals + move, *added, moves + np.sum(move, dtype=np.int64))

    def shapes(self, *inputs: _Shape) -> tuple[_Shape, ...]:
        """Return (n,), those of the sums, and (1,)."""
        sums = _sums_of(inputs, own=2)
        return (inputs[0], *sums, (1,))


@dataclass(frozen=True)
class AddSlopes(Program):
    r"""Add slopes that are a polynomial of margins, times rows: for engines that cannot compare.

    Inputs: labels y (n), the sums for each data party's columns (d_m), that of all slopes (1), and for each data party
    z_m (n) and X_m (n, d_m), in the order of `MoveDuals`. The slope of a row is, with coefficients c_0, ..., c_3 in
    ``coefficients``, c_1 z + c_3 z^3 + y (c_0 + c_2 z^2); rows that fill up have z = 0 and y = 0, so their slope is 0.
    """

    coefficients: tuple[int, int, int, int]

    def in_clear(self, *inputs: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Return (sums_1', ..., sums_M', all')."""
        n_parties = (len(inputs) - 2) // 3
        labels = inputs[0]
        sums, total = inputs[1 : 1 + n_parties], inputs[1 + n_parties]
        margins, tables = inputs[2 + n_parties : 2 + 2 * n_parties], inputs[2 + 2 * n_parties :]
        z = np.sum(margins, axis=0, dtype=np.int64)
        square = z * z
        free, linear, quadratic, cubic = self.coefficients
        slope = linear * z + cubic * (square * z) + labels * (free + quadratic * square)
        added = tuple(each + product(slope, table) for each, table in zip(sums, tables, strict=True))
        return (*added, total + np.sum(slope, dtype=np.int64))

    def shapes(self, *inputs: _Shape) -> tuple[_Shape, ...]:
        """Return those of the sums, and (1,)."""
        return (*_sums_of(inputs, own=1), (1,))


@dataclass(frozen=True)
class AddScores(Program):
    r"""Add slopes that are made of clips, times rows: how fast the loss falls along every column.

    Inputs: labels y (n), the sums for each data party's columns (d_m), that of all slopes (1), and for each data party
    z_m (n) and X_m (n, d_m), in the order of `MoveDuals`. With z = z_1 + ... + z_M the slope of a row is

    - ``residual`` False: y ``offset`` - sum_k ``factors[k]`` clip(z, -``bounds[k]``, ``bounds[k]``), and
    - ``residual`` True: the same of z - y in place of z.

    For |y| <= 1 (``residual`` False, or ``offset`` 0) no slope is beyond `largest`; rows that fill up are zeros.
    """

    offset: int
    factors: tuple[int, ...]
    bounds: tuple[int, ...]
    residual: bool = False

    @property
    def largest(self) -> int:
        """Bound on a slope, whatever the margins are."""
        return self.offset + sum(factor * bound for factor, bound in zip(self.factors, self.bounds, strict=True))

    def in_clear(self, *inputs: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Return (sums_1', ..., sums_M', all')."""
        n_parties = (len(inputs) - 2) // 3
        labels = inputs[0]
        sums, total = inputs[1 : 1 + n_parties], inputs[1 + n_parties]
        margins, tables = inputs[2 + n_parties : 2 + 2 * n_parties], inputs[2 + 2 * n_parties :]
        z = np.sum(margins, axis=0, dtype=np.int64)
        if self.residual:
            z = z - labels
        slope = labels * self.offset
        for factor, bound in zip(self.factors, self.bounds, strict=True):
            slope = slope - factor * np.clip(z, -bound, bound)
        added = tuple(each + product(slope, table) for each, table in zip(sums, tables, strict=True))
        return (*added, total + np.sum(slope, dtype=np.int64))

    def shapes(self, *inputs: _Shape) -> tuple[_Shape, ...]:
        """Return those of the sums, and (1,)."""
        return (*_sums_of(inputs, own=1), (1,))


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

    def in_clear(self, *inputs: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Return (place,), an array of one number."""
        scores = list(inputs[: self.n_data_parties])
        if self.constant:
            scores.append(self.constant * inputs[self.n_data_parties])
        both = np.concatenate([*scores, *(-each for each in scores)])
        noisy = both + np.sum(inputs[self.n_data_parties + 1 :], axis=0, dtype=np.int64)
        return (np.array([np.argmax(noisy)], dtype=np.int64),)

    def shapes(self, *inputs: _Shape) -> tuple[_Shape, ...]:
        """Return (1,)."""
        sums, total = inputs[: self.n_data_parties], inputs[self.n_data_parties : self.n_data_parties + 1]
        noise = inputs[self.n_data_parties + 1 :]
        fits = self.n_data_parties >= 1 and tuple(total) == ((1,),) and all(len(each) == 1 for each in sums)
        fits = fits and len(noise) >= 1
        if fits:
            width = sum(each[0] for each in sums) + (self.constant != 0)
            fits = set(noise) == {(2 * width,)}
        _fits(fits, "sums (d) by party, a sum (1), and noise (twice as many as there are scores) by party", inputs)
        return ((1,),)


PROGRAMS: Final[tuple[type[Program], ...]] = (
    Add, Mask, CrossProduct, MoveDuals, AddSlopes, AddScores, ChooseColumn,
)  # fmt: skip
"""All of them."""

COMPARES: Final[tuple[type[Program], ...]] = (MoveDuals, AddScores, ChooseColumn)
"""Those that compare secret numbers, which not every engine can."""


def program_text(program: Program) -> str:
    """Return a program as canonical JSON."""
    return json.dumps([type(program).__name__, asdict(program)], sort_keys=True)


def program_from(text: str) -> Program:
    """Return the listed program that `program_text` has written."""
    kind, constants = json.loads(text)
    listed = {program.__name__: program for program in PROGRAMS}
    return listed[kind](**{key: tuple(value) if isinstance(value, list) else value for key, value in constants.items()})


def digest_of(programs: Sequence[Program]) -> str:
    """Return what parties compare: programs in order, with their constants, as a SHA-256 digest."""
    listed = [[type(program).__name__, asdict(program)] for program in programs]
    return hashlib.sha256(json.dumps(listed, sort_keys=True).encode()).hexdigest()


def _fits(fits: bool, wanted: str, shapes: Sequence[_Shape]) -> None:
    if not fits:
        raise ValueError(f"inputs must be {wanted}, but are of the shapes {', '.join(map(str, shapes)) or 'none'}")


def _sums_of(inputs: Sequence[_Shape], own: int) -> Sequence[_Shape]:
    """Return the shapes of the parties' sums, of inputs in the order of `MoveDuals` with ``own`` arrays of its own."""
    n_parties = (len(inputs) - own - 1) // 3
    sums, total = inputs[own : own + n_parties], inputs[own + n_parties : own + n_parties + 1]
    rows = inputs[own + n_parties + 1 :]
    n = inputs[0] if inputs else ()
    fits = n_parties >= 1 and len(inputs) == own + 1 + 3 * n_parties and len(n) == 1
    fits = fits and set(inputs[:own]) == {n} and tuple(total) == ((1,),) and set(rows[:n_parties]) == {n}
    fits = fits and all(
        len(each) == 1 and table == (*n, *each) for each, table in zip(sums, rows[n_parties:], strict=True)
    )
    _fits(fits, f"{own} of rows (n), sums (d) by party, a sum (1), margins (n) and tables (n, d) by party", inputs)
    return sums
