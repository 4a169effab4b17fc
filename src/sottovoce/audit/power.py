r"""What an audit could have seen: how large a violation must be before so many runs find it.

An audit that finds nothing says little unless it could have found something. For a mechanism whose best attack sees
two unit Gaussians at distance mu, the audit's bound is simulated with as many runs; the smallest true epsilon that it
puts above the claim in nine of ten simulations is its power. Real attacks are weaker than the best one, so the figure
is a floor of what had to be there to be found, not a promise that it would have been.
"""

from typing import Final

import numpy as np

from sottovoce.audit.threshold import choose_set
from sottovoce.privacy.accounting import gaussian_epsilon

_TRIALS: Final = 20
_WANTED: Final = 18
_SHIFTS: Final = np.geomspace(0.05, 20.0, 90)


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
    low, high = 0, len(_SHIFTS)
    while low < high:
        middle = (low + high) // 2
        if _seen(float(_SHIFTS[middle]), epsilon, delta, n_runs, confidence, gaussian, random_state):
            high = middle
        else:
            low = middle + 1
    return float("inf") if low == len(_SHIFTS) else gaussian_epsilon(float(_SHIFTS[low]), delta or 1e-6)


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
