"""What solvers share that first release scales of the data: lambda_max, and two numbers on the labels."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

from sottovoce._validation import number
from sottovoce.central.plan import Fit, Plan
from sottovoce.central.scales import number_of_counts, release_label_location_and_scale, release_largest_eigenvalue
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.events import ComposedEvent, Event, GaussianEvent, RepeatedEvent, compose

__all__ = ["ScaledPlan", "Scales"]

_SHARE: Final = 0.02  # of mu^2, for each estimated scale

# names in the receipt
_EIGENVALUE: Final = "lambda_max (noisy)"
_LOCATION: Final = "label location, from the middle of the bounds (noisy)"
_LABEL: Final = "label scale (noisy)"


@dataclass(frozen=True)
class Scales:
    """Noisy scales of the data, released, and what they cost."""

    eigenvalue: float
    location: float
    label: float
    events: tuple[Event, ...]


@dataclass(frozen=True, kw_only=True)
class ScaledPlan(Plan):
    """Plan of a solver that first releases lambda_max and, without a Lipschitz bound, two numbers on the labels."""

    # Whether lambda_max is released first.
    estimates_eigenvalue: ClassVar[bool] = True

    @cached_property
    def mu(self) -> float:
        """Gaussian-DP parameter of (epsilon, delta)."""
        return gaussian_mu(self.epsilon, self.delta)

    @property
    def estimates_labels(self) -> bool:
        """True for losses without a Lipschitz bound."""
        return not math.isfinite(self.loss.lipschitz)

    @property
    def n_scales(self) -> int:
        """Number of scales that are estimated."""
        return int(self.estimates_eigenvalue) + int(self.estimates_labels)

    @property
    def mu_scale(self) -> float:
        """Gaussian-DP parameter of each estimated scale."""
        return self.mu * math.sqrt(_SHARE)

    @property
    def mu_steps(self) -> float:
        """Gaussian-DP parameter that is left for the steps of all models together."""
        return self.mu * math.sqrt(1.0 - _SHARE * self.n_scales - self.share_of_calibration)

    @property
    def share_of_calibration(self) -> float:
        """Share of mu^2 for slope and shift of the finished models; 0 where they are not calibrated."""
        return 0.0

    @property
    def mu_calibration(self) -> float:
        """Gaussian-DP parameter for slope and shift of all models together."""
        return self.mu * math.sqrt(self.share_of_calibration)

    @property
    def calibration_events(self) -> tuple[Event, ...]:
        """What slope and shift of all models will cost."""
        if self.share_of_calibration == 0.0:
            return ()
        return (RepeatedEvent(GaussianEvent(math.sqrt(self.n_models) / self.mu_calibration), self.n_models),)

    @property
    def mu_model(self) -> float:
        """Gaussian-DP parameter that is left for the steps of each model."""
        return self.mu_steps / math.sqrt(self.n_models)

    @property
    def scale_events(self) -> tuple[Event, ...]:
        """What the scales will cost."""
        return (GaussianEvent(1.0 / self.mu_scale),) * self.n_scales

    @property
    def scale_releases(self) -> tuple[str, ...]:
        """What is released of the scales, in words."""
        eigenvalue = ("lambda_max of X'X/n of the scaled rows: a noisy upper estimate",)
        labels = ("location and scale of the labels (a median, a 90 % quantile of the distances from it), noisy",)
        return eigenvalue * self.estimates_eigenvalue + labels * self.estimates_labels

    @property
    def event(self) -> Event:
        """The scales, all that is left as one Gaussian, and the calibration."""
        return compose(*self.scale_events, GaussianEvent(1.0 / self.mu_steps), *self.calibration_events)

    def scales_of(self, released: Mapping[str, object]) -> Scales:
        """Return the scales from what a receipt says of them; one that is not estimated is 1."""
        eigenvalue, location, label = 1.0, 0.0, 1.0
        if self.estimates_eigenvalue:
            eigenvalue = number(_EIGENVALUE, released.get(_EIGENVALUE), above=0.0)
        if self.estimates_labels:
            location = number(_LOCATION, released.get(_LOCATION))
            label = number(_LABEL, released.get(_LABEL), above=0.0)
        return Scales(eigenvalue, location, label, self.scale_events)

    def chosen(self, scales: Scales) -> dict[str, object]:
        """Return the released values, and what follows from them, for the receipt."""
        out: dict[str, object] = {_EIGENVALUE: scales.eigenvalue} if self.estimates_eigenvalue else {}
        return out | ({_LOCATION: scales.location, _LABEL: scales.label} if self.estimates_labels else {})

    def run(self, released: Mapping[str, object]) -> tuple[Event, dict[str, object]]:
        """Return the event of the plan, the scales and what follows from them; see `Plan.run`."""
        return self.with_counts(self.event), self.chosen(self.scales_of(released))

    def with_counts(self, planned: Event) -> Event:
        """Return a planned event with the noisy counts that the scale of the labels is made of."""
        if not self.estimates_labels:
            return planned
        n_counts = number_of_counts(located=self.facts.constant > 0.0)
        counts = RepeatedEvent(GaussianEvent(math.sqrt(n_counts) / self.mu_scale), n_counts)
        assert isinstance(planned, ComposedEvent)
        place = self.n_scales - 1  # the labels come last of the scales
        return ComposedEvent((*planned.events[:place], counts, *planned.events[place + 1 :]))

    def release_scales(self, fit: Fit) -> Scales:
        """Release the scales as planned; one that is not estimated is 1, its public bound."""
        events: list[Event] = []
        eigenvalue, location, label = 1.0, 0.0, 1.0
        if self.estimates_eigenvalue:
            eigenvalue, event = release_largest_eigenvalue(
                fit.rows, n_public=self.n_samples, adjacency=self.adjacency, mu=self.mu_scale, noise=fit.noise
            )
            events.append(event)
        if self.estimates_labels:
            assert self.label_bound is not None
            location, label, spent = release_label_location_and_scale(
                fit.targets[0],
                n_public=self.n_samples,
                bound=self.label_bound,
                located=self.facts.constant > 0.0,
                mu=self.mu_scale,
                noise=fit.noise,
            )
            events.append(spent)
        return Scales(eigenvalue, location, label, tuple(events))
