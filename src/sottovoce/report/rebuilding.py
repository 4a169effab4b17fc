"""Make a receipt again from its own parameters, by the code that makes receipts of fits.

A receipt says which estimator ran, with which arguments and public facts, and what it released on the way. From these
the plan follows, and from the plan everything else: event, mechanism, releases, assumptions, exceptions, proof, the
promise. What a receipt says that does not follow from its parameters was not written by this library.
"""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from sottovoce._plain_data import canonical_text, decode
from sottovoce._validation import choice, whole_number
from sottovoce.central.core import replay
from sottovoce.central.plan import OBJECT, Plan
from sottovoce.estimators._pipelines import checked_steps, is_class_name
from sottovoce.estimators.classifier import DPLinearClassifier, are_places
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.estimators.persistence import ESTIMATORS
from sottovoce.estimators.pipeline import pipeline_receipt
from sottovoce.estimators.pipeline_plan import PipelinePlan
from sottovoce.estimators.scaler import DPScaler
from sottovoce.estimators.search.plan import SearchPlan
from sottovoce.estimators.search.search import search_receipt
from sottovoce.estimators.ties import decode_classes
from sottovoce.evaluation.plan import COUNTS, EvaluationPlan, evaluation_receipt
from sottovoce.exceptions import ModelFormatError, ParameterError
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import Event, releases_of
from sottovoce.privacy.guarantee import Guarantee

__all__ = ["NO_RUN", "made_again", "releases"]

_TUPLES: Final = ("label_bounds", "coef_bounds")
_STEPS: Final = "fitted before it in a pipeline"
_ON_CLUSTER: Final = "rows held by"
# what a vertical training tells of itself without any rule behind it
_LEAST_ALPHA: Final = "alpha that the noise asks for, at least, for rows in the plan's unit"
_TOLD: Final = (
    "rounds of the label holder's own training, without messages to others",
    "converged",
    "columns shared",
    _LEAST_ALPHA,
)
NO_RUN: Final = "its parameters describe no run that this version of sottovoce can make"


