r"""The noise of private Frank-Wolfe over distributed columns as published, for reproduction: its claim does not hold.

Formulas of Lou and Cheung (Algorithm 2, Theorems 2 and 3) for a claimed epsilon and delta, n people, K parties, T
steps, a ball of size eta for entries within [-1, 1], slopes within G, and a public Gaussian sketch J of m rows:
``docs/privacy/published_vertical_frank_wolfe.md``.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from scipy.linalg import eigvalsh

from sottovoce._numerics import ROUNDING_SLACK, Vector
from sottovoce._validation import number, whole_number
from sottovoce.exceptions import MessageError
from sottovoce.privacy.events import GaussianEvent
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below, rounding_norm, to_ticks

_PIECE: Final = 1024  # people whose columns of J are in memory at a time
_KEPT: Final = 2**23  # entries of J that are kept, 64 MB; a larger one is drawn again for each use
_REACH: Final = 12.0  # standard deviations of the noise; what is beyond is cut, after the noise
_SLACK: Final = 1.0 + 2.0**-40  # rounding of norms and of sums


def published_steps(n_people: int, epsilon: float) -> int:
    r"""Return T of Theorem 3 with its constants left out, :math:`(n \varepsilon)^{2/3}`, rounded."""
    n, epsilon = whole_number("n_people", n_people, at_least=1), number("epsilon", epsilon, above=0.0)
    return max(1, round(math.pow(n * epsilon, 2.0 / 3.0)))


def published_rows(n_steps: int, delta: float, jl_parameter: float) -> int:
    r"""Return m of the sketch, :math:`\ln(2 T / \delta) / \iota^2` with the constant 1, rounded up.

    iota, the ``jl_parameter``, is the relative error that a sketched inner product may have.
    """
    n_steps = whole_number("n_steps", n_steps, at_least=1)
    delta = number("delta", delta, above=0.0, below=1.0)
    jl_parameter = number("jl_parameter", jl_parameter, above=0.0, at_most=1.0)
    return math.ceil(math.log(2.0 * n_steps / delta) / jl_parameter**2)


def published_selection_scale(
    slope_bound: float, vertex: float, *, n_people: int, n_steps: int, epsilon: float, delta: float
) -> float:
    r"""Return the scale of the Laplace noise on a partial derivative of the mean loss.

    .. math:: \frac{(2 G \eta / K n) \sqrt{2 T \ln(1 / (\delta / 2))}}{(\varepsilon / 2 K) / 2}
       = \frac{8 G \eta \sqrt{2 T \ln(2 / \delta)}}{n \varepsilon}.

    G is the ``slope_bound``; eta the size of a ``vertex``, for entries within [-1, 1].
    """
    root = math.sqrt(2.0 * n_steps * math.log(2.0 / delta))
    return 8.0 * slope_bound * vertex * root / (n_people * epsilon)


def published_column_std(
    sensitivity: float, *, n_people: int, n_parties: int, n_steps: int, epsilon: float, delta: float
) -> float:
    r"""Return pi, the standard deviation of the noise on an entry of a sketched column.

    .. math:: \frac{\sigma(J) \sqrt{K T} \sqrt{2 (\ln(1/\delta) + \varepsilon / 2)}}{n \varepsilon / 2}.

    sigma(J), the ``sensitivity``, is the leading singular value of the sketch; 1 without one.
    """
    root = math.sqrt(n_parties * n_steps) * math.sqrt(2.0 * (math.log(1.0 / delta) + 0.5 * epsilon))
    return sensitivity * root / (0.5 * n_people * epsilon)


@dataclass(frozen=True)
class Sketch:
    """A public linear map J of n entries to m numbers, with entries N(0, 1/m).

    One person's entry meets one column of J, so the sensitivity of J a is the largest norm of a *column* times that of
    a (not the leading singular value of J, which is 7 to 11 times as much). J follows from a public seed: it protects
    nobody.
    """

    n_people: int  # n
    n_rows: int  # m, at least 4
    seed: int  # public

    def __post_init__(self) -> None:
        whole_number("sketch_rows", self.n_rows, at_least=4)

    @cached_property
    def largest_norm(self) -> float:
        return _SLACK * max(float(np.sqrt((piece**2).sum(axis=0).max())) for _, piece in self._pieces())

    @property
    def rounding(self) -> float:
        """How far rounding in `compress` can move two results apart, for entries within 1 and multiples of 2^-20."""
        return 2.0 * float(np.sqrt(self.n_rows)) * self.largest_norm * self.n_people**2 * 2.0**-52

    @cached_property
    def largest_sum(self) -> float:
        return _SLACK * float(np.max(sum(np.abs(piece).sum(axis=1) for _, piece in self._pieces())))

    @cached_property
    def leading_singular_value(self) -> float:
        """Largest singular value of J: the published sensitivity of a sketch."""
        gram, last = np.asarray(sum(piece @ piece.T for _, piece in self._pieces())), self.n_rows - 1
        return float(np.sqrt(eigvalsh(gram, subset_by_index=(last, last))[0]))

    @cached_property
    def _kept_pieces(self) -> list[tuple[slice, Vector]] | None:
        return list(self._drawn_pieces()) if self.n_rows * self.n_people <= _KEPT else None

    def _pieces(self) -> Iterable[tuple[slice, Vector]]:
        return self._kept_pieces or self._drawn_pieces()

    def _drawn_pieces(self) -> Iterator[tuple[slice, Vector]]:
        rng = np.random.Generator(np.random.PCG64(self.seed))
        for low in range(0, self.n_people, _PIECE):
            place = slice(low, min(low + _PIECE, self.n_people))
            yield place, rng.standard_normal((self.n_rows, place.stop - low)) / np.sqrt(self.n_rows)

    def compress(self, column: Vector) -> Vector:
        """Return J a."""
        return np.asarray(sum(piece @ column[place] for place, piece in self._pieces()))

    def spread(self, compressed: Vector) -> Vector:
        """Return J'u, one number a person: its inner product with a column a is that of J a with u."""
        return np.concatenate([compressed @ piece for _, piece in self._pieces()])


