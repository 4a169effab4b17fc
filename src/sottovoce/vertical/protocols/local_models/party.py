"""The party's side: a private model of its own columns on labels that are not secret."""

from types import SimpleNamespace

import numpy as np

from sottovoce.central.data.rows import RowUnit, make_rows
from sottovoce.central.parallel import team
from sottovoce.privacy.events import Event
from sottovoce.vertical.coordinator.charges import LARGEST_MU, SMALLEST_MU, event_text
from sottovoce.vertical.protocol import Desk, Handler, PartyFacts, RefusalError, Training, within
from sottovoce.vertical.protocols.local_models.messages import Trained, TrainOnLabels
from sottovoce.vertical.protocols.local_models.trainings import TRAININGS

__all__ = ["TrainOnLabelsHandler"]

_LEAST_TRUTH = 1e-10  # 1 - 2 p of labels that are flipped with probability p


class TrainOnLabelsHandler(Handler[TrainOnLabels]):
    """One training, charged as a whole."""

    request = TrainOnLabels

    def plan(self, facts: PartyFacts, training: Training, request: TrainOnLabels) -> Event:
        self._data_norm = facts.row_bound
        facts.one_a_row(request, "labels")
        if request.loss not in TRAININGS:
            raise RefusalError(f"there is no training on released labels for the loss {request.loss!r}")
        within("alpha", request.alpha)
        within("mu", request.mu, SMALLEST_MU, LARGEST_MU)
        within("flip_probability", request.flip_probability, 0.0, 0.5 * (1.0 - _LEAST_TRUTH))
        if request.label_bound != 0.0:
            within("label_bound", request.label_bound)
        self._plan = TRAININGS[request.loss](
            n_samples=facts.n_rows,
            n_features=facts.n_features,
            alpha=request.alpha,
            mu=request.mu,
            nonnegative=facts.nonnegative,
            flip_probability=request.flip_probability,
            label_bound=request.label_bound or None,
        )
        self._plan.soft_labels(request.labels)
        return self._plan.event

    def run(self, desk: Desk, request: TrainOnLabels) -> Trained:
        plan, unit = self._plan, RowUnit(self._data_norm, self._plan.intercept)
        with team() as threads:
            rows = make_rows(desk.table, data_norm=unit.data_norm, constant=unit.constant, names=None, team=threads)
            driven = plan.solve(rows, request.labels, desk.streams(), threads)
        (weights,) = driven.result.weights
        # to the last bit what models have always been: not times (constant / whole), which rounds otherwise
        x = np.append(weights[:-1] / (unit.data_norm * unit.whole), weights[-1] * unit.constant / unit.whole)
        # it took one request, and what it left follows from noisy sums
        desk.training.worker, desk.training.intercept = SimpleNamespace(x=x, released=True), True
        return Trained(event_text(driven.event))
