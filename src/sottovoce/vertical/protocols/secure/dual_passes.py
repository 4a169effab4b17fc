r"""Newton steps with secret dual variables inside: for engines that can compare.

The rules and the steps are those of `sottovoce.central.newton_schedule`, where mu says how large the noise is; what is
different is whole numbers. Dual variables are counted in steps of 2^-22, margins in steps of 2^-10. For the logistic
loss the target is made of two clips,

.. math:: \mathrm{sigmoid}(z) - \tfrac12 \approx \sum_k h_k \, \mathrm{clip}(z / b_k, -1, 1),

which errs by at most .018; that of the smoothed hinge is one clip, and exact. Every row moves by at most C_t, whatever
its length: a pass moves its sum by at most 2 C_t for a person that is replaced.
"""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.central.newton_schedule import CurvatureByWeight, NewtonSchedule, NewtonSteps
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic, Loss, SmoothedHinge
from sottovoce.vertical.engines.programs import MoveDuals
from sottovoce.vertical.protocols.secure.training import LEAST_ALPHA, MARGIN, ClippedPasses, Passes
from sottovoce.vertical.protocols.secure.whole_rows import ROW, SQUARE, longest

if TYPE_CHECKING:
    from sottovoce.vertical.protocols.secure.joint_plan import JointPlan

_GRAM_SHARE: Final = 0.08  # of mu^2, as in one table
# what differs from one table, where passes cost less (docs/decisions/0019)
_PASSES: Final = 9.0  # the one for the labels included, while mu n / d is below the next number
_SOME: Final = 10.0
_MORE_PASSES: Final = 0.35  # times the square of the logarithm above it
_MOST_PASSES: Final = 24
_LEAST_SMOOTHING: Final = 1.0  # of the hinge inside: few steps cannot follow a sharper corner
_SMALLEST_STEP_OF_HINGE: Final = 0.4  # where l'' is seen as 0 between its corners, steps would be far too long
_DUAL: Final = 2**22
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
            n_passes = round(min(_PASSES + more, _MOST_PASSES))
        self.schedule = replace(schedule, n_passes=n_passes)
        self.share_out(self.schedule.clips, _DUAL)

    def program(self, step: int) -> MoveDuals:
        return replace(self.link, clip=self.clips[step - 1])

    def passes(self, matrix: Vector, correlations: Vector, chosen: dict[str, object]) -> Passes:
        schedule, unit = self.schedule, ROW * _DUAL
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
        factors, bounds = sigmoid_clips(MARGIN, _DUAL)
        return MoveDuals(clip=1, offset=_DUAL // 2, factors=factors, bounds=bounds)
    assert isinstance(loss, SmoothedHinge)
    if not _NARROWEST <= loss.smoothing <= _WIDEST:
        raise ParameterError(
            f"smoothing must be within {_NARROWEST:g} and {_WIDEST:g} inside secure computation, whose whole numbers "
            f"count the slope; got {loss.smoothing!r}. Use 0.5."
        )
    factor = round(_DUAL / (loss.smoothing * MARGIN))
    half = _DUAL // 2  # y clip(factor (1 - y z), 0, 1), of which y / 2 is taken out
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
