"""Newton steps with secret dual variables: rules that follow from public facts, and points from what passes release.

Steps are the longer the smaller c is, the guess of l''. What releases show of it is how v fell along the last step.
While clips let no dual variable arrive, v does not answer to the point, and l'' would seem to be 0: steps would be too
long, and later, narrower clips could not take them back. So c is kept above what l'' is about at margins as large as
the point's, whose root mean square the noisy matrix tells. Where columns say little about the label, margins are small,
and c stays near the bound on l''.

Who holds the rows is not known here: one table (`sottovoce.central.solvers.newton`), or columns at several parties
(`sottovoce.vertical.secure`).
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final, NamedTuple

import numpy as np
from scipy.linalg import eigh

from sottovoce._numerics import Vector

# All of the following was chosen on public data (`benchmarks/central/newton.py`), in units of the logistic loss.
_SOME: Final = 20.0  # mu n / d from which passes are added, and penalty and steps get smaller
_MORE_PASSES: Final = 0.35  # times the square of the logarithm above it
_FIRST_CLIP: Final = 0.1
_MOST_CLIP: Final = 0.5
_EDGE: Final = 0.5  # of the spectrum of the noise: the least eigenvalue
_FEW: Final = 250.0  # mu n below which it is higher
_STEP: Final = 0.75  # c over the bound on l'', at most
_LEAST_STEP: Final = 0.2  # and at least, where mu n / d is _SOME; it falls with the square root of mu n / d
_SMALLEST_STEP: Final = 0.08
_FALL: Final = 1.5  # power of 1/cosh; 2 is the logistic loss at one margin. Chosen on made-up tables too
_FAR: Final = 100.0  # a margin at which l'' is 0
_FIRST_STEP: Final = 0.55  # c_0 over it: the margins of the first point are not near 0 any more
_PENALTY: Final = 0.1  # times 1 / mu, while mu n / d is below _SOME; then it falls with it, down to
_LEAST_PENALTY: Final = 0.02


class Pace(NamedTuple):
    """How many passes there are, and how their clips fall."""

    passes: int  # after the one for the labels, while mu n / d is below _SOME
    most_passes: int
    clip: float
    decay: float  # of the clip in a pass
    last_clip: float  # over the first one, at least
    many: float  # mu n / d from which the clips grow


# Few long clips bring the hinge to its corner, and cost little where a pass is dear. Many short ones add up to half of
# that, so v has half the noise, and rows that the model cannot fit pull less.
QUICK: Final = Pace(passes=11, most_passes=24, clip=0.09, decay=0.15, last_clip=0.05, many=1000.0)
PATIENT: Final = Pace(passes=30, most_passes=30, clip=0.037, decay=0.12, last_clip=0.02, many=100.0)


@dataclass(frozen=True, kw_only=True)
class NewtonSchedule:
    """What the passes of one model do, from public facts."""

    slope: float  # |l'(0)|; twice that is the unit of the clips
    smoothness: float  # bound on l''
    mu: float  # Gaussian-DP parameter of all passes together, as far as it says how large the noise is
    n_units: float  # persons, or what a rule takes for their number
    n_weights: int
    rows: int = 1  # rows of a person, at most
    pace: Pace = QUICK
    n_passes: int | None = None  # the one for the labels included; None follows a rule
    smallest_step: float = _SMALLEST_STEP  # what `least_step` is at least

    most_step: ClassVar[float] = _STEP  # c over the bound on l'': steps are stable with it whatever the margins are
    first_step: ClassVar[float] = _FIRST_STEP  # the factor of the first direction over the bound on l''

    @property
    def information(self) -> float:
        """Mu n / d: what there is to learn a weight from."""
        return self.mu * self.n_units / self.n_weights

    @cached_property
    def clips(self) -> tuple[float, ...]:
        """Bounds on a row's term, pass by pass."""
        pace, more = self.pace, _MORE_PASSES * math.log(max(1.0, self.information / _SOME)) ** 2
        growth = (1.0 + self.information / pace.many) ** 0.25
        by_rule = round(min(pace.passes + more, pace.most_passes)) + 1
        n_passes = self.n_passes if self.n_passes is not None else by_rule
        # with many passes the last clips stay wide enough for rows to move
        decay = max(1.0 - pace.decay / growth, pace.last_clip ** (1.0 / n_passes))
        start = min(_MOST_CLIP, pace.clip * growth)
        unit = 2.0 * self.slope
        return tuple(unit * clip for clip in (_FIRST_CLIP, *(start * decay**t for t in range(n_passes - 1))))

    @cached_property
    def multipliers(self) -> tuple[float, ...]:
        """Noise of each pass over its sensitivity: 1/s^2 in proportion to the clips gives the sum the least noise."""
        whole = math.fsum(self.clips)
        return tuple(math.sqrt(whole / clip) / self.mu for clip in self.clips)

    @property
    def least_penalty(self) -> float:
        """With little mu the noise asks for at least this Lambda: less where there is much to learn a weight from."""
        penalty = max(_LEAST_PENALTY, _PENALTY * min(1.0, _SOME / self.information))
        return penalty * 2.0 * self.slope * self.rows / self.mu

    def least_eigenvalue(self, noise_std: float) -> float:
        """Return what eigenvalues of the noisy matrix are kept above: a share of the edge of the noise's spectrum.

        ``noise_std`` is that of an entry of the diagonal.
        """
        edge = math.sqrt(2.0 * self.n_weights) * noise_std
        return _EDGE * math.sqrt(1.0 + _FEW / (self.mu * self.n_units)) * edge

    def least_step(self, length: float) -> float:
        """Return the least c over the bound on l'', where the root of the sum of squared margins is ``length``.

        With little to learn from, what is seen along a step is noise. And l'' is not far below its bound where margins
        are small: at a margin z that of the logistic loss is 1/cosh(z/2)^2 of it, and its mean over margins that are
        spread falls more slowly. Another loss is taken to fall on its own scale, |l'(0)| over the bound.
        """
        margin = length / math.sqrt(self.n_units * self.rows)
        falls = math.pow(math.cosh(min(margin * self.smoothness / self.slope, _FAR)), -_FALL)
        return min(_STEP, max(self.smallest_step, _LEAST_STEP * math.sqrt(_SOME / self.information), falls))