@dataclass(frozen=True)
class ColumnRelease:
    """One shared column through a public sketch, in units of the party's public bound on its entries.

    For entries within [-1, 1] a replaced person moves one by at most 2. Entries are cut to multiples of 2^-20 before
    they are sketched. A sketch is rounded to whole ticks as a whole, which the sensitivity counts. Noisy ticks take 2,
    4 or 8 bytes each, which follows from public facts.
    """

    noise_multiplier: float
    sketch: Sketch

    @property
    def event(self) -> GaussianEvent:
        return GaussianEvent(self.noise_multiplier)

    @property
    def size(self) -> int:
        return self.sketch.n_rows

    @cached_property
    def mechanism(self) -> GridGaussian:
        exact = 2.0 * self.sketch.largest_norm * ROUNDING_SLACK
        widest = power_of_two_below(exact / math.sqrt(self.size)) * 2.0**-12
        tick = min(power_of_two_below(exact * self.noise_multiplier * 2.0**-6), widest)
        return GridGaussian(exact + rounding_norm(self.size, tick) + self.sketch.rounding, self.noise_multiplier, tick)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        ticks = (self.sketch.largest_sum + _REACH * self.mechanism.noise_std) / self.mechanism.tick
        return np.dtype("<i2" if ticks < 2**15 - 1 else "<i4" if ticks < 2**31 - 1 else "<i8")

    def release(self, column: Vector, noise: np.random.Generator) -> bytes:
        """Return the noisy sketch as it is sent; ``column`` is within [-1, 1]."""
        ticks = to_ticks(self.sketch.compress(np.trunc(column * 2.0**20) * 2.0**-20), self.mechanism.tick)
        noisy, _ = self.mechanism.release(ticks, noise)
        limits = np.iinfo(self.dtype)
        return np.clip(np.rint(noisy / self.mechanism.tick), limits.min, limits.max).astype(self.dtype).tobytes()

    def read(self, raw: bytes) -> Vector:
        """Return the noisy sketch in units of the party's bound.

        Raises `MessageError` if there are not as many bytes as planned.
        """
        if len(raw) != self.size * self.dtype.itemsize:
            raise MessageError(f"a shared column has {len(raw)} bytes where {self.size * self.dtype.itemsize} are due.")
        return np.frombuffer(raw, self.dtype).astype(np.float64) * self.mechanism.tick


def bounded_column(table: Any, column: int, data_bound: float) -> Vector:
    """Return a column of the table within [-1, 1]: divided by ``data_bound``, and clipped; ones behind the last one."""
    if column == table.shape[1]:
        return np.ones(table.shape[0])
    sparse = not isinstance(table, np.ndarray)
    entries = table[:, [column]].toarray().ravel() if sparse else table[:, column]
    return np.clip(np.asarray(entries, dtype=np.float64), -data_bound, data_bound) / data_bound
