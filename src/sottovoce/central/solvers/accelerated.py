r"""Accelerated full-batch DP-SCD, the default: T noisy passes over all rows, dual variables kept secret.

With rows |x_i| <= 1, dual variables a_i and v = sum_i a_i x_i, w = v / (alpha n), pass t = 0, 1, ... does

1. extrapolate with beta_t = t / (t + 3), less where mu n is small or the penalty strong:
   a_i <- a_i + beta_t (a_i - a_i^before), likewise v;
2. for each row a step zeta_i at m = x_i.w, clipped to |zeta_i| |x_i| <= C; a_i <- a_i + zeta_i;
3. release v <- v + sum_i zeta_i x_i + N(0, (s C)^2 I), s = sqrt(T n_models) / mu.

The step is safe for all rows at once because of the aggregation constant s' = n lambda_max. For losses whose derivative
is bounded and smooth (logistic, smoothed hinge; l'' <= L) it goes part of the way to the dual variable that the
prediction asks for [2]_: zeta_i = d (-l'(m) - a_i), d = 1 / (1 + L lambda_max / alpha). For the others (hinge, squared
loss) it is the exact coordinate step. The clip C is a share of the step that a row takes from zero: a third to all of
d |l'(0)| by the number of rows, a quarter of r / (1 + lambda_max / alpha) for squared loss, all of
1 / (1 + lambda_max / alpha) for the hinge. Short clips pay: the noise is in proportion, and a row that has further to
go takes several passes. So clips grow where the cap on passes holds.

The model is the average of the last w's. A row's own memory a_i is never released; given the released v's the sum moves
by at most C between neighbours, so the T passes compose to a Gaussian of mean shift mu, whatever T is. T and C follow
from public facts and from lambda_max and r, which are released first with 2 % of mu^2 each (r = 1 for classification;
for ridge a quantile of the distances of the labels from a median, which also centres them).

Rows with weights of at most B: the loss of row i is multiplied by s_i = weight / B <= 1, and alpha divided by B, which
leaves the optimum where it is. A row steps as without weights, in a_i / s_i, and adds s_i zeta_i x_i, at most C long.

Where the unit is a person of at most k rows, the steps of a person's rows are cut together, to C times k^(1/4): a
person is one term of the sum. ``docs/privacy/person_unit.md``, Theorem 3.

Privacy: ``docs/privacy/dp_scd.md``. Differences from the paper [1]_: the duals are secret and need no noise; full
batches, acceleration, averaging; s' = n lambda_max in place of the batch size; the steps.

References
----------
.. [1] Damaskinos et al. (2021). Differentially Private Stochastic Coordinate Descent. AAAI 2021; Algorithm 1.
.. [2] Shalev-Shwartz (2016). SDCA without Duality, Regularization, and Individual Convexity. ICML 2016; Algorithm 1.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

import numpy as np

from sottovoce._validation import whole_number
from sottovoce.central.calibration import check_share, share_by_rule
from sottovoce.central.core import Asked, Release, Tell
from sottovoce.central.data.row_memory import DUAL, DUAL_BEFORE
from sottovoce.central.plan import Plan, Solution, Takes, TrainingFacts
from sottovoce.central.split import Scales, Split, State, one_by_one
from sottovoce.central.sums.clipped_sums import ClippedSum, clipped_sum
from sottovoce.central.sums.passes import AcceleratedPass
from sottovoce.privacy.adjacency import Neighbours

_MIN_PASSES: Final = 20
# power of k for the clip of persons: rows that are alike go further (benchmarks/central/persons.py)
_TOGETHER: Final = 0.25
_MAX_PASSES: Final = 450
_MANY_ROWS: Final = 50_000.0
_MAX_PASSES_SQUARED: Final = 4000  # reached at budgets that hardly are any: the squared loss must tend to its optimum
_FARTHEST: Final = 10.0  # residuals of the squared loss that must be within reach, in units of the scale of the labels
_FEWER: Final = 8.0  # the cap of the squared loss is at least what the noise allows over this
_LITTLE: Final = 1.6  # of momentum is left out, over the root of mu n: where that is small noise would be amplified
_AFTER_PASSES: Final = ("the weights after every pass (the model is an average of them)", "the number of passes")
_NO_CLIP: Final = 2.0  # times the first step of a classifier: no row's step is longer


def wanted_passes(facts: TrainingFacts, mu: float, eigenvalue: float, factor: float) -> float:
    """Return the number of passes that a rule wants for a (noisy) largest eigenvalue: more noise, fewer passes.

    ``factor`` was measured on public data.
    """
    return factor * math.sqrt(eigenvalue * mu * facts.n_samples) / math.pow(facts.n_weights, 0.125)


def passes_by_rule(facts: TrainingFacts, wanted: float, eigenvalue: float) -> int:
    """Return the number of passes: those that are wanted, within what acceleration can gain from."""
    cap, few = float(_MAX_PASSES), 6.0
    if not math.isfinite(facts.loss.lipschitz):
        cap = max(cap, min(wanted / _FEWER, float(_MAX_PASSES_SQUARED)))
        few *= math.sqrt(max(1.0, wanted / _MAX_PASSES))
    # after a few times sqrt(condition number) passes acceleration has nothing left to gain
    most = min(cap, few * math.sqrt(1.0 + eigenvalue / facts.alpha_scaled))
    return int(max(_MIN_PASSES, min(wanted, most)))


def damping_for(facts: TrainingFacts, eigenvalue: float) -> float:
    """Return the share of the way to the dual variables of the margins that a step goes; 0 means exact steps."""
    if not (math.isfinite(facts.loss.lipschitz) and math.isfinite(facts.loss.smoothness)):
        return 0.0
    return 1.0 / (1.0 + facts.loss.smoothness * eigenvalue / facts.alpha_scaled)


def person_sum(facts: TrainingFacts, clip: float, noise_multiplier: float) -> ClippedSum:
    """Return how a pass is released: a person's steps are cut together, so a person is one term like a row."""
    together = math.pow(facts.neighbours.rows, _TOGETHER) * clip
    return clipped_sum(Neighbours(facts.adjacency), together, noise_multiplier)


