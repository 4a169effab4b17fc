"""Samplings: laws over sets of blocks."""

from sottovoce.vertical.block_frank_wolfe.samplings.base import Sampling
from sottovoce.vertical.block_frank_wolfe.samplings.distributed import DistributedSampling
from sottovoce.vertical.block_frank_wolfe.samplings.elementary import ElementarySampling
from sottovoce.vertical.block_frank_wolfe.samplings.explicit import ExplicitSampling
from sottovoce.vertical.block_frank_wolfe.samplings.independent import IndependentSampling
from sottovoce.vertical.block_frank_wolfe.samplings.nice import NiceSampling, UniformSerialSampling

__all__ = [
    "DistributedSampling",
    "ElementarySampling",
    "ExplicitSampling",
    "IndependentSampling",
    "NiceSampling",
    "Sampling",
    "UniformSerialSampling",
]
