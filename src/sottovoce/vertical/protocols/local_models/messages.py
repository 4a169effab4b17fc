"""A private model of a party's own columns on labels that are not secret: one request, charged as a whole."""

from typing import Any

from sottovoce._numerics import Vector
from sottovoce.central.data.lengths import make_rows
from sottovoce.central.data.part import RowUnit
from sottovoce.central.parallel import team
from sottovoce.vertical.protocol import Answered, PartyFacts, RefusalError, Request, event_text
from sottovoce.vertical.protocols.local_models.released_labels import TRAININGS
from sottovoce.vertical.wire import Payload


class TrainOnLabels(Request, code=106):
    """Train a private model of the party's own columns on labels that are not secret, and keep it as ``model``.

    ``flip_probability`` is that of the randomised response behind labels of -1 and +1 (0 for public ones),
    ``label_bound`` a bound on labels that are other numbers (0 for none), ``mu`` the mean shift of the equivalent
    Gaussian release that the training may spend. The answer is the event that was spent, as JSON.
    """

    labels: Vector
    loss: str
    flip_probability: float
    label_bound: float
    alpha: float
    mu: float
    model: str

    def answer(self, facts: PartyFacts, worker: Any) -> Answered[Payload]:
        data_norm = facts.bound_of("data_norm")
        facts.one_a_row(self, "labels")
        facts.check_room(self.model)
        if self.loss not in TRAININGS:
            raise RefusalError(f"there is no training on released labels for the loss {self.loss!r}")
        plan = TRAININGS[self.loss](
            n_samples=facts.n_rows,
            n_features=facts.n_features,
            alpha=self.alpha,
            mu=self.mu,
            nonnegative=facts.nonnegative,
            flip_probability=self.flip_probability,
            label_bound=self.label_bound or None,
        )
        plan.soft_labels(self.labels)
        desk = yield plan.event
        unit = RowUnit(data_norm, plan.intercept)
        with team() as threads:
            rows = make_rows(desk.table, data_norm=unit.data_norm, constant=unit.constant, names=None, team=threads)
            driven = plan.solve(rows, self.labels, desk.streams(), threads)
        (weights,) = driven.result.weights
        # to the last bit what models have always been: not times (constant / whole), which rounds otherwise
        coef = weights[:-1] / (unit.data_norm * unit.whole)
        desk.later = self.model, coef, float(weights[-1] * unit.constant / unit.whole)
        return Payload(octets=event_text(driven.event).encode())
