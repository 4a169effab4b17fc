r"""Noisy gradient descent in full batches: from a noisy base rate, or with momentum.

*From a noisy base rate*, for two classes where there is little to learn from. Below some 60 of mu n a third of the
budget would buy a slope and a shift that are noise themselves, and the predictions of accelerated passes are far too
sure. Steps whose noise is bounded by rule are not: T full-batch steps

.. math:: w \leftarrow (w - \eta (\sum_i [l'(x_i \cdot w) x_i]_C + N(0, (s C)^2 I)) / n) / (1 + \eta \alpha),

with eta, T and C as of `sottovoce.central.solvers.sgd` with batches of all rows, so that the whole noise of a weight is
the same however small mu n is. They start where every prediction is the base rate: the noisy sum of the labels is
released with `_SHARE` of mu^2, and the intercept is the mean of the log odds given that sum, under a normal law of
standard deviation `_SPREAD` beforehand. So a rare class is not called as often as the other one by noise. The model is
the average of the last half of the points, drawn a third of the way back to the start, and less where mu n is larger: a
table that says nothing then costs little more than a constant.

*With momentum*, where there is more to learn than a base rate, and not plenty: T full-batch steps of a *reach* R,

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

*Numbers* take `_STEPS` such steps from a noisy mean of the labels, each row's pull cut to a share of a noisy unit, and
get no slope: it costs more than it gives. A noisy mean of what is left takes back what the cut does to the intercept.

Privacy: ``docs/privacy/dp_sgd.md``, the three corollaries, and for several classes ``docs/privacy/dp_scd.md``,
Proposition 6.
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
from sottovoce.central.plan import Plan, Solution, Takes, TrainingFacts
from sottovoce.central.solvers.sgd import AVERAGED, Walk
from sottovoce.central.split import AFTER_STEPS, MEAN, Scales, Split, mean_and_unit, unshortened
from sottovoce.central.sums.clipped_sums import SumOfTargets, clipped_sum
from sottovoce.central.sums.last_factors import line_moments
from sottovoce.central.sums.passes import ClippedSlopes, JointSlopes
from sottovoce.losses import Logistic, Squared
from sottovoce.privacy.calibration import gaussian_mu

# from a base rate
_SHARE: Final = 0.05  # of mu^2, for the sum of the labels
_SPREAD: Final = 1.3  # of the log odds beforehand
_BACK: Final = 0.35  # of the way to the start, while mu n is below
_FEW_ROWS: Final = 60.0
_ODDS: Final = np.linspace(-6.0, 6.0, 601)
_BASE_RATE: Final = "the sum of the labels, -1 or +1 each, noisy: where the steps start"
# with momentum
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
# numbers
_OF_LABELS: Final = 3.0  # over mu n: the share of mu^2 of each of four releases, at least and at most
_LEAST_OF_LABELS, _MOST_OF_LABELS = 0.02, 0.1
_STEPS: Final = 240
_CUT: Final = 0.06  # of a row's pull, in units (`mean_and_unit`): times the root of mu n / sqrt(d)
_WIDE_CUT: Final = 4.0  # of what is left at the end
_DOUBT: Final = 1.4  # standard deviations of noise, up to which a mean of what is left counts as nothing
_FAR_OF_NUMBERS: Final = 3.0  # times mu n sqrt(mu n / d): learning rates of all steps together
_FASTEST: Final = 16.0  # with which any rows of norm 1 leave steps stable
_FINE: Final = 1000.0  # mu n below which the least is reached in fewer steps, half of them at least


@dataclass(frozen=True, kw_only=True)
class _FullBatches(Plan):
    """A plan without options, for one model."""

    alone = True
    proof = "docs/privacy/dp_sgd.md"
    takes = Takes.SUMS


@dataclass(frozen=True, kw_only=True)
class DescentPlan(_FullBatches):
    """Plan of noisy gradient descent from a noisy base rate; it has no options."""

    solver, losses = "gd", (Logistic,)
    mechanism = "full-batch noisy gradient descent: adaptive composition of Gaussian mechanisms on a grid, no sampling"

    @cached_property
    def split(self) -> Split:
        """How the budget is divided."""
        return Split(facts=self.facts, others=_SHARE if self.intercept > 0.0 else 0.0)

    @cached_property
    def walk(self) -> Walk:
        """How far the steps go in all; it follows from public facts."""
        return Walk(self.facts, self.split.model)

    def details(self) -> dict[str, object]:
        walk = self.walk
        return {
            "share of mu^2 for the sum of the labels": self.split.others,
            "steps": walk.n_steps,
            "learning rate": walk.rate(walk.n_steps),
        }

    def train(self) -> Asked[Solution]:
        facts, walk, start = self.facts, self.walk, np.zeros(self.n_weights)
        yield BeginModel(0)
        if self.split.others:
            labels = clipped_sum(self.neighbours, 1.0, 1.0 / (self.split.whole * math.sqrt(_SHARE)))
            ask = SumOfTargets(labels.clip, labels.ticks_per_unit)
            (noisy,) = yield Release(_BASE_RATE, ask, labels.mechanism)
            start[-1] = log_odds(noisy / self.n_samples, labels.mechanism.noise_std / self.n_samples) / facts.entry
        steps, rate = walk.n_steps, walk.rate(walk.n_steps)
        clip = walk.share_of_bound * self.loss.lipschitz
        sums = clipped_sum(self.neighbours, clip, math.sqrt(steps) / self.split.steps)
        yield Tell("clipping norm", sums.clip)
        yield Tell("noise multiplier of a step", sums.mechanism.noise_multiplier)

        over, n_last = 1.0 + rate * facts.alpha_scaled, max(1, round(AVERAGED * steps))
        slopes = ClippedSlopes(self.loss, start, sums.clip, sums.ticks_per_unit)
        rule = StepRule(-1.0, 0.0, 1.0, 0.0, rate / self.n_samples, over, steps, n_last)
        found = yield Release(AFTER_STEPS, slopes, sums.mechanism, rule=rule)
        back = _BACK * min(1.0, _FEW_ROWS / (self.split.whole * self.n_units))
        return self.solution([found + back * (start - found)], steps)


def log_odds(mean: float, noise_std: float) -> float:
    """Return the mean of the log odds given a noisy mean of labels -1 and +1; any real number will do for it."""
    seen = (np.tanh(0.5 * _ODDS) - np.clip(mean, -1e9, 1e9)) / max(noise_std, 1e-9)
    log_weight: Vector = -0.5 * ((_ODDS / _SPREAD) ** 2 + seen**2)
    weight = np.exp(log_weight - log_weight.max())
    return float(weight @ _ODDS / weight.sum())


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
    n_steps, reach = steps_for(facts, mu), reach_for(facts, mu)
    clip = _PULL / n_steps
    rate = reach / (_PULL * max(1.0, reach * facts.alpha_scaled / n_steps))  # any penalty leaves them stable
    yield BeginModel(0)
    return (yield from _steps(facts, mu, n_steps, clip, clip * facts.alpha_scaled, rate))


def _steps(facts: TrainingFacts, mu: float, n_steps: int, clip: float, pull: float, rate: float) -> Asked[Vector]:
    """Take so many steps with a clip, a penalty beside it and a learning rate; return the mean of the last points."""
    sums, n_samples = clipped_sum(facts.neighbours, clip, math.sqrt(n_steps) / mu), float(facts.n_samples)
    yield Tell("steps", n_steps)
    yield Tell("noise multiplier of a step", sums.mechanism.noise_multiplier)
    one, ticks = facts.n_models == 1, sums.ticks_per_unit
    zeros = np.zeros(1) if one else np.zeros((facts.n_models, 1))
    slopes = ClippedSlopes(facts.loss, zeros, sums.clip, ticks) if one else JointSlopes(zeros, sums.clip, ticks)
    averaged = _AVERAGED * min(1.0, mu * facts.n_units / facts.n_weights)
    # gradients rise, and slopes fall; where rows pull less than they would, so must the penalty
    divisor, n_last = -n_samples if one else n_samples, max(1, round(averaged * n_steps))
    rule = StepRule(divisor, _MOMENTUM, 1.0 - _MOMENTUM, pull, rate, 1.0, n_steps, n_last)
    found: Vector = yield Release(AFTER_STEPS, slopes, sums.mechanism, rule=rule)
    return found


@dataclass(frozen=True, kw_only=True)
class MomentumPlan(_FullBatches):
    """Plan of noisy gradient descent with momentum; it has no options."""

    solver, losses = "momentum", (Logistic, Squared)
    mechanism = (
        "full-batch noisy gradient descent with momentum: adaptive composition of Gaussian mechanisms on a grid, no "
        "sampling"
    )

    @cached_property
    def split(self) -> Split:
        """How the budget is divided; lambda_max says what slope is likely."""
        if self.is_of_numbers:
            return Split(facts=self.facts, shortens=True, others=self._share * (4 if self.intercept > 0.0 else 1))
        calibration = share_by_rule(None, self.facts)
        return Split(facts=self.facts, shortens=True, eigenvalue=calibration > 0.0, calibration=calibration)

    @property
    def is_of_numbers(self) -> bool:
        return isinstance(self.loss, Squared)

    @property
    def _share(self) -> float:
        """Of mu^2, for each release about the labels of numbers."""
        known = gaussian_mu(self.epsilon, self.delta) * self.n_units
        return min(_MOST_OF_LABELS, max(_LEAST_OF_LABELS, _OF_LABELS / known))

    @property
    def n_steps(self) -> int:
        return _STEPS if self.is_of_numbers else steps_for(self.facts, self.split.model)

    @property
    def cut(self) -> float:
        """Of the pull of a row with numbers, in units of the labels: noise allows a longer one with more rows."""
        return _CUT * math.sqrt(self.split.whole * self.n_units / math.sqrt(self.n_weights))

    @property
    def rate(self) -> float:
        """Learning rate of numbers."""
        known = self.split.whole * self.n_units
        far = _FAR_OF_NUMBERS * known * math.sqrt(known / self.n_weights) / _STEPS
        return min(_FASTEST, far) / (1.0 + self.alpha_scaled)

    def details(self) -> dict[str, object]:
        split = self.split
        if self.is_of_numbers:
            return {
                "mu (Gaussian DP) of the whole run": split.whole,
                "mu for the length of rows": split.norm,
                "mu for the labels and what is left of them": split.whole * math.sqrt(split.others),
                "mu for the steps": split.model,
                "steps": self.n_steps,
                "learning rate": self.rate,
                "cut of a row's pull, in units of the labels": self.cut,
            }
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
        if self.is_of_numbers:
            return (yield from self._numbers(scales))
        found = yield from far_steps(self.facts, self.split.model)
        found = yield from self.split.calibrated(found, scales, 0)
        return self.solution([unshortened(found, scales.norm, self.n_features)], self.n_steps)

    def _numbers(self, scales: Scales) -> Asked[Solution]:
        facts, mu = self.facts, self.split.whole * math.sqrt(self._share)
        location, unit = yield from mean_and_unit(facts, mu)
        found = yield from _steps(facts, self.split.model, _STEPS, self.cut * unit, facts.alpha_scaled, self.rate)
        if self.intercept > 0.0:
            (*_, left), noise = yield from line_moments(found, _WIDE_CUT * unit, facts.neighbours, mu, MEAN)
            trust = max(0.0, 1.0 - (_DOUBT * noise / left) ** 2) if left else 0.0
            location += _WIDE_CUT * unit * trust * min(max(-1.0, left / self.n_samples), 1.0)
        return self.solution([unshortened(found, scales.norm, self.n_features)], _STEPS, offset=location)
