"""What the forms of DP-SCD share: the two estimated scales and the mechanism that releases a clipped sum."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._validation import number
from sottovoce.central.plan import ROUNDING_SLACK, Plan
from sottovoce.central.rows import Rows
from sottovoce.central.scales import number_of_counts, release_label_location_and_scale, release_largest_eigenvalue
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.events import ComposedEvent, Event, GaussianEvent, RepeatedEvent
from sottovoce.privacy.mechanisms.gaussian import GridGaussian, power_of_two_below

__all__ = ["ScaledPlan", "Scales", "clipped_mechanism", "sum_mechanism"]

_SHARE: Final = 0.02  # of mu^2, for each estimated scale
_USEFUL_BITS: Final = 32  # of the noise; many more would show the steps of double precision
_TICK_BITS: Final = 23  # a row's term is at most 2^24 ticks long, which 64 rows of 32-bit sums can hold
_SMALLEST_CLIP: Final = 1e-250  # far below what public numbers within their ranges make of it, far above 1 / infinity


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

    def chosen(self, plan: "ScaledPlan") -> dict[str, object]:
        """Return the released values for the receipt."""
        out: dict[str, object] = {_EIGENVALUE: self.eigenvalue} if plan.estimates_eigenvalue else {}
        if plan.estimates_labels:
            out |= {_LOCATION: self.location, _LABEL: self.label}
        return out


@dataclass(frozen=True, kw_only=True)
class ScaledPlan(Plan):
    """Plan of a solver that first releases lambda_max and, without a Lipschitz bound, two numbers on the labels."""

    @property
    def mu(self) -> float:
        """Gaussian-DP parameter of (epsilon, delta)."""
        return gaussian_mu(self.epsilon, self.delta)

    @property
    def estimates_eigenvalue(self) -> bool:
        """True when lambda_max is released first; solvers that do without say False."""
        return True

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
        return self.mu * math.sqrt(1.0 - _SHARE * self.n_scales)

    @property
    def scale_events(self) -> tuple[Event, ...]:
        """What the scales will cost."""
        return (GaussianEvent(1.0 / self.mu_scale),) * self.n_scales

    @property
    def scale_releases(self) -> tuple[str, ...]:
        """What is released of the scales, in words."""
        return (
            *(("lambda_max of X'X/n of the scaled rows: a noisy upper estimate",) if self.estimates_eigenvalue else ()),
            *(
                ("location and scale of the labels (a median, a 90 % quantile of the distances from it), noisy",)
                if self.estimates_labels
                else ()
            ),
        )

    def scales_of(self, released: Mapping[str, object]) -> Scales:
        """Return the scales from what a receipt says of them; one that is not estimated is 1."""
        eigenvalue, location, label = 1.0, 0.0, 1.0
        if self.estimates_eigenvalue:
            eigenvalue = number(_EIGENVALUE, released.get(_EIGENVALUE), above=0.0)
        if self.estimates_labels:
            location = number(_LOCATION, released.get(_LOCATION))
            label = number(_LABEL, released.get(_LABEL), above=0.0)
        return Scales(eigenvalue, location, label, self.scale_events)

    def run(self, released: Mapping[str, object]) -> tuple[Event, dict[str, object]]:
        """Return the event of the plan, and the scales; see `Plan.run`."""
        return self.with_counts(self.event), self.scales_of(released).chosen(self)

    def with_counts(self, planned: Event) -> Event:
        """Return a planned event with the noisy counts that the scale of the labels is made of."""
        if not self.estimates_labels:
            return planned
        n_counts = number_of_counts(located=self.intercept > 0.0)
        counts = RepeatedEvent(GaussianEvent(math.sqrt(n_counts) / self.mu_scale), n_counts)
        assert isinstance(planned, ComposedEvent)
        place = self.n_scales - 1  # the labels come last of the scales
        return ComposedEvent((*planned.events[:place], counts, *planned.events[place + 1 :]))

    def release_scales(self, rows: Rows, targets: list[NDArray[np.float64]], noise: np.random.Generator) -> Scales:
        """Release the scales as planned; one that is not estimated is 1, its public bound."""
        events: list[Event] = []
        eigenvalue, location, label = 1.0, 0.0, 1.0
        if self.estimates_eigenvalue:
            eigenvalue, event = release_largest_eigenvalue(
                rows, n_public=self.n_samples, adjacency=self.adjacency, mu=self.mu_scale, noise=noise
            )
            events.append(event)
        if self.estimates_labels:
            assert self.label_bound is not None
            location, label, spent = release_label_location_and_scale(
                targets[0],
                n_public=self.n_samples,
                bound=self.label_bound,
                located=self.intercept > 0.0,
                mu=self.mu_scale,
                noise=noise,
            )
            events.append(spent)
        return Scales(eigenvalue, location, label, tuple(events))


def sum_mechanism(adjacency: Adjacency, clip: float, noise_multiplier: float) -> GridGaussian:
    """Return the mechanism that releases a sum of row terms, each at most ``clip`` long, in ticks."""
    return clipped_mechanism(adjacency.sum_factor * clip, clip, noise_multiplier)


def clipped_mechanism(l2_sensitivity: float, clip: float, noise_multiplier: float) -> GridGaussian:
    """Return the mechanism that releases what is made of terms, each at most ``clip`` long, in ticks.

    Ticks are as fine as the kernels can count, but not absurdly finer than the noise of a tiny budget.

    Raises
    ------
    ParameterError
        If ``clip`` is so small or large that numbers of ticks leave the doubles; it follows from public facts and
        released values, and is never so for parameters within their ranges.
    """
    number("the clip of a row's term", clip, at_least=_SMALLEST_CLIP, at_most=1.0 / _SMALLEST_CLIP)
    sensitivity = l2_sensitivity * ROUNDING_SLACK
    countable = power_of_two_below(clip) * 2.0**-_TICK_BITS
    useful = power_of_two_below(noise_multiplier * sensitivity) * 2.0**-_USEFUL_BITS
    return GridGaussian(sensitivity, noise_multiplier, tick=max(countable, useful))
