r"""What a joint training does beside the second moments: the passes, their noise, and what becomes of what they open.

**Newton steps with secret dual variables**, for engines that can compare. The rules and the steps are those of
`sottovoce.central.newton_schedule`, where mu says how large the noise is; what is different is whole numbers. Dual
variables are counted in steps of 2^-22, margins in steps of 2^-10. For the logistic loss the target is two clips,

.. math:: \mathrm{sigmoid}(z) - \tfrac12 \approx \sum_k h_k \, \mathrm{clip}(z / b_k, -1, 1),

which errs by at most .018; that of the smoothed hinge is one clip, and exact. Every row moves by at most C_t, whatever
its length: a pass moves its sum by at most 2 C_t for a person that is replaced.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.central.newton_schedule import CurvatureByWeight, NewtonSchedule, NewtonSteps
from sottovoce.central.noisy_moments import NoisyMoments
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic, Loss, SmoothedHinge
from sottovoce.privacy.events import Event, compose
from sottovoce.privacy.mechanisms.discrete_gaussian import SharedGaussian
from sottovoce.vertical.engines.programs import MoveDuals, OverRows
from sottovoce.vertical.secure.whole_rows import ROW, SQUARE, longest

if TYPE_CHECKING:
    from sottovoce.vertical.secure.joint_plan import JointPlan

LEAST_ALPHA: Final = "alpha that the noise asks for, at least, for rows in the plan's unit"  # in receipts


Passes = Generator[Vector, Vector, Vector]
"""It yields the weights in the plan's unit where the next pass asks the rows, is sent what that opened (sums over rows
of whole terms, in the order of the weights), and returns the model. Nothing here sees a row."""


class Training(ABC):
    """How one loss is trained."""

    plan: "JointPlan"
    moments: SharedGaussian  # of the second moments
    # of the rows' products with the labels, where these are released by themselves
    labels: SharedGaussian | None = None
    noises: tuple[SharedGaussian, ...] = ()  # of each pass
    with_labels: bool = False  # whether step 0 releases products with the labels
    # a party's margins are counted in steps of 1 / ``margin_unit`` and cut at ``margin_bound`` steps
    margin_unit: int = 1
    margin_bound: int = 0
    largest: int = 0  # bound on what one row adds to any sum inside, in whole numbers

    @property
    def event(self) -> Event:
        labels = [] if self.labels is None else [self.labels.event]
        return compose(*labels, self.moments.event, *(noise.event for noise in self.noises))

    @abstractmethod
    def program(self, step: int) -> OverRows:
        """Return what pass ``step`` adds up over the rows."""

    @abstractmethod
    def passes(self, matrix: Vector, correlations: Vector, chosen: dict[str, object]) -> Passes:
        """Begin with the noisy second moments, and the labels' products with the rows where they were released.

        ``chosen`` is given the public numbers that the run chooses, for the receipt.
        """

    @abstractmethod
    def details(self) -> dict[str, object]: ...


MARGIN: Final = 2**10


class ClippedPasses(Training):
    """Passes in which every row moves its secret dual variable by at most the clip of the pass."""

    margin_unit, margin_bound = MARGIN, 2**36

    mu_passes: float  # Gaussian-DP parameter of all passes

    def share_out(self, shares: Sequence[float], unit: float, beside: float = 0.0) -> None:
        """Set clips and noise of all passes: 1/s^2 in proportion to the clips gives the sum the least noise.

        ``shares``: the clips, in units of so many steps of the dual variables.
        ``beside``: of a row in the second moments, see `longest`.
        """
        whole, length = math.fsum(shares), longest()
        self.clips = tuple(max(1, round(share * unit)) for share in shares)
        self.noises = tuple(
            self.plan.shared(4 * clip**2 * length, self.mu_passes * math.sqrt(share / whole))
            for clip, share in zip(self.clips, shares, strict=True)
        )
        self.largest = max(longest(beside), max(self.clips) * ROW)

    def details(self) -> dict[str, object]:
        return {
            "mu (Gaussian DP) of the second moments": self.moments.mu,
            "mu of the passes": self.mu_passes,
            "passes": len(self.noises),
        }


LABEL: Final = math.sqrt(0.5)  # c: X'X and X't get 4/9 of mu^2 each, as in `sufficient_statistics`
_MOST_ENTRIES: Final = 2**25  # of all tables, which passes keep inside; beyond, noise is small against so many rows

# chosen as docs/decisions/0019 says
_MOMENTS_SHARE: Final = 0.25  # of mu^2
_PASSES: Final = 8
_CLIP: Final = 0.15  # of the first pass, in units of half the range of labels
_DECAY: Final = 0.8
_MOST_CLIP: Final = 2.0
_MANY: Final = 1000.0  # mu n / d from which the clips grow
_EDGE: Final = 0.6  # of the spectrum of the noise: the least eigenvalue
_PENALTY: Final = 0.05  # times 1 / mu

_OFFSET: Final = 2**8
_DUAL: Final = LABEL * ROW * _OFFSET  # of half the range of labels
_MOST_MARGIN: Final = 8  # in units of half the range of labels: predictions beyond are cut inside


class RefinedRidge(ClippedPasses):
    r"""One release of sum_i u_i u_i', u_i = (x_i, the constant, c t_i), then passes over residuals.

    There are none where an engine cannot compare, where the tables are too large to be kept inside, and where nobody
    wants them: then the moments have all of mu, and the ridge that follows from them is the model.

    The noise of X'X multiplies the weights, so the ridge of noisy moments alone stays off where columns go together. As
    in one table (`sottovoce.central.solvers.refinement`), residuals correct it: with labels t within [-1, 1] and secret
    dual variables a_i, which start at 0, pass k

    1. moves a_i toward the residual t_i - x_i.w by at most C_k, and opens the noisy sum of the moves times the rows;
    2. steps :math:`w \leftarrow w + (D + \Lambda)^{-1} (v - \Lambda w)`, v the sum of all that passes opened,

    from the ridge of the moments on. D is their noisy matrix, its eigenvalues kept above a share of the edge of the
    noise's spectrum. Where steps end, v = Lambda w: the equations of the exact matrix. As for the other losses, the
    noise in v is that of one release of sensitivity sum_k C_k; C_k falls geometrically, and grows with what there is to
    learn, so that the limit is the exact optimum. Whole numbers: labels as in the second moments, dual variables in 2^8
    steps of these.
    """

    def __init__(self, plan: "JointPlan") -> None:
        length, n_passes = longest(LABEL**2), plan.n_passes
        self.plan, self.with_labels, self.largest = plan, True, length
        if plan.engine == "shamir" or (n_passes is None and plan.n_samples * plan.n_weights > _MOST_ENTRIES):
            n_passes = 0
        elif n_passes is None:
            n_passes = _PASSES
        share = _MOMENTS_SHARE if n_passes else 1.0
        self.moments = plan.shared(2 * length**2, plan.mu * math.sqrt(share))  # |uu' - zz'|^2 <= |u|^4 + |z|^4
        if n_passes:
            self.mu_passes = plan.mu * math.sqrt(1.0 - share)
            start = _CLIP * (1.0 + self.mu_seen * plan.n_samples / plan.n_weights / _MANY) ** 0.25
            self.share_out([min(_MOST_CLIP, start * _DECAY**k) for k in range(n_passes)], _DUAL, LABEL**2)

    @property
    def mu_seen(self) -> float:
        """What the passes' mu amounts to against all parties' noise."""
        return self.mu_passes / self.plan.noise_factor

    def program(self, step: int) -> MoveDuals:
        """Return how dual variables move in a pass: a target is label minus margin."""
        factor = round(_DUAL / MARGIN)
        bound = factor * _MOST_MARGIN * MARGIN
        return MoveDuals(clip=self.clips[step - 1], offset=_OFFSET, factors=(factor,), bounds=(bound,))

    def passes(self, matrix: Vector, correlations: Vector, chosen: dict[str, object]) -> Passes:
        plan, noise = self.plan, self.moments.total_std() / SQUARE
        moments = np.zeros((plan.n_weights + 1, plan.n_weights + 1))
        moments[:-1, :-1] = matrix
        moments[-1] = moments[:, -1] = correlations / SQUARE
        point, floor = NoisyMoments(moments, LABEL, noise).ridge_by_weight(plan.penalties)
        if not self.noises:
            chosen[LEAST_ALPHA] = floor / plan.n_samples
            return point
        floor = _PENALTY / self.mu_seen
        least = _EDGE * math.sqrt(2.0 * plan.n_weights) * noise
        curvature = CurvatureByWeight(matrix, least, np.maximum(plan.penalties, floor))
        chosen[LEAST_ALPHA] = floor / plan.n_samples
        v = np.zeros(plan.n_weights)
        for _ in self.noises:
            v = v + (yield point) / (ROW * _DUAL)
            point = point + curvature.solve(v - curvature.pull(point), 1.0)
        return point

    def details(self) -> dict[str, object]:
        if self.noises:
            return super().details()
        return {
            "mu (Gaussian DP) of the second moments": self.moments.mu,
            "noise of an entry of the diagonal of X'X": self.moments.total_std() / SQUARE,
        }


# ------------------------------------------------------------------ classifiers, by engines that can compare


_GRAM_SHARE: Final = 0.08  # of mu^2, as in one table
# what differs from one table, where passes cost less (docs/decisions/0019)
_FEWEST_PASSES: Final = 9.0  # the one for the labels included, while mu n / d is below the next number
_SOME: Final = 10.0
_MORE_PASSES: Final = 0.35  # times the square of the logarithm above it
_MOST_PASSES: Final = 24
_LEAST_SMOOTHING: Final = 1.0  # of the hinge inside: few steps cannot follow a sharper corner
_SMALLEST_STEP_OF_HINGE: Final = 0.4  # where l'' is seen as 0 between its corners, steps would be far too long
_STEP: Final = 2**22
_NARROWEST, _WIDEST = 2.0**-6, 2.0**6  # smoothing of the hinge


class DualPasses(ClippedPasses):
    """The second moments, a pass for the labels, and Newton steps."""

    def __init__(self, plan: "JointPlan", loss: Loss) -> None:
        length = longest()
        self.link = _link(loss)  # refuses a corner that nobody can mean
        if isinstance(loss, SmoothedHinge):
            loss = SmoothedHinge(max(loss.smoothing, _LEAST_SMOOTHING))
            self.link = _link(loss)
        self.plan, self.loss = plan, loss
        self.moments = plan.shared(2 * length**2, plan.mu * math.sqrt(_GRAM_SHARE))
        self.mu_passes = plan.mu * math.sqrt(1.0 - _GRAM_SHARE)
        schedule = NewtonSchedule(
            slope=abs(float(loss.derivative(np.ones(1), np.zeros(1))[0])),
            smoothness=loss.smoothness,
            mu=self.mu_passes / plan.noise_factor,
            n_units=plan.n_samples,
            n_weights=plan.n_weights,
        )
        if isinstance(loss, SmoothedHinge):
            schedule = replace(schedule, smallest_step=_SMALLEST_STEP_OF_HINGE)
        n_passes = plan.n_passes
        if n_passes is None:
            more = _MORE_PASSES * math.log(max(1.0, schedule.information / _SOME)) ** 2
            n_passes = round(min(_FEWEST_PASSES + more, _MOST_PASSES))
        self.schedule = replace(schedule, n_passes=n_passes)
        self.share_out(self.schedule.clips, _STEP)

    def program(self, step: int) -> MoveDuals:
        return replace(self.link, clip=self.clips[step - 1])

    def passes(self, matrix: Vector, correlations: Vector, chosen: dict[str, object]) -> Passes:
        schedule, unit = self.schedule, ROW * _STEP
        least = schedule.least_eigenvalue(self.moments.total_std() / SQUARE)
        penalties = np.maximum(self.plan.penalties, schedule.least_penalty)
        steps = NewtonSteps(schedule, CurvatureByWeight(matrix, least, penalties))
        chosen[LEAST_ALPHA] = schedule.least_penalty / self.plan.n_samples
        for noise in self.noises:
            sums = yield steps.point
            steps.take(sums / unit, noise.total_std() / unit)
        return steps.point

    def details(self) -> dict[str, object]:
        smoothed = {"smoothing, as trained": self.loss.smoothing} if isinstance(self.loss, SmoothedHinge) else {}
        return super().details() | smoothed


def _link(loss: Loss) -> MoveDuals:
    """Return -l' in whole numbers; its clip is each pass's own."""
    if isinstance(loss, Logistic):
        factors, bounds = sigmoid_clips(MARGIN, _STEP)
        return MoveDuals(clip=1, offset=_STEP // 2, factors=factors, bounds=bounds)
    assert isinstance(loss, SmoothedHinge)
    if not _NARROWEST <= loss.smoothing <= _WIDEST:
        raise ParameterError(
            f"smoothing must be within {_NARROWEST:g} and {_WIDEST:g} inside secure computation, whose whole numbers "
            f"count the slope; got {loss.smoothing!r}. Use 0.5."
        )
    factor = round(_STEP / (loss.smoothing * MARGIN))
    half = _STEP // 2  # y clip(factor (1 - y z), 0, 1), of which y / 2 is taken out
    return MoveDuals(clip=1, offset=half, factors=(factor,), bounds=(half,), shift=factor * MARGIN - half)


_CLIPS: Final = (
    (1.65649144, 0.25793087),
    (4.03465098, 0.24206913),
)  # (b, h) of h clip(z / b, -1, 1): least largest error


def sigmoid_clips(margin: int, slope: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return whole factors and bounds: sum_k clip(factor_k z, -bound_k, bound_k).

    ``margin`` and ``slope``: steps in a unit of z, and in a unit of the sum.
    """
    corners = [round(b * margin) for b, _ in _CLIPS]
    factors = tuple(round(h * slope / corner) for (_, h), corner in zip(_CLIPS, corners, strict=True))
    return factors, tuple(factor * corner for factor, corner in zip(factors, corners, strict=True))
