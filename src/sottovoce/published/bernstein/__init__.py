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
    from sottovoce.published.bernstein.residual_loss import ResidualLoss, huber_residual
    from sottovoce.published.bernstein.sample_size import (
        RiskBound,
        TheoremChoice,
        general_theorem_choice,
        risk_bound,
        theorem_choice,
    )

__all__ = [
    "BernsteinAggregator",
    "BernsteinModel",
    "BernsteinProtocol",
    "BernsteinRandomizer",
    "GeneralLoss",
    "ResidualLoss",
    "RiskBound",
    "TheoremChoice",
    "general_theorem_choice",
    "huber_residual",
    "risk_bound",
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
        "ResidualLoss": "residual_loss",
        "RiskBound": "sample_size",
        "TheoremChoice": "sample_size",
        "general_theorem_choice": "sample_size",
        "huber_residual": "residual_loss",
        "risk_bound": "sample_size",
        "theorem_choice": "sample_size",
    },
)
