"""What a joint training does beside the second moments: the passes, their noise, and what becomes of what they open."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.privacy.events import Event, compose
from sottovoce.privacy.mechanisms.discrete_gaussian import SharedGaussian
from sottovoce.vertical.engines.programs import Program
from sottovoce.vertical.protocols.secure.whole_rows import longest

LEAST_ALPHA: Final = "alpha that the noise asks for, at least, for rows in the plan's unit"  # in receipts


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Public facts that every training needs."""

    n_samples: int
    n_weights: int
    mu: float  # Gaussian-DP parameter of everything
    n_parties: int
    colluding: int
    # of shape (n_weights,): of the weights in the plan's unit, for the sum of losses; 0 for the intercept
    penalties: Vector
    constant: int  # the intercept's column in whole numbers; 0 for none

    def shared(self, square: int, mu: float) -> SharedGaussian:
        return SharedGaussian(square, mu, self.n_parties, self.colluding)

    @property
    def noise_factor(self) -> float:
        """Standard deviation of all noise over that of what colluding parties do not know."""
        return float(np.sqrt(self.n_parties / (self.n_parties - self.colluding)))


class Estimate:
    """What one run makes of what was opened; nothing here sees a row."""

    point: Vector  # of shape (n_weights,): weights in the plan's unit: where the next pass asks the rows, or the model
    chosen: dict[str, object]  # public numbers that the run chose, for the receipt

    def take(self, sums: Vector) -> None:
        """Go on from what a pass opened: sums over rows, in the order of the weights, of whole terms."""
        raise ValueError("there is no pass.")


class Training(ABC):
    """How one loss is trained."""

    has_duals: ClassVar[bool] = False
    """Whether rows have secret dual variables."""

    setting: Setting
    n_passes: int = 0
    moments: SharedGaussian  # of the second moments
    # of the rows' products with the labels, where these are released by themselves
    labels: SharedGaussian | None = None
    with_labels: bool = False  # whether step 0 releases products with the labels
    # a party's margins are counted in steps of 1 / ``margin_unit`` and cut at ``margin_bound`` steps
    margin_unit: int = 1
    margin_bound: int = 0
    largest: int = 0  # bound on what one row adds to any sum inside, in whole numbers

    @property
    @abstractmethod
    def event(self) -> Event: ...

    def program(self, step: int) -> Program:
        """Return what pass ``step``, from 1 on, runs on each piece of rows."""
        raise ValueError(f"there is no pass {step}.")

    def sums(self, step: int) -> SharedGaussian:
        raise ValueError(f"there is no pass {step}.")

    @abstractmethod
    def estimate(self, matrix: Vector, correlations: Vector) -> Estimate:
        """Begin with the noisy second moments, and the labels' products with the rows where they were released."""

    @abstractmethod
    def details(self) -> dict[str, object]: ...


class ClippedPasses(Training):
    """Passes in which every row moves its secret dual variable by at most the clip of the pass."""

    has_duals = True

    clips: tuple[int, ...]  # in steps of the dual variables
    shares: tuple[float, ...]  # the same before they were rounded
    mu_passes: float  # Gaussian-DP parameter of all passes

    @cached_property
    def noises(self) -> tuple[SharedGaussian, ...]:
        """The noise of each pass; 1/s^2 in proportion to the clips gives the sum the least noise, as in one table."""
        whole, length = math.fsum(self.shares), longest()
        return tuple(
            self.setting.shared(4 * clip**2 * length, self.mu_passes * math.sqrt(share / whole))
            for clip, share in zip(self.clips, self.shares, strict=True)
        )

    @property
    def event(self) -> Event:
        return compose(self.moments.event, *(noise.event for noise in self.noises))

    def sums(self, step: int) -> SharedGaussian:
        return self.noises[step - 1]

    def details(self) -> dict[str, object]:
        return {
            "mu (Gaussian DP) of the second moments": self.moments.mu,
            "mu of the passes": self.mu_passes,
            "passes": self.n_passes,
        }
