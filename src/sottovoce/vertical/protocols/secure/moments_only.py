"""Ridge regression: the second moments of rows and labels are all that is opened."""

import math
from typing import Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.central.sums.noisy_moments import NoisyMoments
from sottovoce.privacy.events import Event
from sottovoce.privacy.mechanisms.discrete_gaussian import SharedGaussian
from sottovoce.vertical.engines.programs import Program
from sottovoce.vertical.protocols.secure.training import Estimate, Setting, Training
from sottovoce.vertical.protocols.secure.whole_rows import SQUARE, longest

__all__ = ["LABEL", "MomentsOnly", "ridge_of"]

LABEL: Final = math.sqrt(0.5)  # c: X'X and X't get 4/9 of mu^2 each, as in `sufficient_statistics`


class MomentsOnly(Training):
    """One release of sum_i u_i u_i', u_i = (x_i, the constant, c t_i)."""

    def __init__(self, setting: Setting) -> None:
        length = longest(LABEL**2)
        self.setting, self.with_labels, self.largest = setting, True, length
        self.moments = setting.shared(2 * length**2, setting.mu)  # |uu' - zz'|^2 <= |u|^4 + |z|^4

    @property
    def event(self) -> Event:
        return self.moments.event

    def program(self, step: int) -> Program:
        raise ValueError(f"there is no pass {step}.")

    def sums(self, step: int) -> SharedGaussian:
        raise ValueError(f"there is no pass {step}.")

    def estimate(self, matrix: Vector, correlations: Vector) -> Estimate:
        return _Ridge(ridge_of(matrix, correlations, self.moments.total_std() / SQUARE), self.setting)

    def details(self) -> dict[str, object]:
        return {
            "mu (Gaussian DP) of the second moments": self.moments.mu,
            "noise of an entry of the diagonal of X'X": self.moments.total_std() / SQUARE,
        }


def ridge_of(matrix: Vector, correlations: Vector, noise_std: float) -> NoisyMoments:
    """Return the moments of rows and labels in one matrix, from what was opened."""
    moments = np.zeros((len(matrix) + 1, len(matrix) + 1))
    moments[:-1, :-1] = matrix
    moments[-1] = moments[:, -1] = correlations / SQUARE
    return NoisyMoments(moments, LABEL, noise_std)


class _Ridge(Estimate):
    def __init__(self, moments: NoisyMoments, setting: Setting) -> None:
        self.point, floor = moments.ridge_by_weight(setting.penalties)
        self.chosen = {
            "alpha that the noise asks for, at least, for rows in the plan's unit": floor / setting.n_samples
        }

    def take(self, sums: Vector) -> None:
        raise ValueError("there is no pass.")
