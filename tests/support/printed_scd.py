"""Algorithm 1 of the DP-SCD paper, run by this library, with its noised dual variables in hand.

``tests/papers/dp_scd/test_scd_utility.py`` runs it.
"""

import warnings
from dataclasses import dataclass

import numpy as np

from sottovoce.central.core import drive
from sottovoce.central.data.labels import hold
from sottovoce.central.data.lengths import make_rows
from sottovoce.central.data.row_memory import DUAL
from sottovoce.central.parallel import Team
from sottovoce.central.plan import TrainingFacts
from sottovoce.exceptions import PrivacyWarning
from sottovoce.papers.dp_scd.published import Published
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.randomness import Streams

DELTA = 1e-3  # the paper's
TEAM = Team(1, None)


def printed_plan(loss, X, *, alpha, batch_size, clip, epochs, epsilon):
    """Return a plan; labels of the squared loss are within 1."""
    facts = TrainingFacts(
        loss=loss, n_samples=X.shape[0], n_features=X.shape[1], n_models=1, alpha=alpha, constant=0.0,
        epsilon=epsilon, delta=DELTA, adjacency=Adjacency.ZERO_OUT,
        label_bound=None if loss.is_classification else 1.0,
    )  # fmt: skip
    return Published(facts=facts, batch_size=batch_size, clipping_norm=clip, epochs=epochs)


def batch_moves(plan, rows, y, a, w, batch):
    """Return how far the duals of a batch and v go without noise, and the tick."""
    tick = plan.batch_mechanism().tick
    return tick * plan.moves(rows, y, np.array(a), w, batch, tick), tick


def printed_run(plan, X, y, seed):
    """Train once; return the noised dual variables alpha and v."""
    rows = make_rows(X, data_norm=1.0, constant=0.0, names=None, team=TEAM)
    holder = hold(rows, [y], TEAM)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # its claim does not hold, which is why it is looked at
        weights = drive(plan.train, holder, Streams(seed)).result.weights[0]
    return holder.memory.whole(DUAL).copy(), weights * (plan.alpha_scaled * plan.n_samples)


@dataclass(frozen=True)
class Ridge:
    """A ridge problem with its dual, for rows on the unit sphere and labels within 1."""

    X: np.ndarray
    y: np.ndarray
    alpha: float

    @property
    def bend(self):
        """Second derivative of the dual objective."""
        n = len(self.y)
        return self.X @ self.X.T / (self.alpha * n**2) + np.eye(n) / n

    @property
    def optimum(self):
        """The dual variables of the minimum."""
        return np.linalg.solve(self.bend, self.y / len(self.y))

    def suboptimality(self, a):
        """Return S(a) of the paper."""
        away = a - self.optimum
        return 0.5 * float(away @ self.bend @ away)

    def excess(self, v):
        """Return the excess risk of the model that v gives."""
        w = v / (self.alpha * len(self.y))
        away = w - self.X.T @ self.optimum / (self.alpha * len(self.y))
        return 0.5 * float(np.mean((self.X @ away) ** 2) + self.alpha * away @ away)


def ridge(n, d, seed, alpha):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return Ridge(np.ascontiguousarray(X), np.clip(X @ rng.standard_normal(d), -1.0, 1.0), alpha)
