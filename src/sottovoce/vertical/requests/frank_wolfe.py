"""A party's side of private Frank-Wolfe on the l1 ball: steps along its own columns, with nobody else's in sight.

Sums of slopes are whole ticks, as in `sottovoce.central.solvers.frank_wolfe`, whose scores are used.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sottovoce._numerics import ROUNDING_SLACK, Vector
from sottovoce.central.data.lengths import make_bounded_rows
from sottovoce.central.parallel import Team, team
from sottovoce.central.sums.selection import TICKS, DenseScores, SparseScores
from sottovoce.losses import Squared
from sottovoce.losses.base import provides_slope, sigmoid
from sottovoce.privacy.events import BoundedRangeEvent, RepeatedEvent
from sottovoce.privacy.mechanisms.noisy_max import ExponentialMechanism
from sottovoce.vertical.protocol import Answered, PartyFacts, RefusalError, Request, count, within
from sottovoce.vertical.wire import Count, Payload

_WIDTH: Final = 4.0 * TICKS * ROUNDING_SLACK  # both signs of a replaced person's term, which is at most TICKS each

_LARGEST_SENT: Final = 1e100


def place_of(column: int, sign: int) -> int:
    """Return the place of a step up (``sign`` 1) or down (-1) along ``column``."""
    return 2 * column + (sign < 0)


def signed_column(place: int) -> tuple[int, int]:
    return place // 2, -1 if place % 2 else 1


def packed_size(count: int, n_columns: int) -> int:
    """Return how many bytes so many places travel in: a public fact."""
    return -(-count * _bits(n_columns) // 8)


def pack_places(places: list[int], n_columns: int) -> bytes:
    """Return places as bytes, in as few bits each as the largest needs."""
    return np.packbits(np.array(places)[:, None] >> np.arange(_bits(n_columns)) & 1).tobytes()


def unpack_places(raw: bytes, count: int, n_columns: int) -> list[int]:
    """Return ``count`` places of `packed_size` bytes; one may be too large, as the bits go beyond the columns."""
    bits = _bits(n_columns)
    each = np.unpackbits(np.frombuffer(raw, np.uint8), count=count * bits).reshape(count, bits)
    places: list[int] = (each @ (1 << np.arange(bits))).tolist()
    return places


def _bits(n_columns: int) -> int:
    return (2 * n_columns - 1).bit_length()


def cut(sent: Vector) -> Vector:
    """Cut what a coordinator sent to a public size, so that no sum of a few such numbers leaves the doubles."""
    return np.clip(sent, -_LARGEST_SENT, _LARGEST_SENT)


def selection_mechanism(width: float) -> ExponentialMechanism:
    """Return how a signed column is chosen, at a bounded range of ``width``; scores are ticks."""
    return ExponentialMechanism(width, _WIDTH)


def scores_of(table: Any, data_bound: float, request: "TrainOnBall", team: Team) -> DenseScores:
    """Return the sums of slopes of every column, at weights of 0."""
    rows = make_bounded_rows(table, data_bound=data_bound, constant=float(request.intercept), names=None, team=team)
    kind = SparseScores if sp.issparse(table) else DenseScores
    return kind(rows, cut(request.labels), LOSSES[request.loss], request.clip, TICKS, team)


def choose_alone(
    table: Any, data_bound: float, request: "TrainOnBall", noise: np.random.Generator, team: Team
) -> tuple[list[int], Vector]:
    """Return the places that the steps took, in order, and the weights that they make, for the table as it is."""
    scores = scores_of(table, data_bound, request, team)
    mechanism, step = selection_mechanism(request.selection), request.vertex / request.n_steps
    places = []
    for _ in range(request.n_steps):
        column, sign = scores.select(mechanism, noise)
        scores.move(column, sign * step)
        places.append(place_of(column, sign))
    return places, weights_of(places, table.shape[1] + request.intercept, step)


def weights_of(places: list[int], n_columns: int, step: float) -> Vector:
    """Return the sum of the steps, one number a column."""
    taken = np.zeros(n_columns, np.int64)
    for place in places:
        column, sign = signed_column(place)
        taken[column] += sign
    return np.asarray(taken * step, dtype=np.float64)


class SoftLogistic(NamedTuple):
    """log(1 + e^m) - m/2 - t m/2: logistic loss with a soft label t, a released label, corrected for its flips.

    The derivative is linear in t, so that a t whose mean is the true label gives a derivative whose mean is the true
    one: 1/(1 + e^-m) - 1/2 - t/2, which for t = -1 and +1 is that of logistic loss. Squared loss, m - t, is so anyway.
    """


@provides_slope(SoftLogistic)
def _slope(loss: SoftLogistic, y: float, m: float) -> float:
    return sigmoid(m) - 0.5 - 0.5 * y


# by the name of the loss that users know
LOSSES: Final[dict[str, Any]] = {"squared": Squared(), "logistic": SoftLogistic()}


# ------------------------------------------------------------------ the request


def check_ball(facts: PartyFacts, request: Any) -> float:
    """Return the bound on entries, where a request that opens steps of Frank-Wolfe makes sense."""
    bound = facts.bound_of("data_bound")
    if request.loss not in LOSSES:
        raise RefusalError(f"there is no Frank-Wolfe for the loss {request.loss!r}")
    facts.one_a_row(request, "labels")
    if request.intercept > 1:
        raise RefusalError(f"intercept is 0 or 1; it is {request.intercept}")
    within("clip", request.clip)
    within("selection", request.selection)
    count("n_steps", request.n_steps, 1)
    return bound


class TrainOnBall(Request, code=60):
    """Take ``n_steps`` private steps of Frank-Wolfe alone, and keep the model under the name ``model``.

    Labels are in multiples of ``unit``; ``vertex`` is the size of a vertex of the party's ball for entries within
    [-1, 1]; ``clip`` bounds a record's slope; ``selection`` is the bounded range of each choice. The answer is
    ``selection``, and the signed columns in order, as bytes: twice the column, plus 1 for a step down
    (`sottovoce.vertical.requests.frank_wolfe.pack_places`).
    """

    loss: str
    labels: Vector
    vertex: float
    clip: float
    n_steps: Count
    selection: float
    intercept: Count
    unit: float
    model: str

    def answer(self, facts: PartyFacts, worker: Any) -> Answered[Payload]:
        bound = check_ball(facts, self)
        facts.check_room(self.model)
        within("vertex", self.vertex)
        within("unit", self.unit)
        selection_mechanism(self.selection)  # what it refuses is refused before anything is charged
        desk = yield RepeatedEvent(BoundedRangeEvent(self.selection), self.n_steps)
        with team() as threads:
            places, weights = choose_alone(desk.table, bound, self, desk.noise(), threads)
        desk.later = self.model, *_in_units(facts, self.unit * weights)
        return Payload(np.array([self.selection]), pack_places(places, len(weights)))


def _in_units(facts: PartyFacts, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return coefficients and intercept for weights of columns of size 1, the last of which may be that of ones."""
    d = facts.n_features
    return weights[:d] / facts.bound_of("data_bound"), float(weights[d:].sum())
