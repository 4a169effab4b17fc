"""Bernstein reports: the published non-interactive algorithms for linear models, with noise that keeps its promise."""

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
