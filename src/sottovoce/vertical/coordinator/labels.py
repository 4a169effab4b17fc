"""Labels that leave their holder once, by randomised response, or are public: what several mechanisms share."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._validation import number
from sottovoce.privacy.calibration import gaussian_mu, gaussian_mu_beside
from sottovoce.privacy.events import Event, NothingReleased, compose
from sottovoce.privacy.mechanisms.randomized_response import RandomizedResponse
from sottovoce.randomness import Purpose, Streams
from sottovoce.vertical.coordinator.plan import VerticalPlan

__all__ = ["LabelsOncePlan"]


@dataclass(frozen=True, kw_only=True)
class LabelsOncePlan(VerticalPlan):
    """A training before which the labels are released once, where they are secret.

    Attributes
    ----------
    label_share : float, in (0, 1)
        Share of epsilon for secret labels.
    """

    label_share: float = 0.75

    def check_label_share(self, name: str) -> None:
        """Refuse a share out of range; ``name`` is what users call it."""
        number(name, self.label_share, above=0.0, below=1.0)

    @cached_property
    def response(self) -> RandomizedResponse | None:
        """Randomised response of the labels; None where they are public."""
        return None if self.labels_public else RandomizedResponse(self.label_share * self.epsilon)

    @property
    def label_event(self) -> Event:
        return NothingReleased() if self.response is None else self.response.event

    @cached_property
    def mu_beside_labels(self) -> float:
        """Mean shift of a Gaussian release that the budget has room for beside the labels."""
        if self.response is None:
            return gaussian_mu(self.epsilon, self.delta)
        return gaussian_mu_beside(self.epsilon, self.delta, self.response.event)

    def with_labels(self, events: Mapping[str, Event]) -> dict[str, Event]:
        """Return what each party gives away, the label holder also the labels."""
        holder = self.facts.label_holder
        return {**events, holder: compose(self.label_event, events[holder])}

    def rounded(self, y: Vector, streams: Streams) -> Vector:
        """Return -1 or +1 for labels in [-1, 1], at random and without bias: the response protects whichever it is."""
        coins = streams.generator(Purpose.SAMPLING).random(len(y))
        return np.where(coins < 0.5 * (1.0 + y), 1.0, -1.0)

    @property
    def label_release(self) -> tuple[str, ...]:
        """What is released of the labels before the training, in words for the receipt; empty where they stay."""
        return () if self.response is None else ("to the other parties: every label, by randomised response",)

    def label_details(self) -> dict[str, object]:
        """Return the parameters of that release, for the receipt."""
        if self.response is None:
            return {}
        return {
            "epsilon of the labels": self.response.event.epsilon,
            "probability that a label is flipped": self.response.flip_probability,
        }
