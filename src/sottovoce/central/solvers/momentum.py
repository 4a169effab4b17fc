r"""Noisy gradient descent with momentum: for two classes where there is more to learn than a base rate, and not plenty.

T full-batch steps of a *reach* R,

.. math:: u \leftarrow .8 u + .2 (\tilde g_t / n - c \alpha W), \qquad W \leftarrow W + (R / P) u, \qquad t = 1, ..., T,

where :math:`\tilde g_t` is the noisy sum of what the loss falls along, each row's cut to c = P / T, leave noise of some
R / (mu n) in a weight, however large T is. The cut makes the loss a robust one, beside which the penalty weighs as much
as beside the loss itself. The mean of the last points is kept, and a length is fitted to it afterwards. With more
weights than mu n steps arrive nowhere, all pull the same way, and a mean would leave out what the last ones have seen.

So R grows with mu n, and a little faster where there is much to learn a weight from: the best weights are long where
columns are badly conditioned or classes can be separated, and steps that could go too far cost less than steps that
cannot arrive. It falls with the number of weights. All of this was chosen on digits, pendigits and made-up tables of 10
and 12 classes (``benchmarks/central/rules.py``). With two classes the weights are one vector, the difference of two
such, so that they reach twice as far; short clips and more steps gain most there, where mu n is a hundred. From some
hundred weights on R falls no more: noise in a score is R / (mu n) times the length of the row, for however many.

Many short clips make the loss a robust one: rows that the model cannot fit, and rows far longer than most, pull no more
than others. Beside passes with dual variables the weights end with less noise, and beside Newton steps no matrix is
needed, which is mostly noise where mu n is some hundred. Two classes get a slope and a shift at the end
(`sottovoce.central.calibration`); several take the same steps in `sottovoce.central.solvers.multinomial`.

Privacy: ``docs/privacy/dp_sgd.md``, Corollary 2, and for several classes ``docs/privacy/dp_scd.md``, Proposition 6.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.central.calibration import SHORT_BY_WISH, share_by_rule
from sottovoce.central.core import Asked, Release, Tell
from sottovoce.central.data.labels import BeginModel
from sottovoce.central.data.operation import StepRule
from sottovoce.central.plan import Plan, Solution, TrainingFacts
from sottovoce.central.split import AFTER_STEPS, Split, unshortened
from sottovoce.central.sums.clipped_sums import clipped_sum
from sottovoce.central.sums.passes import ClippedSlopes, JointSlopes
from sottovoce.losses import Logistic

_REACH: Final = 60.0  # times mu n over
_WIDE: Final = 0.75  # this power of the number of weights, or of
_NARROW: Final = 16  # where there are fewer: noise in a score grows no more
_PLENTY: Final = 16.0  # mu n / d from which it grows with another third power
_FARTHEST: Final = 160_000.0
_FEWEST: Final = 120  # steps, and more by the root of R over
_FAR: Final = 40_000.0  # where longer steps would turn back and forth
_PULL: Final = 18.0  # P: steps times the bound on a row's term
_MOMENTUM: Final = 0.8
_AVERAGED: Final = 0.3  # share of the points, the last ones; times mu n over the number of weights, if that is below 1
_FEW: Final = 250.0  # mu n of several classes below which it falls with another power, down to
_SHORT: Final = 2.5  # times mu n: noise in the scores must not hide the shares of the classes
_LEAST: Final = 0.65  # times mu n, whatever the number of weights is
_REACH_OF_TWO: Final = 80.0  # two classes: the same factor
_SOME: Final = 300.0  # mu n from which it grows with its root
_OF_TWO: Final = 2  # times as many steps, that reach twice as far at least and at most
_FINE: Final = 1000.0  # mu n below which the least is reached in fewer steps, half of them at least


def pays(facts: TrainingFacts) -> bool:
    """Return whether steps take the place of passes: several classes, rows as units, no penalty that shortens."""
    return facts.n_models > 2 and facts.max_rows_per_group is None and facts.alpha <= SHORT_BY_WISH


def reach_for(facts: TrainingFacts, mu: float) -> float:
    """Return R, from public facts."""
    known, width, times = mu * facts.n_units, facts.n_weights, 1
    wide = math.pow(max(width, _NARROW), _WIDE)
    if facts.n_models == 1:
        more, times = _REACH_OF_TWO * math.sqrt(max(1.0, known / _SOME)), _OF_TWO
    else:
        more = math.cbrt(max(1.0, known / (_PLENTY * width))) * _REACH
        more *= min(1.0, max(known / _FEW, _SHORT * wide / more))
    return min(times * _FARTHEST, max(times * _LEAST * known, more * known / wide))


def steps_for(facts: TrainingFacts, mu: float) -> int:
    """Return T, from public facts."""
    times, reach, known = _OF_TWO if facts.n_models == 1 else 1, reach_for(facts, mu), mu * facts.n_units
    steps = times * _FEWEST * math.sqrt(max(1.0, reach / (times * _FAR)))
    if times == _OF_TWO and reach <= times * _LEAST * known:
        steps *= max(0.5, min(1.0, math.sqrt(known / _FINE)))
    return round(steps)


def far_steps(facts: TrainingFacts, mu: float) -> Asked[Vector]:
    """Take the steps with so much of mu, and return the mean of the last points, for shortened rows.

    ``mu``: Gaussian-DP parameter of all steps together.
    """
    n_steps = steps_for(facts, mu)
    sums = clipped_sum(facts.neighbours, _PULL / n_steps, math.sqrt(n_steps) / mu)
    reach, n_samples, clip = reach_for(facts, mu), float(facts.n_samples), sums.clip
    ticks, pull = sums.ticks_per_unit, clip * facts.alpha_scaled
    rate = reach / (_PULL * max(1.0, reach * facts.alpha_scaled / n_steps))  # any penalty leaves them stable
    yield Tell("steps", n_steps)
    yield Tell("noise multiplier of a step", sums.mechanism.noise_multiplier)
    yield BeginModel(0)
    one = facts.n_models == 1
    zeros = np.zeros(1) if one else np.zeros((facts.n_models, 1))
    slopes = ClippedSlopes(facts.loss, zeros, clip, ticks) if one else JointSlopes(zeros, clip, ticks)
    averaged = _AVERAGED * min(1.0, mu * facts.n_units / facts.n_weights)
    # gradients rise, and slopes fall; where rows pull less than they would, so must the penalty
    divisor, n_last = -n_samples if one else n_samples, max(1, round(averaged * n_steps))
    rule = StepRule(divisor, _MOMENTUM, 1.0 - _MOMENTUM, pull, rate, 1.0, n_steps, n_last)
    found: Vector = yield Release(AFTER_STEPS, slopes, sums.mechanism, rule=rule)
    return found


@dataclass(frozen=True, kw_only=True)
class MomentumPlan(Plan):
    """Plan of noisy gradient descent with momentum; it has no options."""

    solver = "momentum"
    losses, alone = (Logistic,), True
    mechanism = (
        "full-batch noisy gradient descent with momentum: adaptive composition of Gaussian mechanisms on a grid, no "
        "sampling"
    )
    proof = "docs/privacy/dp_sgd.md"
    in_order = True
    takes_persons = True
    takes_released_norm = True

    @cached_property
    def split(self) -> Split:
        """How the budget is divided; lambda_max says what slope is likely."""
        calibration = share_by_rule(None, self.facts)
        return Split(facts=self.facts, shortens=True, eigenvalue=calibration > 0.0, calibration=calibration)

    @property
    def n_steps(self) -> int:
        return steps_for(self.facts, self.split.model)

    def details(self) -> dict[str, object]:
        split = self.split
        return {
            "mu (Gaussian DP) of the whole run": split.whole,
            "mu for the length of rows": split.norm,
            "mu for lambda_max": split.scale if split.eigenvalue else 0.0,
            "mu for the steps": split.model,
            "mu for slope and shift": split.slopes,
            "steps": self.n_steps,
            "reach of the steps": reach_for(self.facts, split.model),
        }

    def train(self) -> Asked[Solution]:
        scales = yield from self.split.scales()
        found = yield from far_steps(self.facts, self.split.model)
        found = yield from self.split.calibrated(found, scales, 0)
        return self.solution([unshortened(found, scales.norm, self.n_features)], self.n_steps)
