"""A receipt of a vertical training again, from its own parameters."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from sottovoce._plain_data import decode
from sottovoce._validation import number, truth
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.privacy.receipts import stated_arguments
from sottovoce.vertical.coordinator.plan import VerticalSolution, check_possible
from sottovoce.vertical.estimators.base import VerticalEstimator
from sottovoce.vertical.estimators.choices import checked_engines
from sottovoce.vertical.estimators.dense import VerticalLinearSVC, VerticalLogisticRegression, VerticalRidge
from sottovoce.vertical.estimators.sparse import VerticalLasso, VerticalSparseLogisticRegression
from sottovoce.vertical.protocols.general.messages import Description
from sottovoce.vertical.protocols.secure.training import LEAST_ALPHA

ESTIMATORS: Final[Mapping[str, type[VerticalEstimator]]] = {
    "logistic": VerticalLogisticRegression,
    "svm": VerticalLinearSVC,
    "ridge": VerticalRidge,
    "lasso": VerticalLasso,
    "sparse-logistic": VerticalSparseLogisticRegression,
}


# what a vertical training tells of itself without any rule behind it, and what that can be
_TOLD: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "converged": truth,
    LEAST_ALPHA: partial(number, above=0.0),
}
_KINDS: Final = {kind.__name__: kind for kind in ESTIMATORS.values()}


def receipt_again(receipt: Guarantee, parameters: Mapping[str, Any]) -> Guarantee:
    """Return the receipt that a training with these parameters gets, as a whole or for one party."""
    estimator = _KINDS[parameters["estimator"]](**stated_arguments(parameters))
    if "classes" in parameters:
        given = parameters["classes"] if estimator.classes is None else estimator.classes
        estimator.classes_ = np.array(given, dtype=object)
    described = {name: Description(**decode({"dict": facts})) for name, facts in parameters["described"].items()}
    stated = parameters.get("computing", {"helpers": (), "engines": {}})
    described |= {name: Description(0, 0, math.inf, 0) for name in stated["helpers"]}
    check_possible(described)
    engines = {str(name): checked_engines(name, each) for name, each in stated["engines"].items()}
    if engines.keys() != described.keys() and (engines or "engine" in parameters):
        raise ParameterError("computing does not say of each party which engines it has.")
    estimator._check_parameters()
    holder = parameters["label_holder"] if estimator.label_holder is None else estimator.label_holder
    plan = estimator._plan_for(described, engines, holder)
    told = {name: checked(name, parameters[name]) for name, checked in _TOLD.items() if name in parameters}
    party = parameters.get("party")
    event = plan.event if party is None else plan.party_events[party]
    run = VerticalSolution(scorer=None, event=event, n_rounds=0, chosen=told)  # type: ignore[arg-type]
    promised = plan.promised_epsilon if party is None else None
    return estimator._receipt(plan, run, event, promised, receipt.seeded, party)
