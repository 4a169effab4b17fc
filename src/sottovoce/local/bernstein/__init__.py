"""Bernstein reports: the published non-interactive algorithms for linear models, with noise that keeps its promise.

Names are loaded when they are first used: the device's side (`BernsteinProtocol.from_json`, `BernsteinRandomizer`)
loads numpy and nothing else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sottovoce.local.bernstein.aggregator import BernsteinAggregator, BernsteinModel
    from sottovoce.local.bernstein.general_loss import GeneralLoss
    from sottovoce.local.bernstein.protocol import BernsteinProtocol
    from sottovoce.local.bernstein.randomizer import BernsteinRandomizer
    from sottovoce.local.bernstein.sample_size import TheoremChoice, theorem_choice

__all__ = [
    "BernsteinAggregator",
    "BernsteinModel",
    "BernsteinProtocol",
    "BernsteinRandomizer",
    "GeneralLoss",
    "TheoremChoice",
    "theorem_choice",
]

_HOMES: Final = {
    "BernsteinAggregator": "aggregator",
    "BernsteinModel": "aggregator",
    "BernsteinProtocol": "protocol",
    "BernsteinRandomizer": "randomizer",
    "GeneralLoss": "general_loss",
    "TheoremChoice": "sample_size",
    "theorem_choice": "sample_size",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
