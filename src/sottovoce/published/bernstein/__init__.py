"""Bernstein reports: the published non-interactive algorithms for linear models, with noise that keeps its promise.

Names are loaded when they are first used: the device's side (`BernsteinProtocol.from_json`, `BernsteinRandomizer`)
loads numpy and nothing else.
"""

from typing import TYPE_CHECKING

from sottovoce._lazy import lazy_names

if TYPE_CHECKING:
    from sottovoce.published.bernstein.aggregator import BernsteinAggregator, BernsteinModel
    from sottovoce.published.bernstein.general_loss import GeneralLoss
    from sottovoce.published.bernstein.protocol import BernsteinProtocol
    from sottovoce.published.bernstein.randomizer import BernsteinRandomizer
    from sottovoce.published.bernstein.sample_size import TheoremChoice, theorem_choice

__all__ = [
    "BernsteinAggregator",
    "BernsteinModel",
    "BernsteinProtocol",
    "BernsteinRandomizer",
    "GeneralLoss",
    "TheoremChoice",
    "theorem_choice",
]

__getattr__ = lazy_names(
    __name__,
    {
        "BernsteinAggregator": "aggregator",
        "BernsteinModel": "aggregator",
        "BernsteinProtocol": "protocol",
        "BernsteinRandomizer": "randomizer",
        "GeneralLoss": "general_loss",
        "TheoremChoice": "sample_size",
        "theorem_choice": "sample_size",
    },
)