def made_again(receipt: Guarantee, solvers: Sequence[type[Plan]] = ()) -> Guarantee:
    """Return the receipt that a run with these parameters gets.

    Day, ledger entry, model, schema and signature are taken over: no parameters tell them.
    Raises ModelFormatError if the parameters describe no run, or one that could not take place; the message says why.

    ``receipt``: of format 2.
    ``solvers``: solver objects that may have made it, beside the solvers with names.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the person who verifies is not the one who chose
            again = _again(receipt, _with_solver(receipt.parameters, solvers))
    except KeyError as error:
        raise ModelFormatError(f"{NO_RUN}: there is no {error}.") from None
    except Exception as error:  # a stranger's parameters may lead anywhere; what they lead to is not a receipt of ours
        raise ModelFormatError(f"{NO_RUN}: {error or type(error).__name__}") from None
    return replace(
        again, day=receipt.day, charge=receipt.charge, model=receipt.model, schema=receipt.schema,
        signature=receipt.signature,
    )  # fmt: skip


def _again(receipt: Guarantee, parameters: Mapping[str, Any]) -> Guarantee:
    if "evaluation" in parameters:
        return _evaluation(receipt, parameters)
    if "search" in parameters:
        return _search(receipt, parameters)
    if "pipeline" in parameters:
        return _pipeline(receipt, parameters)
    if parameters.get("estimator") == DPScaler.__name__:
        return _scaler(receipt, parameters)
    if parameters.get("estimator") in ESTIMATORS:
        return _central(receipt, parameters)
    if "described" in parameters:
        return _vertical(receipt, parameters)
    if "n_reports" in parameters:
        return _local(parameters)
    raise ModelFormatError(f"{NO_RUN}: it knows no such mechanism.")


def _with_solver(parameters: Mapping[str, Any], solvers: Sequence[type[Plan]]) -> Mapping[str, Any]:
    """Return the parameters with the solver object itself in place of its description, where there is one."""
    arguments = parameters.get("arguments")
    if not (isinstance(arguments, Mapping) and isinstance(arguments.get("solver"), Mapping)):
        return parameters
    options = decode(arguments["solver"])
    name = options.pop(OBJECT)
    known = {kind.solver: kind for kind in solvers}
    if name not in known:
        raise ParameterError(
            f"it was made by the solver object {name!r}, which readers of receipts do not know by themselves. What the "
            "event costs was checked, but not that it is the event of such a run: give verify_receipt the class of the "
            "object (solvers=...)."
        )
    return {**parameters, "arguments": {**arguments, "solver": known[name](**options)}}


def _central(receipt: Guarantee, parameters: Mapping[str, Any]) -> Guarantee:
    estimator = _estimator(parameters)
    plan = estimator.plan_for(parameters["n_samples"], parameters["n_features"], parameters["models"])
    return _of_plan(estimator, plan, receipt, parameters)


def _estimator(parameters: Mapping[str, Any], **changed: object) -> DPLinearEstimator:
    estimator = ESTIMATORS[parameters["estimator"]](**{**_arguments(parameters), **changed})
    if isinstance(estimator, DPLinearClassifier):
        estimator.classes_ = decode_classes(parameters["classes"])
        names = estimator.class_names()
        if list(names) != list(estimator.classes_) and not are_places(estimator.classes_, names):
            raise ParameterError("the list of classes is not the one that was given.")
    if estimator.planned_models() != parameters["models"]:
        raise ParameterError(f"{parameters['models']!r} models do not go with the labels.")
    return estimator


def _of_plan(estimator: DPLinearEstimator, plan: Plan, receipt: Guarantee, parameters: Mapping[str, Any]) -> Guarantee:
    run = replay(plan.asks, parameters)
    return estimator.receipt(plan, run, receipt.seeded, steps=_steps(parameters), on_cluster=_ON_CLUSTER in parameters)


def _search(receipt: Guarantee, parameters: Mapping[str, Any]) -> Guarantee:
    best = _estimator(parameters)
    facts = {**parameters["search"]}
    plan = SearchPlan(adjacency=Adjacency.parse(best.adjacency), **facts)
    trial = _estimator(parameters, n_public=plan.n_train)
    if (trial.epsilon, trial.delta) != (plan.trial_epsilon, plan.trial_delta):
        raise ParameterError("the budget of the best trial is not the one that the search gives to a trial.")
    trial_plan = trial.plan_for(plan.n_train, plan.n_features, parameters["models"])
    if not plan.keeps_budget(trial_plan.event):
        raise ParameterError("the best trial costs more than the search gives to a trial.")
    seen = _of_plan(trial, trial_plan, receipt, parameters)
    return search_receipt(plan, best, seen, plan.event, receipt.seeded, steps=_steps(parameters))


def _pipeline(receipt: Guarantee, parameters: Mapping[str, Any]) -> Guarantee:
    facts, model = parameters["pipeline"], _estimator(parameters)
    scaler = None if "scaler" not in facts else DPScaler(**_arguments({"arguments": facts["scaler"]}))
    model_plan = model.plan_for(parameters["n_samples"], parameters["n_features"], parameters["models"])
    scaled = None
    if scaler is not None:
        if (scaler.delta, scaler.adjacency) != (model.delta, model.adjacency):
            raise ParameterError("scaler and model do not have the same delta and adjacency.")
        scaled = scaler.plan_for(parameters["n_samples"], facts["columns scaled"], share=facts["share"])
    whole = model_plan if scaled is None else scaled
    plan = PipelinePlan(
        epsilon=whole.epsilon, delta=whole.delta, model=model_plan, scaler=scaled, model_epsilon=model_plan.epsilon,
        n_features=facts["n_features"],
    )  # fmt: skip
    part = _of_plan(model, model_plan, receipt, parameters)
    return pipeline_receipt(
        plan, model, part, plan.event_of(part.event), receipt.seeded, scaler=scaler,
        others=checked_steps(facts["steps that learn nothing"]), steps=_steps(parameters),
    )  # fmt: skip


def _scaler(receipt: Guarantee, parameters: Mapping[str, Any]) -> Guarantee:
    scaler = DPScaler(**_arguments(parameters))
    plan = scaler.plan_for(parameters["n_samples"], parameters["n_features"])
    return scaler.receipt(plan, receipt.seeded, steps=_steps(parameters))


def _evaluation(receipt: Guarantee, parameters: Mapping[str, Any]) -> Guarantee:
    plan = EvaluationPlan.from_facts({**parameters["evaluation"]})
    evaluated = parameters["model that was evaluated"]
    if not is_class_name(evaluated):
        raise ParameterError(f"the model that was evaluated must be the name of a class; got {evaluated!r}.")
    if not re.fullmatch("[0-9a-f]{64}", parameters[COUNTS]):
        raise ParameterError(f"{COUNTS} must be 64 hexadecimal digits; got {parameters[COUNTS]!r}.")
    return evaluation_receipt(
        plan, evaluated=evaluated, event=plan.event, seeded=receipt.seeded, counts=parameters[COUNTS]
    )


def _vertical(receipt: Guarantee, parameters: Mapping[str, Any]) -> Guarantee:
    from sottovoce.vertical.coordinator.plan import VerticalSolution
    from sottovoce.vertical.estimators import dense, sparse
    from sottovoce.vertical.estimators.base import VerticalEstimator
    from sottovoce.vertical.protocols.general.messages import Description

    kinds: dict[str, type[VerticalEstimator]] = {
        name: getattr(room, name) for room in (dense, sparse) for name in room.__all__ if name.startswith("Vertical")
    }
    estimator = kinds[parameters["estimator"]](**_arguments(parameters))
    if "classes" in parameters:
        estimator.classes_ = np.array(parameters["classes"], dtype=object)
    described = {name: Description(**decode({"dict": facts})) for name, facts in parameters["described"].items()}
    stated = parameters.get("computing", {"helpers": (), "engines": {}})
    helpers = {name: Description(0, 0, math.inf, 0) for name in stated["helpers"]}
    engines = {str(name): dict(each) for name, each in stated["engines"].items()}
    estimator._engines = lambda *_: engines  # type: ignore[method-assign]
    plan = estimator._plan(_stated_parties({**described, **helpers}), parameters["label_holder"])
    told = {name: parameters[name] for name in _TOLD if name in parameters}
    party = parameters.get("party")
    event = plan.event if party is None else _event_of_party(receipt.event, plan.event, len(described))
    run = VerticalSolution(scorer=None, event=event, party_events={}, n_rounds=0, chosen=told)  # type: ignore[arg-type]
    return estimator._receipt(plan, run, event, plan.promised_epsilon if party is None else None, receipt.seeded, party)


def _stated_parties(described: Mapping[str, Any]) -> Any:
    """Return parties that only know what was said of them."""
    from sottovoce.vertical.coordinator.parties import Parties

    class Stated(Parties):
        def exchange(self, request: Any, expected: Any) -> dict[str, Any]:
            return dict(described)

        def _send(self, requests: Mapping[str, bytes]) -> dict[str, bytes]:
            raise NotImplementedError

    return Stated(tuple(described))


def _event_of_party(event: Event, whole: Event, n_parties: int) -> Event:
    """Return what one party gave away, if it can be a party's part of the whole.

    Each of its releases must be one of the whole's, with the same noise, as often as there or as often divided by one
    of the numbers up to that of the parties. Raises ParameterError if it cannot.
    """
    counted = releases(whole)
    for release, times in releases(event).items():
        if not any(counted[release] == times * share for share in range(1, n_parties + 1)):
            raise ParameterError("the event of this party is not a part of what all parties gave away together.")
    return event


def _local(parameters: Mapping[str, Any]) -> Guarantee:
    from sottovoce.local.fits.receipts import local_receipt

    protocols = parameters.get("reported under", ())
    for protocol in (parameters["protocol"], *protocols):
        if not re.fullmatch("[0-9a-f]{16}", protocol):
            raise ParameterError(f"protocol must be 16 hexadecimal digits; got {protocol!r}.")
    if not isinstance(parameters["public rows were given"], bool):
        raise ParameterError("'public rows were given' must be true or false.")
    return local_receipt(
        parameters["protocol"],
        choice("mechanism", parameters["mechanism"], ("cap",)),
        parameters["epsilon of a report"],
        whole_number("n_reports", parameters["n_reports"], at_least=1),
        public_rows=parameters["public rows were given"],
        shuffled_delta=parameters.get("at delta"),
        protocols=protocols,
    )


def _to_nine_digits(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _to_nine_digits(value) for key, value in data.items()}
    return f"{data:.9g}" if isinstance(data, float) else data


def _arguments(parameters: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: decode(value) for name, value in parameters["arguments"].items()}
    for name in _TUPLES:
        if isinstance(given.get(name), list):
            given[name] = tuple(given[name])
    return given


def _steps(parameters: Mapping[str, Any]) -> list[str]:
    return checked_steps(parameters.get(_STEPS, []))


def releases(event: Event) -> Counter[str]:
    """Return how often an event has each of its releases, to nine digits, whatever their order and nesting."""
    counted: Counter[str] = Counter()
    for release, times in releases_of(event):
        counted[canonical_text(_to_nine_digits(release.to_dict()))] += times
    return counted
