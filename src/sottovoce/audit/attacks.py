"""From what runs release to one number a run: the likelihood ratio of simple functions of it, learnt on other runs.

Any function of the released vector is a fair score: `epsilon_lower_bound` holds for it. These are chosen to be good:
linear ones see a shift (additive noise too small), distances see a change of spread (a wrong Jacobian in objective
perturbation, say), and the ratio of histograms makes the best of either, thresholds on both sides included.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Attack", "learn_attacks"]

Array = NDArray[np.float64]

_BINS = 40
_RUNS_A_BIN = 200
_SMOOTHING = 0.5  # of a run in each bin
_RIDGE = 1e-9


@dataclass(frozen=True)
class Attack:
    """A score of a run: the logarithm of the ratio of two histograms of one function of what it released."""

    name: str  # the function, in words
    function: Callable[[Array], Array]  # from outputs of shape (runs, n_outputs) to shape (runs,)
    # Inner edges of the histogram and its value in each bin.
    edges: Array
    log_ratio: Array

    def scores(self, outputs: Array) -> Array:
        """Return the score of each run; large speaks for the first table."""
        scores: Array = self.log_ratio[np.searchsorted(self.edges, self.function(outputs), side="right")]
        return scores


def learn_attacks(first: Array, second: Array, direction: Array) -> list[Attack]:
    """Return attacks learnt on pilot runs.

    Parameters
    ----------
    first, second : ndarray of shape (runs, n_outputs)
        What runs on the two tables released.
    direction : ndarray of shape (n_features,)
        The canary's row; the first outputs are taken to be its coefficients where there are as many.
    """
    return [_with_histograms(name, f, first, second) for name, f in _functions(first, second, direction)]


def _functions(first: Array, second: Array, direction: Array) -> list[tuple[str, Callable[[Array], Array]]]:
    n_outputs = first.shape[1]
    functions: list[tuple[str, Callable[[Array], Array]]] = []
    along = np.zeros(n_outputs)
    if len(direction) <= n_outputs:
        along[: len(direction)] = direction / np.linalg.norm(direction)
        functions.append(("coefficients along the canary", lambda outputs: outputs @ along))
    pooled = np.vstack([first, second])
    middle = np.median(pooled, axis=0)
    spread = np.cov(pooled.T).reshape(n_outputs, n_outputs)
    spread = spread + (_RIDGE * np.trace(spread) / n_outputs + 1e-300) * np.eye(n_outputs)
    discriminant = np.linalg.solve(spread, first.mean(axis=0) - second.mean(axis=0))
    functions.append(("linear discriminant", lambda outputs: outputs @ discriminant))
    whiten = np.linalg.inv(np.linalg.cholesky(spread))
    functions.append(
        ("distance to the middle", lambda outputs: np.linalg.norm((outputs - middle) @ whiten.T, axis=1)),
    )
    if n_outputs > len(direction):
        functions.append(("last output (intercept)", lambda outputs: outputs[:, -1]))
    return functions


def _with_histograms(name: str, function: Callable[[Array], Array], first: Array, second: Array) -> Attack:
    values = [function(first), function(second)]
    bins = max(_BINS, len(first) // _RUNS_A_BIN)
    edges = np.unique(np.quantile(np.concatenate(values), np.linspace(0.0, 1.0, bins + 1)[1:-1]))
    shares = []
    for sample in values:
        counts = np.bincount(np.searchsorted(edges, sample, side="right"), minlength=len(edges) + 1)
        shares.append((counts + _SMOOTHING) / (len(sample) + _SMOOTHING * len(counts)))
    return Attack(name, function, edges, np.log(shares[0] / shares[1]))
