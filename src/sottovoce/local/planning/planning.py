"""CollectionPlan: what a collection would give and cost, calculated from public numbers before anybody is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sottovoce._validation import number, whole_number
from sottovoce.local.cap import EDGE_OF_DEGREE_0
from sottovoce.local.planning.prediction import AccuracyRange, people_needed, predict_accuracy_range
from sottovoce.local.protocol import Protocol
from sottovoce.local.wire import REPORT_BYTES
from sottovoce.privacy.shuffling import shuffled_epsilon

USEFUL: Final = 0.8
NAMES: Final = ("weakly", "as usual", "strongly")


@dataclass(frozen=True)
class CollectionPlan:
    """What to expect of a collection.

    Attributes
    ----------
    protocol : Protocol
    accuracy : AccuracyRange
        Predicted for a model population; see `sottovoce.local.planning.prediction`.
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
