"""The runs of DP-SCD that the utility theorems are about: the library's own passes, with momentum and clip of these.

Shared by the tests of ``sottovoce.central.utility`` and by ``benchmarks/central/utility.py``.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit

from sottovoce.central.data.lengths import make_rows
from sottovoce.central.parallel import Team
from sottovoce.central.plan import TrainingFacts
from sottovoce.central.solvers.accelerated import AcceleratedPlan
from sottovoce.central.split import Split
from sottovoce.central.utility import UtilityBound
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.randomness import Streams
from support.asking import trained

DELTA = 1e-5
TEAM = Team(1, None)


@dataclass(frozen=True, kw_only=True)
class ProvedPlan(AcceleratedPlan):
    """A plan with the momentum and the clip of a bound, and public numbers in place of scales and calibration."""

    bound: UtilityBound
    averaged: float = 0.0

    @cached_property
    def split(self):
        return Split(facts=self.facts)

    def momentum_for(self, step, scales):
        return self.bound.momentum

    def clip_for(self, scales):
        return self.bound.clip


def proved_plan(bound, loss, *, n_samples, n_weights, epsilon, averaged=0.0):
    """Return the plan of the run that a bound is about."""
    facts = _facts(loss, n_samples, n_weights, bound.alpha, epsilon)
    return ProvedPlan(facts=facts, bound=bound, averaged=averaged, n_passes=bound.passes, calibration_share=0.0)


def default_plan(loss, *, n_samples, n_weights, alpha, epsilon):
    """Return the plan of ``solver="scd"`` by its own rules, but for slope and shift, which lead away from min F."""
    return AcceleratedPlan(facts=_facts(loss, n_samples, n_weights, alpha, epsilon), calibration_share=0.0)


def _facts(loss, n_samples, n_weights, alpha, epsilon):
    return TrainingFacts(
        loss=loss, n_samples=n_samples, n_features=n_weights, n_models=1, alpha=alpha, constant=0.0,
        epsilon=epsilon, delta=DELTA, adjacency=Adjacency.ZERO_OUT, label_bound=None,
    )  # fmt: skip


def released_weights(plan, X, y, seed):
    """Train once; return the weights, for rows of norm 1."""
    rows = make_rows(X, data_norm=1.0, constant=0.0, names=None, team=TEAM)
    return trained(plan, rows, [y], Streams(seed), TEAM).result.weights[0]


def logistic_table(n, d, seed, *, length=3.0):
    """Return rows on the unit sphere and labels of a logistic model whose weights are ``length`` long."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    w = length * np.ones(d) / np.sqrt(d)
    return np.ascontiguousarray(X), np.where(rng.random(n) < expit(X @ w), 1.0, -1.0)


def objective(loss, X, y, alpha, w):
    """Return F(w)."""
    return float(np.mean(loss.value(y, X @ w)) + 0.5 * alpha * w @ w)


def minimiser(loss, X, y, alpha):
    """Return the minimiser of F, by Newton's method with halved steps."""
    w, value = np.zeros(X.shape[1]), np.inf
    for _ in range(100):
        slope = gradient(loss, X, y, alpha, w)
        bend = (X * loss.curvature(y, X @ w)[:, None]).T @ X / len(y) + alpha * np.eye(len(w))
        step, value = np.linalg.solve(bend, slope), objective(loss, X, y, alpha, w)
        while objective(loss, X, y, alpha, w - step) > value and np.abs(step).max() > 1e-14:
            step = step / 2.0
        w = w - step
        if np.abs(slope).max() < 1e-14:
            break
    return w


def gradient(loss, X, y, alpha, w):
    """Return the slope of F."""
    return X.T @ loss.derivative(y, X @ w) / len(y) + alpha * w


def mu_of(epsilon):
    """Return mu at the delta of these runs."""
    return gaussian_mu(epsilon, DELTA)
