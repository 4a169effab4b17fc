"""The models that can be stored: a closed list; and a model, or its receipt, from what a receipt says of it."""

from collections.abc import Mapping
from typing import Any, Final

from sottovoce.central.core import replay
from sottovoce.central.plan import Plan
from sottovoce.estimators._callers import checked_steps
from sottovoce.estimators.base import STEPS, Circumstances, decode_classes
from sottovoce.estimators.classifier import DPLinearClassifier, are_places
from sottovoce.estimators.l1_ball import DPLasso, DPSparseLogisticRegression
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.estimators.penalised_models import DPLinearSVC, DPLogisticRegression, DPRidge
from sottovoce.estimators.scaler import DPScaler
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.privacy.receipts import stated_arguments

ESTIMATORS: Final[dict[str, type[DPLinearEstimator]]] = {
    kind.__name__: kind for kind in (DPRidge, DPLogisticRegression, DPLinearSVC, DPLasso, DPSparseLogisticRegression)
}


def model_again(parameters: Mapping[str, Any], **changed: object) -> DPLinearEstimator:
    """Return the model with the arguments of a receipt, but for what is ``changed``."""
    estimator = ESTIMATORS[parameters["estimator"]](**{**stated_arguments(parameters), **changed})
    if isinstance(estimator, DPLinearClassifier):
        estimator.classes_ = decode_classes(parameters["classes"])
        names = estimator.class_names()
        if list(names) != list(estimator.classes_) and not are_places(estimator.classes_, names):
            raise ParameterError("the list of classes is not the one that was given.")
    if estimator.planned_models() != parameters["models"]:
        raise ParameterError(f"{parameters['models']!r} models do not go with the labels.")
    return estimator


def model_receipt_again(
    model: DPLinearEstimator, plan: Plan, receipt: Guarantee, parameters: Mapping[str, Any]
) -> Guarantee:
    run = replay(plan.asks, parameters)
    on_cluster = "rows held by" in parameters
    return model.receipt(plan, run, circumstances_again(receipt, parameters), on_cluster=on_cluster)


def receipt_again(receipt: Guarantee, parameters: Mapping[str, Any]) -> Guarantee:
    """Return the receipt of a model, or of a scaler, that a run with these parameters gets."""
    if parameters["estimator"] == DPScaler.__name__:
        scaler = DPScaler(**stated_arguments(parameters))
        scaled = scaler.plan_for(parameters["n_samples"], parameters["n_features"])
        return scaler.receipt(scaled, circumstances_again(receipt, parameters))
    if parameters["estimator"] not in ESTIMATORS:
        raise ParameterError("it knows no such mechanism.")
    model = model_again(parameters)
    plan = model.plan_for(parameters["n_samples"], parameters["n_features"], parameters["models"])
    return model_receipt_again(model, plan, receipt, parameters)


def circumstances_again(receipt: Guarantee, parameters: Mapping[str, Any]) -> Circumstances:
    return Circumstances(receipt.seeded, checked_steps(parameters.get(STEPS, [])))
