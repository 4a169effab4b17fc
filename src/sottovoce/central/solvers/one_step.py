r"""One step further: coefficients of a logistic model with standard errors, by Fisher's scoring from private weights.

Newton steps with a small part of the budget find some weights w_0, shortened rows and penalty left aside. Then, with V
the variance p (1 - p) of each label by the model with the weights w_0,

1. :math:`\tilde H = X'VX + E` is released, E symmetric with independent N(0, s^2) on the diagonal and N(0, s^2 / 2)
   beside it;
2. the gradient of the log-likelihood is released at w_0, with noise, and :math:`w_1 = w_0 + \tilde H^{-1} \tilde g_0`;
3. it is released at w_1, with noise of variance r^2, and :math:`w_2 = w_1 + \tilde H^{-1} \tilde g_1`.

One such step from weights that are near enough is as good as the maximum of the likelihood [1]_. The second one takes
away what the first left of the penalty, and of the noise in w_0 and in step 1. With M the inverse of the released
matrix, delta = w_2 - w_1 and v = s^2 / 2,

.. math:: \mathrm{Cov}(w_2) = M + M N M, \qquad N = (r^2 + v |\delta|^2) I + v \delta \delta'.

The first part is the sampling of the labels (the matrix is the information), the second is noise. It is an expansion in
E M, so it is only used while the smallest eigenvalue of the released matrix is above what E alone can show; below, the
data do not determine the weights under this noise, and every standard error is infinite.

Shares of the budget were chosen on made-up tables (``benchmarks/central/intervals.py``). Privacy:
``docs/privacy/newton.md``, Corollary 3.

References
----------
.. [1] van der Vaart (1998). Asymptotic Statistics; section 5.7.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Final

import numpy as np

from sottovoce.central.core import Asked, Release
from sottovoce.central.newton_schedule import QUICK, Pace
from sottovoce.central.noisy_moments import radius_of_noise
from sottovoce.central.plan import Solution, Takes, Unpenalised
from sottovoce.central.solvers.newton import GRAM_SHARE, NewtonPlan
from sottovoce.central.split import Split
from sottovoce.central.sums.clipped_sums import ClippedSum, clipped_sum
from sottovoce.central.sums.passes import ClippedSlopes
from sottovoce.central.sums.whole_gram import gram, gram_mechanism
from sottovoce.losses import Logistic, Loss

_MATRIX: Final = "X'VX at the weights so far, noisy, with V the variance of each label by the model"
_GRADIENTS: Final = "the gradient of the log-likelihood at two points, noisy"
_INFORMATION_SHARE: Final = 0.3  # of mu^2, for X'VX
_GRADIENT_SHARES: Final = (0.1, 0.35)  # for the gradient at w_0, and at w_1


@dataclass(frozen=True, kw_only=True)
class OneStepPlan(NewtonPlan):
    """Plan of two scoring steps from the weights of Newton steps."""

    solver = "one-step"
    losses, alone = (Logistic,), True
    mechanism = (
        "Newton steps with secret dual variables, then the information matrix once and the gradient twice: adaptive "
        "composition of Gaussian mechanisms on a grid, no subsampling"
    )
    takes = (
        NewtonPlan.takes & ~Takes.PERSONS
    )  # rows of one person are not independent, so that no standard error would be right

    pace: ClassVar[Pace] = QUICK  # w_0 needs to be near alone, and intervals were measured so
    calibration_share: ClassVar[float] = 0.0  # type: ignore[misc]  # no option: a slope would be a further estimate

    @classmethod
    def serves(cls, loss: Loss) -> bool:
        return isinstance(loss, Logistic)

    @cached_property
    def split(self) -> Split:
        """How the budget is divided; rows are not shortened, since that would bias the coefficients."""
        return Split(facts=self.facts, others=GRAM_SHARE + _INFORMATION_SHARE + sum(_GRADIENT_SHARES))

    def details(self) -> dict[str, object]:
        first, second = (self.split.whole * math.sqrt(share) for share in _GRADIENT_SHARES)
        return {
            "mu (Gaussian DP) of the whole run": self.split.whole,
            "mu for X'X": self.mu_gram,
            "mu for the passes of each model": self.split.model,
            "mu for X'VX": self.split.whole * math.sqrt(_INFORMATION_SHARE),
            "mu for the gradient at the first and at the second point": [first, second],
            "passes": len(self.schedule.clips),
        }

    @property
    def gradients(self) -> Sequence[ClippedSum]:
        """How the gradients are released; no row's is longer than the row."""
        mus = (self.split.whole * math.sqrt(share) for share in _GRADIENT_SHARES)
        return [clipped_sum(self.neighbours, self.loss.lipschitz, 1.0 / mu) for mu in mus]

    def train(self) -> Asked[Solution]:
        pilot = yield from super().train()
        (point,), mu = pilot.weights, self.split.whole * math.sqrt(_INFORMATION_SHARE)
        # of four times X'VX: then no row is lengthened by the root of V
        mechanism = gram_mechanism(self.n_weights, self.n_samples, self.neighbours, mu)
        information = 0.25 * (yield from gram(mechanism, _MATRIX, at=point))
        noise = 0.25 * mechanism.noise_std
        values, vectors = np.linalg.eigh(information)
        is_clear = bool(values[0] > radius_of_noise(noise, len(values)))
        inverse = (vectors / values) @ vectors.T if is_clear else np.zeros_like(vectors)
        step = pull = np.zeros_like(point)
        for sums in self.gradients:
            point = point + step
            ask = ClippedSlopes(self.loss, point, sums.clip, sums.ticks_per_unit)
            pull = -(yield Release(_GRADIENTS, ask, sums.mechanism))
            step = inverse @ pull
        if not is_clear:
            return replace(pilot, unpenalised=Unpenalised(np.zeros_like(point), np.full(len(point), np.inf)))
        last, v = self.gradients[-1].mechanism.noise_std, 0.5 * noise**2
        of_noise = (last**2 + v * float(step @ step)) * np.eye(len(step)) + v * np.outer(step, step)
        errors = np.sqrt(np.diag(inverse + inverse @ of_noise @ inverse))
        penalty = self.alpha_scaled * self.n_samples
        penalised = point + np.linalg.solve(information + penalty * np.eye(len(point)), pull - penalty * point)
        return replace(self.solution([penalised], pilot.n_steps), unpenalised=Unpenalised(point + step, errors))
