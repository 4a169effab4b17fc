"""What solvers share that first release scales: the length of rows, lambda_max, and two numbers on the labels."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

from sottovoce._numerics import Vector
from sottovoce._validation import number
from sottovoce.central.calibration import Calibration, calibrate, prior_for, share_for
from sottovoce.central.data.lengths import Shorten
from sottovoce.central.facts import HARDLY_ANY_NOISE
from sottovoce.central.plan import Fit, Plan
from sottovoce.central.scales import (
    norm_counts,
    number_of_counts,
    release_label_location_and_scale,
    release_row_norm,
)
from sottovoce.central.sums.largest_eigenvalue import release_largest_eigenvalue
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.events import Event, GaussianEvent, RepeatedEvent, compose

__all__ = ["ScaledPlan", "Scales"]

_SHARE: Final = 0.02  # of mu^2, for each estimated scale
_NORM_SHARE: Final = 0.01  # of mu^2, for the length of the rows
_SHORT_BY_WISH: Final = 1e-3  # alpha beyond which the length of the weights is what was asked for

# names in the receipt
_NORM: Final = "bound of most rows, in units of data_norm (noisy)"
_EIGENVALUE: Final = "lambda_max (noisy)"
_LOCATION: Final = "label location, from the middle of the bounds (noisy)"
_LABEL: Final = "label scale (noisy)"
_SLOPES: Final = "slopes of the calibration (noisy)"
_SHIFTS: Final = "shifts of the calibration (noisy)"


@dataclass(frozen=True)
class Scales:
    """Noisy scales of the data, released, and what they cost; one that is not estimated has its public value."""

    norm: float = 1.0
    eigenvalue: float = 1.0
    location: float = 0.0
    label: float = 1.0
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ScaledPlan(Plan):
    """Plan of a solver that first releases lambda_max and, without a Lipschitz bound, two numbers on the labels."""

    # Whether a bound that most rows keep is released first of all, and rows are shortened to it.
    estimates_norm: ClassVar[bool] = False
    takes_released_norm = True
    # Whether lambda_max is released first.
    estimates_eigenvalue: ClassVar[bool] = True

    @cached_property
    def mu(self) -> float:
        return gaussian_mu(self.epsilon, self.delta)

    @property
    def estimates_labels(self) -> bool:
        return not math.isfinite(self.loss.lipschitz)

    @property
    def shortens_rows(self) -> bool:
        """Whether a bound that most rows keep is released within the public one.

        Not where there is hardly any noise that it could lessen, nor where no bound is public: then one was released.
        """
        return self.estimates_norm and self.is_noisy and not self.releases_norm

    @property
    def mu_scale(self) -> float:
        """Gaussian-DP parameter of lambda_max, and of the labels."""
        return self.mu * math.sqrt(_SHARE)

    @property
    def mu_norm(self) -> float:
        """Gaussian-DP parameter of the length of the rows."""
        return self.mu * math.sqrt(_NORM_SHARE * self.shortens_rows + self.facts.share_of_norm)

    @property
    def share_of_scales(self) -> float:
        """Share of mu^2 that all scales take."""
        length = _NORM_SHARE * self.shortens_rows + self.facts.share_of_norm
        return length + _SHARE * (self.estimates_eigenvalue + self.estimates_labels)

    @property
    def mu_steps(self) -> float:
        """Gaussian-DP parameter that is left for the steps of all models together."""
        return self.mu * math.sqrt(1.0 - self.share_of_scales - self.share_of_calibration)

    @property
    def share_of_calibration(self) -> float:
        """Share of mu^2 for slope and shift of the finished models; 0 where they are not calibrated."""
        return 0.0

    def calibration_by_rule(self, given: float | None) -> float:
        """Return the share that was given, or that of the rule: the logistic loss of one model has one."""
        if given is not None:
            return given
        if self.weight_bound is not None:
            return 0.0  # the odds that weights ask for are not those of the rows
        is_one = self.n_models == 1 and isinstance(self.loss, Logistic) and self.alpha <= _SHORT_BY_WISH
        return share_for(self.mu * self.n_units) if is_one and self.is_noisy else 0.0

    @property
    def is_noisy(self) -> bool:
        """False for budgets that hardly are any: a run then tends to the penalised optimum, length and all."""
        return self.mu <= HARDLY_ANY_NOISE

    def check_calibration(self, given: float | None) -> None:
        """Refuse a share that is none, or one for predictions that have no slope and shift to fit."""
        if given is not None:
            number("calibration_share", given, at_least=0.0, at_most=0.5)
        if given and self.weight_bound is not None:
            raise ParameterError(
                "calibration_share must be 0 or None where rows have weights (class_weight, max_sample_weight): the "
                f"odds that weights ask for are not those of the rows; got {given!r}."
            )
        if given and not self.loss.is_classification:
            raise ParameterError(
                f"calibration_share must be 0 or None for the {self.loss.name} loss: only the predictions of "
                f"classifiers have a slope and a shift to fit; got {given!r}."
            )

    @property
    def mu_calibration(self) -> float:
        """Gaussian-DP parameter for slope and shift of all models together."""
        return self.mu * math.sqrt(self.share_of_calibration)

    @property
    def calibration_events(self) -> tuple[Event, ...]:
        if self.share_of_calibration == 0.0:
            return ()
        return (RepeatedEvent(GaussianEvent(math.sqrt(self.n_models) / self.mu_calibration), self.n_models),)

    @property
    def mu_model(self) -> float:
        """Gaussian-DP parameter that is left for the steps of each model."""
        return self.mu_steps / math.sqrt(self.n_models)

    @property
    def scale_events(self) -> tuple[Event, ...]:
        """What the scales cost, in the order of their release."""
        eigenvalue = (GaussianEvent(1.0 / self.mu_scale),) * self.estimates_eigenvalue
        norm = (norm_counts(self.mu_norm),) if self.shortens_rows else self.facts.norm_events
        return (*norm, *eigenvalue, *self._label_events)

    @property
    def _label_events(self) -> tuple[Event, ...]:
        if not self.estimates_labels:
            return ()
        n_counts = number_of_counts(located=self.facts.constant > 0.0)
        return (RepeatedEvent(GaussianEvent(math.sqrt(n_counts) / self.mu_scale), n_counts),)

    @property
    def scale_releases(self) -> tuple[str, ...]:
        norm = self.facts.norm_releases
        if self.shortens_rows:
            norm = ("a bound that most rows keep, noisy; longer rows were shortened to it",)
        eigenvalue = ("lambda_max of X'X/n of the scaled rows: a noisy upper estimate",)
        labels = ("location and scale of the labels (a median, a 90 % quantile of the distances from it), noisy",)
        return norm + eigenvalue * self.estimates_eigenvalue + labels * self.estimates_labels

    @property
    def event(self) -> Event:
        """The scales, all that is left as one Gaussian, and the calibration."""
        return compose(*self.scale_events, GaussianEvent(1.0 / self.mu_steps), *self.calibration_events)

    def scales_of(self, released: Mapping[str, object]) -> Scales:
        norm, eigenvalue, location, label = 1.0, 1.0, 0.0, 1.0
        if self.shortens_rows:
            norm = number(_NORM, released.get(_NORM), above=0.0, at_most=1.0)
        if self.estimates_eigenvalue:
            eigenvalue = number(_EIGENVALUE, released.get(_EIGENVALUE), above=0.0)
        if self.estimates_labels:
            location = number(_LOCATION, released.get(_LOCATION))
            label = number(_LABEL, released.get(_LABEL), above=0.0)
        return Scales(norm, eigenvalue, location, label, self.scale_events)

    def chosen(self, scales: Scales) -> dict[str, object]:
        return {
            **({_NORM: scales.norm} if self.shortens_rows else {}),
            **({_EIGENVALUE: scales.eigenvalue} if self.estimates_eigenvalue else {}),
            **({_LOCATION: scales.location, _LABEL: scales.label} if self.estimates_labels else {}),
        }

    def run(self, released: Mapping[str, object]) -> tuple[Event, dict[str, object]]:
        return self.event, self.chosen(self.scales_of(released))

    def release_scales(self, fit: Fit, *, keeps_whole: bool = False) -> Scales:
        """Release the scales as planned; rows are shortened to the bound that was found.

        ``keeps_whole`` keeps the scales of the whole rows, too.
        """
        holder, events = fit.holder, list(fit.spent_before)
        norm, eigenvalue, location, label = 1.0, 1.0, 0.0, 1.0
        if self.shortens_rows:
            norm, counts = release_row_norm(
                holder, n_public=self.n_samples, neighbours=self.neighbours, mu=self.mu_norm, noise=fit.noise
            )
            events.append(counts)
        if norm < 1.0 or keeps_whole:
            holder.ask(Shorten(norm, keeps_whole))
        if self.estimates_eigenvalue:
            eigenvalue, event = release_largest_eigenvalue(
                holder, n_public=self.n_samples, neighbours=self.neighbours, mu=self.mu_scale, noise=fit.noise
            )
            events.append(event)
        if self.estimates_labels:
            assert self.label_bound is not None
            location, label, spent = release_label_location_and_scale(
                holder,
                fit.targets,
                n_public=self.n_samples,
                bound=self.label_bound,
                located=self.facts.constant > 0.0,
                neighbours=self.neighbours,
                mu=self.mu_scale,
                noise=fit.noise,
            )
            events.append(spent)
        return Scales(norm, eigenvalue, location, label, tuple(events))

    @property
    def calibration_releases(self) -> tuple[str, ...]:
        counts = "noisy sums over rows that depend on prediction and label: slope and shift of each model follow"
        return (counts,) if self.share_of_calibration > 0.0 else ()

    def calibrate(self, fit: Fit, weights: Vector, eigenvalue: float, calibrations: list[Calibration]) -> Vector:
        """Return finished weights of the model at work with slope and shift as planned; add these to ``calibrations``.

        ``eigenvalue`` is a released upper estimate of lambda_max. Where the plan has no share for it nothing is done.
        """
        if self.share_of_calibration == 0.0:
            return weights
        calibration = calibrate(
            fit.holder,
            [weights],
            mu=self.mu_calibration / math.sqrt(self.n_models),
            neighbours=self.neighbours,
            n_public=self.n_samples,
            prior=prior_for(self.mu_model * self.n_units, self.facts, eigenvalue, self.mu_scale * self.n_samples),
            noise=fit.noise,
        )
        calibrations.append(calibration)
        return calibration.applied(weights, fit.holder.constant)

    def told(self, calibrations: list[Calibration]) -> dict[str, object]:
        slopes, shifts = [each.slope for each in calibrations], [each.shift for each in calibrations]
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
        return {
            _SLOPES: [number(_SLOPES, slope, above=0.0) for slope in slopes],
            _SHIFTS: [number(_SHIFTS, shift) for shift in shifts],
        }
