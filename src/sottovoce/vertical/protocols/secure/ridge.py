r"""Ridge inside: the second moments of rows and labels once, then passes over residuals, for engines that can compare.

The noise of X'X multiplies the weights, so the ridge of noisy moments alone stays off where columns go together. As in
one table (`sottovoce.central.solvers.refinement`), residuals correct it: with labels t within [-1, 1] and secret dual
variables a_i, which start at 0, pass k

1. moves a_i toward the residual t_i - x_i.w by at most C_k, and opens the noisy sum of the moves times the rows;
2. steps :math:`w \leftarrow w + (D + \Lambda)^{-1} (v - \Lambda w)`, v the sum of all that passes opened,

from the ridge of the moments on. D is their noisy matrix, its eigenvalues kept above a share of the edge of the noise's
spectrum. Where steps end, v = Lambda w: the equations of the exact matrix. As for the other losses, the noise in v is
that of one release of sensitivity sum_k C_k; C_k falls geometrically, and grows with what there is to learn, so that
the limit is the exact optimum. Whole numbers: labels as in the second moments, dual variables in 2^8 steps of these.
"""

import math
from typing import Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.central.newton_schedule import CurvatureByWeight
from sottovoce.central.noisy_moments import NoisyMoments
from sottovoce.privacy.events import Event
from sottovoce.vertical.engines.programs import MoveDuals, Program
from sottovoce.vertical.protocols.secure.training import LEAST_ALPHA, ClippedPasses, Estimate, Setting, Training
from sottovoce.vertical.protocols.secure.whole_rows import ROW, SQUARE, longest

LABEL: Final = math.sqrt(0.5)  # c: X'X and X't get 4/9 of mu^2 each, as in `sufficient_statistics`
MOST_ENTRIES: Final = 2**25  # of all tables, which passes keep inside; beyond, noise is small against so many rows

# chosen by `benchmarks.vertical.secure_rules`
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
_MARGIN: Final = 2**10
_MARGIN_BOUND: Final = 2**36
_MOST_MARGIN: Final = 8  # in units of half the range of labels: predictions beyond are cut inside


class MomentsOnly(Training):
    """One release of sum_i u_i u_i', u_i = (x_i, the constant, c t_i)."""

    def __init__(self, setting: Setting) -> None:
        length = longest(LABEL**2)
        self.setting, self.with_labels, self.largest = setting, True, length
        self.moments = setting.shared(2 * length**2, setting.mu)  # |uu' - zz'|^2 <= |u|^4 + |z|^4

    @property
    def event(self) -> Event:
        return self.moments.event

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
        self.chosen = {LEAST_ALPHA: floor / setting.n_samples}


class RefinedRidge(ClippedPasses):
    """The second moments of rows and labels, and passes over residuals."""

    def __init__(self, setting: Setting, n_passes: int | None) -> None:
        length = longest(LABEL**2)
        self.setting, self.with_labels = setting, True
        self.n_passes = _PASSES if n_passes is None else n_passes
        self.moments = setting.shared(2 * length**2, setting.mu * math.sqrt(_MOMENTS_SHARE))
        self.mu_passes = setting.mu * math.sqrt(1.0 - _MOMENTS_SHARE)
        self.margin_unit, self.margin_bound = _MARGIN, _MARGIN_BOUND
        start = _CLIP * (1.0 + self.mu_seen * setting.n_samples / setting.n_weights / _MANY) ** 0.25
        self.shares = tuple(min(_MOST_CLIP, start * _DECAY**k) for k in range(self.n_passes))
        self.clips = tuple(max(1, round(clip * _DUAL)) for clip in self.shares)
        self.largest = max(length, max(self.clips) * ROW)

    @property
    def mu_seen(self) -> float:
        """What the passes' mu amounts to against all parties' noise."""
        return self.mu_passes / self.setting.noise_factor

    def program(self, step: int) -> Program:
        """Return how dual variables move in a pass: a target is label minus margin."""
        factor = round(_DUAL / _MARGIN)
        return MoveDuals(clip=self.clips[step - 1], offset=_OFFSET, factors=(factor,), bounds=(_MOST_MARGIN * _MARGIN,))

    def estimate(self, matrix: Vector, correlations: Vector) -> Estimate:
        return _Steps(self, matrix, correlations)


class _Steps(Estimate):
    def __init__(self, training: RefinedRidge, matrix: Vector, correlations: Vector) -> None:
        setting = training.setting
        noise = training.moments.total_std() / SQUARE
        self.point, _ = ridge_of(matrix, correlations, noise).ridge_by_weight(setting.penalties)
        floor = _PENALTY / training.mu_seen
        least = _EDGE * math.sqrt(2.0 * setting.n_weights) * noise
        self._curvature = CurvatureByWeight(matrix, least, np.maximum(setting.penalties, floor))
        self._v = np.zeros(setting.n_weights)
        self.chosen = {LEAST_ALPHA: floor / setting.n_samples}

    def take(self, sums: Vector) -> None:
        self._v = self._v + sums / (ROW * _DUAL)
        self.point = self.point + self._curvature.solve(self._v - self._curvature.pull(self.point), 1.0)
