r"""Newton steps with secret dual variables: some thirty passes, for logistic regression with up to a thousand columns.

With rows |x_i| <= 1, dual variables a_i and v = sum_i a_i x_i as in `accelerated`, a fit

1. releases :math:`\tilde G = X'X + E` once, with a tenth of mu^2 (`sottovoce.central.sums.whole_gram`);
2. in pass 0 sets a_i = C_0 y_i and releases v, a share of the labels' correlation with the rows; its direction starts
   at :math:`w_1 = (c_0 D + \Lambda)^{-1} (|l'(0)| / C_0) v`;
3. in pass t = 1, ..., T moves a_i toward -l'(x_i.w_t) by at most C_t / |x_i|, releases v <- v + sum_i zeta_i x_i +
   N(0, (s_t C_t)^2 I), and steps

.. math:: w_{t+1} = w_t + (c_t D + \Lambda)^{-1} (v - \Lambda w_t).

D has the eigenvectors of the noisy matrix, with eigenvalues kept above a multiple of the edge of the spectrum of E:
directions in which the matrix is nothing but noise get short steps. c_t stands for l''. It starts at 3/4 of the bound
on it, with which steps are stable whatever the margins are; from then on it is the curvature along the last step, as
the released v's show it, one standard deviation of their noise added (Barzilai and Borwein's step [1]_ in the metric
of D), and not less than what l'' is about where margins are as large as those of the point.

The clips C_t fall geometrically. A row whose dual variable has arrived needs no more, so the noise in v stays that of
one release of sensitivity sum_t C_t, some 0.4 for logistic regression: less than the 1 of a gradient. Rows that still
err after the last pass are those that the model cannot fit; their pull stays clipped, as in a robust loss, and less so
the more mu n there is.

Privacy: ``docs/privacy/newton.md``. The penalty is at least a multiple of 1/mu: below it the noise alone would decide.

References
----------
.. [1] Barzilai, Borwein (1988). Two-Point Step Size Gradient Methods. IMA Journal of Numerical Analysis 8.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final

import numpy as np

from sottovoce._validation import whole_number
from sottovoce.central.calibration import check_share, share_by_rule
from sottovoce.central.core import Asked, Release, Steps
from sottovoce.central.data.labels import BeginModel
from sottovoce.central.data.row_memory import DUAL
from sottovoce.central.newton_schedule import PATIENT, QUICK, Curvature, NewtonSchedule, NewtonSteps, Pace
from sottovoce.central.plan import Plan, Solution, Takes
from sottovoce.central.split import Split, unshortened
from sottovoce.central.sums.clipped_sums import ClippedSum, clipped_sum
from sottovoce.central.sums.passes import NewtonPass
from sottovoce.central.sums.whole_gram import gram, gram_mechanism
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic, Loss, SmoothedHinge
from sottovoce.privacy.mechanisms.gaussian import GridGaussian

_AFTER_PASSES: Final = "the weights after every pass, the first of which releases a share of X'y"
GRAM_SHARE: Final = 0.08  # of mu^2


@dataclass(frozen=True, kw_only=True)
class NewtonPlan(Plan):
    """Plan of Newton steps with secret dual variables."""

    solver = "newton"
    mechanism = (
        "second moments of the rows once, then Newton steps with secret dual variables: adaptive composition of "
        "Gaussian mechanisms on a grid, no subsampling"
    )
    proof = "docs/privacy/newton.md"
    takes = Takes.SUMS

    # Public number of passes after the Gram matrix, the one for the labels included; None follows a rule.
    n_passes: int | None = None
    # Share of mu^2, from 0 to 0.5, for slope and shift of the finished model (`sottovoce.central.calibration`); None
    # follows a rule for the logistic loss of one model, and is 0 else.
    calibration_share: float | None = None

    @classmethod
    def serves(cls, loss: Loss) -> bool:
        return loss.is_classification

    def check(self) -> None:
        self.check_given(whole_number, "n_passes", at_least=1, at_most=1000)
        check_share(self.calibration_share, self.facts)
        if not (math.isfinite(self.loss.lipschitz) and math.isfinite(self.loss.smoothness)):
            raise ParameterError(
                f"solver='newton' needs a loss with bounded first and second derivatives; got {self.loss.name!r}. Use "
                "solver='scd', or solver='auto'."
            )
        self.refuse_many_weights()

    @cached_property
    def split(self) -> Split:
        """How the budget is divided."""
        calibration = share_by_rule(self.calibration_share, self.facts)
        return Split(facts=self.facts, shortens=True, others=GRAM_SHARE, calibration=calibration)

    def details(self) -> dict[str, object]:
        split = self.split
        return {
            "mu (Gaussian DP) of the whole run": split.whole,
            "mu for the length of rows": split.norm,
            "mu for X'X": self.mu_gram,
            "mu for the passes of each model": split.model,
            "mu for slope and shift": split.slopes,
            "passes": len(self.schedule.clips),
            "alpha, at least what the noise asks for": self.penalty / self.n_samples,
        }

    @property
    def mu_gram(self) -> float:
        return self.split.whole * math.sqrt(GRAM_SHARE)

    @property
    def pace(self) -> Pace:
        """Many short clips for the logistic loss; the smoothed hinge has a corner that they would not reach."""
        return PATIENT if isinstance(self.loss, Logistic) else QUICK

    @cached_property
    def schedule(self) -> NewtonSchedule:
        """What the passes do; it follows from public facts."""
        return NewtonSchedule(
            slope=abs(float(self.loss.derivative(np.ones(1), np.zeros(1))[0])),
            smoothness=self.loss.smoothness,
            mu=self.split.model,
            n_units=self.n_units,
            n_weights=self.n_weights,
            rows=self.neighbours.rows,
            pace=self.pace,
            n_passes=self.n_passes,
        )

    @cached_property
    def sums(self) -> tuple[ClippedSum, ...]:
        """How each pass is released."""
        both = zip(self.schedule.clips, self.schedule.multipliers, strict=True)
        return tuple(clipped_sum(self.neighbours, clip, multiplier) for clip, multiplier in both)

    @property
    def penalty(self) -> float:
        """Lambda, alpha n at least; with little mu the noise asks for more.

        More still for each of several hinges: those of rare classes are all near -1, and noise alone would order them.
        """
        models = self.n_models if isinstance(self.loss, SmoothedHinge) else 1
        return max(self.alpha_scaled * self.n_samples, self.schedule.least_penalty * models)

    @cached_property
    def gram_mechanism(self) -> GridGaussian:
        return gram_mechanism(self.n_weights, self.n_samples, self.neighbours, self.mu_gram)

    def train(self) -> Asked[Solution]:
        split, schedule = self.split, self.schedule
        scales = yield from split.scales()
        matrix = yield from gram(self.gram_mechanism, "X'X of the scaled rows, noisy")
        curvature = Curvature(matrix, schedule.least_eigenvalue(self.gram_mechanism.noise_std), self.penalty)
        seen = replace(scales, eigenvalue=curvature.largest / self.n_samples)
        sums, weights = self.sums, []
        for model in range(self.n_models):
            yield BeginModel(model, fresh=((DUAL, None),))
            steps = NewtonSteps(schedule, curvature)
            yield Steps(range(len(sums)), partial(self._pass, steps, model), [one.mechanism.event for one in sums])
            found = yield from split.calibrated(steps.point, seen, model)
            weights.append(unshortened(found, scales.norm, self.n_features))
        return self.solution(weights, len(sums))

    def _pass(self, steps: NewtonSteps, model: int, number: int) -> Asked[None]:
        one, n_passes = self.sums[number], len(self.sums)
        moved = NewtonPass(self.loss, steps.point, steps.share, one.clip, one.ticks_per_unit)
        done = model * n_passes + number + 1, n_passes * self.n_models
        steps.take((yield Release(_AFTER_PASSES, moved, one.mechanism, done)), one.mechanism.noise_std)
