r"""What a collection will be worth, before anybody is asked: calculated on a model population, with no data.

The population has d features: x ~ N(0, diag(l_1, ..., l_d)) with l_j proportional to 1/j and E|x|^2 = 1/2, shortened
to norm 1; a label is +1 with probability 1/(1 + exp(-k <u, x>)), u = (+-1, ..., +-1)/sqrt(d), so that every feature
counts alike and the weak ones are hard to learn. The factor k sets how well the labels follow the features: the logit
has standard deviation 2, 4 or 8. The protocol is the default one for n reports, the fit is `ridge`.

Reports are replaced by their law: the estimated moments are those of n people plus Gaussian noise of the variance that
n reports have; the people are drawn up to n = 20,000 and beyond stand for the whole population, so the time does not
grow with n. Real data differ: the range is a guide to which (n, d, epsilon) can work at all, not a promise.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sottovoce._validation import number, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.local.cap import EDGE_OF_DEGREE_0, planned_edge
from sottovoce.local.fits.fitting import layout_of
from sottovoce.local.fits.moments import MomentEstimate
from sottovoce.local.fits.ridge import first_moment_only, ridge
from sottovoce.local.protocol import Protocol
from sottovoce.local.wire import REPORT_BYTES
from sottovoce.privacy.shuffling import shuffled_epsilon

Array = NDArray[np.float64]

USEFUL: Final = 0.8
NAMES: Final = ("weakly", "as usual", "strongly")
LOGIT_SPREADS: Final = (2.0, 4.0, 8.0)
_PEOPLE: Final = 10_000
_MOST_ENTRIES: Final = 4_000_000
_MOST_WORK: Final = 2e8
_MOST_DRAWN: Final = 20_000
_SEED: Final = 2019
_MOST_FEATURES: Final = 500
_USUAL: Final = LOGIT_SPREADS[1]
_COUNTS: Final = tuple(digit * 10**power for power in range(2, 9) for digit in (1, 2, 5))
_DRAWS_OF_A_SEARCH: Final = (4, 24)  # at least, at most
_DRAWS_AND_FEATURES: Final = 600


@dataclass(frozen=True)
class PredictedAccuracy:
    """What n reports give in one model population.

    Attributes
    ----------
    logit_spread : float
        Standard deviation of the true logit.
    without_privacy : float
        Accuracy of least squares with the exact moments of the population.
    accuracy : float
        Mean accuracy from reports.
    spread : float
        Standard deviation of the accuracy from one collection to another.
    """

    logit_spread: float
    without_privacy: float
    accuracy: float
    spread: float


@dataclass(frozen=True)
class AccuracyRange:
    """Predicted accuracies for labels that follow the features weakly, as usual, and strongly.

    Attributes
    ----------
    n, d : int
    epsilon : float
    edge : float
        Noise edge of the second moment; beyond .2 a protocol of degree 0 is taken.
    degree : int
        Of the protocol that was taken.
    rows : tuple of PredictedAccuracy
    """

    n: int
    d: int
    epsilon: float
    edge: float
    degree: int
    rows: tuple[PredictedAccuracy, ...]

    @property
    def low(self) -> float:
        return min(row.accuracy for row in self.rows)

    @property
    def high(self) -> float:
        return max(row.accuracy for row in self.rows)


@dataclass(frozen=True)
class CollectionPlan:
    """What to expect of a collection.

    Attributes
    ----------
    protocol : Protocol
    accuracy : AccuracyRange
        Predicted for a model population; see the module.
    n_useful : int or None
        People for a useful model, see `people_needed`; None if 5 * 10^8 are not enough.
    central_epsilon : float
        What the reports of all would cost in the central sense if a trusted party shuffled them before anybody saw
        them; `protocol.epsilon` where the theorem gives nothing better. It is not a property of the collection itself.
    delta : float
        Of the central epsilon alone: a report has none.
    """

    protocol: Protocol
    accuracy: AccuracyRange
    n_useful: int | None
    central_epsilon: float
    delta: float

    @property
    def is_lost_in_noise(self) -> bool:
        return self.accuracy.edge > EDGE_OF_DEGREE_0

    def to_dict(self) -> dict[str, Any]:
        protocol = self.protocol
        return {
            "epsilon": protocol.epsilon,
            "delta": 0.0,
            "protocol": {name: getattr(protocol, name) for name in ("task", "d", "degree", "K", "m", "b")},
            "report_bytes": REPORT_BYTES,
            "noise_edge": self.accuracy.edge,
            "predicted_accuracy": [
                {
                    "labels_follow_the_features": name,
                    "accuracy": row.accuracy,
                    "standard_deviation": row.spread,
                    "without_privacy": row.without_privacy,
                }
                for name, row in zip(NAMES, self.accuracy.rows, strict=True)
            ],
            "people_for_a_useful_model": self.n_useful,
            "only_after_a_trusted_shuffle": {"central_epsilon": self.central_epsilon, "delta": self.delta},
        }


def plan_collection(
    n: int,
    d: int | None = None,
    epsilon: float | None = None,
    *,
    protocol: Protocol | None = None,
    delta: float | None = None,
) -> CollectionPlan:
    """Return what a collection of n reports would give and cost; no data are read.

    Parameters
    ----------
    n : int, >= 10
    d, epsilon, protocol
        As for `predict_accuracy_range`.
    delta : float, optional
        For the central epsilon after a trusted shuffle. Default: 1 / (100 n), at most 1e-6.
    """
    accuracy = predict_accuracy_range(n, d, epsilon, protocol=protocol)
    n = whole_number("n", n, at_least=10)
    delta = min(1e-6, 0.01 / n) if delta is None else number("delta", delta, above=0.0, below=1.0)
    used = protocol or Protocol.create(n_expected=n, epsilon=accuracy.epsilon, n_features=accuracy.d)
    return CollectionPlan(
        protocol=used,
        accuracy=accuracy,
        n_useful=people_needed(d, epsilon, protocol=protocol, share=USEFUL),
        central_epsilon=shuffled_epsilon(accuracy.epsilon, n, delta),
        delta=delta,
    )


def predict_accuracy_range(
    n: int, d: int | None = None, epsilon: float | None = None, *, protocol: Protocol | None = None, draws: int = 10
) -> AccuracyRange:
    """Return what accuracy n reports give in the model population; see the module.

    Parameters
    ----------
    n : int, >= 10
        Number of reports.
    d : int, in 1 ... 500
        Number of features after encoding.
    epsilon : float
        Of one report.
    protocol : Protocol, optional
        Instead of d and epsilon: the protocol that is or will be in use, with its own sizes.
    draws : int, default=10
        Collections that are simulated for each population; fewer, but two or more, from some 200 features on.
    """
    n = whole_number("n", n, at_least=10)
    draws = whole_number("draws", draws, at_least=2)
    protocol = _protocol_for(n, d, epsilon, protocol)
    rows = tuple(_one_population(protocol, n, spread, draws) for spread in LOGIT_SPREADS)
    both = protocol if protocol.degree else Protocol(epsilon=protocol.epsilon, n_features=protocol.n_columns)
    edge = planned_edge(n, both.d, both.constants.v2)
    return AccuracyRange(n, protocol.n_columns, protocol.epsilon, edge, protocol.degree, rows)


def people_needed(
    d: int | None = None, epsilon: float | None = None, *, protocol: Protocol | None = None, share: float = 0.8
) -> int | None:
    """Return how many people a useful model needs: the first of 100, 200, 500, 1000, ... that is enough.

    A model is called useful if its predicted accuracy above one half is at least ``share`` of what the same fit has
    without privacy, where labels follow the features as usual (the middle one of the populations).

    ``d``, ``epsilon``, ``protocol``: as for `predict_accuracy_range`.
    ``share``: float, in (0, 1), default=0.8.

    Returns None if 5 * 10^8 people are not enough.
    """
    share = number("share", share, above=0.0, below=1.0)

    def enough(n: int) -> bool:
        used = _protocol_for(n, d, epsilon, protocol)
        least, most = _DRAWS_OF_A_SEARCH
        row = _one_population(used, n, _USUAL, max(least, min(most, _DRAWS_AND_FEATURES // used.d)))
        return row.accuracy - 0.5 >= share * (row.without_privacy - 0.5)

    place = bisect_left(_COUNTS, True, key=enough)
    return _COUNTS[place] if place < len(_COUNTS) else None


def _protocol_for(n: int, d: int | None, epsilon: float | None, protocol: Protocol | None) -> Protocol:
    if protocol is None:
        if d is None or epsilon is None:
            raise ParameterError("give d and epsilon, or a protocol.")
        d = whole_number("d", d, at_least=1, at_most=_MOST_FEATURES)
        return Protocol.create(n_expected=n, epsilon=number("epsilon", epsilon), n_features=d)
    if d is not None or epsilon is not None:
        raise ParameterError("give d and epsilon, or a protocol; not both: the protocol says them.")
    return Protocol(
        epsilon=protocol.epsilon,
        n_features=whole_number("d (columns of the protocol)", protocol.n_columns, at_least=1, at_most=_MOST_FEATURES),
        **{name: getattr(protocol, name) for name in ("completion", "intercept", "degree", "K", "m", "b")},
    )


def _one_population(protocol: Protocol, n: int, spread: float, draws: int) -> PredictedAccuracy:
    rng = np.random.default_rng([_SEED, 1])
    draws = max(2, min(draws, int(0.5 * _MOST_WORK / protocol.d**3)))
    X, u = _features(protocol.n_columns)
    p = expit(spread * (X @ u) / (X @ u).std())
    Z = protocol.complete(X)
    m, S = Z.T @ (2.0 * p - 1.0) / len(Z), Z.T @ Z / len(Z)
    v1, v2 = protocol.constants.v1, protocol.constants.v2
    layout = layout_of(protocol)

    def accuracy(w: Array) -> float:
        return float(np.mean(np.where(Z @ w > 0.0, p, 1.0 - p)))

    exact = accuracy(ridge(MomentEstimate(n, m, S, 0.0, 0.0), 0.0, layout))
    found = []
    for _ in range(draws):
        if n <= _MOST_DRAWN and n * protocol.d**2 <= _MOST_WORK:
            drawn = rng.integers(len(Z), size=n)
            signs = np.where(rng.random(n) < p[drawn], 1.0, -1.0)
            m, S = Z[drawn].T @ signs / n, Z[drawn].T @ Z[drawn] / n
        first = m + rng.standard_normal(len(m)) * math.sqrt(v1 / n)
        if protocol.degree == 0:
            w = first_moment_only(MomentEstimate(n, first, S, v1, math.inf), [], layout)
        else:
            noise = rng.standard_normal(S.shape) * math.sqrt(v2 / n)
            w = ridge(MomentEstimate(n, first, S + 0.5 * (noise + noise.T), v1, v2), None, layout)
        found.append(accuracy(w))
    return PredictedAccuracy(spread, exact, float(np.mean(found)), float(np.std(found, ddof=1)))


@lru_cache(maxsize=2)
def _features(d: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(_SEED)
    sizes = 1.0 / np.arange(1, d + 1)
    sizes *= 0.5 / sizes.sum()
    X = rng.standard_normal((min(max(_PEOPLE, 10 * d), _MOST_ENTRIES // d), d)) * np.sqrt(sizes)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    return X, rng.choice([-1.0, 1.0], d) / math.sqrt(d)
