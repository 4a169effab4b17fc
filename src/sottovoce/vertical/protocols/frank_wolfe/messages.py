"""Messages of Frank-Wolfe on the l1 ball, and how a party answers them, at what cost."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce._numerics import Vector
from sottovoce.central.parallel import team
from sottovoce.privacy.events import BoundedRangeEvent, RepeatedEvent
from sottovoce.vertical.protocol import Answered, PartyFacts, RefusalError, Request, count, within
from sottovoce.vertical.protocols.frank_wolfe.worker import LOSSES, choose_alone, pack_places, selection_mechanism
from sottovoce.vertical.wire import Count, Payload


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
    (`sottovoce.vertical.protocols.frank_wolfe.worker.pack_places`).
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