@dataclass(frozen=True, kw_only=True)
class AcceleratedPlan(Plan):
    """Plan of accelerated full-batch DP-SCD."""

    solver = "scd"
    mechanism = (
        "accelerated full-batch DP-SCD with secret dual variables: adaptive composition of Gaussian mechanisms on "
        "a grid, no subsampling"
    )
    takes, cuts_persons = Takes.SUMS | Takes.WEIGHTS, True
    averaged: ClassVar[float] = 0.45  # share of the passes, the last ones, that a model is the mean of

    n_passes: int | None = None  # public number of passes; None follows the rule `passes_for`
    # Share of mu^2, from 0 to 0.5, for slope and shift of the finished models (`sottovoce.central.calibration`); None
    # follows a rule for one model with the logistic loss, or of numbers where rows are units. It is 0 for others (among
    # one-vs-rest models the noise of the shifts would decide), for an alpha above 1e-3, which asks for shorter
    # predictions than honest ones, and where rows have weights, which ask for other odds than those of the rows.
    calibration_share: float | None = None

    def check(self) -> None:
        self.check_given(whole_number, "n_passes", at_least=1, at_most=10**6)
        check_share(self.calibration_share, self.facts)

    @cached_property
    def split(self) -> Split:
        """How the budget is divided."""
        labels = not math.isfinite(self.loss.lipschitz)
        calibration = share_by_rule(self.calibration_share, self.facts)
        return Split(facts=self.facts, shortens=True, eigenvalue=True, labels=labels, calibration=calibration)

    def details(self) -> dict[str, object]:
        split = self.split
        return {
            "mu (Gaussian DP) of the whole run": split.whole,
            "mu for the length of rows": split.norm,
            "mu for lambda_max": split.scale,
            "mu for the labels": split.of_labels,
            "mu for the passes of all models": split.steps,
            "mu for the passes of each model": split.model,
            "mu for slopes and shifts": split.slopes,
        }

    def summary(self) -> dict[str, object]:
        return {**super().summary(), "passes of each model, at most": self.passes_for(1.0)}

    @cached_property
    def _rule(self) -> tuple[float, float]:
        """The clip as a share of the first step, and the factor in the number of passes; measured on public data."""
        if not math.isfinite(self.loss.lipschitz):
            return 0.25, 10.0
        if not math.isfinite(self.loss.smoothness):
            return 1.0, 7.0
        # many short steps are a little better than few long ones, and cost nothing where rows are few
        share = min(1.0, max(0.35, math.sqrt(self.n_samples / _MANY_ROWS)))
        return share, 5.0 / share

    def _wanted(self, eigenvalue: float) -> float:
        return wanted_passes(self.facts, self.split.model, eigenvalue, self._rule[1])

    def passes_for(self, eigenvalue: float) -> int:
        """Return the number of passes of a model for a (noisy) largest eigenvalue."""
        if self.n_passes is not None:
            return self.n_passes
        return passes_by_rule(self.facts, self._wanted(eigenvalue), eigenvalue)

    def clip_for(self, scales: Scales) -> float:
        """Return C, the bound on a step times the norm of its row: a share of the step that a row takes from zero."""
        damping, share = damping_for(self.facts, scales.eigenvalue), self._rule[0]
        passes, condition = self.passes_for(scales.eigenvalue), 1.0 + scales.eigenvalue / self.alpha_scaled
        # the product of clip and passes is how far a row can go: with fewer passes than wanted they go in longer steps
        hurry = max(1.0, self._wanted(scales.eigenvalue) / passes) if self.n_passes is None else 1.0
        if damping > 0.0:
            return min(share * hurry, _NO_CLIP) * damping * abs(float(self.loss.derivative(np.ones(1), np.zeros(1))[0]))
        if not math.isfinite(self.loss.lipschitz):
            # acceleration carries a dual variable over some passes^2 / 6 steps
            needed = _FARTHEST * 6.0 * condition / (share * passes**2)
            share *= max(1.0, min(hurry**2, needed))
        return share * scales.label / condition

    def train(self) -> Asked[Solution]:
        facts, split, loss = self.facts, self.split, self.loss
        scales = yield from split.scales()
        eigenvalue, unit = scales.eigenvalue, self.alpha_scaled * self.n_samples
        ratio, damping = eigenvalue / self.alpha_scaled, damping_for(facts, eigenvalue)
        passes = self.passes_for(eigenvalue)
        sums = person_sum(facts, self.clip_for(scales), math.sqrt(passes * self.n_models) / split.steps)
        yield Tell("passes", passes)
        yield Tell("noise multiplier of a pass", sums.mechanism.noise_multiplier)
        ticks, root = sums.ticks_per_unit, math.sqrt(damping)
        # with more momentum, steps swing past the penalised optimum, and bring noise together that needs not come
        most = min(max(0.0, 1.0 - _LITTLE / math.sqrt(split.model * self.n_samples)), (1.0 - root) / (1.0 + root))

        def step(number: int, state: State, done: tuple[int, int]) -> Asked[State]:
            v, before = state
            momentum = min(number / (number + 3.0), most)
            v, before = v + momentum * (v - before), v
            one_pass = AcceleratedPass(loss, v / unit, momentum, ratio, damping, sums.clip, ticks)
            return v + (yield Release(_AFTER_PASSES, one_pass, sums.mechanism, done)), before

        start, duals = (np.zeros(1), np.zeros(1)), ((DUAL, None), (DUAL_BEFORE, None))
        weights = yield from one_by_one(split, scales, step, passes, self.averaged, start=start, duals=duals, unit=unit)
        return self.solution(weights, passes, offset=scales.location)
