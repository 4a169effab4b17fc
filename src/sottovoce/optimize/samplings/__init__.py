"""Samplings: laws over sets of blocks."""

from sottovoce.optimize.samplings.base import Sampling
from sottovoce.optimize.samplings.distributed import DistributedSampling
from sottovoce.optimize.samplings.elementary import ElementarySampling
from sottovoce.optimize.samplings.explicit import ExplicitSampling
from sottovoce.optimize.samplings.importance import ImportanceSampling
from sottovoce.optimize.samplings.independent import IndependentSampling
from sottovoce.optimize.samplings.nice import NiceSampling, UniformSerialSampling

__all__ = [
    "DistributedSampling",
    "ElementarySampling",
    "ExplicitSampling",
    "ImportanceSampling",
    "IndependentSampling",
    "NiceSampling",
    "Sampling",
    "UniformSerialSampling",
]
