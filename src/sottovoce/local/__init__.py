"""One report a device, under local differential privacy, to a collector that nobody has to trust.

The device's side (`Protocol`, features, `Randomizer`) loads numpy and nothing else; the server's (`Aggregator`,
`LocalModel`) is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from sottovoce.local.features import CategoricalFeature, NumericFeature
from sottovoce.local.protocol import Protocol
from sottovoce.local.randomizer import Randomizer

if TYPE_CHECKING:
    from sottovoce.local.aggregator import Aggregator
    from sottovoce.local.model import LocalModel
    from sottovoce.local.planning import plan_collection
    from sottovoce.local.prediction import predict_accuracy_range
    from sottovoce.local.surrogate import MarginLoss

__all__ = [
    "Aggregator",
    "CategoricalFeature",
    "LocalModel",
    "MarginLoss",
    "NumericFeature",
    "Protocol",
    "Randomizer",
    "plan_collection",
    "predict_accuracy_range",
]

_SERVER: Final = {
    "Aggregator": "aggregator",
    "LocalModel": "model",
    "MarginLoss": "surrogate",
    "plan_collection": "planning",
    "predict_accuracy_range": "prediction",
}


def __getattr__(name: str) -> Any:
    if name in _SERVER:
        value = getattr(import_module(f"sottovoce.local.{_SERVER[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'sottovoce.local' has no attribute {name!r}")
