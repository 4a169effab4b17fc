r"""Noisy gradient descent that starts from a noisy base rate: for two classes where there is little to learn from.

Below some 60 of mu n a third of the budget would buy a slope and a shift that are noise themselves, and the predictions
of accelerated passes are far too sure. Steps whose noise is bounded by rule are not: T full-batch steps

.. math:: w \leftarrow (w - \eta (\sum_i [l'(x_i \cdot w) x_i]_C + N(0, (s C)^2 I)) / n) / (1 + \eta \alpha),

with eta, T and C as of `sottovoce.central.solvers.sgd` with batches of all rows, so that the whole noise of a weight is
the same however small mu n is. They start where every prediction is the base rate: the noisy sum of the labels is
released with `_SHARE` of mu^2, and the intercept is the mean of the log odds given that sum, under a normal law of
standard deviation `_SPREAD` beforehand. So a rare class is not called as often as the other one by noise. The model is
the average of the last half of the points, drawn a third of the way back to the start, and less where mu n is larger: a
table that says nothing then costs little more than a constant.

Privacy: ``docs/privacy/dp_sgd.md``, Corollary. Rules: ``benchmarks/central/rules.py``.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce.central.core import Asked, Release, Tell
from sottovoce.central.data.labels import BeginModel
from sottovoce.central.data.operation import StepRule
from sottovoce.central.plan import Plan, Solution
from sottovoce.central.solvers.sgd import AVERAGED, Walk
from sottovoce.central.split import AFTER_STEPS, Split
from sottovoce.central.sums.clipped_sums import ClippedSum, SumOfTargets, clipped_sum
from sottovoce.central.sums.passes import ClippedSlopes
from sottovoce.losses import Logistic

_SHARE: Final = 0.05  # of mu^2, for the sum of the labels
_SPREAD: Final = 1.3  # of the log odds beforehand
_BACK: Final = 0.35  # of the way to the start, while mu n is below
_FEW: Final = 60.0
_ODDS: Final = np.linspace(-6.0, 6.0, 601)
_BASE_RATE: Final = "the sum of the labels, -1 or +1 each, noisy: where the steps start"


@dataclass(frozen=True, kw_only=True)
class DescentPlan(Plan):
    """Plan of noisy gradient descent from a noisy base rate; it has no options."""

    solver = "gd"
    losses, alone = (Logistic,), True
    mechanism = "full-batch noisy gradient descent: adaptive composition of Gaussian mechanisms on a grid, no sampling"
    proof = "docs/privacy/dp_sgd.md"
    in_order = True
    takes_persons = True
    takes_released_norm = True

    @cached_property
    def split(self) -> Split:
        """How the budget is divided."""
        return Split(facts=self.facts, others=_SHARE if self.intercept > 0.0 else 0.0)

    @cached_property
    def walk(self) -> Walk:
        """How far the steps go in all; it follows from public facts."""
        return Walk(self.facts, self.split.model)

    @property
    def labels(self) -> ClippedSum:
        """How the sum of the labels is released."""
        return clipped_sum(self.neighbours, 1.0, 1.0 / (self.split.whole * math.sqrt(_SHARE)))

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
            labels = self.labels
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
        back = _BACK * min(1.0, _FEW / (self.split.whole * self.n_units))
        return self.solution([found + back * (start - found)], steps)


def log_odds(mean: float, noise_std: float) -> float:
    """Return the mean of the log odds given a noisy mean of labels -1 and +1; any real number will do for it."""
    seen = (np.tanh(0.5 * _ODDS) - np.clip(mean, -1e9, 1e9)) / max(noise_std, 1e-9)
    log_weight: Vector = -0.5 * ((_ODDS / _SPREAD) ** 2 + seen**2)
    weight = np.exp(log_weight - log_weight.max())
    return float(weight @ _ODDS / weight.sum())