class Curvature:
    """A noisy Gram matrix with its eigenvalues kept above a least one, and a penalty.

    ``matrix``: of shape (n_weights, n_weights).
    ``least``: the least eigenvalue.
    """

    def __init__(self, matrix: Vector, least: float, penalty: float) -> None:
        values, self._vectors = eigh(matrix)
        self._across, self._values = self._vectors.T, np.maximum(values, least)
        self._roots, self._penalty = np.sqrt(self._values), penalty

    @property
    def n_weights(self) -> int:
        return len(self._values)

    @property
    def largest(self) -> float:
        return float(self._values[-1])

    def pull(self, weights: Vector) -> Vector:
        return self._penalty * weights

    def solve(self, vector: Vector, factor: float) -> Vector:
        """Return (factor D + penalty I)^-1 times the vector."""
        scaled: Vector = (self._across @ vector) / (factor * self._values + self._penalty)
        return np.asarray(self._vectors @ scaled)

    def length(self, weights: Vector) -> float:
        """Return sqrt(w'Dw): the root of the sum of the squared margins, as far as the matrix tells."""
        return math.sqrt((margins := self._roots * (self._across @ weights)) @ margins)

    def along(self, step: Vector, gained: Vector, noise_std: float) -> float:
        """Return the factor that explains how the gradient fell along a step, and one standard deviation of its noise.

        NaN-free and total: no step at all explains everything.
        """
        length = math.sqrt(step @ step)
        size = float(self._values @ np.square(self._across @ step))
        if not size > 0.0:
            return math.inf
        return (float(step @ gained) - self._penalized(step, length) + noise_std * length) / size

    def _penalized(self, step: Vector, length: float) -> float:
        return self._penalty * length**2


class CurvatureByWeight(Curvature):
    """The same where every weight has a penalty of its own.

    ``matrix``: of shape (n_weights, n_weights).
    ``least``: > 0.
    ``penalties``: of shape (n_weights,); each >= 0.
    """

    def __init__(self, matrix: Vector, least: float, penalties: Vector) -> None:
        super().__init__(matrix, least, 0.0)
        self._penalties = penalties
        self._matrix = (self._vectors * self._values) @ self._vectors.T

    def pull(self, weights: Vector) -> Vector:
        return self._penalties * weights

    def solve(self, vector: Vector, factor: float) -> Vector:
        """Return (factor D + penalties)^-1 times the vector."""
        return np.asarray(np.linalg.solve(factor * self._matrix + np.diag(self._penalties), vector))

    def _penalized(self, step: Vector, length: float) -> float:
        return float(step @ (self._penalties * step))


class NewtonSteps:
    """The points of one fit, from what its passes release; nothing here sees a row.

    ``point``: of shape (n_weights,); where the next pass asks the rows; after the last pass, the weights.
    ``share``: the share of -l' that the next pass moves the dual variables toward: that of the first pass is C_0 /
        |l'(0)|.
    """

    def __init__(self, schedule: NewtonSchedule, curvature: Curvature) -> None:
        self._schedule, self._curvature = schedule, curvature
        self._first = schedule.clips[0] / schedule.slope
        self._v: Vector | None = None
        self._last: tuple[Vector, Vector] | None = None
        self._factor = schedule.most_step * schedule.smoothness
        self.point: Vector = np.zeros(curvature.n_weights)
        self.share = self._first

    def take(self, moved: Vector, noise_std: float) -> None:
        """Step by what a pass released, whose noise has this standard deviation in each entry."""
        smoothness = self._schedule.smoothness
        if self._v is None:
            self._v, self.share = moved, 1.0
            self.point = self._curvature.solve(moved / self._first, self._schedule.first_step * smoothness)
            return
        self._v = self._v + moved
        gradient = self._v - self._curvature.pull(self.point)
        if self._last is not None:
            seen = self._curvature.along(self.point - self._last[0], self._last[1] - gradient, noise_std)
            least = self._schedule.least_step(self._curvature.length(self.point))
            self._factor = min(max(seen, least * smoothness), self._schedule.most_step * smoothness)
        self._last = self.point, gradient
        self.point = self.point + self._curvature.solve(gradient, self._factor)
