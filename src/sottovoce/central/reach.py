r"""How far the weights of several classes go, chosen by released losses: no rule in n, d and mu can tell.

Where columns are badly conditioned, or classes can be separated, the best weights are long, and a rule that suits noisy
tables stops far short of them. A *reach* R is how far steps could carry the weights in all: T full-batch steps

.. math:: u \leftarrow .9 u + .1 (\tilde g_t / n - c \alpha W), \qquad W \leftarrow W + (R / P) u, \qquad t = 1, ..., T,

where :math:`\tilde g_t` is the noisy sum of what the loss falls along, each row's cut to c = P / T, leave noise of some
R / (mu n) in a weight, however large T is. The cut makes the loss a robust one, beside which the penalty weighs as much
as beside the loss itself; the mean of the last half of the points is kept. With mu of the whole training,

1. the solver itself is run with `TRIAL` of mu^2, and the mean loss of the rows at its weights released with `TOLD`;
2. from there steps with the shortest reach, with the same shares; as long as the loss falls, again from where they
   ended with four times the reach, up to three times;
3. all that is left of mu^2 goes to one training: by the solver, afresh, if nothing was better, and else from the best
   weights by steps with four times the reach of the best trial, since a trial has the noise of its small share.

Shares, steps and the number of trials were chosen on digits, pendigits and made-up tables of 3 to 20 classes
(``benchmarks/central/rules.py``). Trials are not made where mu n / d is small: they would show noise alone.

Privacy: ``docs/privacy/dp_scd.md``, Proposition 6.
"""

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from sottovoce._numerics import Vector
from sottovoce._validation import number
from sottovoce.central.core import Asked, Keep, Release, Tell
from sottovoce.central.plan import TrainingFacts
from sottovoce.central.split import State, averaged, unshortened
from sottovoce.central.sums.clipped_sums import clipped_sum
from sottovoce.central.sums.passes import JointSlopes
from sottovoce.central.sums.score_length import mean_loss

TRIAL: Final = 0.07  # of mu^2, for each trial
TOLD: Final = 0.005  # and for each mean loss
_ENOUGH: Final = 25.0  # mu n / d from which trials are made
_SHORT_BY_WISH: Final = 1e-3  # alpha beyond which the length of the weights is what was asked for
_LOSSES: Final = "mean losses of the trials (noisy)"
_AFTER_STEPS: Final = "the weights after every step of the trials and of the training"
_FALLS: Final = 0.003  # a loss must fall by more
_TRIALS: Final = 3  # of longer steps
_REACH: Final = 2560.0  # of the first of them
_LONGER: Final = 4.0  # times the reach of the one before
_STEPS: Final = 30  # of the first; twice as many in the next one, and twice as many in the training as in a trial
_PULL: Final = 18.0  # P: steps times the bound on a row's term
_MOMENTUM: Final = 0.9
_AVERAGED: Final = 0.5  # share of the points, the last ones
MOST_STEPS: Final = _STEPS * 2 ** (_TRIALS + 1)  # of the training

Trained = tuple[Vector, int]  # the weights, for shortened rows, and the number of steps


def pays(facts: TrainingFacts, mu: float) -> bool:
    """Return whether trials are made, from public facts: several classes, rows as units, and much to learn from."""
    plain = facts.n_models > 2 and facts.max_rows_per_group is None and facts.alpha <= _SHORT_BY_WISH
    return plain and mu * facts.n_samples >= _ENOUGH * facts.n_weights


def farthest_by_loss(
    usual: Callable[[float, bool], Asked[Trained]], facts: TrainingFacts, norm: float, mu: float
) -> Asked[Trained]:
    """Train as far as released losses say; asked of rows with the columns that `mean_loss` needs.

    ``usual``: trains by the solver's own rules with a share of mu, and whether it is the training or a trial.
    ``norm``: what rows were shortened to.
    ``mu``: Gaussian-DP parameter of everything together.
    """
    trial, told = mu * math.sqrt(TRIAL), mu * math.sqrt(TOLD)

    def seen(weights: Vector, place: int) -> Asked[float]:
        whole = unshortened(weights, norm, facts.n_features)
        loss = yield from mean_loss(whole, facts.n_samples, facts.neighbours, told)
        kept: float = yield Keep(_LOSSES, loss, number, 0.0, place)
        return kept

    weights, _ = yield from usual(trial, False)
    loss, trials, paid = (yield from seen(weights, 0)), 1, 0
    while paid == trials - 1 < _TRIALS:
        longer, _ = yield from _steps(facts, weights, trial, _REACH * _LONGER**paid, _STEPS * 2**paid, told=False)
        found = yield from seen(longer, trials)
        trials += 1
        if found < loss - _FALLS:
            weights, loss, paid = longer, found, paid + 1
    yield Tell("trials of longer steps that paid", paid)
    rest = mu * math.sqrt(1.0 - trials * (TRIAL + TOLD))
    if not paid:
        return (yield from usual(rest, True))
    return (yield from _steps(facts, weights, rest, _REACH * _LONGER**paid, 2 * _STEPS * 2**paid, told=True))


def _steps(facts: TrainingFacts, start: Vector, mu: float, reach: float, n_steps: int, *, told: bool) -> Asked[Trained]:
    """Take steps from some weights, and return the mean of the last half of the points."""
    sums = clipped_sum(facts.neighbours, _PULL / n_steps, math.sqrt(n_steps) / mu)
    # where rows pull less than they would, so must the penalty
    rate, n_samples, alpha = reach / _PULL, facts.n_samples, facts.alpha_scaled * min(1.0, sums.clip)

    def step(number: int, state: State, done: tuple[int, int]) -> Asked[State]:
        weights, along = state
        ask = JointSlopes(weights, sums.clip, sums.ticks_per_unit)
        noisy = yield Release(_AFTER_STEPS, ask, sums.mechanism, done if told else None)
        falls = (noisy - noisy.mean(axis=0)) / n_samples  # the exact sums over classes are 0: that is noise
        along = _MOMENTUM * along + (1.0 - _MOMENTUM) * (falls - alpha * weights)
        return weights + rate * along, along

    if told:
        yield Tell("passes", n_steps)
        yield Tell("noise multiplier of a pass", sums.mechanism.noise_multiplier)
    found = yield from averaged(step, (start, np.zeros_like(start)), n_steps, _AVERAGED)
    return found, n_steps
