r"""The threshold audit: a lower bound on epsilon from a score of many runs on two neighbouring tables.

For an (epsilon, delta)-DP mechanism and any set S of outputs, P(S) <= e^epsilon P'(S) + delta. With S = {score > t},

.. math:: \varepsilon \ge \log \frac{P(S) - \delta}{P'(S)},

and the same with the tables exchanged, or with S = {score < t}. The threshold is chosen on one half of the runs, and
the two probabilities are bounded on the other half by exact binomial intervals (Clopper and Pearson 1934), so that the
result is below the true epsilon with the stated confidence, whatever the score is.

``gaussian=True`` asks more of the mechanism and less of the runs: for a Gaussian mechanism of mean shift mu, every
set S has Phi^-1(P(S)) - Phi^-1(P'(S)) <= mu, with near equality at any threshold of a good score, also where the
probabilities are large and few runs pin them down [2]_. The bound on mu is turned into one on epsilon.

*Power.* An audit that finds nothing says little unless it could have found something. For a mechanism whose best attack
sees two unit Gaussians at distance mu, the audit's bound is simulated with as many runs; the smallest true epsilon that
it puts above the claim in nine of ten simulations is its power. Real attacks are weaker than the best one, so the
figure is a floor of what had to be there to be found, not a promise that it would have been.

References
----------
.. [1] Jagielski, Ullman, Oprea (2020). Auditing Differentially Private Machine Learning. arXiv:2006.07709, Section 4.
.. [2] Nasr et al. (2023). Tight Auditing of Differentially Private Machine Learning. arXiv:2302.07956, Section 4.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, norm

from sottovoce._validation import number
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.accounting import gaussian_epsilon

_THRESHOLDS = 400
_MIN_RUNS = 20
_TRIALS: Final = 20
_WANTED: Final = 18
_SHIFTS: Final[list[float]] = np.geomspace(0.05, 20.0, 90).tolist()


def epsilon_lower_bound(
    scores: NDArray[np.float64],
    neighbour_scores: NDArray[np.float64],
    *,
    delta: float,
    confidence: float = 0.999,
    gaussian: bool = False,
) -> float:
    """Return a lower bound on epsilon at ``delta`` that holds with ``confidence``; 0 when nothing can be said.

    Tables' order, side and threshold are chosen on every second run, and judged on the others.

    Parameters
    ----------
    scores : ndarray of shape (n_runs,)
        One number a run on the first table. Any function of what is released will do; a likelihood ratio is best.
    neighbour_scores : ndarray of shape (n_runs,)
        The same on its neighbour.
    delta : float, in [0, 1)
    confidence : float, in (0, 1)
    gaussian : bool, default False
        The mechanism is known to be Gaussian; see the module. The bound means nothing for others.

    Returns
    -------
    float

    Raises
    ------
    ParameterError
        If there are fewer than 20 runs on a table, or a score is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> bound = epsilon_lower_bound(rng.normal(1.0, 1.0, 10_000), rng.normal(0.0, 1.0, 10_000), delta=0.05)
    >>> 1.0 < bound < 1.26  # one Gaussian release of mean shift 1 has epsilon 1.26 at this delta
    True
    """
    delta = number("delta", delta, at_least=0.0, below=1.0)
    confidence = number("confidence", confidence, above=0.0, below=1.0)
    first, second = _checked(scores, neighbour_scores)
    chosen = choose_set(first[0::2], second[0::2], delta=delta, gaussian=gaussian)
    return chosen.epsilon(first[1::2], second[1::2], delta=delta, confidence=confidence)


_Scores = NDArray[np.float64]
_Promise = Callable[[_Scores, _Scores], _Scores]


def _checked(scores: _Scores, neighbour_scores: _Scores) -> tuple[_Scores, _Scores]:
    first, second = (np.asarray(values, dtype=np.float64).ravel() for values in (scores, neighbour_scores))
    for name, values in (("scores", first), ("neighbour_scores", second)):
        if len(values) < _MIN_RUNS:
            raise ParameterError(f"{name} must hold at least {_MIN_RUNS} runs; got {len(values)}.")
        if np.isnan(values).any():
            raise ParameterError(f"{name} holds NaN.")
    return first, second


@dataclass(frozen=True)
class OutputSet:
    """A set of outputs, by their score, that one table makes likelier than the other."""

    swapped: bool  # True when the neighbour makes it likelier
    sign: float  # 1 for scores above `threshold`, -1 for scores whose negative is
    threshold: float
    gaussian: bool = False  # True when the bound supposes a Gaussian mechanism, as in `epsilon_lower_bound`

    def epsilon(self, first: _Scores, second: _Scores, *, delta: float, confidence: float) -> float:
        """Return the lower bound on epsilon from runs that took no part in the choice of this event."""
        p, q = (second, first) if self.swapped else (first, second)
        each = (1.0 - confidence) / 2.0
        hits, others = (int(np.sum(self.sign * one > self.threshold)) for one in (p, q))
        low = 0.0 if hits == 0 else float(beta.ppf(each, hits, len(p) - hits + 1))
        high = 1.0 if others == len(q) else float(beta.ppf(1.0 - each, others + 1, len(q) - others))
        promise = _shift if self.gaussian else _ratio(delta)
        bound = max(0.0, float(promise(np.array([low]), np.array([high]))[0]))
        return gaussian_epsilon(bound, delta) if self.gaussian else bound


def choose_set(first: _Scores, second: _Scores, *, delta: float, gaussian: bool = False) -> OutputSet:
    """Return the event that promises the largest bound on epsilon, from runs that must not be used to judge it."""
    promise = _shift if gaussian else _ratio(delta)
    best, event = -np.inf, OutputSet(False, 1.0, 0.0, gaussian)
    for swapped in (False, True):
        p, q = (second, first) if swapped else (first, second)
        for sign in (1.0, -1.0):
            value, threshold = _search(sign * p, sign * q, promise)
            if value > best:
                best, event = value, OutputSet(swapped, sign, threshold, gaussian)
    return event


def _ratio(delta: float) -> _Promise:
    def promise(low: _Scores, high: _Scores) -> _Scores:
        return np.log(np.maximum(low - delta, 1e-300) / np.maximum(high, 1e-300))

    return promise


def _shift(low: _Scores, high: _Scores) -> _Scores:
    shift: _Scores = norm.ppf(low) - norm.ppf(high)
    return np.where(np.isfinite(shift), shift, -np.inf)


def _search(p: _Scores, q: _Scores, promise: _Promise) -> tuple[float, float]:
    """Return the best bound on these runs and its threshold, with a margin for the noise of small counts."""
    p, q = np.sort(p), np.sort(q)
    thresholds = np.quantile(np.concatenate([p, q]), np.linspace(0.0, 1.0, _THRESHOLDS))
    share_p = 1.0 - np.searchsorted(p, thresholds, side="right") / len(p)
    share_q = 1.0 - np.searchsorted(q, thresholds, side="right") / len(q)
    low = np.clip(share_p - 3.0 * np.sqrt(share_p * (1.0 - share_p) / len(p)) - 5.0 / len(p), 0.0, 1.0)
    high = np.clip(share_q + 3.0 * np.sqrt(share_q * (1.0 - share_q) / len(q)) + 5.0 / len(q), 0.0, 1.0)
    values = promise(low, high)
    place = int(np.argmax(values))
    return float(values[place]), float(thresholds[place])


def detectable_epsilon(
    epsilon: float,
    delta: float,
    n_runs: int,
    *,
    confidence: float = 0.999,
    gaussian: bool = False,
    random_state: int = 0,
) -> float:
    """Return the smallest true epsilon of a Gaussian mechanism that the audit would report, in nine of ten trials.

    Parameters
    ----------
    epsilon, delta : float
        The claim; with ``delta=0`` the epsilon that is returned is at delta = 1e-6.
    n_runs : int
        Runs on each table.
    confidence : float
    gaussian : bool
        As in `sottovoce.audit.audit_estimator`.

    Returns
    -------
    float
        ``inf`` if no violation would be seen: more runs are needed.
    """
    others = epsilon, delta, n_runs, confidence, gaussian, random_state
    place = bisect_left(_SHIFTS, True, key=lambda mu: _seen(mu, *others))
    return math.inf if place == len(_SHIFTS) else gaussian_epsilon(_SHIFTS[place], delta or 1e-6)


def _seen(
    mu: float, epsilon: float, delta: float, n_runs: int, confidence: float, gaussian: bool, random_state: int
) -> bool:
    rng = np.random.default_rng(random_state)
    found = 0
    for _ in range(_TRIALS):
        first, second = rng.normal(mu, 1.0, (2, n_runs)), rng.normal(0.0, 1.0, (2, n_runs))
        event = choose_set(first[0], second[0], delta=delta, gaussian=gaussian)
        found += event.epsilon(first[1], second[1], delta=delta, confidence=confidence) > epsilon
    return found >= _WANTED
