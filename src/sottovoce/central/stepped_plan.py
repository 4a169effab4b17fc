"""What solvers share that go in noisy steps: the scales first, then one model for each target, averaged over steps."""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._validation import number
from sottovoce.central.calibration import Calibration, Prior, calibrate, prior_for
from sottovoce.central.clipped_sums import ClippedSum, clipped_sum
from sottovoce.central.plan import Fit, Report, Solution
from sottovoce.central.scaled_plan import ScaledPlan, Scales
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.events import Event, GaussianEvent, RepeatedEvent, compose

__all__ = ["SteppedPlan"]

# names in the receipt
_SLOPES: Final = "slopes of the calibration (noisy)"
_SHIFTS: Final = "shifts of the calibration (noisy)"


class SteppedPlan(ScaledPlan):
    """Plan of a solver that releases clipped sums, step by step; the solver says how a step is taken (`iterates`)."""

    # Share of the released points, the last ones, that a model is averaged over.
    averaged: ClassVar[float]

    @property
    def unit(self) -> float:
        """What a released point is divided by to be weights: v is alpha n times as long."""
        return self.alpha_scaled * self.n_samples

    @property
    def releases(self) -> tuple[str, ...]:
        """What the statement covers, for the receipt."""
        steps = "the weights after every step (the model is an average of them)"
        return (*self.scale_releases, steps, *self.calibration_releases)

    @property
    def calibration_releases(self) -> tuple[str, ...]:
        """What is released of the calibration, in words."""
        counts = "noisy sums over rows that depend on prediction and label: slope and shift of each model follow"
        return (counts,) if self.share_of_calibration > 0.0 else ()

    @abstractmethod
    def steps_for(self, scales: Scales) -> int:
        """Return the number of noisy steps of each model."""

    def points_for(self, scales: Scales) -> int:
        """Return the number of released points that may enter the average of a model."""
        return self.steps_for(scales)

    @abstractmethod
    def clip_for(self, scales: Scales) -> float:
        """Return the bound on a row's term (of the first step, where it falls)."""

    @abstractmethod
    def multiplier_for(self, scales: Scales) -> float:
        """Return the noise of a step divided by its sensitivity."""

    @abstractmethod
    def iterates(self, fit: Fit, y: Vector, scales: Scales, sums: ClippedSum) -> Iterator[Vector]:
        """Take the steps for one target, each a release of ``sums``; yield the released points."""

    def spent(self, event: GaussianEvent, n_steps: int) -> tuple[Event, ...]:
        """Return what the steps of all models cost, from what one release does."""
        return (RepeatedEvent(event, n_steps * self.n_models),)

    def prior_for(self, scales: Scales) -> Prior:
        """Return what is known of slope and shift before the calibration."""
        return prior_for(self.mu_model * self.n_samples, self.facts, scales.eigenvalue, self.mu_scale * self.n_samples)

    def calibrate(self, fit: Fit, y: Vector, weights: Vector, scales: Scales) -> Calibration | None:
        """Fit slope and shift of finished weights as planned; None where the plan has no share for it."""
        if self.share_of_calibration == 0.0:
            return None
        return calibrate(
            fit.rows,
            y,
            [weights],
            mu=self.mu_calibration / math.sqrt(self.n_models),
            adjacency=self.adjacency,
            n_public=self.n_samples,
            prior=self.prior_for(scales),
            noise=fit.noise,
            team=fit.team,
        )

    def calibrated(self, slopes: list[float], shifts: list[float]) -> dict[str, object]:
        """Return what a receipt says of the calibration."""
        return {_SLOPES: slopes, _SHIFTS: shifts} if self.share_of_calibration > 0.0 else {}

    def calibration_of(self, released: Mapping[str, object]) -> dict[str, object]:
        """Return what a receipt says of the calibration, checked."""
        if self.share_of_calibration == 0.0:
            return {}
        slopes, shifts = released.get(_SLOPES), released.get(_SHIFTS)
        if not (isinstance(slopes, list) and isinstance(shifts, list) and len(slopes) == len(shifts) == self.n_models):
            raise ParameterError(
                f"there must be lists of {self.n_models} slopes and shifts; got {slopes!r}, {shifts!r}."
            )
        return self.calibrated(
            [number(_SLOPES, slope, above=0.0) for slope in slopes], [number(_SHIFTS, shift) for shift in shifts]
        )

    def train(self, fit: Fit) -> Solution:
        """Release the scales, and train one model for each target as planned."""
        self.settle()  # calibrated from public facts before anything is released
        _ = fit.noise  # the first stream to be opened, also where no scale is released
        scales = self.release_scales(fit)
        n_steps, n_points = self.steps_for(scales), self.points_for(scales)
        sums = clipped_sum(self.adjacency, self.clip_for(scales), self.multiplier_for(scales))
        averaged = max(1, round(self.averaged * n_points))
        calibrations: list[Calibration] = []

        def train_one(y: Vector, report: Report) -> Vector:
            # a classifier's location is 0: no second copy of its labels
            centred, total = y - scales.location if scales.location else y, np.zeros(self.n_weights)
            for step, point in enumerate(self.iterates(fit, centred, scales, sums)):
                if step >= n_points - averaged:
                    total += point
                report(step + 1)
            weights = total / (averaged * self.unit)
            if (calibration := self.calibrate(fit, y, weights, scales)) is None:
                return weights
            calibrations.append(calibration)
            return calibration.applied(weights, fit.rows.constant)

        weights = fit.each_model(n_points, train_one)
        event = compose(*scales.events, *self.spent(sums.mechanism.event, n_steps), *self.calibration_events)
        told = self.calibrated([c.slope for c in calibrations], [c.shift for c in calibrations])
        return Solution(weights, n_steps, event, self.chosen(scales) | told, offset=scales.location)
